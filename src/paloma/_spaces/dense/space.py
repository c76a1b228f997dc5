"""The dense representation: U and one L per class as d x d matrices."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ... import _validation as check
from ..._core.choice import Choice
from ..._core.cone import Follower
from ..._core.fields import Schema
from ..._core.loop import Plan, learn
from ..._core.space import PAIRS, Beginning, Kept, Representation, Space
from ..._core.stream import Counts, Pass, Stream, Tally
from ..._search.directions import in_strongest
from ..._threads import sharing
from ..._typing import Array, Rows
from . import blocks
from .matrices import NARROW, Matrices
from .metric import DenseMetric
from .state import matrices_of, matrices_schema, matrices_state

# Bytes beyond which a single matrix is refused instead of ending in a MemoryError.
LARGEST = 8 * 2**30
# A read-out follows the one before if no more triplets came in between, and if matrices are so large that it pays.
FEW, WIDE = 64, 48
# Directions of rows that are enough to judge by, if there are clearly more.
JUDGED = 480


@dataclass
class StackedSpace(Space):
    """One array for U and one per class, of any shape, and what rows are multiplied by."""

    matrices: Matrices
    factor: float = 1.0

    @property
    def dtype(self) -> Any:
        return self.matrices.start.dtype

    def drop(self, new_codes: Array) -> None:
        self.matrices.drop(new_codes)

    def widened(self, d: int) -> Self:
        return replace(self, matrices=self.matrices.grown(d))

    def adopt(self, blend: float) -> None:
        self.matrices.adopt(blend)

    def fork(self, counts: Counts) -> Self:
        return replace(self, matrices=self.matrices.fork())

    def mixed(self, forks: list[Self], weights: Array, counts: Counts) -> Self:
        return replace(self, matrices=type(self.matrices).mixed([fork.matrices for fork in forks], weights))

    def joined(self, fork: Self, choice: Choice, counts: Counts) -> Self:
        out = replace(self, matrices=fork.matrices.fork())
        if choice.psd.word in ("every", "step", "exact"):
            out.matrices.project()
        return out


@dataclass
class DenseSpace(StackedSpace):
    """Matrices, and the geometry that steps add up in: how `planned` learns a stretch of triplets on them."""

    planned: Plan = field(default=blocks.plan, repr=False)
    _follower: Follower = field(default_factory=Follower, init=False, repr=False)
    _read_at: int = field(default=-1, init=False, repr=False)

    def learn(self, choice: Choice, stream: Stream, counts: Counts, how: Pass) -> Tally:
        counts.forget = choice.forget
        with sharing(PAIRS, stream.X.shape[1], stream.X.shape[1]):
            tally = learn(choice, self.planned, self.matrices, stream, how)
        if stream.X.shape[1] < NARROW:  # products of our own read squares on the diagonal, and other loops move halves
            self.close()
        return tally

    def readout(
        self, choice: Choice, counts: Counts, cone: str, blend: float, strength: tuple[float, float] = (1.0, 1.0)
    ) -> DenseMetric:
        self.close()
        learned = counts.seen - self._read_at if self._read_at >= 0 else FEW + 1
        self._read_at, follow = counts.seen, None
        if not 0 <= learned <= FEW:
            self._follower = Follower()
        elif self.matrices.symmetric and len(self.matrices.start) >= WIDE and (learned or self._follower.knows):
            follow = self._follower.project
        return DenseMetric(self.matrices, choice.locality, cone, blend, self.factor, strength, follow)

    def last(self, choice: Choice, n_classes: int) -> Matrices:
        return self.matrices

    def close(self) -> None:
        self.matrices.symmetrize()

    def saved(self) -> dict[str, Any]:
        return matrices_state(self.matrices)


@dataclass(frozen=True)
class Dense(Representation):
    """U and one L per class, dense; `init` is the start, "identity" or a matrix in the units of X."""

    linear = decays = guarded = light = True
    whitening = "full"

    init: str | ArrayLike = "identity"

    def bound(self, who: str, choice: Choice, d: int, names: Any) -> "Dense":
        check_start(self.init, d, choice.measure.is_distance)
        return self

    def start(self, d: int, dtype: Any) -> Array | None:
        return None if isinstance(self.init, str) else np.asarray(self.init, dtype)

    def turned(self, X: Rows, n_classes: int) -> Rows:
        """From the identity, learning stays in the span of the rows; of that, the strongest directions are enough."""
        if self.device is not None or sp.issparse(X) or not isinstance(self.init, str):
            return X
        return in_strongest(X, JUDGED)

    def begin(self, choice: Choice, at: Beginning) -> DenseSpace:
        return begin(self.init, choice, at, blocks.plan)

    def schema(self, d: int) -> Schema:
        return matrices_schema(d, d)

    def restore(self, choice: Choice, state: dict[str, Any], kept: Kept) -> DenseSpace:
        return restore(choice, state, kept, blocks.plan)


def restore(choice: Choice, state: dict[str, Any], kept: Kept, planned: Plan) -> DenseSpace:
    """Dense matrices from their state."""
    return DenseSpace(matrices_of(state, choice.measure.is_distance), 1.0 / (kept.scale or 1.0), planned)


def begin(init: Any, choice: Choice, at: Beginning, planned: Plan) -> DenseSpace:
    """Dense matrices at their start, in scaled units."""
    symmetric, scale = choice.measure.is_distance, at.scale or 1.0
    start = checked_start(init, at.X.shape[1], at.X.dtype, symmetric)
    if not isinstance(init, str):
        start = np.ascontiguousarray(start * at.X.dtype.type(scale * scale))
    return DenseSpace(Matrices(start, symmetric), 1.0 / scale, planned)


def checked_start(init: Any, d: int, dtype: Any, symmetric: bool) -> Array:
    """The start in the units of X, (d, d)."""
    check_start(init, d, symmetric)
    return np.eye(d, dtype=dtype) if isinstance(init, str) else np.asarray(init, dtype)


def check_start(init: Any, d: int, symmetric: bool) -> None:
    """Refuse a start that is none, or too large to be built; the identity is not built for that."""
    size = d * d * np.dtype(np.float32).itemsize
    if size > LARGEST:
        raise ValueError(
            f"{d:,} features need matrices of {size / 2**30:,.0f} GiB, one for each class and more. Use L2ODML or "
            "L2OSL, which never build them, or DiagonalODML, one weight per feature; or reduce the features, e.g. with "
            "PCA or TruncatedSVD."
        )
    if isinstance(init, str):
        check.check_word("init", init, ("identity",))
        return
    start = np.asarray(init, np.float64)
    if start.shape != (d, d) or not np.isfinite(start).all():
        raise ValueError(f"init must be 'identity' or a finite ({d}, {d}) array, got shape {start.shape}.")
    if symmetric and not np.allclose(start, start.T):
        raise ValueError("init must be symmetric for a distance.")
