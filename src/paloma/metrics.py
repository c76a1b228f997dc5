"""Retrieval metrics: how good are ranked lists of items (theory 15 I).

All functions take the same first arguments and average over queries. With rel(r) in {0, 1} for rank r and R relevant
items in the database:

    precision@k = sum_{r <= k} rel(r) / k          recall@k = sum_{r <= k} rel(r) / R
    hit@k       = [sum_{r <= k} rel(r) > 0]        AP       = sum_r precision@r rel(r) / R;  AP@K divides by min(R, K)

hit@k is what deep metric learning calls Recall@K. Recall and AP are undefined for a query without relevant items: such
queries are excluded from their means, and `retrieval_report` counts them. A query must not be among its own results.
"""

from __future__ import annotations

from collections.abc import Set
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _validation as check
from ._typing import Array

__all__ = [
    "count_relevant",
    "hit_at_k",
    "mean_average_precision",
    "precision_at_k",
    "recall_at_k",
    "retrieval_report",
]


def precision_at_k(ranked: Any, y: Any = None, k: int | None = None, *, average: str | None = "micro") -> Any:
    """Fraction of the first k ranks that are relevant; 0 for a query without relevant items.

    Parameters
    ----------
    ranked : (n_queries, n_ranks) labels of the items found, nearest first; without y, relevance itself (True or 1).
    y : (n_queries,) labels of the queries; an item is relevant if its label is the query's. Or, if `ranked` contains
        ids, one collection of relevant ids per query. The two arguments may come in either order: query labels have one
        dimension, result labels two. For a single query: a list of ids, and the relevant ones.
    k : int
        10 by default; at most n_ranks. ``precision_at_k(relevance, 5)`` works as well.
    average : ``"micro"``: mean over queries. ``"macro"``: mean over the queries of each class, then over classes, so
        that small classes count as much as large ones. None: one value per query.

    Examples
    --------
    >>> precision_at_k([["a", "b", "a"], ["a", "a", "a"]], ["a", "b"], k=2)
    0.25
    >>> precision_at_k([7, 3, 9, 4], {3, 4}, k=2)
    0.5
    """
    lists = _Lists.of(ranked, y, k, 10)
    return lists.mean(lists.found / lists.k, average)


def recall_at_k(
    ranked: Any,
    y: Any = None,
    k: int | None = None,
    *,
    n_relevant: ArrayLike | None = None,
    average: str | None = "micro",
) -> Any:
    """Fraction of a query's relevant items that are among the first k ranks; undefined for a query that has none.

    Parameters
    ----------
    ranked, y, k, average
        See `precision_at_k`.
    n_relevant : int or (n_queries,)
        Number of relevant items of each query in the whole database, see `count_relevant`; needed if `ranked` is
        truncated. By default the number in `ranked`, or the sizes of the collections of relevant ids.

    Examples
    --------
    >>> recall_at_k([["a", "b", "a"], ["a", "a", "a"]], ["a", "b"], k=2, n_relevant=[4, 0])
    0.25
    """
    lists = _Lists.of(ranked, y, k, 10, n_relevant)
    return lists.mean(_ratio(lists.found, lists.n_relevant), average)


def hit_at_k(ranked: Any, y: Any = None, k: int | None = None, *, average: str | None = "micro") -> Any:
    """Fraction of the queries with a relevant item among the first k ranks ("Recall@K" of deep metric learning).

    Parameters
    ----------
    ranked, y, k, average
        See `precision_at_k`.

    Examples
    --------
    >>> hit_at_k([["a", "b", "a"], ["a", "a", "a"]], ["a", "b"], k=2)
    0.5
    """
    lists = _Lists.of(ranked, y, k, 10)
    return lists.mean((lists.found > 0).astype(float), average)


def mean_average_precision(
    ranked: Any,
    y: Any = None,
    k: int | None = None,
    *,
    n_relevant: ArrayLike | None = None,
    average: str | None = "micro",
) -> Any:
    """Mean over queries of the precision at the ranks of their relevant items; mAP, or with k the mean of AP@k.

    Parameters
    ----------
    ranked, y, average
        See `precision_at_k`. For AP itself, `ranked` must contain the whole database.
    k : int, optional
        Truncate the lists at this rank: AP@k divides by min(R, k) instead of R. By default all ranks.
    n_relevant
        See `recall_at_k`.

    Examples
    --------
    >>> print(f"{mean_average_precision([['a', 'b', 'a'], ['a', 'a', 'a']], ['a', 'b']):.4f}")
    0.8333
    >>> mean_average_precision([["a", "b", "a"]], ["a"], k=1)
    1.0
    """
    lists = _Lists.of(ranked, y, k, None, n_relevant)
    cut = lists.relevance[:, : lists.k]
    precision = np.cumsum(cut, axis=1) / np.arange(1, lists.k + 1)
    most = lists.n_relevant if lists.whole else np.minimum(lists.n_relevant, lists.k)
    return lists.mean(_ratio((precision * cut).sum(axis=1), most), average)


