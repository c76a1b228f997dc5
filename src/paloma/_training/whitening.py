"""Whitening: the matrix form of `scale`, from differences of rows that should be near each other (theory 21).

Rows become X W with W = S^(-1/4), S the scatter of target differences x_i - x_t: directions in which rows of one class
differ much count less, by half of what full whitening would take. S is shrunk toward a multiple of the identity by
Ledoit and Wolf (2004), so that few differences give W near a multiple of the identity: a start is never wild.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from .._rows import evenly_spaced, squared_norms
from .._typing import Array, Rows

# Up to this many features a d x d whitener is made unless another form is asked for.
MAX_FULL = 1536
# Exponent of the eigenvalues of S in W W: 0 is plain rows, 1 is full whitening.
POWER = 0.5
# Eigenvalues count as at least this share of the largest.
FLOOR = 1e-10
# Distinct differences that are looked at, evenly spaced among all of them.
MAX_DIFFERENCES = 50_000
TILE = 4096


def whitener_of(form: str, X: Rows, pairs: Array, units: Array | None = None) -> Array | None:
    """W, of determinant 1, from rows whose `pairs` should be near: (d, d) if "full", (d,) if "diagonal".

    None if the form is "scalar", or if there is no pair of different rows to tell. units : X is given divided by them,
    and W is for X in its own units.
    """
    if form == "scalar" or not len(pairs):
        return None
    keys = evenly_spaced(np.unique(pairs[:, 0] * X.shape[0] + pairs[:, 1]), MAX_DIFFERENCES)
    pairs = np.stack(np.divmod(keys, X.shape[0]), axis=1)
    whitener = full_whitener if form == "full" else diagonal_whitener
    found = whitener(_differences(X, pairs), len(pairs), X.shape[1])
    return found if found is None or units is None else _undivided(found, units)


def _undivided(whitener: Array, units: Array) -> Array:
    """What maps X as this one maps X / units, of determinant 1: its rows divided by the units."""
    logs = np.log(units)
    share = np.exp(logs.mean() - logs)
    return whitener * share if whitener.ndim == 1 else share[:, None] * whitener


def _differences(X: Rows, pairs: Array) -> Iterator[Any]:
    for a in range(0, len(pairs), TILE):
        part = pairs[a : a + TILE]
        yield (X[part[:, 0]] - X[part[:, 1]]).astype(np.float64)


def full_whitener(differences: Iterator[Array], n: int, d: int) -> Array | None:
    """W, symmetric; the shrinkage is Ledoit and Wolf's for the scatter about 0."""
    scatter, fourth = np.zeros((d, d)), 0.0
    for rows in differences:
        scatter += rows.T @ rows
        fourth += float((squared_norms(rows) ** 2).sum())
    scatter /= n
    squares, mean = float((scatter**2).sum()), float(np.trace(scatter)) / d
    if mean <= 0.0:
        return None
    weight = _shrinkage(squares - d * mean * mean, max(fourth / n - squares, 0.0) / n)
    values, vectors = eigh((1.0 - weight) * scatter + weight * mean * np.eye(d), driver="evd")
    return (vectors * _powers(values)) @ vectors.T


def diagonal_whitener(differences: Iterator[Any], n: int, d: int) -> Array | None:
    """The diagonal of W if columns are weighed one by one: for learners that hold no d x d matrix, and CSR rows."""
    variances, fourth = np.zeros(d), 0.0
    for rows in differences:
        squares = rows.multiply(rows) if sp.issparse(rows) else rows * rows
        variances += np.asarray(squares.sum(axis=0)).ravel()
        fourth += float((squares.multiply(squares) if sp.issparse(squares) else squares**2).sum())
    variances /= n
    mean = float(variances.mean())
    if mean <= 0.0:
        return None
    noise = max(fourth / n - float((variances**2).sum()), 0.0) / n
    weight = _shrinkage(float(((variances - mean) ** 2).sum()), noise)
    return _powers((1.0 - weight) * variances + weight * mean)


def _shrinkage(distance: float, noise: float) -> float:
    """The weight of the identity: the noise of the scatter over its squared distance from multiples of the identity."""
    return min(noise / distance, 1.0) if distance > 0.0 else 1.0


def _powers(values: Array) -> Array:
    """values^(-POWER / 2), their product 1."""
    values = np.maximum(values, FLOOR * values.max())
    return np.exp(-0.5 * POWER * (np.log(values) - np.log(values).mean()))
