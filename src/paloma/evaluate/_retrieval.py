"""Evaluation of retrieval: a database of items, queries that are not in it, and the metrics of `paloma.metrics`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.neighbors import NearestNeighbors

from .. import _validation as check
from ..metrics import count_relevant, retrieval_report
from ..neighbors import MetricIndex


def retrieval(
    metric: Any, X: ArrayLike, y: Any, Q: ArrayLike, y_query: ArrayLike, *, k: int = 10, classes: Any = "known"
) -> dict[str, float]:
    """Rank a database for each query and report how good the ranking is.

    The label of a query is compared with those of the items after they are ranked, and used nowhere else. The label of
    an item chooses its metric, which is legitimate for a labeled database; if the labels of a database are unknown in
    production, scoring it by them in an evaluation is leakage: pass `classes` instead.

    Parameters
    ----------
    metric : fitted learner, or a pipeline that ends in one; None is the Euclidean distance, as a baseline.
    X, y : (n, d) rows and (n,) labels of the database.
    Q, y_query : rows and labels of queries. A query must not be in the database.
    k : int
        The cutoff of precision, recall, hit, and AP@k.
    classes : what the items are scored by: ``"known"``: their labels y; None: no classes, only the shared part; or
        (n,) other labels, or (n, n_classes) estimated shares, e.g. `predict_proba` of a classifier that has not seen
        the database.

    Returns
    -------
    dict
        See `paloma.metrics.retrieval_report`; "mAP" is over the whole database.

    Examples
    --------
    >>> from paloma import LODML
    >>> from paloma.evaluate import retrieval
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> X = scale(X)
    >>> metric = LODML(random_state=0).fit(X[::2], y[::2])
    >>> report = retrieval(metric, X[::2], y[::2], X[1::2], y[1::2])
    >>> shared = retrieval(metric, X[::2], y[::2], X[1::2], y[1::2], classes=None)
    >>> print(f"{report['mAP']:.2f} {shared['mAP']:.2f} {report['n_without_relevant']}")
    0.89 0.89 0
    """
    if metric is None:
        ranking = NearestNeighbors(n_neighbors=len(y), algorithm="brute").fit(X).kneighbors(Q, return_distance=False)
    else:
        index = MetricIndex(metric)
        index.add(X, y if isinstance(classes, str) and classes == "known" else classes)
        ranking = index.rank(Q)
    labels = check.check_labels(metric, y, ranking.shape[1])
    asked = check.check_labels(metric, y_query, len(ranking), "queries")
    numbers = np.unique(np.concatenate([labels, asked]), return_inverse=True)[1].astype(np.int32)
    items, queries = numbers[: len(labels)], numbers[len(labels) :]
    return retrieval_report(items[ranking], queries, k, n_relevant=count_relevant(queries, items))
