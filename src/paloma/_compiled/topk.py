"""Partial top-k over tiles of scores, and over a few rows."""

from typing import Any, NamedTuple

import numpy as np

from .jit import compiled, in_place, inlined

# Items that are compared at once with a query's worst neighbor so far; most stretches hold none that is nearer.
STRETCH = 32
# A code that no item has.
NO_CLASS = -(1 << 31)


class Tile(NamedTuple):
    """A tile of a search: products with the items from number `start` on, their factor, and the items' classes."""

    scores: Any
    alpha: float
    start: int
    classes: Any
    constants: Any


class Grouped(NamedTuple):
    """All items in the order of their classes: products, their factor, numbers, constants, where each class begins."""

    scores: Any
    alpha: float
    numbers: Any
    constants: Any
    edges: Any


class Queries(NamedTuple):
    """Queries of a search: their table over classes, the item that is the query itself (-1: none), their classes."""

    table: Any
    own: Any
    classes: Any


@in_place
def merge_local(tile, queries, others, best, ids):
    """Merge a tile of items into each query's k smallest values alpha * score + table[q, class] + constant.

    others : skip items of the query's class.
    best, ids : (n_queries, k), sorted; of equal values the item of the lower number stays first.
    """
    scores, alpha, start, item_class, constant = tile
    table, own, query_class = queries
    k = best.shape[1]
    for q in range(scores.shape[0]):
        skipped = query_class[q] if others else NO_CLASS
        worst = best[q, k - 1]
        for i in range(scores.shape[1]):
            c = np.uint32(item_class[i])  # an index that cannot count from the end
            value = alpha * scores[q, i] + table[q, c] + constant[i]
            if not value < worst or start + i == own[q] or item_class[i] == skipped:
                continue
            _insert(best, ids, q, value, start + i)
            worst = best[q, k - 1]


@in_place
def merge_shared(tile, queries, others, best, ids):
    """The same for a table of one column: a stretch without a nearer item is passed over at once."""
    scores, alpha, start, item_class, constant = tile
    table, own, query_class = queries
    k = best.shape[1]
    for q in range(scores.shape[0]):
        skipped = query_class[q] if others else NO_CLASS
        worst, norm = best[q, k - 1], table[q, 0]
        for a in range(0, scores.shape[1], STRETCH):
            stop, near = a + STRETCH if a + STRETCH < scores.shape[1] else scores.shape[1], 0
            for i in range(a, stop):
                near += alpha * scores[q, i] + norm + constant[i] < worst
            if near == 0:
                continue
            for i in range(a, stop):
                value = alpha * scores[q, i] + norm + constant[i]
                if not value < worst or start + i == own[q] or item_class[i] == skipped:
                    continue
                _insert(best, ids, q, value, start + i)
                worst = best[q, k - 1]


@compiled
def merge_columns(tile, queries, best, ids):
    """The same for a tile whose columns ask and whose rows, of other classes than the one that asks, are the items."""
    scores, alpha, start, item_class, constant = tile
    table, _, query_class = queries
    k, n = best.shape[1], scores.shape[1]
    worst, norms = best[:, k - 1].copy(), table[:, 0].copy()
    for i in range(scores.shape[0]):
        for a in range(0, n, STRETCH):
            stop, near = a + STRETCH if a + STRETCH < n else n, 0
            for q in range(a, stop):
                near += alpha * scores[i, q] + norms[q] + constant[i] < worst[q]
            if near == 0:
                continue
            for q in range(a, stop):
                value = alpha * scores[i, q] + norms[q] + constant[i]
                if value < worst[q] and item_class[i] != query_class[q]:
                    _insert(best, ids, q, value, start + i)
                    worst[q] = best[q, k - 1]


@in_place
def class_minima(grouped, minima):
    """minima (n_queries, n_classes) = the smallest alpha * score + constant of the items of each class."""
    scores, alpha, _, constant, edges = grouped
    for q in range(scores.shape[0]):
        for c in range(minima.shape[1]):
            least = np.inf
            for i in range(edges[c], edges[c + 1]):
                least = min(least, alpha * scores[q, i] + constant[i])
            minima[q, c] = least