def retrieval_report(ranked: Any, y: Any = None, k: int | None = None, *, n_relevant: Any = None) -> dict[str, float]:
    """All of these metrics, the number of queries, and how many of them have no relevant item.

    Parameters
    ----------
    ranked, y, k, n_relevant
        See `precision_at_k` and `recall_at_k`; for ``"mAP"``, `ranked` must contain the whole database. Macro averages
        are included if the classes of the queries are known.

    Examples
    --------
    >>> report = retrieval_report([["a", "b", "a"], ["a", "a", "a"]], ["a", "b"], k=2)
    >>> report["n_queries"], report["n_without_relevant"], report["hit@2"], report["hit@2 macro"]
    (2, 1, 0.5, 0.5)
    """
    lists = _Lists.of(ranked, y, k, 10, n_relevant)
    report: dict[str, float] = {
        "n_queries": len(lists.relevance),
        "n_without_relevant": int((lists.n_relevant == 0).sum()),
    }
    for average in ("micro", "macro") if lists.classes is not None else ("micro",):
        name = "" if average == "micro" else " macro"
        relevance, counts, classes = lists.relevance, lists.n_relevant, lists.classes
        for title, at in ((f"AP@{lists.k}", lists.k), ("mAP", None)):
            values = mean_average_precision(relevance, k=at, n_relevant=counts, average=None)
            report[title + name] = _mean(values, classes, average)
        report[f"precision@{lists.k}{name}"] = lists.mean(lists.found / lists.k, average)
        report[f"recall@{lists.k}{name}"] = lists.mean(_ratio(lists.found, counts), average)
        report[f"hit@{lists.k}{name}"] = lists.mean((lists.found > 0).astype(float), average)
    return report


def count_relevant(y: ArrayLike, labels: ArrayLike) -> Array:
    """How many of the items `labels` belong to the class of each query.

    Examples
    --------
    >>> count_relevant(["a", "b", "z"], ["a", "a", "b"]).tolist()
    [2, 1, 0]
    """
    known, counts = np.unique(np.asarray(labels), return_counts=True)
    queries = np.asarray(y)
    if not len(known):
        return np.zeros(len(queries), np.int64)
    place = np.minimum(np.searchsorted(known, queries), len(known) - 1)
    return np.where(known[place] == queries, counts[place], 0)


class _Lists:
    """Ranked lists as a matrix of relevance, checked."""

    def __init__(self, relevance: Array, classes: Array | None, k: int, whole: bool, n_relevant: Array) -> None:
        self.relevance, self.classes, self.k, self.whole, self.n_relevant = relevance, classes, k, whole, n_relevant
        self.found = relevance[:, :k].sum(axis=1)

    @classmethod
    def of(cls, ranked: Any, y: Any, k: Any, default: int | None, n_relevant: Any = None) -> _Lists:
        if k is None and isinstance(y, Integral):
            y, k = None, int(y)
        if y is not None and np.ndim(ranked) == 1:
            ranked, y = (y, ranked) if _collections(y) or np.ndim(y) == 2 else ([ranked], [y])
        relevance, classes, counts = _relevance(ranked, y)
        k = default if k is None else k
        if k is not None:
            check.check_count("k", k)
        n_ranks = relevance.shape[1]
        if k is not None and k > n_ranks:
            raise ValueError(f"k={k} is more than the {n_ranks} ranks that were given for each query.")
        given = counts if n_relevant is None else np.broadcast_to(np.asarray(n_relevant), len(relevance))
        if (given < relevance.sum(axis=1)).any():
            raise ValueError("n_relevant is less than the number of relevant items among the ranks of a query.")
        return cls(relevance, classes, n_ranks if k is None else int(k), k is None, given)

    def mean(self, values: Array, average: str | None) -> Any:
        return _mean(values, self.classes, average)


def _collections(y: Any) -> bool:
    """Whether y holds a collection of ids for each query."""
    return isinstance(y, list | tuple) and len(y) > 0 and isinstance(y[0], Set | list | tuple | np.ndarray)


def _relevance(ranked: Any, y: Any) -> tuple[Array, Array | None, Array]:
    """Which ranks are relevant, the classes of the queries if known, and how many relevant items there are."""
    table = np.asarray(ranked)
    if y is None:
        table = np.atleast_2d(table)
        if table.ndim != 2 or not (table.dtype.kind == "b" or np.isin(table, (0, 1)).all()):
            raise ValueError("Without query labels, ranked must contain relevance: True or False, 1 or 0.")
        table = table.astype(bool)
        return table, None, table.sum(axis=1)
    if table.ndim != 2 or len(table) != len(y):
        raise ValueError(
            f"ranked must have one row for each of the {len(y)} queries, nearest item first; got shape {table.shape}."
        )
    if _collections(y):
        wanted = [np.array(sorted(set(ids))) for ids in y]
        relevance = np.array([np.isin(row, ids) for row, ids in zip(table, wanted, strict=True)])
        return relevance.reshape(table.shape), None, np.array([len(ids) for ids in wanted])
    classes = np.asarray(y)
    if (classes.dtype.kind in "US") != (table.dtype.kind in "US") and "O" not in (classes.dtype.kind, table.dtype.kind):
        raise TypeError("Query labels and item labels must have the same type, strings or numbers.")
    relevance = np.asarray(table == classes[:, None], bool)
    return relevance, classes, relevance.sum(axis=1)


def _ratio(part: Array, whole: Array) -> Array:
    """part / whole, NaN where the whole is 0."""
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _mean(values: Array, classes: Array | None, average: str | None) -> Any:
    """Mean of the values that are defined, over queries or over classes; NaN if none is."""
    check.check_word("average", average, ("micro", "macro", None))
    if average is None:
        return values
    if average == "macro":
        if classes is None:
            raise ValueError('average="macro" needs the query labels.')
        codes = np.unique(classes, return_inverse=True)[1]
        defined = ~np.isnan(values)
        sums, counts = (np.bincount(codes[defined], w) for w in (values[defined], None))
        values = sums[counts > 0] / counts[counts > 0]
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")
