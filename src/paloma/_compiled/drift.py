"""Drift signals of a stream, in one pass over its triplets."""

import numpy as np

from .jit import in_place


@in_place
def enter(sums, codes, gaps, margin, keep):
    """Add triplets to the rows of their classes: counts, ranked right, losses, and faded losses with their weight.

    Class-free triplets (code -1) and those that were not learned (gap NaN) do not count.
    """
    for t in range(codes.shape[0]):
        c, gap = codes[t], gaps[t]
        if c >= 0 and np.isfinite(gap):
            loss = max(gap, 0.0)
            sums[c, 0] += 1.0
            sums[c, 1] += 1.0 if gap < margin else 0.0
            sums[c, 2] += loss
            sums[c, 3] = keep * sums[c, 3] + loss
            sums[c, 4] = keep * sums[c, 4] + 1.0
