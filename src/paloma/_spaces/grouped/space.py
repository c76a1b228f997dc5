"""The grouped representation: one metric per group of columns, weighted by Hedge (theory 5)."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from operator import attrgetter, methodcaller
from typing import Any, NoReturn, Self

import numpy as np
from scipy.linalg import eigh, qr, svd

from ... import _validation as check
from ..._core.choice import Choice
from ..._core.fields import Part, Schema
from ..._core.hedge import Hedge, check_beta, followed, hedge_schema
from ..._core.psd import Psd
from ..._core.space import Beginning, Kept, Representation, Space, scale_of
from ..._core.stream import AVERAGE_EVERY, Counts, Pass, Stream, Tally
from ..._typing import Array, Rows
from ..dense.matrices import Matrices
from ..dense.metric import DenseMetric
from ..dense.space import checked_start
from ..dense.state import matrices_of, matrices_schema, matrices_state
from .blocks import Gating, Modalities, learn_modalities, select
from .columns import column_groups
from .metric import GramMetric, GroupedMetric

# Rows that the principal directions are taken from.
PRINCIPAL_ROWS = 4096


@dataclass(frozen=True)
class Grouped(Representation):
    """Groups of columns, each with its metric, and how they are weighted; see OMDML."""

    groups: Any = None
    names: Any = None  # of the columns, where they have any
    init: Any = "identity"
    gate: str = "combined"
    gate_margin: float | None = None
    beta: float | str = "auto"
    rank: int | None = None
    eta: float | None = None

    light = True

    @property
    def guarded(self) -> bool:
        """Low-rank factors start at a few directions, on which no strength could fall back."""
        return self.rank is None

    @property
    def cannot(self) -> dict[str, str]:
        scales = "{who} scales each group by itself and only supports scale='auto', 'scalar' or None."
        sentences = super().cannot | {f"scale={form!r}": scales for form in ("full", "low-rank", "diagonal")}
        if self.rank is not None:
            sentences["shards"] = "{who}: low-rank factors have no meaningful mean over shards; use rank=None."
        if self.groups is not None:
            sentences["mining across shards"] = (
                "{who} with groups only supports mining within shards, because each group has its own units."
            )
        return sentences

    def adapted(self, who: str, choice: Choice) -> Choice:
        check.check_word("gate", self.gate, ("combined", "own"))
        check.check_real("gate_margin", choice.margin if self.gate_margin is None else self.gate_margin, 0.0)
        check_beta(self.beta)
        if self.rank is not None:
            check.check_count("rank", self.rank)
            if choice.psd.word == "exact":
                raise ValueError("psd='exact' is for full matrices; with rank, every metric is p.s.d. by construction.")
        if self.eta is not None:
            check.check_real("eta", self.eta, 0.0, open_low=True)
            if self.rank is None:
                raise ValueError("eta is the rate of the low-rank variant: set rank as well, or use eta=None.")
        if self.rank is None:
            return choice
        # A step eta along the gradient of W moves M = W^T W by 4 eta (aa^T - bb^T), to first order, from W = I.
        return replace(choice, psd=Psd("never"), C=choice.C / 4.0 if self.eta is None else float(self.eta))

    def bound(self, who: str, choice: Choice, d: int, names: Any) -> "Grouped":
        column_groups(self.groups, d, names)
        checked_start(self.init, 1 if isinstance(self.init, str) else d, np.dtype(float), symmetric=True)
        return replace(self, names=names)

    def start(self, d: int, dtype: Any) -> NoReturn:
        raise TypeError("A learner of groups starts at one matrix per group.")

    def _columns(self, d: int) -> list[Array]:
        return list(column_groups(self.groups, d, self.names).values())

    def scale(self, who: str, choice: Choice, X: Rows, triplets: Array) -> Array:
        """One number per group."""
        return np.array([scale_of(who, choice, select(X, c), triplets) for c in self._columns(X.shape[1])])

    def check_magnitude(self, who: str, choice: Choice, X: Rows, factor: Any) -> None:
        columns = self._columns(X.shape[1])
        for part, one in zip(columns, np.broadcast_to(factor, len(columns)), strict=True):
            check.check_magnitude(who, select(X, part), float(one))

    def mining_rows(self, X: Rows, scaled: bool) -> Rows:
        """The columns of all groups, each group divided by its spread, so that units do not decide who is near."""
        groups = self._columns(X.shape[1])
        if len(groups) == 1:
            return select(X, groups[0])
        parts = [select(X, columns) for columns in groups]
        if scaled:
            spreads = [np.sqrt(part.var(axis=0, dtype=np.float64).sum()) for part in parts]
            parts = [part / part.dtype.type(s if s > 0 else 1.0) for part, s in zip(parts, spreads, strict=True)]
        return np.hstack(parts)

    def begin(self, choice: Choice, at: Beginning) -> "GroupedSpace":
        d, dtype = at.X.shape[1], at.X.dtype
        groups = column_groups(self.groups, d, self.names)
        columns = list(groups.values())
        scales = np.ones(len(groups)) if at.scale is None else np.broadcast_to(at.scale, len(groups))
        starts = [self._block(c, s, d, dtype) for c, s in zip(columns, scales.tolist(), strict=True)]
        given = zip(columns, starts, strict=True)
        if self.rank is None:
            states = [Matrices(np.eye(len(c), dtype=dtype) if s is None else s, symmetric=True) for c, s in given]
        else:
            factors = [_factor(select(at.X, c), s, min(self.rank, len(c))) for c, s in given]
            rows = max(len(factor) for factor in factors)
            padded = [np.pad(factor, ((0, rows - len(factor)), (0, 0))) for factor in factors]
            states = [Matrices(np.hstack(padded), symmetric=False)]
        hedge = Hedge(len(scales), self.beta)
        state = Modalities(columns, (1.0 / scales).tolist(), states, hedge, self.rank)
        return GroupedSpace(state, groups, d, None if at.scale is None else scales, self)

    def schema(self, d: int) -> Schema:
        sizes = [len(columns) for columns in self._columns(d)]
        shapes = [(n, n) for n in sizes]
        if self.rank is not None:
            shapes = [(min(self.rank, max(sizes)), sum(sizes))]
        states = Schema(*(Part(str(k), matrices_schema(p, q)) for k, (p, q) in enumerate(shapes)))
        return Schema(Part("hedge", hedge_schema(len(sizes))), Part("states", states))

    def restore(self, choice: Choice, state: dict[str, Any], kept: Kept) -> "GroupedSpace":
        groups = column_groups(self.groups, kept.d, self.names)
        scales = np.broadcast_to(1.0 if kept.scale is None else kept.scale, len(groups))
        states = [matrices_of(one, symmetric=self.rank is None) for one in state["states"].values()]
        hedge = Hedge.restored(state["hedge"], self.beta)
        modalities = Modalities(list(groups.values()), (1.0 / scales).tolist(), states, hedge, self.rank)
        return GroupedSpace(modalities, groups, kept.d, None if kept.scale is None else scales, self)

    def _block(self, columns: Array, scale: float, d: int, dtype: Any) -> Array | None:
        """The start of one group in its scaled units; None is the identity."""
        if isinstance(self.init, str):
            return None
        start = checked_start(self.init, d, dtype, symmetric=True)
        whole = np.ascontiguousarray(start * dtype.type(scale * scale))
        return np.ascontiguousarray(whole[np.ix_(columns, columns)])


@dataclass
class GroupedSpace(Space):
    """The matrices, or low-rank factors, of each group of columns."""

    state: Modalities
    groups: dict[str, Array]
    d: int
    scales: Array | None
    kind: Grouped

    @property
    def dtype(self) -> Any:
        return self.state.states[0].start.dtype

    @property
    def factor(self) -> Any:
        return 1.0 if self.scales is None else 1.0 / self.scales

    @property
    def _columns(self) -> list[Array]:
        return list(self.groups.values())

    def learn(self, choice: Choice, stream: Stream, counts: Counts, how: Pass) -> Tally:
        kind = self.kind
        margin = choice.margin if kind.gate_margin is None else float(kind.gate_margin)
        gating = Gating(np.inf if kind.gate == "own" else margin, kind.beta, kind.eta is not None)
        before = None if kind.rank is None else (deepcopy(self.state), counts.n_means)
        how = how if how.rate is None else replace(how, rate=_rate_at(counts))
        tally = learn_modalities(choice, gating, self.state, stream, how)
        if before is not None and not np.isfinite(self.state.states[0].shared).all():
            self.state, counts.n_means = before
            size = f"eta={choice.C:g}" if gating.plain else f"C={4 * choice.C:g}"
            raise ValueError(f"Steps of size {size} along the gradient diverged; use a smaller value.")
        return tally

    def _matrices(self, read: Callable[[Matrices], Array]) -> Array:
        """Block-diagonal (d, d) matrix of what `read` takes from the matrices of each group."""
        out, bounds = np.zeros((self.d, self.d), self.dtype), self.state.bounds
        for r, columns in enumerate(self._columns):
            if self.state.rank is None:
                block = read(self.state.states[r])
            else:
                W = read(self.state.states[0])[:, bounds[r] : bounds[r + 1]]
                block = W.T @ W
            out[np.ix_(columns, columns)] += block
        return out

    def readout(
        self, choice: Choice, counts: Counts, cone: str, blend: float, strength: tuple[float, float] = (1.0, 1.0)
    ) -> GroupedMetric:
        self.close()
        state, locality, weights = self.state, choice.locality, self.state.hedge.weights
        if state.rank is None:
            weights, strengths = followed(weights, strength)
            members: Any = [
                DenseMetric(one, locality, cone, blend, factor, own)
                for one, factor, own in zip(state.states, state.factors, strengths, strict=True)
            ]
        else:
            places = zip(state.bounds[:-1].tolist(), state.bounds[1:].tolist(), state.factors, strict=True)
            members = [
                GramMetric(state.states[0], slice(a, b), min(state.rank, b - a), locality, blend, factor)
                for a, b, factor in places
            ]
        return GroupedMetric(members, self._columns, weights, self.d)

    def last(self, choice: Choice, n_classes: int) -> Matrices:
        whole = Matrices(self._matrices(attrgetter("start")), symmetric=True)
        whole.shared = self._matrices(attrgetter("shared"))
        known = [np.flatnonzero(state.slots >= 0) for state in self.state.states]
        codes = np.unique(np.concatenate(known)).astype(np.int32)
        whole.allocate(codes)
        for code in codes.tolist():
            whole.stack[whole.slot(code)] = self._matrices(methodcaller("local", code))
        return whole

    def divisor(self, scale: float | None) -> Any:
        scales = np.ones(len(self.groups)) if self.scales is None else self.scales
        return float(scales[0]) if len(scales) == 1 else scales.copy()

    def close(self) -> None:
        self.state.settle()

    def adopt(self, blend: float) -> None:
        for state in self.state.states:
            state.adopt(blend)

    def drop(self, new_codes: Array) -> None:
        for state in self.state.states:
            state.drop(new_codes)

    def fork(self, counts: Counts) -> Self:
        return replace(self, state=self.state.fork())

    def mixed(self, forks: list[Self], weights: Array, counts: Counts) -> Self:
        return replace(forks[0], state=Modalities.mixed([fork.state for fork in forks], weights))

    def joined(self, fork: Self, choice: Choice, counts: Counts) -> Self:
        out = replace(self, state=fork.state.fork())
        if choice.psd.word in ("every", "step", "exact"):
            out.state.project()
        return out

    def saved(self) -> dict[str, Any]:
        states = {str(k): matrices_state(one) for k, one in enumerate(self.state.states)}
        return {"hedge": self.state.hedge.saved(), "states": states}


def _rate_at(counts: Counts) -> Callable[[int], float]:
    """`Counts.rate` as a function of the triplets seen: groups learned one after the other share their averages."""
    begun = counts.n_means - counts.seen // AVERAGE_EVERY

    def rate(n: int) -> float:
        counts.n_means = begun + n // AVERAGE_EVERY - 1
        return counts.rate()

    return rate


def _factor(X: Array, start: Array | None, rank: int) -> Array:
    """W with `rank` rows: W^T W is the nearest to a given start, or the projection on X's principal directions."""
    if start is None:
        return principal_rows(X, rank)
    values, vectors = eigh(start, driver="evd")
    return np.ascontiguousarray((np.sqrt(np.maximum(values, 0.0)) * vectors).T[::-1][:rank])


def principal_rows(X: Array, rank: int) -> Array:
    """Orthonormal rows: the first principal directions of X, and any others if X spans fewer."""
    rows = X[:: max(1, len(X) // PRINCIPAL_ROWS)]
    _, sizes, directions = svd(rows - rows.mean(axis=0), full_matrices=False)
    clear = sizes > sizes.max(initial=0.0) * max(rows.shape) * np.finfo(X.dtype).eps
    found = directions[: len(sizes)][clear][:rank]
    if len(found) < rank:
        more = np.eye(min(rank + len(found), X.shape[1]), X.shape[1], dtype=X.dtype)
        found = qr(np.vstack([found, more]).T, mode="economic")[0].T[:rank]
    return np.ascontiguousarray(found, X.dtype)
