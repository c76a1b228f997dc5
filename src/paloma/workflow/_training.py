"""From rows to a model: preprocess, learn, keep rows, save; and continue later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from .._rows import stacked
from ..estimators import learner_of, measure_of
from ..neighbors import MetricIndex, MetricKNeighborsClassifier
from ..persist import save
from ..preprocessing import FillMissing, UnitRows
from ._model import Path, assembled, classifier_over, prepared, split, transformed, with_last

_STEPS = {"standard": StandardScaler, "minmax": MinMaxScaler, "maxabs": MaxAbsScaler, "unit": UnitRows}
PREPROCESSING = ("auto", *_STEPS)
# Rows that a stream must bring before its preprocessing is fitted, unless it ends earlier.
FIRST_ROWS = 100


def train(
    learner: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    triplets: ArrayLike | None = None,
    triplet_weight: ArrayLike | None = None,
    preprocessing: Any = "auto",
    fill_missing: bool = False,
    keep_rows: bool = True,
    n_neighbors: int | None = None,
    columns: Mapping[str, Any] | None = None,
    path: Path | None = None,
) -> Any:
    """Preprocess rows, learn a metric from them, keep them for voting and search, and save the result.

    Parameters
    ----------
    learner : learner
        Cloned, never changed.
    X : array-like or CSR matrix (n, d)
        None if `triplets` are points.
    y : array-like (n,), optional
        Labels, as `fit` of the learner takes them.
    triplets, triplet_weight : array-like, optional
        As `fit` of the learner takes them.
    preprocessing : {"auto", "standard", "minmax", "maxabs", "unit"}, transformer or None
        What to fit in front of the learner. "auto" standardizes dense columns and, for a similarity learner, appends
        `UnitRows`; triplets of points are learned as they are. None: nothing.
    fill_missing : bool
        Whether to fill in missing values (NaN), here and in all later rows, by the means of the columns.
    keep_rows : bool
        Whether the model keeps the labeled rows, so that it can classify and be searched.
    n_neighbors : int, optional
        Neighbors that vote; None is the default of `MetricKNeighborsClassifier`.
    columns : dict, optional
        Column names of the table, ``{"features": [...], "label": ...}``; stored as ``columns_`` so that the commands
        find the same columns in other tables.
    path : path, optional
        Model file to write.

    Returns
    -------
    model
        A `MetricKNeighborsClassifier`, or the learner if no rows are kept; behind its preprocessing in a `Pipeline`.

    Examples
    --------
    >>> from paloma import LODML, train
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = train(LODML(random_state=0), X[::2], y[::2])
    >>> [type(step).__name__ for step in model]
    ['StandardScaler', 'MetricKNeighborsClassifier']
    >>> print(f"{model.score(X[1::2], y[1::2]):.2f}")
    0.9...
    """
    learner = clone(learner)
    keeps = keep_rows and X is not None and y is not None
    if keeps and n_neighbors is not None and n_neighbors > np.shape(X)[0]:
        raise ValueError(f"n_neighbors={n_neighbors} is more than the n_samples = {np.shape(X)[0]} rows of X.")
    steps = _transformers(preprocessing, X, not measure_of(learner).is_distance, fill_missing)
    rows = X
    for step in steps:
        rows = step.fit_transform(rows, y)
    learner.fit(rows, y, triplets=triplets, triplet_weight=triplet_weight)
    model = assembled(steps, classifier_over(learner, rows, y, n_neighbors) if keeps else learner)
    if columns is not None:
        model.columns_ = dict(columns)
    if path is not None:
        save(model, path)
    return model


def keep_rows(model: Any, X: Any, y: ArrayLike, *, n_neighbors: int | None = None) -> Any:
    """Return a model with the same preprocessing and metric that keeps these rows for voting and search.

    Parameters
    ----------
    model : model
        Not changed. Rows that it keeps itself are left out.
    X, y : array-like (n, d), (n,)
        Labeled rows.
    n_neighbors : int, optional
        Neighbors that vote; None is the default of `MetricKNeighborsClassifier`.

    Examples
    --------
    >>> from paloma import ODML
    >>> from paloma.workflow import keep_rows, train
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = train(ODML(random_state=0), X[::2], y[::2], keep_rows=False)
    >>> model = keep_rows(metric, X[::2], y[::2], n_neighbors=5)
    >>> print(f"{model.score(X[1::2], y[1::2]):.2f}")
    0.9...
    """
    if isinstance(model, MetricIndex):
        raise TypeError("keep_rows: expected a model, got a MetricIndex. Add rows to an index with build_index.")
    front, _ = split(model)
    return with_last(model, classifier_over(learner_of(model), transformed(front, X), y, n_neighbors))


def update(
    model: Any,
    batches: Iterable[Any],
    *,
    preprocessing: Any = None,
    fill_missing: bool = False,
    keep_rows: bool = False,
    columns: Mapping[str, Any] | None = None,
    path: Path | None = None,
    save_every: float = 30.0,
) -> Any:
    """Continue learning from batches, one pass each, and save from time to time.

    The preprocessing stays as it was fitted. A model that keeps rows keeps labeled rows of the batches too, up to
    `streamed_rows` of each class (see `MetricKNeighborsClassifier`), all under the updated metric.

    Parameters
    ----------
    model : model or unfitted learner
        Changed in place, unless an unfitted learner is to be put behind preprocessing or to keep rows.
    batches : iterable
        Of pairs (X, y), or of dicts with arguments of the learner's `partial_fit`, e.g. triplets of points
        ``{"X": None, "triplets": points}``. None stands for a pause, which is a chance to save.
    preprocessing, fill_missing, keep_rows
        For an unfitted learner, as in `train`: fitted on the first rows, at least FIRST_ROWS unless there are fewer.
        Neither applies to triplets of points.
    columns : dict, optional
        As in `train`, for a model that has none yet; may be filled while batches are read.
    path : path, optional
        Model file to write every `save_every` seconds and at the end. If a batch is refused, what was learned before it
        is saved. KeyboardInterrupt saves nothing, because a batch may be half learned.
    save_every : float
        Seconds between saves; 0 saves only at the end.

    Returns
    -------
    model

    Examples
    --------
    >>> from paloma import LODML, train
    >>> from paloma.workflow import update
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = train(LODML(random_state=0), X[::3], y[::3])
    >>> model = update(model, [(X[1::3], y[1::3])])
    >>> print(f"{model.score(X[2::3], y[2::3]):.2f}")
    0.9...
    >>> len(model[-1].labels_), model[-1].n_streamed_
    (119, 59)
    """
    held: list[Any] | None = None
    if not learner_of(model).__sklearn_is_fitted__() and (keep_rows or fill_missing or preprocessing is not None):
        held = []  # batches until there are rows enough to fit preprocessing on
    unsaved, saved = False, perf_counter()
    try:
        for batch in batches:
            if batch is not None and held is not None:
                held.append(batch)
                if _enough(held):
                    model, held, unsaved = _begun(model, held, preprocessing, fill_missing, keep_rows), None, True
            elif batch is not None:
                _learn(model, batch)
                unsaved = True
            if unsaved and path is not None and save_every and perf_counter() - saved >= save_every:
                _finish(model, columns, path)
                unsaved, saved = False, perf_counter()
    except KeyboardInterrupt:
        unsaved, held = False, None
        raise
    finally:
        if held:
            model, unsaved = _begun(model, held, preprocessing, fill_missing, keep_rows), True
        if unsaved:
            _finish(model, columns, path)
    return model


def _enough(held: list[Any]) -> bool:
    """Whether preprocessing can be fitted on these batches; triplets of points end the wait."""
    rows = [_rows_of(batch) for batch in held]
    return rows[-1] is None or sum(np.shape(part)[0] for part in rows) >= FIRST_ROWS


def _rows_of(batch: Any) -> Any:
    """The rows of a batch; None if it holds triplets of points."""
    return batch["X"] if isinstance(batch, Mapping) else batch[0]


def _begun(learner: Any, first: list[Any], preprocessing: Any, fills: bool, keeps: bool) -> Any:
    """A learner that has learned the first batches, behind transformers fitted on them; if it is to keep rows, in a
    classifier. Triplets of points that come first are learned as they are."""
    parts, model = [rows for rows in map(_rows_of, first) if rows is not None], learner
    if parts:
        rows = stacked(parts)
        steps = _transformers(preprocessing, rows, not measure_of(learner).is_distance, fills)
        for step in steps:
            rows = step.fit_transform(rows)
        model = assembled(steps, MetricKNeighborsClassifier(learner) if keeps else learner)
    for batch in first:
        _learn(model, batch)
    return model


def _learn(model: Any, batch: Any) -> None:
    """One batch: labeled rows join those that a model keeps."""
    front, last = split(model)
    given = prepared(front, batch)
    if isinstance(last, MetricKNeighborsClassifier) and given.get("y") is not None and set(given) == {"X", "y"}:
        last.partial_fit(**given)
    else:
        learner_of(model).partial_fit(**given)


def _transformers(preprocessing: Any, X: Any, similarity: bool, fills: bool) -> list[Any]:
    """Unfitted transformers to put in front of a learner."""
    if isinstance(preprocessing, str) and preprocessing not in PREPROCESSING:
        known = ", ".join(PREPROCESSING)
        raise ValueError(f"preprocessing must be one of {known}, a transformer or None, got {preprocessing!r}.")
    filling: list[Any] = [FillMissing()] * (fills and X is not None and not sp.issparse(X))
    if preprocessing is None or (isinstance(preprocessing, str) and preprocessing == "auto" and X is None):
        return filling
    if X is None:
        raise ValueError("preprocessing must be fitted on rows, but X is None. Use preprocessing=None.")
    if isinstance(preprocessing, str) and preprocessing == "auto":
        return filling + [StandardScaler()] * (not sp.issparse(X)) + [UnitRows()] * similarity
    return [*filling, _STEPS[preprocessing]() if isinstance(preprocessing, str) else clone(preprocessing)]


def _finish(model: Any, columns: Mapping[str, Any] | None, path: Path | None) -> None:
    """Bring the rows that a model keeps under its current metric, and save it."""
    _, last = split(model)
    if isinstance(last, MetricKNeighborsClassifier):
        last.refresh()
    if columns and not hasattr(model, "columns_"):
        model.columns_ = dict(columns)
    if path is not None:
        save(model, path)
