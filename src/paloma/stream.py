"""One row at a time, as river does it; needs river: ``pip install 'paloma[river]'``."""

from typing import Any

import numpy as np
from sklearn.base import clone

from . import _validation as check
from ._optional import optional
from .estimators import LODML, widen
from .neighbors.reservoir import shares

__all__ = ["RiverClassifier"]

base = optional("river.base", "river")


class RiverClassifier(base.Classifier):  # type: ignore[name-defined]
    """A learner as a river classifier: the nearest rows it remembers vote, each under the metric of its class.

    `learn_one` is `partial_fit` with one row. Features are matched by name; a missing one is 0, and a new one extends
    the metric, which is the identity there.

    Parameters
    ----------
    metric : learner, optional
        A dense learner with init="identity", cloned; None is ``LODML()``. For streams that drift, give it `forget`.
    n_neighbors : int
        Remembered rows that vote.
    seed : int, optional
        The learner's random_state, if it has none of its own.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from paloma.stream import RiverClassifier
    >>> model = preprocessing.StandardScaler() | RiverClassifier(seed=0)
    >>> evaluate.progressive_val_score(datasets.Phishing().take(300), model, metrics.Accuracy())
    Accuracy: 8...%
    """

    def __init__(self, metric: Any = None, n_neighbors: int = 3, seed: int | None = None) -> None:
        check.check_count("n_neighbors", n_neighbors)
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.seed = seed
        self.learner = clone(LODML() if metric is None else metric)
        if self.learner.random_state is None:
            self.learner.set_params(random_state=seed)
        self.columns: dict[Any, int] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, float], y: Any) -> None:
        """Learn one labeled row; a refused row leaves everything unchanged."""
        new = sorted(x.keys() - self.columns.keys(), key=repr)
        columns = self.columns | {name: len(self.columns) + k for k, name in enumerate(new)}
        row = _row(x, columns)
        with check.unchanged_on_error(self.learner):
            if hasattr(self.learner, "n_features_in_") and new:
                widen(self.learner, len(columns))
            self.learner.partial_fit(row, np.array([y]))
        self.columns = columns

    def predict_proba_one(self, x: dict[Any, float], **_: Any) -> dict[Any, float]:
        """Share of each known label in the vote; empty before the first row."""
        if not self.columns:
            return {}
        labels, votes = shares(self.learner, _row(x, self.columns), self.n_neighbors)
        return dict(zip(labels.tolist(), votes[0].tolist(), strict=True))


def _row(x: dict[Any, float], columns: dict[Any, int]) -> np.ndarray:
    """(1, n_columns); names that are no column are left out."""
    row = np.zeros((1, len(columns)))
    for name, value in x.items():
        if name in columns:
            row[0, columns[name]] = value
    return row
