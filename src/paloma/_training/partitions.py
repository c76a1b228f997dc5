"""Neighbors among rows that lie in several partitions: the k nearest of all are among the k nearest of each.

So every partition is searched by itself, and what was found is merged by (value, number): exact, whatever the order
in which partitions come, and no partition needs to be next to another for longer than one search.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._rows import stacked
from .._search.euclid import by_class, closest, euclidean
from .._search.tiles import SPARE, nearest
from .._typing import Array
from .mining import within
from .parts import Near
from .reservoir import Reservoir


def merged(found: list[tuple[Array, ...]], k: int) -> Any:
    """The k smallest of several (values, numbers, ...), row by row; ties go to the smaller number."""
    columns = [np.concatenate(each, axis=1) for each in zip(*found, strict=True)]
    order = np.lexsort((columns[1], columns[0]), axis=1)[:, :k]
    return tuple(np.take_along_axis(column, order, 1) for column in columns)


@dataclass
class Partition:
    """Rows with a class, and their numbers in the whole data, ascending."""

    X: Any
    codes: Array
    numbers: Array


@dataclass
class Found:
    """Targets and impostors of the rows of one partition so far: (squared distances, numbers), nearest first."""

    targets: tuple[Array, Array]
    impostors: tuple[Array, Array]
    norms: float = 0.0
    total: Any = 0.0

    @classmethod
    def nothing(cls, n: int, n_targets: int, n_impostors: int) -> "Found":
        targets, impostors = (
            (np.full((n, k), np.inf), np.full((n, k), -1, np.int64)) for k in (n_targets, n_impostors)
        )
        return cls(targets, impostors)

    def near(self, numbers: Array, slack: float, least: int) -> Near:
        """The neighbors that `paloma.triplets.mine` pairs, by their numbers in the whole data."""
        (reaches, targets), (distances, impostors) = self.targets, self.impostors
        return Near(numbers, targets, within(impostors, distances, targets, reaches, slack, least))


def meet(found: Found, own: Partition, other: Partition, center: Array | None) -> Found:
    """Let the rows of `own` look for targets and impostors in `other`, which may be `own` itself.

    center : about the mean of all rows, None for CSR. The rows of `own`, and their squared norms about it, are added up
    when it meets itself: what `spread` needs.
    """
    same, n = own is other, own.X.shape[0]
    if not n or not other.X.shape[0]:
        return found
    X = own.X if same else stacked([own.X, other.X])
    codes = own.codes if same else np.concatenate([own.codes, other.codes])
    anchors, first = np.arange(n), 0 if same else n
    items = euclidean(other.X, other.codes, center)
    reach = min(found.impostors[0].shape[1] + SPARE[0], other.X.shape[0])
    impostors = nearest(
        lambda part: own.X[part] if center is None else own.X[part] - center,
        n, items, reach, own=anchors if same else None, query_classes=own.codes, others=True,
    )[1]  # fmt: skip
    reach = min(found.targets[0].shape[1] + SPARE[0], other.X.shape[0])
    targets = by_class(X, codes, anchors, reach, center, np.arange(first, X.shape[0]))
    numbers = np.append(other.numbers, -1)
    pairs = []
    for old, new in ((found.targets, targets), (found.impostors, np.where(impostors < 0, -1, impostors + first))):
        k = old[0].shape[1]
        rows, distances = closest(X, anchors, new, k)
        pairs.append(merged([old, (distances, numbers[np.where(rows < 0, -1, rows - first)])], k))
    if not same:
        return Found(pairs[0], pairs[1], found.norms, found.total)
    return Found(pairs[0], pairs[1], float(items.constants.sum()), total_of(own.X))


def spread(norms: list[float], totals: list[Any], n: int, center: Array | None) -> float:
    """Mean squared distance of two of n rows, from the sums of rows and of their squared norms about a center."""
    mean = sum(totals) / n - (0.0 if center is None else center.astype(np.float64))
    return 2.0 * (sum(norms) / n - float(mean @ mean))


def center_of(total: Array, n: int, dtype: Any, sparse: bool) -> Array | None:
    """Mean row, in the precision of the rows; none for CSR, which a shift would fill."""
    return None if sparse else (total / max(n, 1)).astype(dtype)


def total_of(X: Any) -> Array:
    """Sum of the rows, float64."""
    return np.asarray(X.sum(axis=0), np.float64).ravel() if sp.issparse(X) else X.sum(axis=0, dtype=np.float64)


def one_reservoir(reservoirs: list[Reservoir], rng: np.random.Generator) -> Reservoir:
    """A uniform sample of each class's rows over all partitions, from such samples of each.

    How many rows each gives is what drawing without replacement from all of them would give (hypergeometric); of
    windows the last rows are kept.
    """
    size = reservoirs[0].size
    out = Reservoir(size, reservoirs[0].window)
    out.seen = np.zeros(max(len(r.seen) for r in reservoirs), np.int64)
    seen = np.array([np.pad(r.seen, (0, len(out.seen) - len(r.seen))) for r in reservoirs])
    taken: list[tuple[Any, Array]] = []
    for code in np.flatnonzero(seen.sum(axis=0)).tolist():
        counts = seen[:, code]
        shares = rng.multivariate_hypergeometric(counts, min(size, int(counts.sum())))
        if out.window:
            later = np.cumsum(counts[::-1])[::-1] - counts
            shares = np.clip(size - later, 0, np.minimum(counts, size))
        for reservoir, share in zip(reservoirs, shares, strict=True):
            held = np.flatnonzero(reservoir.codes == code)
            chosen = np.sort(rng.choice(held, min(share, len(held)), replace=False))
            if len(chosen):
                taken.append((reservoir.rows[chosen], reservoir.codes[chosen]))
    if taken:
        out.add(stacked([rows for rows, _ in taken]), np.concatenate([codes for _, codes in taken]), rng)
    out.seen = seen.sum(axis=0)
    return out
