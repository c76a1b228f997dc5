"""Partial top-k over tiles of scores."""

import math

from .jit import compiled


@compiled
def merge_tile(tile, queries, others, best, ids):
    """Merge a tile of items into each query's k smallest values alpha * score + table[q, class] + constant.

    A table of one column is the same for all classes.
    others : skip items of the query's class.
    best, ids : (n_queries, k), sorted; of equal values the item of the lower number stays first.
    """
    scores, alpha, start, item_class, constant = tile
    table, own, query_class = queries
    k, local = best.shape[1], table.shape[1] > 1
    for q in range(scores.shape[0]):
        worst = best[q, k - 1]
        for i in range(scores.shape[1]):
            c = item_class[i]
            value = alpha * scores[q, i] + table[q, c if local else 0] + constant[i]
            if not value < worst or start + i == own[q]:
                continue
            if others and c == query_class[q]:
                continue
            place = k - 1
            while place > 0 and value < best[q, place - 1]:
                best[q, place] = best[q, place - 1]
                ids[q, place] = ids[q, place - 1]
                place -= 1
            best[q, place] = value
            ids[q, place] = start + i
            worst = best[q, k - 1]


@compiled
def nearest_mixed(tables, points, best, ids):
    """The k smallest values (1 - s) a + (s - t) b + t c of each query, for every point (s, t) of a grid.

    tables : (3, n_queries, n_items), the values a, b and c; infinite where an item does not count.
    best, ids : (n_points, n_queries, k), filled sorted; of equal values the item of the lower number comes first.
    """
    k = best.shape[2]
    for p in range(points.shape[0]):
        first, second, third = 1.0 - points[p, 0], points[p, 0] - points[p, 1], points[p, 1]
        for q in range(tables.shape[1]):
            near, rows = best[p, q], ids[p, q]
            near[:] = math.inf
            for i in range(tables.shape[2]):
                value = first * tables[0, q, i] + second * tables[1, q, i] + third * tables[2, q, i]
                if not value < near[k - 1]:
                    continue
                place = k - 1
                while place > 0 and value < near[place - 1]:
                    near[place] = near[place - 1]
                    rows[place] = rows[place - 1]
                    place -= 1
                near[place] = value
                rows[place] = i
