"""Projection onto the cone of p.s.d. matrices, and the constrained step (theory 3, 6.2 and 6.4)."""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, lapack

from .._compiled.tridiagonal import count_below, lowest_pairs
from .._typing import Array

# With fewer rows LAPACK finds all eigenpairs in no time.
NARROW = 32
# Eigenpairs of a tridiagonal matrix that are found at once: caches hold their vectors.
LANES = 64
# Residuals, as shares of the norm, and what orthogonality may lack before it is made up for: else LAPACK finds all.
RESIDUAL, SKEW = 1e-13, 1e-9


def project(matrix: Array) -> Array:
    """P_+: the nearest p.s.d. matrix of the symmetric part in Frobenius norm."""
    symmetric = (matrix + matrix.T) / 2
    if _definite(symmetric):
        return symmetric
    less, values, vectors = smaller_side(symmetric)
    part = (vectors * values) @ vectors.T
    return symmetric - part if less else part


def afresh(_: Hashable, matrix: Array) -> Array:
    """P_+ of a matrix of this name, whatever it was before: what `Follower.project` does that knows nothing."""
    return project(matrix)


def lifted(matrix: Array, floor: float) -> Array:
    """A symmetric matrix, if it is positive definite; otherwise the nearest one without eigenvalues below a floor."""
    if _definite(matrix):
        return matrix
    shift = matrix.dtype.type(floor) * np.eye(len(matrix), dtype=matrix.dtype)
    return project(matrix - shift) + shift


def smaller_side(symmetric: Array) -> tuple[bool, Array, Array]:
    """The eigenvalues of one sign and their vectors, whichever are fewer: (True, ...) those below 0."""
    found = _reduced(symmetric) if len(symmetric) >= NARROW else None
    if found is not None:
        return found
    values, vectors = eigh(symmetric, driver="evd", check_finite=False)
    less = 2 * int((values < 0.0).sum()) <= len(values)
    side = values < 0.0 if less else values > 0.0
    return less, values[side], vectors[:, side]


def _reduced(symmetric: Array) -> tuple[bool, Array, Array] | None:
    """The same by way of a tridiagonal matrix; None if vectors of eigenvalues that are very near are not told apart."""
    d, dtype = len(symmetric), symmetric.dtype
    reduce, rotate = (lapack.ssytrd, lapack.sormqr) if dtype == np.float32 else (lapack.dsytrd, lapack.dormqr)
    reflections, *bands, scales, _ = reduce(symmetric.T, lower=1, lwork=LANES * d)
    size = float(max(np.abs(band).max() for band in bands)) or 1.0
    diagonal, beside = (band / size for band in map(np.float64, bands))
    n = int(count_below(diagonal, beside * beside, np.zeros(1))[0])
    sign = 1.0 if 2 * n <= d else -1.0
    if sign < 0.0:
        diagonal, beside = -diagonal, -beside
        n = int(count_below(diagonal, beside * beside, np.zeros(1))[0])
    values, vectors, left = np.zeros(n), np.empty((d, n)), 0.0
    for a in range(0, n, LANES):
        part, places = slice(a, a + LANES), np.arange(a, min(a + LANES, n), dtype=np.float64)
        some = np.empty((d, len(places)))
        left = max(left, lowest_pairs(diagonal, beside, places, values[part], some))
        vectors[:, part] = some
    skew = vectors.T @ vectors - np.eye(n)
    if not (left <= RESIDUAL and np.abs(skew).max(initial=0.0) <= SKEW):
        return None
    vectors = np.asfortranarray(vectors - vectors @ skew / 2, dtype)
    vectors[1:] = rotate("L", "N", reflections[1:, :-1], scales, vectors[1:], lwork=LANES * d)[0]
    return sign > 0.0, (sign * size * values).astype(dtype), vectors


