"""One weight per feature for U and for each L, and how a stretch of triplets moves them."""

from functools import partial

import numpy as np

from ..._compiled.diagonal import CLIPPED, EXACT, RAW, diagonal_stream
from ..._compiled.groups import Rows, Theta
from ..._core.choice import Choice
from ..._core.loop import Block
from ..._core.stream import Stream, answers, asked, candidate_codes
from ..._typing import Array
from ..dense.decay import horizon, scales
from ..dense.matrices import Matrices

# A call of the compiled loop works through about this many features, so that progress can be shown.
WORK = 1 << 24
POLICIES = {"step": CLIPPED, "exact": EXACT}


class Weights(Matrices):
    """The diagonals of U and of the stack of L, as vectors; classes, averages and decay are those of matrices."""

    def project(self) -> None:
        """P_+ of a diagonal matrix: no weight below 0."""
        for weights in (self.shared, self.stack):
            np.maximum(weights, 0.0, out=weights)

    def grown(self, d: int) -> "Weights":
        """The same in d dimensions, 1 in the new ones."""
        self.catch_up()
        out = Weights(_wider(self.start, d), self.symmetric)
        out.shared, out.stack = _wider(self.shared, d), _wider(self.stack, d)
        out.slots, out.n_slots, out.pending = self.slots, self.n_slots, self.pending
        if self.mean is not None:
            out.mean = (_wider(self.mean[0], d), _wider(self.mean[1], d))
        return out


def _wider(weights: Array, d: int) -> Array:
    before = [(0, 0)] * (weights.ndim - 1)
    return np.pad(weights, [*before, (0, d - weights.shape[-1])], constant_values=1.0)


def plan(choice: Choice, state: Weights, stream: Stream, block: int | str) -> tuple[Block, int]:
    """How to learn a stretch of triplets, and how many at a time."""
    size = max(1, WORK // stream.X.shape[1]) if block == "auto" else int(block)
    if choice.forget:
        size = min(size, horizon(choice.forget))
    return partial(_block, choice, state, stream), size


def _block(choice: Choice, state: Weights, stream: Stream, start: int, stop: int) -> tuple[float, int]:
    codes, before = candidate_codes(choice, stream, stream.triplets[start:stop]), state.n_slots
    slots, out, scale = state.allocate(codes), answers(stream, start, stop), None
    if choice.forget:
        scale = scales(choice.forget, stop - start)
        state.to_deviations(codes)
    result = diagonal_stream(
        asked(choice, stream, start, stop), Rows(stream.X, stream.X.dtype.type(stream.factor)),
        Theta(state.shared, state.stack, slots), choice.locality.kernel, choice.step.rule,
        out, scale, POLICIES.get(choice.psd.word, RAW),
    )  # fmt: skip
    if scale is not None:
        state.from_deviations(float(scale[-1]))
    state.drop_untouched(before, codes, out.tau)
    return result
