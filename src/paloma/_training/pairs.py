"""Learning from pairs: "these two are similar" (+1), "these two are not" (-1), by a threshold b on the pair's value.

A similar pair asks for d(p, q) <= b - m, a dissimilar one for d(p, q) >= b + m; for similarities the signs turn. The
constraint is m + s sigma (value - b) <= xi, s the target, so Psi is that of a triplet whose other candidate has the
pair feature 0: the anchor itself for a distance, a row of zeros for a similarity. A pair is such a triplet with the
margin m - s sigma b, and everything a triplet can do a pair can (derivation: docs/streams.md).
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._core.locality import FREE
from .._core.measure import Measure
from .._core.stream import Stream
from .._rows import identity_values, products
from .._typing import Array


def pair_stream(
    measure: Measure, X: Any, codes: Array | None, pairs: Array, targets: Array, threshold: float, factor: float,
    weight: Array | None,
) -> Stream:  # fmt: skip
    """Pairs of rows as triplets with shifted margins; `threshold` in scaled units."""
    nothing = pairs[:, 0]
    if not measure.is_distance:
        nothing = np.full(len(pairs), X.shape[0])
        X = sp.vstack([X, X[:1] * 0], "csr") if sp.issparse(X) else np.concatenate([X, np.zeros_like(X[:1])])
        if codes is not None:
            none = np.full((1, *codes.shape[1:]), FREE if codes.ndim == 1 else 0, codes.dtype)
            codes = np.concatenate([codes, none])
    similar = targets > 0
    triplets = np.stack(
        [pairs[:, 0], np.where(similar, pairs[:, 1], nothing), np.where(similar, nothing, pairs[:, 1])], axis=1
    )
    shift = -measure.sign * threshold * targets
    return Stream(X, triplets, codes, factor, weight, shift=shift, about=pairs[:, 1])


def middle(measure: Measure, values: Array, targets: Array, margin: float) -> float:
    """A threshold halfway between the mean values of both kinds of pairs; for a distance at least 2 margins."""
    means = [float(values[targets == s].mean()) for s in (1, -1) if (targets == s).any()]
    level = float(np.mean(means)) if means else 0.0
    return max(level, 2.0 * margin) if measure.is_distance else level


def start_values(measure: Measure, X: Any, pairs: Array, start: Array | None) -> Array:
    """Values of pairs under the matrix that learning starts from, in the units of X; None is the identity."""
    if start is None:
        return identity_values(X, pairs[:, 0], pairs[:, 1], measure.is_distance)
    left, right = X[pairs[:, 0]], X[pairs[:, 1]]
    if measure.is_distance:
        left = right = left - right
    return products(left @ start, right)
