"""The diagonal representation: U and one L per class as vectors of d weights (theory 20)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ... import _validation as check
from ..._core.choice import Choice
from ..._core.fields import Schema
from ..._core.loop import Block, learn
from ..._core.space import Beginning, Counts, Kept, Pass, Representation, Space
from ..._core.stream import Stream, Tally
from ..._typing import Array, Rows
from ..dense.space import scale_of
from ..dense.state import put_vectors, vectors_schema, vectors_state
from .metric import DiagonalMetric, dense
from .weights import Weights, plan


@dataclass
class DiagonalSpace(Space):
    """Weights, and what rows are multiplied by."""

    at_readout: ClassVar[tuple[str, ...]] = ("end",)

    weights: Weights
    factor: float

    @property
    def dtype(self) -> Any:
        return self.weights.start.dtype

    # -- learning: what the loop asks for ----------------------------------------------------------------------------

    def learn(self, choice: Choice, stream: Stream, counts: Counts, how: Pass) -> Tally:
        """The largest step is C d: |phi|^2 is about d times smaller than that of a full matrix (theory 20)."""
        counts.forget = choice.forget
        choice = replace(choice, C=choice.C * len(self.weights.start))
        rate = counts.rate if how.averaging or counts.n_means else None
        return learn(choice, self, stream, block=how.block, seen=counts.seen, averaging=rate, advance=how.advance)

    def plan(self, choice: Choice, stream: Stream, block: int | str) -> tuple[Block, int]:
        return plan(choice, self.weights, stream, block)

    def project(self) -> None:
        self.weights.project()

    def average(self, rate: float) -> None:
        self.weights.average(rate)

    # -- reading -----------------------------------------------------------------------------------------------------

    def readout(
        self, choice: Choice, counts: Counts, cone: str, blend: float, strength: tuple[float, float] = (1.0, 1.0)
    ) -> DiagonalMetric:
        return DiagonalMetric(self.weights, choice.locality, cone, blend, self.factor)

    def last(self, choice: Choice, n_classes: int) -> "LastIterates":
        return LastIterates(self.weights)

    # -- what may happen to it ---------------------------------------------------------------------------------------

    def drop(self, new_codes: Array) -> None:
        self.weights.drop(new_codes)

    def widened(self, d: int) -> "DiagonalSpace":
        return replace(self, weights=self.weights.grown(d))

    def adopt(self, blend: float) -> None:
        self.weights.adopt(blend)

    def fork(self, counts: Counts) -> Self:
        return replace(self, weights=self.weights.fork())

    def mixed(self, forks: list[Self], weights: Array, counts: Counts) -> Self:
        return replace(self, weights=Weights.mixed([fork.weights for fork in forks], weights))

    def joined(self, fork: Self, choice: Choice, counts: Counts) -> Self:
        out = replace(self, weights=fork.weights.fork())
        if choice.psd.word in ("every", "step", "exact"):
            out.project()
        return out

    def saved(self) -> dict[str, Any]:
        return vectors_state(self.weights)


class LastIterates:
    """The last iterates as dense matrices; refused if one would not fit."""

    def __init__(self, weights: Weights) -> None:
        self._weights, self.start = weights, dense(weights.start)

    @property
    def shared(self) -> Array:
        return dense(self._weights.shared)

    def local(self, code: int) -> Array:
        return dense(self._weights.local(code))


@dataclass(frozen=True)
class Diagonal(Representation):
    """One weight per feature; every weight starts at 1."""

    linear: ClassVar[bool] = True
    decays: ClassVar[bool] = True
    guarded: ClassVar[bool] = False
    light: ClassVar[bool] = False
    whitening: ClassVar[str] = "scalar"

    init: Any = "identity"

    @property
    def cannot(self) -> dict[str, str]:
        return {
            "soft regions": "{who} gives each row one region and only supports soft_regions=False.",
            "guard": "{who} is read out as it was learned and only supports guard='auto' or False.",
            "scale='full'": "{who} weighs features itself and only supports scale='auto', 'scalar' or None.",
            "scale='diagonal'": "{who} weighs features itself and only supports scale='auto', 'scalar' or None.",
        }

    def bound(self, who: str, choice: Choice, d: int, names: Any) -> "Diagonal":
        if not isinstance(self.init, str):
            raise ValueError(f"{who} only supports init='identity': multiply the columns of X to start elsewhere.")
        check.check_word("init", self.init, ("identity",))
        return self

    def start(self, d: int, dtype: Any) -> None:
        return None

    def scale(self, who: str, choice: Choice, X: Rows, triplets: Array) -> float:
        return scale_of(who, choice, X, triplets)

    def begin(self, choice: Choice, at: Beginning) -> DiagonalSpace:
        weights = Weights(np.ones(at.X.shape[1], at.X.dtype), symmetric=True)
        return DiagonalSpace(weights, 1.0 / (at.scale or 1.0))

    def schema(self, d: int) -> Schema:
        return vectors_schema(d)

    def restore(self, choice: Choice, state: dict[str, Any], kept: Kept) -> DiagonalSpace:
        weights = Weights(np.ones(kept.d, kept.dtype), symmetric=True)
        put_vectors(weights, state)
        return DiagonalSpace(weights, 1.0 / (kept.scale or 1.0))
