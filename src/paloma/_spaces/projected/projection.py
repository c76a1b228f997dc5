"""Dual random projection (theory 9): learn in m dimensions, keep the step sizes, replay them on the original points.

The same loop and the same dense matrices, on X R with R (d x m) random and E[R R^T] = I; the journal keeps each step's
size on its pair of original rows. Recovery finds a basis of what the journal spans and replays it there: no d x d
matrix is ever formed, and the learned metric is not confined to the span of R.
"""

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from ..._compiled.scratch import Scratch
from ..._core.locality import Locality
from ..._core.measure import Measure
from ..._rows import evenly_spaced, squared_norms
from ..._search.directions import SAMPLE
from ..._search.euclid import squared_mean
from ..._threads import sharing
from ..._typing import Array
from ..._validation import read_only
from ..dense.matrices import Matrices, PairRows, segments_of
from .journal import Journal
from .replayed import Replay

REPLAY_CHUNK = 4096
EXTEND_ROWS = 256
SIGN_DRAWS = 4


class Projection:
    """m x m matrices, the projection, and the journal; `basis` replaces R where X spans few dimensions (exact)."""

    def __init__(self, d: int, m: int, dtype: Any, symmetric: bool, kind: str, seed: int, basis: Any = None) -> None:
        self.symmetric, self.exact = symmetric, basis is not None
        self.map = basis if basis is not None else random_projection(d, m, kind, seed).astype(dtype)
        self.seed, self.limit = seed, 2 * self.map.shape[1] + 50
        self.inner = Matrices(np.eye(self.map.shape[1], dtype=dtype), symmetric)
        self.journal = Journal()
        self.folded: Any = None  # (basis, last iterates, averaged iterates), once folded
        self.aged = 1.0  # what the averaged part has kept of itself, see `age`

    @property
    def dtype(self) -> Any:
        return self.inner.start.dtype

    def age(self, left_out: float) -> None:
        """Bring the averaged part of what is held up to date: all but `left_out` of its way to the current iterates."""
        pairs = self.journal.pairs
        self.aged *= left_out
        pairs.means = pairs.steps + left_out * (pairs.means - pairs.steps)
        if self.folded is not None:
            _, now, mean = self.folded
            for new, old in ((now.shared, mean.shared), (now.stack, mean.stack)):
                old[...] = new + self.dtype.type(left_out) * (old - new)

    def fade(self, keep: float, left_out: float, gain: float) -> None:
        """Forgetting: `keep` of what was learned stays in the last iterates; the averaged ones become `left_out` of
        themselves plus `gain` of the last ones as they were.
        """
        pairs = self.journal.pairs
        pairs.means = left_out * pairs.means + gain * pairs.steps
        pairs.steps = keep * pairs.steps
        if self.folded is not None:
            _, now, mean = self.folded
            for new, old in ((now.shared, mean.shared), (now.stack, mean.stack)):
                old[...] = now.start + left_out * (old - now.start) + gain * (new - now.start)
            now.decay(keep)
            now.catch_up()

    def adopt(self, measure: Measure, locality: Locality, factor: float, blend: float) -> None:
        """The averages, moved this far toward the last iterates, take their place: steps, and matrices by replay."""
        self.inner = self.recover(self.map, measure, locality, factor, blend)
        self.journal.pairs.steps = self.journal.pairs.averaged(blend)
        if self.folded is not None:
            _, now, mean = self.folded
            for new, old in ((now.shared, mean.shared), (now.stack, mean.stack)):
                new[...] = old + self.dtype.type(blend) * (new - old)

    def drop(self, new_codes: Array) -> None:
        """Give class codes their new numbers; what a forgotten class has taught the shared part stays."""
        self.journal.drop(new_codes)
        for state in (self.inner, *(self.folded[1:] if self.folded else ())):
            state.drop(new_codes)

    @property
    def d(self) -> int:
        return int(self.map.shape[0])

    def deflate(self, X: Any) -> None:
        """Half of the columns of R become the strongest directions of X, the others stay random; E[R R^T] = I still.

        The error of <x, y> under R has the variance |x|^2 |y|^2 / m. In the strongest directions it is 0, and of what
        rows have beyond them, a share s of their squared length, it is s^2 |x|^2 |y|^2 / (m - strong). For a distance
        rows count by their differences, hence about their mean, and R stays as it is where that would be more.
        """
        R = self.map.toarray() if sp.issparse(self.map) else self.map
        rows = evenly_spaced(X, SAMPLE)
        m, strong = R.shape[1], min(R.shape[1] // 2, rows.shape[0] // 2)
        basis = R[:, :strong]
        for _ in range(2):
            inside = np.asarray(rows @ basis)
            basis, _ = np.linalg.qr(rows.T @ (inside / max(np.abs(inside).max(initial=0.0), np.finfo(self.dtype).tiny)))
        if self.symmetric:
            total, kept = (_about_mean(each) for each in (rows, np.asarray(rows @ basis)))
            if not (total > 0.0 and (1.0 - kept / total) ** 2 < 1.0 - strong / m):
                return
        rest = np.sqrt(m / (m - strong)) * R[:, strong:]
        self.map = np.hstack([basis, rest - basis @ (basis.T @ rest)]).astype(self.dtype)

    def project(self, X: Any) -> Array:
        """Rows in the m dimensions that learning sees."""
        return _dense(X @ self.map)

    def extend(self, X: Any) -> None:
        """Take in the directions of rows outside an exact basis; the matrices are the identity there.

        Beyond `limit` directions the basis stays as it is, and is one more projection that is not exact.
        """
        for a in range(0, X.shape[0], EXTEND_ROWS):
            if not self.exact or self.d == self.map.shape[1]:
                return
            rows = X[a : a + EXTEND_ROWS]
            rows = rows.toarray() if sp.issparse(rows) else rows
            beyond = rows - (rows @ self.map) @ self.map.T
            far = np.linalg.norm(beyond, axis=1) > 1e3 * np.finfo(self.dtype).eps * np.linalg.norm(rows, axis=1)
            if not far.any():
                continue
            new = _orthonormal(beyond[far].T, self.dtype)[:, : self.d - self.map.shape[1]]
            if self.map.shape[1] + new.shape[1] > self.limit:
                self.exact = False
                return
            self.map = np.hstack([self.map, new])
            self.inner = self.inner.grown(self.map.shape[1])

    def fold(self, measure: Measure, locality: Locality, factor: float, rank: int, n_power: int) -> None:
        """Turn the journal into low-rank factors and empty it: bounded memory, less what the rank leaves out."""
        basis = self.basis(measure, locality, factor, rank, n_power)
        now, mean = (self.recover(basis, measure, locality, factor, blend) for blend in (1.0, 0.0))
        self.folded, self.journal = (basis, now, mean), Journal()

    def fork(self) -> "Projection":
        """A copy to learn from here on: the same matrices, and a journal that is empty."""
        out = copy.copy(self)
        out.inner, out.journal, out.folded, out.aged = copy.deepcopy(self.inner), Journal(), None, 1.0
        return out

    @classmethod
    def mixed(cls, forks: list["Projection"], weights: Array) -> "Projection":
        """Weighted mean of what forks of one state learned: matrices averaged, journals merged by weight."""
        out = forks[0].fork()
        out.inner = Matrices.mixed([fork.inner for fork in forks], weights)
        out.journal = Journal.joined([fork.journal for fork in forks], weights)
        out.folded = _refolded([fork.folded for fork in forks], weights)
        out.aged = float(sum(w * fork.aged for w, fork in zip(weights, forks, strict=True)))
        return out

    def joined(self, fork: "Projection") -> "Projection":
        """This state and what a fork of it learned since."""
        out, both = fork.fork(), np.ones(2)
        before = copy.copy(self)
        before.journal, before.folded = copy.copy(self.journal), copy.deepcopy(self.folded)
        before.journal.pairs = copy.copy(self.journal.pairs)
        before.age(fork.aged)
        out.journal = Journal.joined([before.journal, fork.journal], both)
        out.folded = _refolded([before.folded, fork.folded], both)
        return out

    def basis(self, measure: Measure, locality: Locality, factor: float, rank: int, n_power: int) -> Array:
        """Orthonormal (d, q) basis that the journal and the folded part span, or their q = rank strongest directions.

        Subspace iteration (Halko et al. 2011) on what makes the M_c differ from the start, all classes together; exact
        if no more than `rank` directions exist.
        """
        d, rows = self.d, self.journal.rows
        old = None if self.folded is None else self.folded[0]
        n_directions = (0 if rows is None else rows.shape[0]) + (0 if old is None else old.shape[1])
        if d <= rank:
            return np.eye(d, dtype=self.dtype)
        if not n_directions:
            return np.eye(d, 1, dtype=self.dtype)
        if n_directions <= rank:
            parts = [] if rows is None else [rows.toarray().T if sp.issparse(rows) else rows.T]
            return _some(_orthonormal(np.hstack(parts if old is None else [*parts, old]), self.dtype))
        rng = np.random.default_rng(self.seed)
        sketch = rng.standard_normal((d, rank)).astype(self.dtype)
        for _ in range(n_power + 1):
            sketch = _orthonormal(self._sketch(sketch, locality, -measure.sign * factor**2, rng), self.dtype)
        return _some(sketch)

    def _sketch(self, V: Array, locality: Locality, unit: float, rng: np.random.Generator) -> Array:
        """Columns of V, each under a random combination of what was learned, by products with tall matrices alone.

        With A_c the pairs of class c times their net steps and `unit` (sign and scale), and A the sum over classes,
        M_c - I = lam^2 A + mu^2 A_c. The combination alpha lam A + mu^2 sum_c s_c A_c with random signs s has
        E[Y Y^T] = sum_c (M_c - I)^2 for alpha^2 = k lam^2 + 2 mu^2: the range that serves all k classes best. A few
        draws of s, interleaved over the columns, do; for a similarity every other one is transposed, since rows and
        columns of its matrices span different directions.
        """
        lam, mu, journal, out = locality.lam, locality.mu, self.journal, np.zeros_like(V)
        inside = None if not len(journal) else np.asarray(journal.rows @ V)
        n_codes = 1 + max(journal.pairs.codes.max(initial=0), 0 if self.folded is None else len(self.folded[1].slots))
        alpha = np.sqrt(n_codes * lam**2 + 2.0 * mu**2)
        for k in range(SIGN_DRAWS):
            part = slice(k, None, SIGN_DRAWS)
            signs = np.r_[rng.choice([-1.0, 1.0], n_codes), 0.0]  # the last for pairs without a class, code -1
            transposed = not self.symmetric and k % 2 == 1
            if inside is not None:
                weights = unit * journal.pairs.steps[0] * (lam * alpha + mu**2 * signs[journal.pairs.codes])
                S = journal.over_rows(weights.astype(self.dtype), self.symmetric)
                inside[:, part] = (S.T if transposed else S) @ inside[:, part]
            if self.folded is not None:
                basis, state, _ = self.folded
                total = _combined(state, alpha, mu * signs).astype(self.dtype)
                out[:, part] += basis @ ((total.T if transposed else total) @ (basis.T @ V[:, part]))
        return out if inside is None else out + journal.rows.T @ inside

    def recover(self, basis: Array, measure: Measure, locality: Locality, factor: float, blend: float) -> Matrices:
        """The matrices in the coordinates of a basis: the folded part carried over, the journal replayed."""
        state = Matrices(np.eye(basis.shape[1], dtype=self.dtype), self.symmetric)
        if self.folded is not None:
            old_basis, now, mean = self.folded
            for part, share in ((now, blend), (mean, 1.0 - blend)):
                _carry_over(part, basis.T @ old_basis, state, share)
        pairs, scratch = self.journal.pairs, Scratch()
        if not len(pairs):
            return state
        state.allocate(np.unique(pairs.codes[pairs.codes >= 0]))
        points = _dense(self.journal.rows @ basis)
        steps = measure.sign * pairs.averaged(blend)[0]
        for a in range(0, len(pairs), REPLAY_CHUNK):
            part = slice(a, a + REPLAY_CHUNK)
            rows = measure.factors(points, pairs.anchors[part], pairs.candidates[part], factor, scratch)
            if locality.lam:
                state.move_shared(PairRows(*rows, scratch), locality.lam * steps[part])
            if locality.mu:
                segments = segments_of(pairs.codes[part])
                state.move_local(PairRows(*rows, scratch), segments, locality.mu * steps[part])
        state.symmetrize()
        return state

    def replay(self, basis: Array, measure: Measure, locality: Locality, factor: float, blend: float) -> Replay:
        """The same of a distance without the matrices of the classes; nothing may be folded."""
        journal, d = self.journal, basis.shape[1]
        points = np.asarray(journal.rows @ basis) * self.dtype.type(factor)
        steps = measure.sign * journal.pairs.averaged(blend)[0]
        over = journal.over_rows((locality.lam * steps).astype(self.dtype), True)
        shared = np.eye(d, dtype=self.dtype) - points.T @ (over @ points)
        return Replay(read_only(points), journal.pairs, steps, locality.mu, (shared + shared.T) / 2)


def _about_mean(rows: Any) -> float:
    """The squared length of rows about their mean, in sum."""
    return float(squared_norms(rows).sum()) - rows.shape[0] * squared_mean(rows)


def spanning(X: Any, projection: Projection) -> Array | None:
    """Orthonormal basis of the rows of X if they span fewer directions than they are projected to, else None."""
    m, dtype = projection.map.shape[1], X.dtype
    if _rank(projection.project(evenly_spaced(X, 2 * m)), dtype) == m:
        return None
    rank = _rank(projection.project(X), dtype)
    if rank in (0, m):
        return None
    mix = np.random.default_rng(0).standard_normal((X.shape[0], rank)).astype(dtype)
    return _orthonormal(np.asarray(X.T @ mix), dtype)


def _rank(rows: Array, dtype: Any) -> int:
    """Numerical rank of rows whose numbers were rounded to a type."""
    values = np.linalg.svd(rows.astype(np.float64), compute_uv=False)
    return int((values > values[0] * max(rows.shape) * np.finfo(dtype).eps).sum())


def random_projection(d: int, m: int, kind: str, seed: int) -> Any:
    """(d, m) random matrix with E[R R^T] = I: Gaussian as in the paper, or sparse signs (Li et al. 2006)."""
    from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection  # loads slowly

    make = {"gaussian": GaussianRandomProjection, "sparse": SparseRandomProjection}[kind]
    components = make(n_components=m, random_state=seed).fit(sp.csr_matrix((2, d))).components_
    return components.T.tocsr() if sp.issparse(components) else np.ascontiguousarray(components.T)


def _dense(rows: Any) -> Array:
    return np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows)


