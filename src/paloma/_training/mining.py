"""Mining: triplets (anchor, positive, negative) as row numbers, from labels or from who is near whom.

The Euclidean metric decides who is near unless rows are given in a learned space: pass `transform(X)` to mine again
under the current metric. Comparing all rows takes n^2 d operations; many rows are cut at random into blocks that mine
among themselves (theory 12), which takes n d times the size of a block.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from .._core.space import Representation, Space
from .._search.euclid import by_class, center_of, closest_of_class, neighbors_by_class
from .._search.tiles import QUERY_TILE
from .._threads import sharing
from .._typing import Array, Rows
from .parts import Mined, Near

# Up to so many rows all are compared with all; more are cut into blocks of about so many.
EXACT_ROWS, BLOCK_ROWS = 65_536, 16_384
# A class is cut into no smaller parts than this: its rows need targets.
LEAST_PART = 32
# Rows that one product of a search takes on a side, or more.
TILE = 1024


@dataclass(frozen=True)
class Miner:
    """`paloma._training.parts.Mining`: targets and impostors, where the representation looks for them.

    scaled : units of X are not to decide who is near. The numbers are those of `mine`.
    """

    space: Representation
    scaled: bool
    n_targets: int
    n_impostors: int
    impostor_margin: float
    least: int

    def on(self, space: Representation) -> Self:
        return replace(self, space=space)

    def rows(self, X: Rows) -> Rows:
        return self.space.mining_rows(X, self.scaled)

    def blocks(self, codes: Array, rng: np.random.Generator) -> list[Array]:
        all_at_once = self.space.pairwise or int((codes >= 0).sum()) <= EXACT_ROWS
        return [] if all_at_once else blocks_of(codes, rng)

    def mine(self, X: Rows, codes: Array, anchors: Array | None = None, space: Space | None = None) -> Mined:
        with sharing(TILE, TILE, X.shape[1]):
            if not self.space.pairwise:
                return self.near(X, codes, anchors).mined()
            known = np.flatnonzero(codes >= 0)
            inside = None if anchors is None else np.searchsorted(known, anchors)
            distances = self.space.mining_distances(X, known, space)
            mined = mine_by(distances, codes[known], *self._sizes, inside)
        mined.triplets = known[mined.triplets]
        return mined

    def near(self, X: Rows, codes: Array, anchors: Array | None = None) -> Near:
        known, search = np.flatnonzero(codes >= 0), None if sp.issparse(X) else self.space.search
        if len(known) == len(codes):
            return near(X, codes, *self._sizes, anchors, search)
        inside = None if anchors is None else np.searchsorted(known, anchors)
        return near(X[known], codes[known], *self._sizes, inside, search).renumbered(known)

    @property
    def _sizes(self) -> tuple[int, int, float, int]:
        return self.n_targets, self.n_impostors, self.impostor_margin, self.least

    def target_pairs(self, X: Rows, codes: Array, anchors: Array | None = None) -> Array:
        """Labeled rows, or `anchors` among them, each with its targets."""
        known = np.flatnonzero(codes >= 0)
        rows, inside = self.rows(X[known]), np.arange(len(known))
        if anchors is not None:
            inside = np.searchsorted(known, anchors)
        targets, _ = closest_of_class(rows, codes[known], inside, self.n_targets, center_of(rows))
        pairs = np.stack([np.broadcast_to(inside[:, None], targets.shape), targets], axis=2)
        return known[pairs[targets >= 0]]

    def free(self, X: Rows, anchors: Array, rng: np.random.Generator) -> Array:
        return neighbor_triplets(X, anchors, rng, self.n_targets)

    def quiet(self, mined: Mined, codes: Array, anchors: Array | None) -> Array:
        classes = codes if anchors is None else codes[anchors]
        n_anchors = np.bincount(classes[classes >= 0])
        formed = np.bincount(codes[mined.triplets[:, 0]], minlength=len(n_anchors))
        return np.maximum(n_anchors * self.n_targets * self.n_impostors - formed, 0)


def blocks_of(codes: Array, rng: np.random.Generator) -> list[Array]:
    """Row numbers of random blocks, ascending; each has its share of every class, a small class stands in few or one.

    A class of m rows is cut into equal parts, which go to as many blocks next to each other, the first one at random.
    Rows without a label, codes below zero, are cut like one more class.
    """
    n, n_blocks = len(codes), -(-int((codes >= 0).sum()) // BLOCK_ROWS)
    order = rng.permutation(n)
    order = order[np.argsort(codes[order], kind="stable")]
    _, starts, sizes = np.unique(codes[order], return_index=True, return_counts=True)
    n_parts = np.clip(sizes // LEAST_PART, 1, n_blocks)
    first = rng.integers(0, n_blocks, len(sizes))
    rank = np.arange(n) - np.repeat(starts, sizes)
    block = np.empty(n, np.int64)
    block[order] = (np.repeat(first, sizes) + rank * np.repeat(n_parts, sizes) // np.repeat(sizes, sizes)) % n_blocks
    edges = np.cumsum(np.bincount(block, minlength=n_blocks))[:-1]
    return [rows for rows in np.split(np.argsort(block, kind="stable"), edges) if len(rows)]


def mine(
    X: Any,
    codes: Array,
    n_targets: int = 3,
    n_impostors: int = 10,
    impostor_margin: float = 0.1,
    anchors: Array | None = None,
    least: int | None = None,
) -> Mined:
    """Target neighbors times impostors (theory 12), for the rows `anchors` (default: all).

    Targets are the nearest rows of the anchor's class. An impostor is a row of another class with
    |x_i - x_l|^2 <= |x_i - x_t|^2 + margin * s, t the farthest target and s the mean squared distance of two rows;
    the nearest `n_impostors` are kept, and every target of the anchor is paired with every one of them. The nearest
    `least` rows of other classes (default: n_targets) are impostors however far they are; 0 is the paper's rule.
    """
    least = n_targets if least is None else least
    return near(X, codes, n_targets, n_impostors, impostor_margin, least, anchors).mined()


def near(
    X: Any, codes: Array, n_targets: int, n_impostors: int, impostor_margin: float, least: int,
    anchors: Array | None = None, search: Any = None,
) -> Near:  # fmt: skip
    """The neighbors that `mine` pairs; `search`: what finds them elsewhere, see `Representation`."""
    anchors = np.arange(X.shape[0]) if anchors is None else anchors
    search = search or neighbors_by_class
    targets, reaches, impostors, distances, mean = search(X, codes, anchors, n_targets, n_impostors)
    return Near(anchors, targets, within(impostors, distances, targets, reaches, 2.0 * impostor_margin * mean, least))


def within(impostors: Array, distances: Array, targets: Array, reaches: Array, slack: float, least: int) -> Array:
    """Impostors no farther than the farthest target and `slack`, and the nearest `least`; -1 for the others.

    The nearest ones matter even if they are far: an anchor without impostors could never resist what others do to the
    metric of a foreign class (theory 12).
    """
    radius = reaches.max(axis=1, initial=-np.inf, where=targets >= 0)
    kept = distances <= radius[:, None] + slack
    kept[:, :least] = True
    return np.where(kept, impostors, -1)


def mine_by(
    distances: Callable[[Array], Array],
    codes: Array,
    n_targets: int,
    n_impostors: int,
    impostor_margin: float,
    least: int,
    anchors: Array | None = None,
) -> Mined:
    """`mine` under any squared distances; `distances(rows)` gives those of a few rows to all rows."""
    anchors, total, found = np.arange(len(codes)) if anchors is None else anchors, 0.0, []
    for a in range(0, len(anchors), QUERY_TILE):
        rows = anchors[a : a + QUERY_TILE]
        tile = distances(rows)
        total += float(tile.sum())
        tile[np.arange(len(rows)), rows] = np.inf
        alike = codes[rows][:, None] == codes
        found.append((*_smallest(tile, alike, n_targets), *_smallest(tile, ~alike, n_impostors)))
    targets, reach, impostors, gaps = (np.concatenate(column) for column in zip(*found, strict=True))
    spread = total / (len(anchors) * len(codes))
    return Near(anchors, targets, within(impostors, gaps, targets, reach, impostor_margin * spread, least)).mined()


def _smallest(tile: Array, where: Array, k: int) -> tuple[Array, Array]:
    """Columns and values of the k smallest entries of each row among those marked; -1 and inf where there are fewer."""
    masked = np.where(where, tile, np.inf)
    columns = np.argsort(masked, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(masked, columns, 1)
    return np.where(np.isfinite(values), columns, -1), values


def neighbor_triplets(
    X: Any, anchors: Array, rng: np.random.Generator, n_near: int = 3, n_far: int = 30, n_each: int = 3
) -> Array:
    """Triplets without labels (theory 15 II.1): a mutual near neighbor, and random rows beyond the `n_far` nearest.

    Each of an anchor's `n_near` nearest rows that has the anchor among its own is paired with `n_each` far rows.
    """
    n, center = X.shape[0], center_of(X)
    one_class, k = np.zeros(n, np.int32), min(n_far, n - 1)
    if k <= n_near:
        return np.empty((0, 3), np.int64)
    around = by_class(X, one_class, anchors, k, center)
    near = around[:, :n_near]
    back, place = np.unique(near, return_inverse=True)
    returned = by_class(X, one_class, back, n_near, center)[place.reshape(near.shape)]
    row, column = np.nonzero((returned == anchors[:, None, None]).any(axis=2))
    row, column = np.repeat(row, n_each), np.repeat(column, n_each)
    far = rng.integers(0, n, len(row))
    kept = (far != anchors[row]) & (far[:, None] != around[row]).all(axis=1)
    return np.stack([anchors[row], near[row, column], far], axis=1)[kept]
