"""From a model to its neighbors: in the rows it keeps, or in an index."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._typing import Array
from ..estimators import as_arrays
from ..neighbors import MetricIndex, MetricKNeighborsClassifier
from ..persist import save
from ._model import Path, metric_of, split, transformed


class Neighbors(NamedTuple):
    """Nearest rows of each query, nearest first, as `search` returns them.

    values : (n_queries, k) distances, or the scores of a similarity learner.
    ids : (n_queries, k) row numbers, counted from 0; the ids of items if an index was searched.
    labels : (n_queries, k) labels of these rows.
    """

    values: Array
    ids: Array
    labels: Array


def search(model: Any, X: Any, k: int | None = None) -> Neighbors:
    """Find the nearest rows of each query, in a model that keeps rows or in an index.

    Parameters
    ----------
    model : model or MetricIndex
    X : array-like (n_queries, d)
    k : int, optional
        By default as many as vote in the model; 3 in an index.

    Examples
    --------
    >>> from paloma import LODML, train
    >>> from paloma.workflow import search
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> found = search(train(LODML(random_state=0), X[::2], y[::2]), X[1:4:2], k=2)
    >>> found.ids.shape, found.labels.tolist()
    ((2, 2), [[0, 0], [0, 0]])
    """
    if isinstance(model, MetricIndex):
        values, ids = model.search(X, 3 if k is None else k)
        return Neighbors(values, ids, model.labels_of(ids))
    front, classifier = split(model)
    if not isinstance(classifier, MetricKNeighborsClassifier):
        raise ValueError(
            "search: the model keeps no rows. Train it with keep_rows=True, or call keep_rows(model, X, y)."
        )
    values, ids = classifier.kneighbors(transformed(front, X), k)
    labels, row_numbers, found = as_arrays("search", classifier.labels_, classifier.row_numbers_, ids)
    return Neighbors(values, ids, labels[np.searchsorted(row_numbers, found)])


def build_index(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    ids: ArrayLike | None = None,
    backend: str | None = None,
    refresh: bool = False,
    path: Path | None = None,
    **options: Any,
) -> MetricIndex:
    """Add rows to a new index over the metric of a model, or to an existing index, and save it.

    Parameters
    ----------
    model : model or MetricIndex
        An index is changed in place.
    X, y : array-like (n, d), (n,)
        Rows, and their labels if there are any; rows without labels are scored by the shared metric.
    ids : array-like (n,), optional
        Ids of the items, see `MetricIndex.add`.
    backend, **options
        Of the new index, see `MetricIndex`; None is "exact".
    refresh : bool
        Whether to bring all items under the current metric.
    path : path, optional
        Index file to write.

    Examples
    --------
    >>> from paloma import LODML, train
    >>> from paloma.workflow import build_index
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = train(LODML(random_state=0), X[::2], y[::2])
    >>> len(build_index(build_index(model, X[::2], y[::2]), X[1::2], y[1::2]))
    178
    """
    if isinstance(model, MetricIndex):
        if backend not in (None, model.backend) or options:
            raise ValueError(f"build_index: the index already has its backend, {model.backend!r}, and its options.")
        index = model
    else:
        index = MetricIndex(metric_of(model), backend=backend or "exact", **options)
    index.add(X, y, ids)
    if refresh:
        index.refresh()
    if path is not None:
        save(index, path)
    return index
