"""The kernel representation: net steps of pairs of points, under one kernel or several weighted by Hedge (theory 4)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import numpy as np

from ... import _validation as check
from ..._core.choice import Choice
from ..._core.fields import Schema
from ..._core.hedge import Hedge
from ..._core.locality import Locality
from ..._core.loop import learn
from ..._core.space import Beginning, Kept, Representation, Space
from ..._core.stream import Counts, Pass, Stream, Tally, candidate_codes
from ..._threads import sharing
from ..._typing import Array, Rows
from . import blocks
from .functions import Kernel
from .metric import KernelMetric
from .state import kernel_schema, put_back, support_state
from .support import Support

# Above this many entries, coefficients are not built as dense arrays.
DENSE_LIMIT = 2 * 10**8


@dataclass(frozen=True)
class Kernels(Representation):
    """Kernels, and how they are combined and bounded; see OKS and OMKS.

    kernels : as functions, for rows of any number of features.
    init : "identity" or "zero".
    gains : whether kernel values are brought to a typical size.
    several : whether there may be more than one kernel: coefficients then have an axis for them.
    delta : None, or each kernel's least chance to learn from a triplet, for the stochastic combination.
    """

    kernels: Callable[[int], list[Kernel]]
    init: Any = "identity"
    budget: int | None = None
    when_full: str = "keep"
    cache_size: float = 1000.0
    gains: bool = True
    several: bool = False
    beta: float | str = 1.0
    delta: float | None = None
    precomputed: bool = False

    @property
    def cannot(self) -> dict[str, str]:
        scales = "{who} compares rows by kernels and only supports scale='auto', 'scalar' or None."
        sentences = super().cannot | {f"scale={form!r}": scales for form in ("full", "low-rank", "diagonal")}
        sentences["remine"] = "{who} does not support remine=True; pass triplets, or use remine=False."
        if self.precomputed:
            sentences["shards"] = (
                "{who}: a precomputed kernel already has all rows in one place; fit it on one machine."
            )
        elif self.budget is not None:
            sentences["shards"] = (
                "{who}: the supports of shards add up, so a budget cannot be enforced; use budget=None."
            )
        return sentences

    @property
    def pairwise(self) -> bool:
        return self.precomputed

    @property
    def guarded(self) -> bool:
        """Halves of precomputed values do not know each other."""
        return not self.precomputed

    def adapted(self, who: str, choice: Choice) -> Choice:
        check.check_word("init", self.init, ("identity", "zero"))
        check.check_real("cache_size", self.cache_size, 0.0)
        if choice.psd.word != "never":
            policy = choice.psd.every or choice.psd.word
            raise ValueError(f"{who} only supports psd='never', got psd={policy!r}: it has no matrix to project.")
        if self.budget is not None:
            check.check_count("budget", self.budget, 3)
        check.check_word("when_full", self.when_full, ("keep", "forget"))
        return choice

    def bound(self, who: str, choice: Choice, d: int, names: Any) -> "Kernels":
        self.kernels(d)
        return self

    def start(self, d: int, dtype: Any) -> NoReturn:
        raise TypeError("A kernel learner starts at no matrix.")

    def scale(self, who: str, choice: Choice, X: Rows, triplets: Array) -> float:
        """Brings the mean squared distance of the rows that the first triplets name to the number of features."""
        scale = float(np.sqrt(2.0 * X[np.unique(triplets)].var(axis=0, dtype=np.float64).mean())) or 1.0
        check.check_magnitude(who, X, 1.0 / scale)
        return scale

    def mining_distances(self, X: Rows, known: Array, space: Space | None) -> Callable[[Array], Array]:
        """Of a precomputed kernel, the distances that it induces."""
        kernel = space.state.kernels[0] if isinstance(space, KernelSpace) else self.kernels(X.shape[1])[0]
        if kernel.keys is None or X.shape[0] == X.shape[1]:
            kernel = kernel.fitted(X, None, 1.0, False, False)
        points, own = kernel.points(X[known]), kernel.raw_selfs(X[known])
        return lambda rows: own[rows][:, None] + own - 2.0 * X[known[rows]][:, points]

    def begin(self, choice: Choice, at: Beginning) -> "KernelSpace":
        factor, distances = 1.0 / (at.scale or 1.0), choice.measure.is_distance
        kernels = self.kernels(at.X.shape[1])
        fitted = [k.fitted(at.X, at.triplets, factor, distances, self.gains) for k in kernels]
        training = (at.X, None) if self.precomputed else None
        return KernelSpace(
            self._support(fitted, at.X.dtype, choice), Hedge(len(fitted), self.beta), factor, self, training
        )

    def _support(self, kernels: list[Kernel], dtype: Any, choice: Choice) -> Support:
        cache = float(self.cache_size) * 2**20
        forgetting, start = self.when_full == "forget", float(self.init == "identity")
        return Support(kernels, dtype, choice.measure.is_distance, start, self.budget, forgetting, cache)

    def schema(self, d: int) -> Schema:
        return kernel_schema(len(self.kernels(d)), self.precomputed, self.budget)

    def restore(self, choice: Choice, state: dict[str, Any], kept: Kept) -> "KernelSpace":
        factor, kernels, training = 1.0 / (kept.scale or 1.0), self.kernels(kept.d), None
        if self.precomputed:
            training = (check.read_only(state["training"]), state["training_codes"])
        for kernel, gain in zip(kernels, state["gains"].tolist(), strict=True):
            kernel.restore(factor, gain, None if training is None else training[0])
        support = self._support(kernels, kept.dtype, choice)
        put_back(support, state)
        locality = None if state["lam"] is None else Locality.per_class(state["lam"])
        return KernelSpace(support, Hedge.restored(state["hedge"], self.beta), factor, self, training, 0, locality)


@dataclass
class KernelSpace(Space):
    """The support with its net steps, and Hedge over the kernels.

    training : rows and class codes of a precomputed kernel, whose training rows are the only candidates.
    passes : over the triplets of one call; only the first is new, and counts for Hedge.
    locality : that learned by.
    """

    at_readout = ()

    state: Support
    hedge: Hedge
    factor: float
    kind: Kernels
    training: tuple[Array, Array | None] | None = None
    passes: int = 0
    locality: Locality | None = None

    @property
    def dtype(self) -> Any:
        return self.state.dtype

    def learn(self, choice: Choice, stream: Stream, counts: Counts, how: Pass) -> Tally:
        n, m = len(stream.triplets), len(self.state.kernels)
        draws = np.empty((0, m)) if self.kind.delta is None else how.rng.random((n, m))
        if self.training is not None and stream.codes is not None and len(stream.codes) == len(self.training[0]):
            self.training = (self.training[0], stream.codes)
        self.locality, judging = choice.locality, not self.passes
        self.passes += 1
        if not n:
            return Tally()
        numbers = self.state.enter(stream.X, stream.triplets, candidate_codes(choice, stream, stream.triplets))
        work = blocks.Work(self.state, self.hedge, judging, self.kind.delta or 0.0, draws, counts.seen, *numbers)
        n_rows = stream.X.shape[0]
        with sharing(n_rows, n_rows, stream.X.shape[1]):
            return learn(choice, blocks.plan, work, replace(stream), how)

    def readout(
        self, choice: Choice, counts: Counts, cone: str, blend: float, strength: tuple[float, float] = (1.0, 1.0)
    ) -> KernelMetric:
        return KernelMetric(self.state, choice.locality, self.hedge.weights, blend, strength)

    def last(self, choice: Choice, n_classes: int) -> "Coefficients":
        locality = Locality.shared() if self.locality is None else self.locality
        return Coefficients(self.state, locality, n_classes, self.kind.several)

    def close(self) -> None:
        self.state.close()
        self.passes = 0

    def check_rows(self, who: str, X: Rows) -> None:
        rows = X.astype(self.dtype, copy=False)
        check.check_magnitude(who, rows, self.factor)
        for kernel in self.state.kernels:
            kernel.raw_selfs(rows)

    def drop(self, new_codes: Array) -> None:
        self.state.pairs = self.state.pairs.recoded(new_codes)
        if self.training is not None and self.training[1] is not None:
            codes = self.training[1].copy()
            codes[codes >= 0] = new_codes[codes[codes >= 0]]
            self.training = (self.training[0], codes)

    def adopt(self, blend: float) -> None:
        pairs = self.state.pairs
        pairs.steps, pairs.means = pairs.averaged(blend), np.zeros_like(pairs.steps)

    def fork(self, counts: Counts) -> Self:
        return replace(self, state=self.state.fork(), hedge=self.hedge.fork(), passes=int(counts.seen > 0))

    def mixed(self, forks: list[Self], weights: Array, counts: Counts) -> Self:
        state = Support.mixed([fork.state for fork in forks], weights)
        return replace(forks[0], state=state, hedge=Hedge.mixed([fork.hedge for fork in forks]))

    def joined(self, fork: Self, choice: Choice, counts: Counts) -> Self:
        return replace(self, state=fork.state.fork(), hedge=fork.hedge.fork(), locality=fork.locality)

    def saved(self) -> dict[str, Any]:
        out = {**support_state(self.state), "hedge": self.hedge.saved()}
        out["lam"] = None if self.locality is None else self.locality.lam
        if self.training is not None:
            out["training"], out["training_codes"] = self.training
        return out


class Coefficients:
    """The last iterates in index space, as dense arrays over the support: U - U_0 and L_c - L_0.

    The form of a coefficient matrix S is the sum over i, j of S_ij phi(x_i) (x) phi(x_j), phi of the scaled kernel.
    """

    def __init__(self, index: Support, locality: Locality, n_classes: int, several: bool) -> None:
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
                f"The coefficients of {self.start.shape[-1]} support rows are too large to build as a dense array; "
                "set a budget, or use pair_score and pairwise_score, which do not need one."
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
