"""Euclidean neighbors of rows among themselves: what mining is made of."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._compiled.topk import nearest_members
from .._rows import squared_distances, squared_norms
from .._typing import Array
from .._validation import read_only
from .tiles import QUERY_TILE, SPARE, Items, mutual_nearest, nearest

# Classes of at most so many rows are searched all at once, row by row; a product for each would cost more in calls.
SMALL_CLASS = 64
# So are all rows, if comparing each with each takes no more multiplications: one loop less to compile for small data.
SMALL_DATA = 1 << 20


def minus(rows: Any, center: Array | None) -> Any:
    """Rows about a center, if there is one."""
    return rows if center is None else rows - center


def center_of(X: Any) -> Array | None:
    """The mean of dense rows; CSR rows would be filled if one were taken from them."""
    return None if sp.issparse(X) else X.mean(axis=0, dtype=np.float64).astype(X.dtype)


def squared_mean(X: Any) -> float:
    """|mean row|^2, which rows that cannot be centered have in their norms."""
    mean = np.asarray(X.mean(axis=0)).ravel()
    return float(mean @ mean)


def euclidean(X: Any, codes: Array, center: Array | None) -> Items:
    """Items of a Euclidean search, centered so that the expansion does not cancel."""
    n = X.shape[0]
    tiles = [slice(a, a + QUERY_TILE) for a in range(0, n, QUERY_TILE)]
    constants = np.concatenate([squared_norms(minus(X[part], center)) for part in tiles])
    return Items(n, lambda part: (minus(X[part], center),), -2.0, _own_norms, codes, constants)


def _own_norms(rows: Any) -> Array:
    """The table of a Euclidean search: the same for all classes."""
    return squared_norms(rows)[:, None]


def by_class(
    X: Any, codes: Array, anchors: Array, k: int, center: Array | None, candidates: Array | None = None
) -> Array:
    """Nearest rows of the anchor's own class, class by class, among `candidates` (ascending; default: all)."""
    found = np.full((len(anchors), k), -1, np.int64)
    candidates = np.arange(X.shape[0]) if candidates is None else candidates
    few = np.zeros(len(anchors), bool) if sp.issparse(X) else _in_small_classes(X, codes, anchors, candidates, found)
    if few.all():
        return found
    members_of, others = _grouped(codes[candidates]), np.flatnonzero(~few)
    for code, places in _grouped(codes[anchors[others]]).items():
        if code not in members_of:
            continue
        mine = others[places]
        members = candidates[members_of[code]]
        shift = None if center is None else center_of(X[members])
        rows, queries = minus(X[members], shift), minus(X[anchors[mine]], shift)
        own = np.searchsorted(members, anchors[mine])
        own = np.where(members[np.minimum(own, len(members) - 1)] == anchors[mine], own, -1)
        _, ids = nearest(queries.__getitem__, len(mine), _plain(rows), min(k, len(members)), own=own)
        found[mine, : ids.shape[1]] = np.where(ids >= 0, members[ids], -1)
    return found


def _in_small_classes(X: Array, codes: Array, anchors: Array, candidates: Array, found: Array) -> Array:
    """Whether the class of an anchor has few candidates; then fill its row of `found`, all such classes at once."""
    members = candidates[np.argsort(codes[candidates], kind="stable")]
    distinct, starts, sizes = np.unique(codes[members], return_index=True, return_counts=True)
    if not len(distinct):
        return np.zeros(len(anchors), bool)
    at = np.minimum(np.searchsorted(distinct, codes[anchors]), len(distinct) - 1)
    few = (distinct[at] == codes[anchors]) & (sizes[at] <= SMALL_CLASS)
    at, out = at[few], found[few]
    best = np.full(out.shape, np.inf, X.dtype)
    nearest_members(read_only(X), np.arange(len(X)), anchors[few], members, starts[at], sizes[at], best, out)
    found[few] = out
    return few


def _grouped(codes: Array) -> dict[int, Array]:
    """Ascending places of each code."""
    order = np.argsort(codes, kind="stable")
    distinct, starts = np.unique(codes[order], return_index=True)
    return dict(zip(distinct.tolist(), np.split(order, starts[1:]), strict=True)) if len(codes) else {}


def _plain(rows: Any) -> Items:
    """Rows as items of a Euclidean search without classes."""
    norms = squared_norms(rows)
    classes = np.zeros(rows.shape[0], np.int32)
    return Items(rows.shape[0], lambda part: (rows[part],), -2.0, _own_norms, classes, norms)


def mutual_others(X: Any, codes: Array, items: Items, k: int) -> Array:
    """The k nearest rows of other classes of each row, -1 where there are fewer; `items`: those of X."""
    n = X.shape[0]
    if sp.issparse(X) or n * n * X.shape[1] > SMALL_DATA:
        return mutual_nearest(items, k)
    best, ids, every = np.full((n, k), np.inf, X.dtype), np.full((n, k), -1, np.int64), np.arange(n)
    nearest_members(read_only(X), codes.astype(np.int64), every, every, np.zeros(n, np.int64), np.full(n, n), best, ids)
    return ids


def neighbors_by_class(
    X: Any, codes: Array, anchors: Array, n_targets: int, n_impostors: int
) -> tuple[Array, Array, Array, Array, float]:
    """Neighbors of rows in their own class and in others, their squared distances, and the mean square about the mean.

    Nearest first, of equal ones the lower number; -1 and inf where there are fewer.
    """
    n, center = X.shape[0], center_of(X)
    items = euclidean(X, codes, center)
    reach = min(n_impostors + SPARE[0], n)
    if np.array_equal(anchors, np.arange(n)):
        impostors = mutual_others(X, codes, items, reach)
    else:
        impostors = nearest(
            lambda part: minus(X[anchors[part]], center),
            len(anchors), items, reach, own=anchors, query_classes=codes[anchors], others=True,
        )[1]  # fmt: skip
    targets = closest_of_class(X, codes, anchors, n_targets, center)
    spread = float(items.constants.mean()) - (squared_mean(X) if center is None else 0.0)
    return *targets, *closest(X, anchors, impostors, n_impostors), spread


def closest(X: Any, anchors: Array, candidates: Array, k: int) -> tuple[Array, Array]:
    """The k nearest of each anchor's candidates and their squared distances, formed from differences."""
    distances = _direct(X, anchors, candidates)
    order = np.lexsort((candidates, distances), axis=1)[:, :k]
    return np.take_along_axis(candidates, order, 1), np.take_along_axis(distances, order, 1)


def closest_of_class(X: Any, codes: Array, anchors: Array, k: int, center: Array | None) -> tuple[Array, Array]:
    """The k nearest rows of each anchor's class, -1 where there are fewer, and their squared distances."""
    return closest(X, anchors, by_class(X, codes, anchors, min(k + SPARE[0], X.shape[0]), center), k)


def _direct(X: Any, anchors: Array, candidates: Array) -> Array:
    """Squared distances formed from differences, inf where there is no candidate."""
    if not sp.issparse(X):
        first = np.repeat(anchors, candidates.shape[1])
        out = squared_distances(X, first, candidates.ravel()).reshape(candidates.shape)
    else:
        out = np.empty(candidates.shape)
        for a in range(0, len(anchors), QUERY_TILE):
            found = candidates[a : a + QUERY_TILE]
            delta = X[found.ravel()] - X[np.repeat(anchors[a : a + QUERY_TILE], found.shape[1])]
            out[a : a + QUERY_TILE] = squared_norms(delta).reshape(found.shape)
    out[candidates < 0] = np.inf
    return out