@in_place
def merge_classes(grouped, queries, minima, best, ids):
    """Merge the items of classes whose entry in the table is finite and whose minimum is near enough.

    Of equal values the item that comes first stays first.
    """
    scores, alpha, numbers, constant, edges = grouped
    table, own, _ = queries
    k = best.shape[1]
    for q in range(scores.shape[0]):
        worst = best[q, k - 1]
        for c in range(minima.shape[1]):
            if not table[q, c] + minima[q, c] < worst:
                continue
            for i in range(edges[c], edges[c + 1]):
                value = alpha * scores[q, i] + table[q, c] + constant[i]
                if value < worst and numbers[i] != own[q]:
                    _insert(best, ids, q, value, numbers[i])
                    worst = best[q, k - 1]


@inlined
def _insert(best, ids, row, value, number):
    """Put a value that is smaller than the last one of a row where it belongs."""
    place = best.shape[1] - 1
    while place > 0 and value < best[row, place - 1]:
        best[row, place] = best[row, place - 1]
        ids[row, place] = ids[row, place - 1]
        place -= 1
    best[row, place] = value
    ids[row, place] = number


@in_place
def nearest_members(X, families, anchors, members, starts, sizes, best, ids):
    """Numbers of the nearest rows of each anchor r among members[starts_r : starts_r + sizes_r], but for its family.

    families : a number of each row.
    best, ids : squared distances, at first infinite, and numbers, (n_anchors, k), sorted; of equal distances the member
    that comes first stays first.
    """
    k, d = best.shape[1], X.shape[1]
    for r in range(anchors.shape[0]):
        p = anchors[r]
        for place in range(starts[r], starts[r] + sizes[r]):
            i = members[place]
            if families[i] == families[p]:
                continue
            x = X[p, 0] - X[i, 0]
            total = x * x
            for s in range(1, d):
                x = X[p, s] - X[i, s]
                total += x * x
            if total < best[r, k - 1]:
                _insert(best, ids, r, total, i)


@in_place
def nearest_mixed(tables, floor, points, kept, room, best, ids):
    """The k smallest values (1 - s) a + (s - t) b + t c of each query, for every point (s, t) of a grid.

    tables : (3, n_queries, n_items), the values a, b and c; infinite where an item does not count. Those below `floor`
    count as if they were there.
    kept, room : room for the numbers of all items, and for four values of each.
    best, ids : (n_points * n_queries, k), at first infinite, sorted; of equal values the item of the lower number comes
    first.

    A mixture lies between the least and the largest of a, b and c, so items whose least is above the k-th smallest of
    the largest are out for every point at once. The largest value that the k nearest of one point have at the next one
    is a bound there.
    """
    k, n_queries = best.shape[1], tables.shape[1]
    for q in range(n_queries):
        for i in range(tables.shape[2]):
            most = max(tables[0, q, i], tables[1, q, i], tables[2, q, i], floor)
            if most < best[q, k - 1]:
                _insert(best, ids, q, most, i)
        bound, n_kept = best[q, k - 1] + 1e-12 * abs(best[q, k - 1]), 0
        best[q] = np.inf
        for i in range(tables.shape[2]):
            a, b, c = max(tables[0, q, i], floor), max(tables[1, q, i], floor), max(tables[2, q, i], floor)
            kept[n_kept], room[0, n_kept], room[1, n_kept], room[2, n_kept] = i, a, b, c
            n_kept += min(a, b, c) <= bound
        for p in range(points.shape[0]):
            first, second, third = 1.0 - points[p, 0], points[p, 0] - points[p, 1], points[p, 1]
            row, limit = p * n_queries + q, np.inf
            for place in range(n_kept):
                room[3, place] = first * room[0, place] + second * room[1, place] + third * room[2, place]
            if p:
                limit = -np.inf
                for r in range(k):
                    i = ids[row - n_queries, r]
                    a, b, c = max(tables[0, q, i], floor), max(tables[1, q, i], floor), max(tables[2, q, i], floor)
                    limit = max(limit, first * a + second * b + third * c)
            for place in range(n_kept):
                value = room[3, place]
                if value <= limit and value < best[row, k - 1]:
                    _insert(best, ids, row, value, kept[place])
