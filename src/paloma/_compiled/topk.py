"""Partial top-k over tiles of scores."""

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
    k, local = best.shape[1], int(table.shape[1] > 1)
    for q in range(scores.shape[0]):
        worst = best[q, k - 1]
        for i in range(scores.shape[1]):
            c = item_class[i]
            value = alpha * scores[q, i] + table[q, c * local] + constant[i]
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
