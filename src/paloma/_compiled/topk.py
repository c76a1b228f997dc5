"""Partial top-k over tiles of scores, and over a few rows."""

import numpy as np

from .jit import compiled, inlined

# Items that are compared at once with a query's worst neighbor so far; most stretches hold none that is nearer.
STRETCH = 32
# A code that no item has.
NO_CLASS = -(1 << 31)


@compiled
def merge_tile(tile, queries, others, best, ids):
    """Merge a tile of items into each query's k smallest values alpha * score + table[q, class] + constant.

    A table of one column is the same for all classes.
    others : skip items of the query's class.
    best, ids : (n_queries, k), sorted; of equal values the item of the lower number stays first.
    """
    table, own, query_class = queries
    for q in range(table.shape[0]):
        skipped = query_class[q] if others else NO_CLASS
        if table.shape[1] > 1:
            _merge_local(tile, q, table[q], own[q], skipped, best[q], ids[q])
        else:
            _merge_shared(tile, q, table[q, 0], own[q], skipped, best[q], ids[q])


@compiled
def _merge_local(tile, q, table, own, skipped, best, ids):
    """Merge a tile into the neighbors of one query, whose part of a value depends on the item's class."""
    scores, alpha, start, item_class, constant = tile
    row, worst = scores[q], best[-1]
    for i in range(row.shape[0]):
        c = np.uint32(item_class[i])  # an index that cannot count from the end
        value = alpha * row[i] + table[c] + constant[i]
        if not value < worst or start + i == own or item_class[i] == skipped:
            continue
        _insert(best, ids, value, start + i)
        worst = best[-1]


@compiled
def _merge_shared(tile, q, norm, own, skipped, best, ids):
    """The same if it does not: a stretch without a nearer item is passed over at once."""
    scores, alpha, start, item_class, constant = tile
    row, worst = scores[q], best[-1]
    for a in range(0, row.shape[0], STRETCH):
        stop, near = min(a + STRETCH, row.shape[0]), 0
        for i in range(a, stop):
            near += alpha * row[i] + norm + constant[i] < worst
        if near == 0:
            continue
        for i in range(a, stop):
            value = alpha * row[i] + norm + constant[i]
            if not value < worst or start + i == own or item_class[i] == skipped:
                continue
            _insert(best, ids, value, start + i)
            worst = best[-1]


@compiled
def merge_columns(tile, queries, best, ids):
    """The same for a tile whose columns ask and whose rows, of other classes than the one that asks, are the items."""
    scores, alpha, start, item_class, constant = tile
    table, _, query_class = queries
    k, n = best.shape[1], scores.shape[1]
    worst, norms = best[:, k - 1].copy(), table[:, 0].copy()
    for i in range(scores.shape[0]):
        for a in range(0, n, STRETCH):
            stop, near = min(a + STRETCH, n), 0
            for q in range(a, stop):
                near += alpha * scores[i, q] + norms[q] + constant[i] < worst[q]
            if near == 0:
                continue
            for q in range(a, stop):
                value = alpha * scores[i, q] + norms[q] + constant[i]
                if value < worst[q] and item_class[i] != query_class[q]:
                    _insert(best[q], ids[q], value, start + i)
                    worst[q] = best[q, k - 1]


@inlined
def _insert(best, ids, value, number):
    """Put a value that is smaller than the last one where it belongs."""
    place = best.shape[0] - 1
    while place > 0 and value < best[place - 1]:
        best[place] = best[place - 1]
        ids[place] = ids[place - 1]
        place -= 1
    best[place] = value
    ids[place] = number


@compiled
def nearest_members(X, anchors, members, starts, sizes, out):
    """Numbers of the nearest rows of each anchor r among members[starts_r : starts_r + sizes_r], itself left out.

    out : (n_anchors, k), sorted; of equal distances the member that comes first stays first.
    """
    k = out.shape[1]
    best = np.empty(k, X.dtype)
    for r in range(anchors.shape[0]):
        x = X[anchors[r]]
        best[:] = np.inf
        for place in range(starts[r], starts[r] + sizes[r]):
            i = members[place]
            if i == anchors[r]:
                continue
            y = X[i]
            total = (x[0] - y[0]) * (x[0] - y[0])
            for s in range(1, x.shape[0]):
                total += (x[s] - y[s]) * (x[s] - y[s])
            if total < best[k - 1]:
                _insert(best, out[r], total, i)


@compiled
def nearest_mixed(tables, points, best, ids):
    """The k smallest values (1 - s) a + (s - t) b + t c of each query, for every point (s, t) of a grid.

    tables : (3, n_queries, n_items), the values a, b and c; infinite where an item does not count.
    best, ids : (n_points, n_queries, k), filled sorted; of equal values the item of the lower number comes first.

    A mixture lies between the least and the largest of a, b and c. So no k-th smallest mixture is above the k-th
    smallest of the largest, and items whose least is above that are out for every point at once.
    """
    k, n = best.shape[2], tables.shape[2]
    largest, nobody, kept = np.empty(k), np.empty(k, np.int64), np.empty(n, np.int64)
    for q in range(tables.shape[1]):
        a, b, c = tables[0, q], tables[1, q], tables[2, q]
        largest[:] = np.inf
        for i in range(n):
            value = max(a[i], b[i], c[i])
            if value < largest[k - 1]:
                _insert(largest, nobody, value, i)
        bound = largest[k - 1] + 1e-12 * abs(largest[k - 1])
        n_kept = 0
        for i in range(n):
            if min(a[i], b[i], c[i]) <= bound:
                kept[n_kept] = i
                n_kept += 1
        for p in range(points.shape[0]):
            first, second, third = 1.0 - points[p, 0], points[p, 0] - points[p, 1], points[p, 1]
            near, rows = best[p, q], ids[p, q]
            near[:] = np.inf
            for place in range(n_kept):
                i = kept[place]
                value = first * a[i] + second * b[i] + third * c[i]
                if value < near[k - 1]:
                    _insert(near, rows, value, i)
