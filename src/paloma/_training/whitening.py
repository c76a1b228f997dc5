"""Whitening: the matrix form of `scale`, from differences of rows that should be near each other (theory 21).

Rows become X W with W = S^(-1/4), S the scatter of target differences x_i - x_t: directions in which rows of one class
differ much count less, by half of what full whitening would take. S is shrunk toward a multiple of the identity by
Ledoit and Wolf (2004), so that few differences give W near a multiple of the identity: a start is never wild.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from .._reading.whiteners import Columns, Full, LowRank, Whitener
from .._rows import evenly_spaced, squared_distances, squared_norms
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
    found = whitener(Pairs(X, pairs), power)
    return found if found is None or units is None else found.divided(units)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Rows, and the numbers of those that should be near each other, (n, 2)."""

    X: Rows
    numbers: Array

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    def differences(self) -> Iterator[Any]:
        """Some of the differences at a time."""
        for part in _tiles(len(self), self.d):
            i, j = self.numbers[part].T
            yield self.X[i] - self.X[j]


def _tiles(n: int, d: int) -> list[slice]:
    step = max(1, min(TILE, TILE_NUMBERS // d))
    return [slice(a, a + step) for a in range(0, n, step)]


def _double(rows: Any) -> Any:
    return rows.astype(np.float64, copy=False)


def full_whitener(pairs: Pairs, power: float = POWER) -> Full | None:
    """W, symmetric; the shrinkage is Ledoit and Wolf's for the scatter about 0."""
    n, d = len(pairs), pairs.d
    scatter, fourth = np.zeros((d, d)), 0.0
    for rows in map(_double, pairs.differences()):
        scatter += rows.T @ rows
        fourth += float((squared_norms(rows) ** 2).sum())
    scatter /= n
    squares, mean = float((scatter**2).sum()), float(np.trace(scatter)) / d
    if mean <= 0.0:
        return None
    weight = _shrinkage(squares - d * mean * mean, max(fourth / n - squares, 0.0) / n)
    values, vectors = eigh((1.0 - weight) * scatter + weight * mean * np.eye(d), driver="evd")
    return Full((vectors * _powers(values, power)) @ vectors.T)


def low_rank_whitener(pairs: Pairs, power: float = POWER) -> LowRank | None:
    """The same of a scatter that has all of its other eigenvalues equal, for learners that hold no d x d matrix.

    Products with differences are formed as differences of products with the rows, which are fewer.
    """
    X, n, d, dtype = pairs.X, len(pairs), pairs.d, pairs.X.dtype
    norms = squared_distances(X, *pairs.numbers.T)
    trace, r = float(norms.mean()), min(DIRECTIONS, d)
    if trace <= 0.0:
        return None
    numbers, ends = np.unique(pairs.numbers, return_inverse=True)
    signs = np.tile(np.array([1.0, -1.0], dtype), n)
    apart = sp.csr_matrix((signs, ends.ravel(), np.arange(0, 2 * n + 1, 2)), (n, len(numbers)))
    center = X[evenly_spaced(numbers, TILE)].mean(axis=0, dtype=np.float64).astype(dtype)
    tiles = _tiles(len(numbers), d)
    held = [X[numbers[part]] - center for part in tiles] if len(numbers) * d <= TILE_NUMBERS else []

    def points() -> Iterator[Array]:
        return iter(held or (X[numbers[part]] - center for part in tiles))

    basis = np.random.default_rng(0).standard_normal((d, min(r + MORE, d)))

    def images() -> Array:
        """Of the differences, in the basis."""
        return np.asarray(apart @ np.concatenate([rows @ basis.astype(dtype) for rows in points()]))

    for _ in range(2):
        moved = apart.T @ images()
        basis = orthonormal(sum(_double(rows.T @ moved[part]) for rows, part in zip(points(), tiles, strict=True)))
    inside = _double(images())
    values, turn = eigh(inside.T @ inside / n, driver="evd")
    values, directions = np.maximum(values[-r:], 0.0), basis @ turn[:, -r:]
    others = max(trace - float(values.sum()), 0.0) / max(d - r, 1)
    mean, squares = trace / d, float(values @ values) + (d - r) * others * others
    weight = _shrinkage(squares - d * mean * mean, max(float((norms**2).mean()) - squares, 0.0) / n)
    powers = _powers((1.0 - weight) * np.append(values, np.full(d - r, others)) + weight * mean, power)
    rest = powers[-1] if d > r else 1.0
    return LowRank(Columns(np.full(d, rest)), directions, powers[:r] / rest - 1.0)


def diagonal_whitener(pairs: Pairs, power: float = POWER) -> Columns | None:
    """The diagonal of W if columns are weighed one by one: for CSR rows."""
    n = len(pairs)
    variances, fourth = np.zeros(pairs.d), 0.0
    for rows in map(_double, pairs.differences()):
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
