"""The read-out of a model: M_c in the units of X, and what scoring and search need of it (theory 6.3 and 11).

Class codes below zero name no class. UNSEEN is a class that was never updated, M = lam U + mu start; SHARED is the
shared part by itself, M = U.
"""

import warnings
from collections.abc import Callable, Hashable, Iterable
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from ..._compiled.dense import quadratic_forms
from ..._compiled.scratch import Scratch
from ..._core.cone import afresh, project_each, share_below
from ..._core.locality import SHARED, UNSEEN, Locality
from ..._rows import in_blocks, products
from ..._search.items import LocalItems
from ..._threads import LARGE, in_threads, sharing
from ..._typing import Array, Rows
from ..._validation import read_only
from .matrices import Matrices, PairRows

# Above this many entries a dense matrix is not built.
DENSE_LIMIT = 10_000 * 10_000
# Up to this many features the matrices of all classes are built by a few calls.
SMALL = 32
# Rows of a stack, all classes filled up to the largest, may be so many times the rows themselves.
PADDED = 4
ZERO = (
    "A learned metric is 0: every step took away from it, so all rows are at distance 0 under it, and its class wins "
    "every vote. The labels may have nothing to do with the features. Check them, or learn less with a smaller C."
)


class DenseMetric:
    """Dense matrices, each built once and when first needed.

    blend : how far the averaged iterates are moved toward the last ones; 1 reads the last ones.
    cone : what is made p.s.d., "components" (U and L_c), "effective" (M_c) or "" (nothing).
    strength : (s, t), how far the read-out follows what was learned, and its local part (theory 22).
    projected : P_+ of a matrix of the given name; see `paloma._core.cone.Follower`.
    """

    def __init__(
        self, state: Matrices, locality: Locality, cone: str, blend: float, factor: float,
        strength: tuple[float, float] = (1.0, 1.0), projected: Callable[[Hashable, Array], Array] | None = None,
    ) -> None:  # fmt: skip
        self._state, self._cone, self._blend, self._strength = state, cone, blend, strength
        self._projected = projected or afresh
        self.locality, self.symmetric = locality, state.symmetric
        self.of_differences = state.symmetric
        self._square, self._own = factor * factor, state.own()
        self._matrices: dict[int, Array] = {}
        self._floors: tuple[Array, Array] | None = None
        self._floor: tuple[list[int], Array, Array] | None = None

    def resolve(self, codes: Array) -> Array:
        """Codes as this metric tells them apart: one code if nothing is local, UNSEEN for classes never updated."""
        if codes.ndim == 2:  # shares of regions
            return codes
        return resolved(codes, self._own, self.locality.is_local and self._strength[1] > 0.0)

    def matrix(self, code: int) -> Array:
        """M of a resolved code, in the units of X."""
        if code not in self._matrices:
            self._prepare([code])
        return self._matrices[code]

    def _prepare(self, codes: Iterable[int]) -> None:
        """Build the matrices of these resolved codes that are not built yet: small ones of classes all at once."""
        new, d = [code for code in codes if code not in self._matrices], len(self._state.start)
        classes = [code for code in new if code >= 0]
        with sharing(d, d, d):
            if d <= SMALL:
                self._matrices.update(zip(classes, self._build_classes(classes), strict=True))
            elif d**3 < LARGE and self._projected is afresh:  # BLAS would not share the work, and following is quick
                self._matrices.update(zip(classes, in_threads(self._build, classes), strict=True))
            for code in new:
                if code not in self._matrices:
                    self._matrices[code] = self._build(code)
        if self._cone and not all(self._matrices[code].diagonal().any() for code in new):
            warnings.warn(ZERO, RuntimeWarning, stacklevel=3)

    def start_forms(self, Q: Array) -> Array:
        """q^T M q under the matrix all parts start from."""
        return products(self._scaled(Q) if self._state.plain else Q @ self._sum((self._square, self._state.start)), Q)

    @property
    def _is_plain(self) -> bool:
        """Whether M is a multiple of the identity, the start, whose products are not formed."""
        return self._strength == (0.0, 0.0) and self._state.plain

    def _scaled(self, rows: Any) -> Any:
        """M x of rows then."""
        return rows * self._state.start.dtype.type(self._square)

    @property
    def unseen(self) -> float:
        """Share of the shared part in the metric of a class never updated; the rest is the start."""
        return unseen(self.locality, self._strength)

    def _build(self, code: int) -> Array:
        """(1 - s) start + (s - t) shared + t local, each p.s.d. by itself: the plane of theory 22."""
        if code == UNSEEN:
            rest = (1.0 - self.unseen) * self._square
            return self._sum((self.unseen, self.matrix(SHARED)), (rest, self._state.start))
        parts = self._common(code == SHARED)
        if code != SHARED and self._strength[1] > 0.0:
            local = self._state.blended(code, self._blend)
            if self._cone == "components":
                local = [(1.0, self._projected(("L", code), self._state.readout(code, self._blend)))]
            parts += self._local_parts(local, lambda matrix: self._projected(("M", code), matrix))
        return self._sum(*parts)

    def _build_classes(self, codes: list[int], projected: Callable[[Array], Array] = project_each) -> Array:
        """The same for classes, all at once."""
        d = self._state.start.shape
        if not codes or self._strength[1] == 0.0:
            return np.broadcast_to(self._sum(*self._common(False)), (len(codes), *d)).copy()
        stacks = self._state.blended_each(np.array(codes), self._blend)
        if self._cone == "components":
            stacks = [(1.0, projected(self._sum(*stacks)))]
        return self._sum(*self._local_parts(stacks, projected), *self._common(False))

    def _local_parts(
        self, local: list[tuple[float, Array]], projected: Callable[[Array], Array]
    ) -> list[tuple[float, Array]]:
        """What a class, or a stack of them, adds to what all have in common; `local`: L as a weighted sum."""
        t, lam, mu = self._strength[1], self.locality.lam, self.locality.mu
        if self._cone != "effective":
            return [(t * mu * self._square * weight, part) for weight, part in local]
        matrix = self._sum(*((mu * weight, part) for weight, part in local), (lam, self._shared))
        return [(t * self._square, projected(matrix))]

    def _common(self, alone: bool) -> list[tuple[float, Array]]:
        """What the metrics of all classes have in common; `alone`: the shared part by itself."""
        s, t = self._strength
        t = 0.0 if alone else t
        start = ((1.0 - s) * self._square, self._state.start)
        if self._cone == "effective":
            return [((s - t) * self._square, self._shared_projected), start] if s > t else [start]
        return [((s - t + t * self.locality.lam) * self._square, self._shared), start]

    @cached_property
    def _shared(self) -> Array:
        """U as it is read out."""
        matrix = self._state.readout(None, self._blend)
        return self._projected("U", matrix) if self._cone == "components" else matrix

    @cached_property
    def _shared_projected(self) -> Array:
        """P_+ of it: every class asks."""
        return self._projected("S", self._shared)

    def _sum(self, *parts: tuple[float, Array]) -> Array:
        """Weighted sum of matrices, or of stacks of them first; those of weight 0 are not looked at."""
        number = self._state.start.dtype.type
        weighted = [(number(weight), part) for weight, part in parts if weight != 0.0]
        if not weighted or weighted[0][1].ndim < parts[0][1].ndim:
            weighted.insert(0, (number(0.0), parts[0][1]))
        out = weighted[0][0] * weighted[0][1]
        for weight, part in weighted[1:]:
            out += part if weight == 1.0 else weight * part
        return out

    def values(self, left: Array, right: Array, codes: Array) -> Array:
        """<M_c, phi> of each pair: squared distances of differences, or similarities; float64."""
        if codes.ndim == 2:
            parts = self.resolve(np.arange(codes.shape[1]))
            each = [products(left @ self.matrix(int(c)), right) for c in parts]
            return (codes * np.stack(each, axis=1)).sum(axis=1)
        if self._is_plain:
            return products(left, self._scaled(right))
        codes = self.resolve(codes)
        if left is not right or not self._by_halves:
            return products(left, self._mapped(right, codes))
        members, out = groups(codes), np.empty(len(codes))
        self._prepare(code for code, _ in members)
        with sharing(max((len(rows) for _, rows in members), default=0), *self._state.start.shape):
            for code, rows in members:
                out[rows] = self._forms(left[rows], code)
        return out

    @property
    def _by_halves(self) -> bool:
        """Whether forms are read off one half of a symmetric matrix, which takes half of the work."""
        return self.symmetric and len(self._state.start) > SMALL and not self._is_plain

    def _forms(self, rows: Array, code: int) -> Array:
        """v^T M v of some rows, a copy of their own, under the metric of a resolved code."""
        if self._is_plain:
            return products(self._scaled(rows), rows)
        if not self._by_halves:
            return products(rows @ self.matrix(code), rows)
        return PairRows(rows, rows, Scratch()).forms([(self.matrix(code), slice(0, len(rows)))], True)

    def _mapped(self, X: Any, codes: Array) -> Array:
        """M_c x of each row under the metric of its resolved code."""
        if self._is_plain:
            return self._scaled(X.toarray() if sp.issparse(X) else X)
        members = groups(codes)
        self._prepare(code for code, _ in members)
        most = max((len(rows) for _, rows in members), default=0)
        few = X.shape[1] <= SMALL and not sp.issparse(X)
        if few and len(members) > 1 and len(members) * most <= PADDED * len(codes):
            return self._mapped_at_once(X, members, most)
        mapped = np.empty(X.shape, X.dtype)
        with sharing(most, *self._state.start.shape):
            for code, rows in members:
                mapped[rows] = X[rows] @ self.matrix(code).T
        return mapped

    def _mapped_at_once(self, X: Array, members: list[tuple[int, Array]], most: int) -> Array:
        """The same, of few features: one product of a stack, to the size of the largest class."""
        order = np.concatenate([rows for _, rows in members])
        places = np.concatenate([k * most + np.arange(len(rows)) for k, (_, rows) in enumerate(members)])
        padded = np.zeros((len(members) * most, X.shape[1]), X.dtype)
        padded[places] = X[order]
        matrices = np.stack([self._matrices[code].T for code, _ in members])
        images = (padded.reshape(len(members), most, -1) @ matrices).reshape(padded.shape)
        mapped = np.empty_like(padded, shape=X.shape)
        mapped[order] = images[places]
        return mapped

    @property
    def bounded(self) -> bool:
        """Whether `nearest` finds the nearest of a few rows without the matrices of all classes."""
        return self.symmetric and len(self._state.start) <= SMALL

    def nearest(self, differences: Array, codes: Array, k: int) -> tuple[Array, Array]:
        """The k smallest values of differences, ascending, and their numbers; of equal ones the lower number is first.

        A projection only adds to a matrix, P_+(M) - M is p.s.d., so values without one are bounds from below. Classes
        are projected as long as the bound of one of their rows is among the k smallest (theory 11).
        """
        codes = self.resolve(codes)
        with sharing(k, *self._state.start.shape):
            stack, exact = self._below(codes)
            values = quadratic_forms(read_only(differences), codes, stack)
            rounding = len(stack[0]) ** 2 * float(np.finfo(stack.dtype).eps * np.abs(stack).max())
            rounding *= float(max(differences.max(), -differences.min())) ** 2
            while True:
                near = np.flatnonzero(values <= np.partition(values, k - 1)[k - 1] + rounding)
                new = {code for code in codes[near].tolist() if not exact[code]}
                if not new:
                    break
                self._prepare(new)
                fresh = np.zeros(len(stack), bool)
                for code in new:
                    stack[code], exact[code], fresh[code] = self._matrices[code], True, True
                rows = np.flatnonzero(fresh[codes])
                values[rows] = quadratic_forms(read_only(differences[rows]), codes[rows], stack)
        near = near[np.lexsort((near, values[near]))[:k]]
        return values[near], near

    def _below(self, codes: Array) -> tuple[Array, Array]:
        """Matrices that are at most M of a resolved code, at its place, and whether they are M itself.

        The last two places are those of SHARED and UNSEEN, which are M itself once they were asked for.
        """
        if self._floors is None:
            classes = np.flatnonzero(self._own[:-1])
            stack = np.zeros((len(self._own) + 1, *self._state.start.shape), self._state.start.dtype)
            stack[classes] = self._build_classes(classes.tolist(), lambda matrices: matrices)
            exact = np.full(len(stack), not self._cone)
            exact[SHARED], exact[UNSEEN] = False, False
            self._floors = stack, exact
        stack, exact = self._floors
        for code in (SHARED, UNSEEN):
            if not exact[code] and (codes == code).any():
                stack[code], exact[code] = self.matrix(code), True
        return stack, exact

    def item_side(self, X: Array, codes: Array) -> tuple[tuple[Any, ...], Array]:
        """Factors of the items (here M_c x) whose products with `query_side` add up to q^T M_c x; and x^T M_c x."""
        if sp.issparse(X):
            distinct, blocks = np.unique(codes, return_inverse=True)
            for code in distinct:
                self.matrix(int(code))  # as it is now, though only queries will need it
            return (in_blocks(X, blocks, len(distinct)),), np.zeros(X.shape[0])
        return self.images(X, codes)

    def images(self, X: Any, codes: Array) -> tuple[tuple[Any, ...], Array]:
        """Factors of the items whose products with the plain queries add up to q^T M_c x: M_c x itself, dense."""
        if codes.ndim == 2:
            parts, shares = self.resolve(np.arange(codes.shape[1])), codes.astype(X.dtype)
            mixed = sum((shares[:, r, None] * X) @ self.matrix(int(c)).T for r, c in enumerate(parts))
            return (mixed,), products(X, mixed)
        mapped = self._mapped(X, self.resolve(codes))
        return (mapped,), products(X, mapped)

    def query_side(self, Q: Any, codes: Array | None = None) -> tuple[Any, ...]:
        """Factors of the queries. CSR items stay as they are, each in the block of its class: queries are mapped."""
        if codes is not None and sp.issparse(Q):
            return (np.hstack([Q @ self.matrix(int(code)) for code in codes]),)
        return (Q,)

    def items(self, X: Rows, codes: Array, by: Any = None) -> LocalItems:
        """Rows ready to be searched."""
        return LocalItems(self, X, codes, by)

    def at_start(self) -> Self:
        """The same at strength 0."""
        start = copy(self)
        start._strength, start._matrices, start._floors, start._floor = (0.0, 0.0), {}, None, None
        return start

    @property
    def n_components(self) -> int:
        """Rows of `components`."""
        return len(self._state.start)

    def components(self) -> Array:
        """(d, d) map whose Euclidean distances are those of the shared part, largest eigenvalue first."""
        values, vectors = eigh(self.matrix(SHARED), driver="evd")
        return np.ascontiguousarray((np.sqrt(np.maximum(values, 0.0)) * vectors).T[::-1])

    def root(self) -> Array:
        """The symmetric root of the shared part."""
        values, vectors = eigh(self.matrix(SHARED), driver="evd")
        return (np.sqrt(np.maximum(values, 0.0)) * vectors) @ vectors.T

    def transform(self, X: Array) -> Array:
        """Rows whose Euclidean distances are those of the shared part."""
        return X @ self.components().T

    def query_forms(self, Q: Array, codes: Array) -> Array:
        """q^T M_c q for each query and each of these resolved codes, (n_queries, n_codes)."""
        if Q.shape[0] == 1 and len(codes) and not sp.issparse(Q):
            return (np.stack([Q[0] @ self.matrix(int(code)) for code in codes]) @ Q[0])[None].astype(np.float64)
        with sharing(Q.shape[0], *self._state.start.shape):
            rows = Q.copy() if self._by_halves else Q
            forms = [self._forms(rows, int(code)) for code in codes]
        return np.stack(forms, axis=1) if forms else np.empty((Q.shape[0], 0))

    @property
    def has_floor(self) -> bool:
        """Whether the metrics of all classes have a common bound from below: they are p.s.d."""
        return self.symmetric and bool(self._cone)

    def floor(self, Q: Array, codes: Array) -> tuple[Array, Array]:
        """q^T R q under the mean R of the matrices of these resolved codes, and shares s_c with M_c - s_c R p.s.d."""
        names, d = codes.tolist(), len(self._state.start)
        if self._floor is None or self._floor[0] != names:
            self._prepare(names)
            with sharing(d, d, d):
                mean = sum(self.matrix(code) for code in names) / self._state.start.dtype.type(len(names))
                shares = np.array([share_below(self.matrix(code), mean) for code in names])
            self._floor = names, mean, shares
        _, mean, shares = self._floor
        return products(Q @ mean, Q), shares

    def some_forms(self, Q: Array, codes: Array, wanted: Array) -> Array:
        """`query_forms` where they are wanted, infinite elsewhere."""
        out = np.full(wanted.shape, np.inf)
        for k, code in enumerate(codes.tolist()):
            rows = np.flatnonzero(wanted[:, k])
            if len(rows):
                out[rows, k] = self._forms(Q[rows], code)
        return out


def unseen(locality: Locality, strength: tuple[float, float]) -> float:
    """Share of the shared part in the metric of a class never updated, at a point of the plane of theory 22."""
    s, t = strength
    return float(locality.lam + (1.0 - t / s if s else 1.0) * locality.mu)


def resolved(codes: Array, own: Array, is_local: bool) -> Array:
    """Codes with UNSEEN for classes without a matrix of their own, see `Matrices.own`; SHARED if nothing is local."""
    if not is_local:
        return np.full(len(codes), SHARED, np.int32)
    return np.where((codes < 0) | own.take(codes, mode="clip"), codes, UNSEEN).astype(np.int32, copy=False)


def groups(codes: Array) -> list[tuple[int, Array]]:
    """(code, row numbers) for each distinct code."""
    order = np.argsort(codes, kind="stable")
    edges = np.flatnonzero(np.diff(codes[order])) + 1
    return [(int(codes[rows[0]]), rows) for rows in np.split(order, edges) if len(rows)]


def refuse_dense(d: int, instead: str = "pairwise_score, transform and item_vectors work without it") -> None:
    if d * d > DENSE_LIMIT:
        raise ValueError(f"A dense {d} x {d} metric matrix is too large to build; {instead}.")
