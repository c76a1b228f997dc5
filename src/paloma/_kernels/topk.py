"""Partial top-k over tiles of scores."""

from .jit import kernel


@kernel
def merge_tile(scores, alpha, table, item_class, constant, start, own, query_class, others, best, ids):
    """Merge a tile of items into each query's k smallest values alpha * score + table[q, class] + constant.

    own : item that is the query itself (-1: none), never returned.  others : skip items of the query's class.
    best, ids : (n_queries, k), sorted; of equal values the item of the lower number stays first.
    """
    k = best.shape[1]
    for q in range(scores.shape[0]):
        worst = best[q, k - 1]
        for i in range(scores.shape[1]):
            c = item_class[i]
            value = alpha * scores[q, i] + table[q, c] + constant[i]
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
