"""Which pairs the triplets of a block are made of, in one pass over them instead of sorts."""

import numpy as np

from .jit import compiled


@compiled
def distinct_pairs(triplets, codes):
    """The distinct (anchor, candidate) pairs by class, then by first use: anchors, candidates, codes, (n, 2) positions.

    A table of open addresses, four places for each pair, says which pairs were met.
    """
    n, size = triplets.shape[0], 16
    while size < 8 * n:
        size *= 2
    table, known = np.full(size, -1, np.int64), 0
    anchors, candidates, classes = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    members, n_classes = np.empty((n, 2), np.int64), 0
    for t in range(n):
        for side in range(2):
            p, q = triplets[t, 0], triplets[t, 1 + side]
            at = (np.uint64(p) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(q)) * np.uint64(0xC2B2AE3D27D4EB4F)
            at = np.int64((at >> np.uint64(32)) & np.uint64(size - 1))
            while table[at] >= 0 and not (anchors[table[at]] == p and candidates[table[at]] == q):
                at = (at + 1) & (size - 1)
            if table[at] < 0:
                table[at] = known
                anchors[known], candidates[known], classes[known] = p, q, codes[t, side]
                n_classes = max(n_classes, codes[t, side] + 1)
                known += 1
            members[t, side] = table[at]
    begin = np.zeros(n_classes + 2, np.int64)  # of the classes from -1 on
    for k in range(known):
        begin[classes[k] + 2] += 1
    for c in range(1, begin.shape[0]):
        begin[c] += begin[c - 1]
    out = np.empty((3, known), np.int64)
    for k in range(known):
        place = begin[classes[k] + 1]
        begin[classes[k] + 1] += 1
        out[0, place], out[1, place], out[2, place] = anchors[k], candidates[k], classes[k]
        anchors[k] = place
    for t in range(n):
        members[t, 0], members[t, 1] = anchors[members[t, 0]], anchors[members[t, 1]]
    return out[0], out[1], out[2], members


@compiled
def members_of_parts(members, stops, n):
    """Of n pairs those that each stretch of triplets uses, by first use, one stretch after another.

    Returns them, where those of each stretch end, and the pairs of each triplet as places among those of its stretch.
    """
    used, ends = np.empty(members.size, np.int64), np.empty(stops.shape[0], np.int64)
    places, place, met = np.empty(members.shape, np.int64), np.empty(n, np.int64), np.full(n, -1, np.int64)
    total, t = 0, 0
    for part in range(stops.shape[0]):
        begin = total
        while t < stops[part]:
            for side in range(2):
                k = members[t, side]
                if met[k] != part:
                    met[k], place[k], used[total] = part, total - begin, k
                    total += 1
                places[t, side] = place[k]
            t += 1
        ends[part] = total
    return used[:total], ends, places


@compiled
def signed_rows(X, weight, bounds, out):
    """Rows times sqrt|weight|: of each part (bounds) those of positive weight, then those of negative ones.

    Returns where each of these runs begins; rows of weight 0 are in none.
    """
    edges, total = np.zeros(2 * bounds.shape[0] + 1, np.int64), 0
    for part in range(bounds.shape[0]):
        for sign in range(2):
            for r in range(bounds[part, 0], bounds[part, 1]):
                w = weight[r] if sign == 0 else -weight[r]
                if w > 0.0:
                    factor = X.dtype.type(np.sqrt(w))
                    for s in range(X.shape[1]):
                        out[total, s] = X[r, s] * factor
                    total += 1
            edges[2 * part + sign + 1] = total
    return edges
