"""Where learning from few statements starts: a geometric mean of two scatters (theory 25; GMML, Zadeh et al. 2016).

M = W W, W = S^-1 # D, with S the scatter of pairs that should be near and D that of pairs that should not. Both are
shrunk toward the scatter of all rows as if PRIOR statements had said that; without statements S = D and M is the
identity, and no direction moves before statements tell it from the rest.
"""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from .._rows import evenly_spaced
from .._threads import single
from .._typing import Array

# Statements that the scatter of all rows counts for.
PRIOR = 30.0
# Weight of a statement in D, of one in S it is 1: irrelevant results are those that came near, not any.
FAR_WEIGHT = 0.2
# Eigenvalues count as at least this share of the largest; the trace is no less than that.
FLOOR = 1e-9
# Items that vary less count as all alike: one over it must be a number.
LEAST_SPREAD = 1e-200
# Rows that the scatter of all rows is taken from, evenly spaced.
MAX_ROWS = 20_000


def scatter_of(X: Array) -> tuple[Array, float]:
    """Covariance of rows divided by its mean eigenvalue, and that; a little is added to all directions."""
    rows = evenly_spaced(X, MAX_ROWS).astype(np.float64)
    rows = rows - rows.mean(axis=0)
    spread = float((rows * rows).mean())
    with single():
        scatter = rows.T @ rows
    return _unit(scatter, np.eye(len(scatter))), spread if spread > LEAST_SPREAD else 1.0


def root_of(near: Array, n_near: float, far: Array, n_far: float, whole: Array) -> Array:
    """W = S^-1 # D, from scatters of differences of rows, of so many statements; with S = F F^T it is
    F^-T (F^T D F)^1/2 F^-1.
    """
    similar, other = _shrunk(near, n_near, whole), _shrunk(far, FAR_WEIGHT * n_far, whole)
    least = FLOOR * np.trace(similar)
    factor = cholesky(similar + least * np.eye(len(whole)), lower=True, check_finite=False)
    middle = solve_triangular(factor, _half(factor.T @ other @ factor), lower=True, trans="T")
    root = solve_triangular(factor, middle.T, lower=True, trans="T")
    return 0.5 * (root + root.T)


def _half(matrix: Array) -> Array:
    """The square root of a symmetric matrix, p.s.d. up to rounding."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return (vectors * np.sqrt(np.maximum(values, FLOOR * values[-1]))) @ vectors.T


def _shrunk(scatter: Array, n: float, whole: Array) -> Array:
    if not scatter.any():
        return whole
    return (n * _unit(scatter, 0.0) + PRIOR * whole) / (n + PRIOR)


def _unit(scatter: Array, least: Array | float) -> Array:
    """Of mean eigenvalue 1; `least` of 1e-6 is added, or all of it if there is nothing else."""
    mean = np.trace(scatter) / len(scatter)
    return scatter / mean + 1e-6 * least if mean > 0 else np.eye(len(scatter))
