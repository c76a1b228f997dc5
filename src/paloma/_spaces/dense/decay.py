"""Forgetting, exact in blocks: before each triplet's step Theta <- Theta0 + g (Theta - Theta0), g = 1 - forget.

With t counted from the start of a block, Theta_t = Theta0 + g^t D_t, where decay leaves D alone and a step tau moves it
by -(tau / g^t) Psi. So inside a block the matrices hold D, the part of Theta0 is added to each triplet's margin, and
the loop differs in one number per triplet, its scale g^t:

    gap_t = m + <Theta0, Psi_t> + g^t <D, Psi_t>,     tau_t = rule(gap_t, |Psi_t|^2, C),     D -= (tau_t / g^t) Psi_t.

In the dual view, a step taken k triplets ago weighs g^k (theory 1, 10).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..._compiled.members import distinct_pairs
from ..._compiled.scratch import Scratch
from ..._core.choice import Choice
from ..._core.stream import Stream, candidate_codes, is_soft
from ..._typing import Array
from .matrices import Matrices, PairRows

# A block ends before its scale falls below this, far from overflow even in float32.
SMALLEST_SCALE = 1e-9
CHUNK = 4096


def horizon(forget: float) -> int:
    """Triplets after which a block must end."""
    return max(1, int(np.log(SMALLEST_SCALE) / np.log1p(-max(forget, 1e-16))))


def scales(forget: float, n: int) -> Array:
    """g, g^2, ..., g^n."""
    return np.power(1.0 - forget, np.arange(1, n + 1))


def forgetting(one: Callable[..., Any]) -> Callable[..., Any]:
    """A way to learn a stretch of triplets, turned into one that forgets."""

    def block(choice: Choice, state: Matrices, stream: Stream, start: int, stop: int) -> tuple[float, int]:
        part = slice(start, stop)
        tau = np.zeros(stop - start) if stream.tau is None else stream.tau[part]
        scale = scales(choice.forget, stop - start)
        inside = Stream(
            stream.X,
            stream.triplets[part],
            stream.codes,
            stream.factor,
            _cut(stream.weight, part),
            tau,
            _cut(stream.shift, part),
            _cut(stream.gaps, part),
            scale,
        )
        soft = is_soft(inside)
        codes = np.zeros((stop - start, 2), np.int32) if soft else candidate_codes(choice, inside, inside.triplets)
        inside.shift = _start_gaps(choice, state, inside, codes) + (0.0 if inside.shift is None else inside.shift)
        before = state.n_slots
        state.to_deviations(np.arange(inside.codes.shape[1], dtype=np.int32) if soft else codes)  # type: ignore[union-attr]
        loss, updates = one(choice, state, inside, 0, stop - start)
        state.from_deviations(float(scale[-1]))
        if not soft:
            state.drop_untouched(before, codes, tau)
        return loss, updates

    return block


def _cut(values: Array | None, part: slice) -> Array | None:
    return None if values is None else values[part]


def _start_gaps(choice: Choice, state: Matrices, stream: Stream, codes: Array) -> Array:
    """<Theta0, Psi> of each triplet; a candidate without a class has the shared part alone."""
    anchors, candidates, pair_codes, members = distinct_pairs(stream.triplets, codes)
    values, scratch = np.empty(len(anchors)), Scratch()
    for a in range(0, len(anchors), CHUNK):
        part = slice(a, a + CHUNK)
        if sp.issparse(stream.X):
            left, right = stream.X[anchors[part]], stream.X[candidates[part]]
            values[part] = stream.factor**2 * np.asarray(right.multiply(left @ state.start).sum(axis=1)).ravel()
        else:
            pair = choice.measure.factors(stream.X, anchors[part], candidates[part], stream.factor, scratch)
            values[part] = state.start_values(PairRows(*pair, scratch))
    lam, mu = choice.locality.lam, choice.locality.mu
    values *= choice.measure.sign * np.where(pair_codes >= 0, lam + mu, lam)
    return values[members[:, 0]] - values[members[:, 1]]
