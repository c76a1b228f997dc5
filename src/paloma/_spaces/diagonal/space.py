"""The diagonal representation: U and one L per class as vectors of d weights (theory 20)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import _validation as check
from ..._core.choice import Choice
from ..._core.fields import Schema
from ..._core.loop import learn
from ..._core.space import Beginning, Kept, Representation
from ..._core.stream import Counts, Pass, Stream, Tally
from ..._typing import Array
from ..dense.space import StackedSpace
from ..dense.state import put_vectors, vectors_schema, vectors_state
from .metric import DiagonalMetric, dense
from .weights import Weights, plan


@dataclass
class DiagonalSpace(StackedSpace):
    """Weights, and what rows are multiplied by."""

    matrices: Weights

    def learn(self, choice: Choice, stream: Stream, counts: Counts, how: Pass) -> Tally:
        """The largest step is C d: |phi|^2 is about d times smaller than that of a full matrix (theory 20)."""
        counts.forget = choice.forget
        choice = replace(choice, C=choice.C * len(self.matrices.start))
        return learn(choice, plan, self.matrices, stream, how)

    def readout(
        self, choice: Choice, counts: Counts, cone: str, blend: float, strength: tuple[float, float] = (1.0, 1.0)
    ) -> DiagonalMetric:
        return DiagonalMetric(self.matrices, choice.locality, cone, blend, self.factor, strength)

    def last(self, choice: Choice, n_classes: int) -> "LastIterates":
        return LastIterates(self.matrices)

    def saved(self) -> dict[str, Any]:
        return vectors_state(self.matrices)


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

    linear = decays = guarded = light = True

    init: Any = "identity"

    @property
    def cannot(self) -> dict[str, str]:
        scales = "{who} weighs features itself and only supports scale='auto', 'scalar' or None."
        sentences = super().cannot | {f"scale={form!r}": scales for form in ("full", "low-rank", "diagonal")}
        return sentences | {"soft regions": "{who} gives each row one region and only supports soft_regions=False."}

    def bound(self, who: str, choice: Choice, d: int, names: Any) -> "Diagonal":
        if not isinstance(self.init, str):
            raise ValueError(f"{who} only supports init='identity': multiply the columns of X to start elsewhere.")
        check.check_word("init", self.init, ("identity",))
        return self

    def begin(self, choice: Choice, at: Beginning) -> DiagonalSpace:
        weights = Weights(np.ones(at.X.shape[1], at.X.dtype), symmetric=True)
        return DiagonalSpace(weights, 1.0 / (at.scale or 1.0))

    def schema(self, d: int) -> Schema:
        return vectors_schema(d)

    def restore(self, choice: Choice, state: dict[str, Any], kept: Kept) -> DiagonalSpace:
        weights = Weights(np.ones(kept.d, kept.dtype), symmetric=True)
        put_vectors(weights, state)
        return DiagonalSpace(weights, 1.0 / (kept.scale or 1.0))
