"""What kernel learners change as they learn: net steps of pairs in index space, and the weights of kernels."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .._hedge import Hedge
from .._indexed import learn_indexed
from .._locality import Locality
from .._parts import Parts, Stream, Tally
from .._representation import Index, Kernel, KernelMetric
from ._model import Model

Array = NDArray[Any]
# Above this many entries, coefficients are not built as dense arrays.
DENSE_LIMIT = 2 * 10**8


@dataclass
class KernelModel(Model):
    """An index over the support, and Hedge over the kernels.

    delta : None, or each kernel's least chance to learn from a triplet, for the stochastic combination.
    passes : over the triplets of one call; only the first is new, and counts for Hedge.
    training : rows and class codes of a precomputed kernel, whose training rows are the only candidates.
    """

    cone_words: ClassVar[tuple[str, ...]] = ()

    kernels: list[Kernel] = field(default_factory=list)
    distances: bool = False
    start: float = 1.0
    budget: int | None = None
    forgetting: bool = False
    cache: float = 0.0
    gains: bool = True
    delta: float | None = None
    beta: float | str = 1.0
    several: bool = False
    passes: int = 0
    parts: Parts | None = None
    hedge: Hedge = None  # type: ignore[assignment]
    state: Index = None  # type: ignore[assignment]
    training: tuple[Array, Array | None] | None = None

    def begin(self, start: Callable[[float], Array], X: Any, triplets: Array | None) -> Self:
        factor = self.factor
        kernels = [k.fitted(X, triplets, factor, self.distances, self.gains) for k in self.kernels]
        self.state = Index(kernels, X.dtype, self.distances, self.start, self.budget, self.forgetting, self.cache)
        self.hedge = Hedge(len(kernels), self.beta)
        if kernels[0].precomputed:
            self.training = (X, None)
        return self

    @property
    def dtype(self) -> Any:
        return self.state.dtype

    def learn(self, parts: Parts, stream: Stream, averaging: bool, block: int | str, advance: Any = None) -> Tally:
        rate = self.rate if averaging or self.n_means else None
        n, m = len(stream.triplets), len(self.kernels)
        draws = None if self.delta is None else self.rng.random((n, m))
        if self.training is not None and stream.codes is not None and len(stream.codes) == len(self.training[0]):
            self.training = (self.training[0], stream.codes)
        self.parts, judging = parts, not self.passes
        self.passes += 1
        sampling: dict[str, Any] = {"delta": self.delta or 0.0, "draws": draws, "judging": judging}
        rhythm: dict[str, Any] = {"block": block, "seen": self.seen, "averaging": rate, "advance": advance}
        return self.count(learn_indexed(parts, self.state, stream, self.hedge, **sampling, **rhythm))

    def close(self) -> None:
        self.state.close()
        self.passes = 0

    def drop(self, new_codes: Array) -> None:
        self.state.drop(new_codes)
        if self.training is not None and self.training[1] is not None:
            codes = self.training[1].copy()
            codes[codes >= 0] = new_codes[codes[codes >= 0]]
            self.training = (self.training[0], codes)

    def raw(self) -> Any:
        locality = Locality.shared() if self.parts is None else self.parts.locality
        return Coefficients(self.state, locality, len(self.labels), self.several)

    def build(self, parts: Parts, averaged: bool) -> KernelMetric:
        return KernelMetric(self.state, parts.locality, self.hedge.weights, self.blend() if averaged else 1.0)


class Coefficients:
    """The last iterates in index space, as dense arrays over the support: U - U_0 and L_c - L_0.

    The form of a coefficient matrix S is the sum over i, j of S_ij phi(x_i) (x) phi(x_j), phi of the scaled kernel.
    """

    def __init__(self, index: Index, locality: Locality, n_classes: int, several: bool) -> None:
        n, m = index.n_support, len(index.kernels)
        self.index, self.locality, self.n_classes = index, locality, n_classes
        shape = (m, n, n) if several else (n, n)
        self.start = np.broadcast_to(index.dtype.type(0), shape)

    @property
    def shared(self) -> Array:
        return self._dense(slice(None), self.locality.lam, 1)

    def local(self, code: int) -> Array:
        """L of one class less its start."""
        return self._dense(self.index.pairs.of_class(code), self.locality.mu, self.n_classes)

    def _dense(self, part: slice, share: float, n_arrays: int) -> Array:
        if self.start.size * n_arrays > DENSE_LIMIT:
            raise ValueError(
                f"Coefficients over {self.start.shape[-1]} support rows are too large to build densely; a budget "
                "bounds them, pair_score and pairwise_score do without."
            )
        pairs, m, n = self.index.pairs, len(self.index.kernels), self.start.shape[-1]
        out, place = np.zeros((m, n, n)), np.cumsum(self.index.held) - 1
        a, c = place[pairs.anchors[part]], place[pairs.candidates[part]]
        steps = share * pairs.steps[:, part]
        for one, w in zip(out, steps, strict=True):
            if not self.index.distances:
                np.add.at(one, (a, c), w)
                continue
            for i, j, sign in ((a, a, -1), (c, c, -1), (a, c, 1), (c, a, 1)):
                np.add.at(one, (i, j), sign * w)
        return out.reshape(self.start.shape).astype(self.start.dtype)
