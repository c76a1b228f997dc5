"""Rows in their strongest directions, and mining there: candidates by few coordinates, then the rows themselves.

With coordinates z = V^T (x - center) in orthonormal directions V, and what rows have beyond them taken as orthogonal,
|x - y|^2 is about |x - center|^2 + |y - center|^2 - 2 <z, w>. This ranks candidates; distances that decide among them
are formed from the rows.
"""

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from .._rows import evenly_spaced
from .._typing import Array, Rows
from .._validation import read_only
from . import euclid
from .tiles import Items, mutual_nearest, nearest

# Directions that candidates are found in, and how many candidates each row has for each neighbor that is wanted.
DIRECTIONS, CANDIDATES = 256, 5.0
# Fewer rows, or features, are compared as they are: finding directions would take longer.
FEWEST_ROWS, FEWEST_FEATURES = 4000, 800
# Rows that directions are found from, evenly spaced; more if so many for each direction are.
SAMPLE, EACH = 1024, 5


def strongest(X: Rows, n: int) -> Array:
    """(d, n) orthonormal: the strongest n directions of rows, by two rounds from random ones (Halko et al. 2011)."""
    some = np.random.default_rng(0).standard_normal((X.shape[0], n)).astype(X.dtype)
    return orthonormal(X.T @ (X @ orthonormal(X.T @ some)))


def in_strongest(X: Rows, most: int) -> Rows:
    """Rows in coordinates of their span, or of its strongest directions if it has clearly more than so many; CSR rows
    of few directions stay as they are.
    """
    n, d = X.shape
    if min(n, d) > 1.25 * most:
        return read_only(np.asarray(X @ strongest(evenly_spaced(X, max(SAMPLE, EACH * most)), most)))
    if n >= d or sp.issparse(X):
        return X
    return read_only(np.ascontiguousarray(qr(X.T.astype(np.float64), mode="economic")[1].T, X.dtype))


def orthonormal(columns: Array) -> Array:
    """Orthonormal basis of as many columns."""
    return qr(columns, mode="economic", check_finite=False)[0]


def is_many(X: Rows, n: int) -> bool:
    """Whether n of these rows are so many, of so many features, that candidates are worth finding in few directions."""
    return not sp.issparse(X) and n >= FEWEST_ROWS and X.shape[1] >= FEWEST_FEATURES


def neighbors_by_directions(
    X: Array, codes: Array, anchors: Array, n_targets: int, n_impostors: int
) -> tuple[Array, Array, Array, Array, float]:
    """As `euclid.neighbors_by_class`; of many rows of many features, one impostor in a hundred may be missed."""
    n = len(X)
    if not is_many(X, n):
        return euclid.neighbors_by_class(X, codes, anchors, n_targets, n_impostors)
    center = euclid.center_of(X)
    directions = strongest(evenly_spaced(X, SAMPLE) - center, DIRECTIONS)
    inside = X @ directions - center @ directions
    whole = euclid.euclidean(X, codes, center)
    items = Items(n, lambda part: (inside[part],), whole.alpha, whole.table, codes, whole.constants)
    reach = min(int(CANDIDATES * n_impostors), n)
    if np.array_equal(anchors, np.arange(n)):
        found = mutual_nearest(items, reach)
    else:
        found = nearest(
            lambda part: inside[anchors[part]],
            len(anchors), items, reach, own=anchors, query_classes=codes[anchors], others=True,
        )[1]  # fmt: skip
    targets = euclid.closest_of_class(X, codes, anchors, n_targets, center)
    return *targets, *euclid.closest(X, anchors, found, n_impostors), float(whole.constants.mean())
