"""Whitening: the matrix form of `scale`, from differences of rows that should be near each other (theory 21).

Rows become X W with W = S^(-1/4), S the scatter of target differences x_i - x_t: directions in which rows of one class
differ much count less, by half of what full whitening would take. S is shrunk toward a multiple of the identity by
Ledoit and Wolf (2004), so that few differences give W near a multiple of the identity: a start is never wild.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from .._reading.whiteners import Columns, Full, LowRank, Whitener
from .._rows import evenly_spaced, squared_norms
from .._search.directions import orthonormal
from .._typing import Array, Rows

# Up to this many features a d x d whitener is made unless another form is asked for.
MAX_FULL = 1536
# Directions that a whitener without a d x d matrix stretches, and how many more are looked at to find them.
DIRECTIONS, MORE = 64, 8
# Exponent of the eigenvalues of S in W W, unless rows judge: 0 is plain rows, 1 is full whitening.
POWER = 0.5
# Eigenvalues count as at least this share of the largest.
FLOOR = 1e-10
# Distinct differences that are looked at, evenly spaced among all of them.
MAX_DIFFERENCES = 50_000
# Differences, and numbers, that are held at a time.
TILE, TILE_NUMBERS = 4096, 1 << 23


def whitener_from(
    form: str, X: Rows, pairs: Array, units: Array | None = None, power: float = POWER
) -> Whitener | None:
    """W, of determinant 1, from rows whose `pairs` should be near.

    None if the form is "scalar", or if there is no pair of different rows to tell. units : X is given divided by them,
    and W is for X in its own units. power : exponent of the eigenvalues of S in W W; 0 takes nothing but the units.
    """
    if form == "scalar" or not len(pairs):
        return None
    if not power:
        return None if units is None else Columns(np.ones(X.shape[1])).divided(units)
    keys = evenly_spaced(np.unique(pairs[:, 0] * X.shape[0] + pairs[:, 1]), MAX_DIFFERENCES)
    pairs = np.stack(np.divmod(keys, X.shape[0]), axis=1)
    whitener: Callable[..., Whitener | None] = FORMS[form]
    held = list(_differences(X, pairs)) if len(pairs) * X.shape[1] <= TILE_NUMBERS else []
    found = whitener(lambda: iter(held or _differences(X, pairs)), len(pairs), X.shape[1], power)
    return found if found is None or units is None else found.divided(units)


def _differences(X: Rows, pairs: Array) -> Iterator[Any]:
    step = max(1, min(TILE, TILE_NUMBERS // X.shape[1]))
    for a in range(0, len(pairs), step):
        part = pairs[a : a + step]
        yield X[part[:, 0]] - X[part[:, 1]]


def _double(rows: Any) -> Any:
    return rows.astype(np.float64, copy=False)


def full_whitener(differences: Callable[[], Iterator[Array]], n: int, d: int, power: float = POWER) -> Full | None:
    """W, symmetric; the shrinkage is Ledoit and Wolf's for the scatter about 0."""
    scatter, fourth = np.zeros((d, d)), 0.0
    for rows in map(_double, differences()):
        scatter += rows.T @ rows
        fourth += float((squared_norms(rows) ** 2).sum())
    scatter /= n
    squares, mean = float((scatter**2).sum()), float(np.trace(scatter)) / d
    if mean <= 0.0:
        return None
    weight = _shrinkage(squares - d * mean * mean, max(fourth / n - squares, 0.0) / n)
    values, vectors = eigh((1.0 - weight) * scatter + weight * mean * np.eye(d), driver="evd")
    return Full((vectors * _powers(values, power)) @ vectors.T)


def low_rank_whitener(
    differences: Callable[[], Iterator[Array]], n: int, d: int, power: float = POWER
) -> LowRank | None:
    """The same of a scatter that has all of its other eigenvalues equal, for learners that hold no d x d matrix."""
    norms = np.concatenate([squared_norms(rows) for rows in differences()])
    trace, r = float(norms.mean()), min(DIRECTIONS, d)
    if trace <= 0.0:
        return None
    basis = np.random.default_rng(0).standard_normal((d, min(r + MORE, d)))
    for _ in range(2):
        basis = orthonormal(sum(_double(rows.T @ (rows @ basis.astype(rows.dtype))) for rows in differences()))
    images = (_double(rows @ basis.astype(rows.dtype)) for rows in differences())
    values, turn = eigh(sum(image.T @ image for image in images) / n, driver="evd")
    values, directions = np.maximum(values[-r:], 0.0), basis @ turn[:, -r:]
    others = max(trace - float(values.sum()), 0.0) / max(d - r, 1)
    mean, squares = trace / d, float(values @ values) + (d - r) * others * others
    weight = _shrinkage(squares - d * mean * mean, max(float((norms**2).mean()) - squares, 0.0) / n)
    powers = _powers((1.0 - weight) * np.append(values, np.full(d - r, others)) + weight * mean, power)
    rest = powers[-1] if d > r else 1.0
    return LowRank(Columns(np.full(d, rest)), directions, powers[:r] / rest - 1.0)


def diagonal_whitener(differences: Callable[[], Iterator[Any]], n: int, d: int, power: float = POWER) -> Columns | None:
    """The diagonal of W if columns are weighed one by one: for CSR rows."""
    variances, fourth = np.zeros(d), 0.0
    for rows in map(_double, differences()):
        squares = rows.multiply(rows) if sp.issparse(rows) else rows * rows
        variances += np.asarray(squares.sum(axis=0)).ravel()
        fourth += float((squares.multiply(squares) if sp.issparse(squares) else squares**2).sum())
    variances /= n
    mean = float(variances.mean())
    if mean <= 0.0:
        return None
    noise = max(fourth / n - float((variances**2).sum()), 0.0) / n
    weight = _shrinkage(float(((variances - mean) ** 2).sum()), noise)
    return Columns(_powers((1.0 - weight) * variances + weight * mean, power))


FORMS = {"full": full_whitener, "low-rank": low_rank_whitener, "diagonal": diagonal_whitener}


def _shrinkage(distance: float, noise: float) -> float:
    """The weight of the identity: the noise of the scatter over its squared distance from multiples of the identity."""
    return min(noise / distance, 1.0) if distance > 0.0 else 1.0


def _powers(values: Array, power: float) -> Array:
    """values^(-power / 2), their product 1."""
    values = np.maximum(values, FLOOR * values.max())
    return np.exp(-0.5 * power * (np.log(values) - np.log(values).mean()))
