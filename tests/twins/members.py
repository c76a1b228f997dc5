"""The pairs of a block: which there are, and which a stretch of its triplets uses."""

import numpy as np


def distinct_pairs(triplets, codes):
    """(anchor, candidate) pairs by class, then by first use; and the numbers of each triplet's two."""
    met = {}
    for (anchor, *candidates), classes in zip(triplets.tolist(), codes.tolist(), strict=True):
        for candidate, code in zip(candidates, classes, strict=True):
            met.setdefault((anchor, candidate), code)
    pairs = sorted(met, key=met.get)
    number = {pair: k for k, pair in enumerate(pairs)}
    members = [[number[anchor, first], number[anchor, second]] for anchor, first, second in triplets.tolist()]
    anchors, candidates = np.array(pairs).T
    return anchors, candidates, np.array([met[pair] for pair in pairs]), np.array(members)


def members_of_parts(members, stops):
    """Pairs of each stretch by first use, where they end in one list, and each triplet's two among those of its own."""
    used, ends, places = [], [], []
    for begin, stop in zip([0, *stops[:-1]], stops, strict=True):
        own = list(dict.fromkeys(members[begin:stop].ravel().tolist()))
        places += [[own.index(k) for k in pair] for pair in members[begin:stop].tolist()]
        used += own
        ends.append(len(used))
    return np.array(used), np.array(ends), np.array(places)
