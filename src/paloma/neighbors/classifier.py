"""k nearest neighbours under local metrics."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._search import items_of, majority
from ..estimators import LODML
from ..estimators.base import Learner

Array = NDArray[Any]


class MetricKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Vote of the nearest rows, each under the metric of its own class.

    Exact: tiles of one matrix product, whatever the number of classes (spec.md 11), and the distances of the neighbours
    found formed again directly.

    Parameters
    ----------
    metric : learner, optional
        None is ``LODML(random_state=0)``. A fitted learner is used as it is (also inside FrozenEstimator); an unfitted
        one is cloned and fitted on the rows given to `fit`.
    n_neighbors : int
        Neighbours that vote. A tie goes to the class of the nearest among the tied.

    Examples
    --------
    >>> from paloma import LODML, MetricKNeighborsClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(X[::2], y[::2])
    >>> print(f"{model.score(X[1::2], y[1::2]):.2f}")
    0.97
    """

    def __init__(self, metric: Any = None, *, n_neighbors: int = 3) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the metric, unless it is fitted already, and keep the rows as candidates."""
        with check.unchanged_on_error(self):
            check.check_count("n_neighbors", self.n_neighbors)
            if y is None:
                raise ValueError(f"{check.name_of(self)} requires y to be passed, but the target y is None.")
            rows = check.check_rows(self, X, reset=True)
            labels = check.check_labels(self, y, rows.shape[0])
            if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
                raise ValueError("Unknown label type: continuous. Maybe you are trying to fit a classifier on a "
                                 "regression target with continuous values.")  # fmt: skip
            if rows.shape[0] < self.n_neighbors:
                raise ValueError(
                    f"n_neighbors={self.n_neighbors} is more than the n_samples = {rows.shape[0]} rows of X."
                )
            self.metric_ = self._fitted_metric(X, labels)
            learner = _learner_of(self.metric_)
            if rows.shape[1] != learner.n_features_in_:
                raise ValueError(
                    f"X has {rows.shape[1]} features, but the metric was fitted with {learner.n_features_in_}."
                )
            rows = rows.astype(learner._model.dtype, copy=False)
            rows, labels = self._voters(learner, rows, labels)
            self.classes_, self._numbers = np.unique(labels, return_inverse=True)
            self._items = self._placed(rows, labels)
        return self

    def _placed(self, rows: Any, labels: Array) -> Any:
        """Rows under the metrics of their classes, as they are now."""
        learner = _learner_of(self.metric_)
        return items_of(learner._metric(), rows, learner._candidates(rows, labels, "rows of X"))

    @property
    def rows_(self) -> Any:
        """The rows that vote."""
        check_is_fitted(self)
        return self._items.X

    @property
    def labels_(self) -> Array:
        """Their labels."""
        check_is_fitted(self)
        return self.classes_[self._numbers]

    def refresh(self) -> Self:
        """Bring the rows under the metric as it is now, after it has learnt more."""
        self._items = self._placed(self.rows_, self.labels_)
        return self

    def _voters(self, learner: Learner, rows: Any, labels: Array) -> tuple[Any, Array]:
        """Rows that may vote: those with a label, and unless semi="none" those that labelled rows agree on."""
        self._row_numbers = None
        if learner.unlabeled is None or not (labels == learner.unlabeled).any():
            return rows, labels
        if learner._semi().votes:
            labels = learner.transduce(rows, labels)
        self._row_numbers = np.flatnonzero(labels != learner.unlabeled)
        if len(self._row_numbers) < self.n_neighbors:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than the {len(self._row_numbers)} labelled rows of X."
            )
        return rows[self._row_numbers], labels[self._row_numbers]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = _learner_of(self.metric)
        tags.input_tags.sparse = isinstance(learner, Learner) and learner._sparse
        tags.input_tags.pairwise = isinstance(learner, Learner) and get_tags(learner).input_tags.pairwise
        return tags

    def _fitted_metric(self, X: ArrayLike, y: Array) -> Any:
        metric = LODML(random_state=0) if self.metric is None else self.metric
        if not isinstance(_learner_of(metric), Learner):
            raise TypeError(f"metric must be a paloma learner, got {type(metric).__name__}.")
        if _learner_of(metric).__sklearn_is_fitted__():
            return metric
        return clone(metric).fit(X, y)

    def kneighbors(
        self, Q: ArrayLike, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Array | tuple[Array, Array]:
        """Nearest rows of each query: distances (for a similarity learner: scores) and row numbers, nearest first."""
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        check.check_count("n_neighbors", k)
        n = self._items.X.shape[0]
        if k > n:
            raise ValueError(f"n_neighbors={k} is more than the {n} rows the classifier was fitted on.")
        values, ids = self._search(Q, k)
        if self._row_numbers is not None:
            ids = self._row_numbers[ids]
        if not return_distance:
            return ids
        return (np.sqrt(np.maximum(values, 0.0)) if self._items.metric.symmetric else -values), ids

    def predict(self, Q: ArrayLike) -> Array:
        """Class of each query by the vote of its neighbours."""
        check_is_fitted(self)
        return self.classes_[majority(self._votes(Q))]

    def _search(self, Q: ArrayLike, k: int) -> tuple[Array, Array]:
        return self._items.search(check.check_queries(self, Q, self._items.X.dtype), k)

    def _votes(self, Q: ArrayLike) -> Array:
        check.check_count("n_neighbors", self.n_neighbors)
        return self._numbers[self._search(Q, min(self.n_neighbors, len(self._numbers)))[1]]

    def predict_proba(self, Q: ArrayLike) -> Array:
        """Share of each class among the neighbours; the class predicted stands out by 1e-9 where votes are tied."""
        check_is_fitted(self)
        numbers = self._votes(Q)
        columns = np.arange(len(self.classes_))
        shares = (numbers[:, :, None] == columns).mean(axis=1)
        return (1.0 - 1e-9) * shares + 1e-9 * (majority(numbers)[:, None] == columns)


def _learner_of(metric: Any) -> Any:
    """The learner itself, also out of a FrozenEstimator."""
    return getattr(metric, "estimator", metric)