def _orthonormal(columns: Array, dtype: Any) -> Array:
    """Orthonormal basis of the span of columns; directions at rounding level are dropped."""
    with sharing(1):  # pivots are found column by column, by products too small to share
        q, r, _ = qr(columns, mode="economic", pivoting=True, check_finite=False)
    size = np.abs(np.diag(r))
    kept = size > size.max(initial=0.0) * max(columns.shape) * np.finfo(dtype).eps
    return np.ascontiguousarray(q[:, : len(size)][:, kept], dtype)


def _some(basis: Array) -> Array:
    """A basis of one direction at least: compiled loops take no rows without coordinates."""
    return basis if basis.shape[1] else np.eye(len(basis), 1, dtype=basis.dtype)


def _combined(state: Matrices, shared: float, local: Array) -> Array:
    """shared (U - I) + sum_c local_c (L_c - I)."""
    total = shared * (state.shared - state.start)
    for code in np.flatnonzero(state.slots >= 0).tolist():
        total += local[code] * (state.local(code) - state.start)
    return total


def _carry_over(old: Matrices, turn: Array, new: Matrices, share: float) -> None:
    """A share of old's deviations from the start, in the coordinates of another basis, added to new."""
    if share == 0.0:
        return
    turn = turn * turn.dtype.type(np.sqrt(share))
    new.shared += turn @ (old.shared - old.start) @ turn.T
    codes = np.flatnonzero(old.slots >= 0).astype(np.int32)
    new.allocate(codes)
    for code in codes.tolist():
        new.stack[new.slot(code)] += turn @ (old.local(code) - old.start) @ turn.T


def _refolded(parts: list[Any], weights: Array) -> Any:
    """Weighted sum of folded parts, in a basis of all they span."""
    held = [(part, weight) for part, weight in zip(parts, weights, strict=True) if part is not None]
    if not held:
        return None
    bases = [part[0] for part, _ in held]
    if all(basis.shape == bases[0].shape and (basis == bases[0]).all() for basis in bases):
        basis = bases[0]
    else:
        basis = _orthonormal(np.hstack(bases), bases[0].dtype)
    sums = []
    for which in (1, 2):
        total = Matrices(np.eye(basis.shape[1], dtype=basis.dtype), held[0][0][which].symmetric)
        for part, weight in held:
            _carry_over(part[which], basis.T @ part[0], total, weight)
        sums.append(total)
    return basis, *sums
