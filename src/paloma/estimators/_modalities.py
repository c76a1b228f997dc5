"""The model of several modalities: matrices, or low-rank factors, on groups of columns, and Hedge's weights."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from operator import attrgetter, methodcaller
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr, svd

from .._hedge import Hedge
from .._joint import JointParts, Modalities, learn_modalities, select
from .._learner import AVERAGE_EVERY
from .._parts import Stream, Tally
from .._representation import Dense, DenseMetric, FactorMetric, GroupedMetric
from ._model import Model

Array = NDArray[Any]
# Rows that the principal directions are taken from.
PRINCIPAL_ROWS = 4096


@dataclass
class GroupedModel(Model):
    """One metric a group of columns. `scale` has a number a group.

    rank : None for full matrices; else factors W with M = W^T W, of at most so many rows.
    """

    cone_words: ClassVar[tuple[str, ...]] = ("end",)

    groups: dict[str, Array] = field(default_factory=dict)
    beta: float | str = "auto"
    rank: int | None = None
    d: int = 0
    state: Modalities = None  # type: ignore[assignment]

    @property
    def columns(self) -> list[Array]:
        return list(self.groups.values())

    def begin(self, start: Callable[[Any], Any], X: Any, triplets: Array | None) -> Self:
        scales = np.ones(len(self.groups)) if self.scale is None else np.asarray(self.scale)
        given = zip(self.columns, start(scales), strict=True)
        self.d = X.shape[1]
        if self.rank is None:
            states = [Dense(np.eye(len(c), dtype=X.dtype) if s is None else s, symmetric=True) for c, s in given]
        else:
            factors = [_factor(select(X, c), s, min(self.rank, len(c))) for c, s in given]
            rows = max(len(factor) for factor in factors)
            padded = [np.pad(factor, ((0, rows - len(factor)), (0, 0))) for factor in factors]
            states = [Dense(np.hstack(padded), symmetric=False)]
        self.state = Modalities(self.columns, (1.0 / scales).tolist(), states, Hedge(len(scales), self.beta), self.rank)
        return self

    @property
    def dtype(self) -> Any:
        return self.state.states[0].start.dtype

    def learn(self, parts: JointParts, stream: Stream, averaging: bool, block: int | str, advance: Any = None) -> Tally:  # type: ignore[override]
        rate = self._rate_at() if averaging or self.n_means else None
        before = None if self.rank is None else (deepcopy(self.state), self.n_means)
        tally = learn_modalities(
            parts, self.state, stream, block=block, seen=self.seen, averaging=rate, advance=advance
        )
        if before is not None and not np.isfinite(self.state.states[0].shared).all():
            self.state, self.n_means = before
            size = f"eta={parts.C:g}" if parts.plain else f"C={4 * parts.C:g}"
            raise ValueError(f"Steps of size {size} along the gradient grew without bound; give a smaller one.")
        return self.count(tally)

    def _rate_at(self) -> Callable[[int], float]:
        """`rate` as a function of the triplets seen: modalities learnt one after the other share their averages."""
        begun = self.n_means - self.seen // AVERAGE_EVERY

        def rate(n: int) -> float:
            self.n_means = begun + n // AVERAGE_EVERY - 1
            return self.rate()

        return rate

    def close(self) -> None:
        self.state.settle()

    def _matrices(self, read: Callable[[Dense], Array]) -> Array:
        """Block-diagonal (d, d) matrix of what `read` takes from the state of each modality."""
        out, bounds = np.zeros((self.d, self.d), self.dtype), self.state.bounds
        for r, columns in enumerate(self.columns):
            if self.rank is None:
                block = read(self.state.states[r])
            else:
                W = read(self.state.states[0])[:, bounds[r] : bounds[r + 1]]
                block = W.T @ W
            out[np.ix_(columns, columns)] += block
        return out

    def drop(self, new_codes: Array) -> None:
        for state in self.state.states:
            state.drop(new_codes)

    def raw(self) -> Dense:
        whole = Dense(self._matrices(attrgetter("start")), symmetric=True)
        whole.shared = self._matrices(attrgetter("shared"))
        known = [np.flatnonzero(state.slots >= 0) for state in self.state.states]
        codes = np.unique(np.concatenate(known)).astype(np.int32)
        whole.ensure(codes)
        for code in codes.tolist():
            whole.stack[whole.slot(code)] = self._matrices(methodcaller("local", code))
        return whole

    def build(self, parts: JointParts, averaged: bool) -> GroupedMetric:  # type: ignore[override]
        blend, state = (self.blend() if averaged else 1.0), self.state
        if self.rank is None:
            members: Any = [
                DenseMetric(one, parts.locality, self.cone(parts), blend, factor)
                for one, factor in zip(state.states, state.factors, strict=True)
            ]
        else:
            places = zip(state.bounds[:-1].tolist(), state.bounds[1:].tolist(), state.factors, strict=True)
            members = [
                FactorMetric(state.states[0], slice(a, b), min(self.rank, b - a), parts.locality, blend, factor)
                for a, b, factor in places
            ]
        return GroupedMetric(members, self.columns, state.hedge.weights, self.d)


def _factor(X: Array, start: Array | None, rank: int) -> Array:
    """W with `rank` rows: W^T W is the nearest to a given start, or the projection on X's principal directions."""
    if start is None:
        return principal_rows(X, rank)
    values, vectors = eigh(start)
    return np.ascontiguousarray((np.sqrt(np.maximum(values, 0.0)) * vectors).T[::-1][:rank])


def principal_rows(X: Array, rank: int) -> Array:
    """Orthonormal rows: the first principal directions of X, and any others where X spans fewer."""
    rows = X[:: max(1, len(X) // PRINCIPAL_ROWS)]
    _, sizes, directions = svd(rows - rows.mean(axis=0), full_matrices=False)
    clear = sizes > sizes.max(initial=0.0) * max(rows.shape) * np.finfo(X.dtype).eps
    found = directions[: len(sizes)][clear][:rank]
    if len(found) < rank:
        more = np.eye(min(rank + len(found), X.shape[1]), X.shape[1], dtype=X.dtype)
        found = qr(np.vstack([found, more]).T, mode="economic")[0].T[:rank]
    return np.ascontiguousarray(found, X.dtype)