def project_each(stack: Array) -> Array:
    """P_+ of each of many small matrices, (n, d, d), in a few calls; the same bits whatever the others are."""
    symmetric = (stack + stack.transpose(0, 2, 1)) / 2
    values, vectors = np.linalg.eigh(symmetric)
    projected = (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.transpose(0, 2, 1)
    return np.where((values[:, 0] >= 0.0)[:, None, None], symmetric, projected)


# Shares of the mean eigenvalue by which a matrix may stand off from the border of the cone, tried in this order.
DISTANCES = (0.05, 0.005)
# Rounds of following before the eigenproblem is solved again.
ROUNDS = 8


class Solved:
    """A symmetric matrix whose P_+ is known: that of a matrix near it follows without an eigenproblem (theory 6.4).

    projected : P_+ of the matrix itself. radius : how far, in Frobenius norm, another one may be away.
    """

    def __init__(self, matrix: Array) -> None:
        self.matrix = self.projected = matrix = matrix.copy()  # learning moves matrices in place
        typical = float(np.trace(matrix)) / len(matrix)
        for share in DISTANCES:
            if typical > 0.0 and _definite(matrix, share * typical):
                self.radius, self._less, self._vectors = 0.5 * share * typical, True, np.empty((0, 0))
                return
        values, vectors = eigh(matrix, driver="evd", check_finite=False)
        self.radius, n = float(np.abs(values).min()) / 4, int((values < 0).sum())
        self._less = 2 * n <= len(values)  # P_+ is the matrix less its negative part, or is its positive part
        part, rest = (slice(0, n), slice(n, None)) if self._less else (slice(n, None), slice(0, n))
        self._vectors, self._rest = vectors[:, part], vectors[:, rest]
        self._gaps = values[rest, None] - values[part]
        own = (self._vectors * values[part]) @ self._vectors.T
        self.projected = matrix - own if self._less else own

    def near(self, matrix: Array) -> Array | None:
        """P_+ of another matrix; None if it is too far away."""
        moved = matrix - self.matrix
        distance = float(np.sqrt(np.vdot(moved, moved)))
        if not distance <= self.radius:
            return None
        if not self._vectors.shape[1]:
            return matrix if self._less else np.zeros_like(matrix)
        return self._followed(matrix, moved, distance)

    def _followed(self, matrix: Array, moved: Array, distance: float) -> Array | None:
        """By the part B = V + W X of the eigenspaces of one sign, X from its Riccati equation by fixed-point rounds."""
        V, W, gaps = self._vectors, self._rest, self._gaps
        image = moved @ V
        across, inside = W.T @ image, V.T @ image
        X = -across / gaps
        rate, enough = 2.0 * distance / float(np.abs(gaps).min()), 4.0 * float(np.finfo(X.dtype).eps)
        for _ in range(ROUNDS):
            image = moved @ (W @ X)
            previous, X = X, -(across + W.T @ image - X @ (inside + V.T @ image)) / gaps
            if float(np.abs(X - previous).max()) * rate <= enough:
                break
        else:
            return None
        basis = V + W @ X
        own = (matrix @ basis) @ np.linalg.solve(np.eye(V.shape[1], dtype=X.dtype) + X.T @ X, basis.T)
        return matrix - own if self._less else own


@dataclass(eq=False)
class Follower:
    """P_+ of matrices that move a little from one read-out to the next, each known by a name.

    What is known of a matrix is true of it whatever its name: names only say where to look. Copies know nothing yet.
    """

    _known: dict[Hashable, Solved] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Follower, ()

    @property
    def knows(self) -> bool:
        """Whether any matrix is known."""
        return bool(self._known)

    def project(self, name: Hashable, matrix: Array) -> Array:
        """P_+ of a symmetric matrix."""
        known = self._known.get(name)
        if known is not None and known.matrix.shape == matrix.shape:
            near = known.near(matrix)
            if near is not None:
                return near
        solved = self._known[name] = Solved(matrix)
        return solved.projected


def _definite(matrix: Array, distance: float = 0.0) -> bool:
    """Whether all eigenvalues of a symmetric matrix are larger than this."""
    shifted = matrix.copy()
    shifted[np.diag_indices(len(matrix))] -= matrix.dtype.type(distance)
    try:
        cholesky(shifted.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


def share_below(matrix: Array, other: Array) -> float:
    """The largest share s of 0, 1/16, ..., 15/16 for which matrix - s other is p.s.d., as the two are."""
    low, high, rounding = 0, 16, float(np.finfo(matrix.dtype).eps * np.trace(matrix))
    while high - low > 1:
        middle = (low + high) // 2
        if _definite(matrix - matrix.dtype.type(middle / 16) * other, rounding):
            low = middle
        else:
            high = middle
    return low / 16


def smallest_pair(matrix: Array) -> tuple[float, Array]:
    """Smallest eigenvalue and its vector; at most one is negative after one step from a p.s.d. matrix (theory 3)."""
    values, vectors = eigh(matrix, subset_by_index=[0, 0], check_finite=False)
    return float(values[0]), vectors[:, 0]


def project_one(matrix: Array) -> None:
    """P_+ in place for a matrix with at most one negative eigenvalue: M - lambda_min v v^T."""
    value, vector = smallest_pair(matrix)
    if value < 0:
        matrix -= value * np.outer(vector, vector)


def exact_tau(blocks: list[tuple[Array, Array, Array]], margin: float, C: float) -> float:
    """tau* of theory 6.2: root of g(tau) = m + <P_+(Theta - tau Psi), Psi>, non-increasing, capped at C.

    Each block is (matrix, vectors, signs) with its part of Psi equal to sum_k signs_k v_k v_k^T.
    """

    def gap(tau: float) -> float:
        total = margin
        for matrix, vectors, signs in blocks:
            moved = matrix - tau * (vectors.T * signs) @ vectors
            total += signs @ ((vectors @ moved) * vectors).sum(axis=1)
            value, vector = smallest_pair(moved)
            if value < 0:
                total -= value * (signs @ (vectors @ vector) ** 2)
        return float(total)

    if gap(0.0) <= 0:
        return 0.0
    if np.isfinite(C):
        high = C
    else:
        high = 1.0
        while gap(high) > 0 and high < 1e12:
            high *= 4
    if gap(high) >= 0:
        return high
    from scipy.optimize import brentq  # loads slowly, and few need it

    return float(brentq(gap, 0.0, high, xtol=1e-15 * high, rtol=8.9e-16, maxiter=200))
