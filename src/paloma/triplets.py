"""Triplets (anchor, positive, negative) as row numbers: from labels, at random, and from a stream with a memory.

The Euclidean metric decides who is near unless rows are given in a learnt space: pass `transform(X)` to mine again
under the metric as it is now.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._search import QUERY_TILE, Items, nearest, squared_norms

__all__ = ["Mined", "Reservoir", "mine", "random_triplets", "targets_impostors"]

Array = NDArray[Any]


@dataclass
class Mined:
    """Triplets grouped by anchor, and how many anchors gave none (alone in their class, or without impostors)."""

    triplets: Array
    n_anchors: int
    n_alone: int
    n_unopposed: int

    def shuffled(self, rng: np.random.Generator) -> Array:
        """The triplets with their anchors in random order; grouped classes are the worst case of online learning."""
        if not len(self.triplets):
            return self.triplets
        anchors = self.triplets[:, 0]
        starts = np.flatnonzero(np.r_[True, anchors[1:] != anchors[:-1]])
        sizes = np.diff(np.r_[starts, len(anchors)])
        order = rng.permutation(len(starts))
        sizes, starts = sizes[order], starts[order]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.triplets[np.repeat(starts, sizes) + within]


def mine(
    X: Array,
    codes: Array,
    n_targets: int = 3,
    n_impostors: int = 10,
    impostor_margin: float = 0.1,
    anchors: Array | None = None,
) -> Mined:
    """Target neighbours times impostors (spec.md 12), for the rows `anchors` (default: all).

    Targets are the nearest rows of the anchor's class. An impostor is a row of another class with
    |x_i - x_l|^2 <= |x_i - x_t|^2 + margin * s, t the farthest target and s the mean squared distance of two rows;
    the nearest `n_impostors` are kept, and every target of the anchor is paired with every one of them.
    """
    anchors = np.arange(len(X)) if anchors is None else anchors
    items, centre = _euclidean(X, codes)

    def queries(part: slice) -> Array:
        return X[anchors[part]] - centre

    arguments = {"own": anchors, "query_classes": codes[anchors]}
    targets = _by_class(X, codes, anchors, min(n_targets, len(X)), centre)
    _, impostors = nearest(queries, len(anchors), items, min(n_impostors, len(X)), others=True, **arguments)
    spread = 2.0 * float(items.constants.mean())
    radius = _direct(X, anchors, targets).max(axis=1, initial=-np.inf, where=targets >= 0)
    impostors = np.where(_direct(X, anchors, impostors) <= radius[:, None] + impostor_margin * spread, impostors, -1)
    alone, unopposed = radius == -np.inf, (impostors < 0).all(axis=1)
    grid = np.empty((len(anchors), targets.shape[1], impostors.shape[1], 3), np.int64)
    grid[..., 0] = anchors[:, None, None]
    grid[..., 1] = targets[:, :, None]
    grid[..., 2] = impostors[:, None, :]
    triplets = grid[(grid >= 0).all(axis=3)]
    return Mined(triplets, len(anchors), int(alone.sum()), int((unopposed & ~alone).sum()))


def _euclidean(X: Array, codes: Array) -> tuple[Items, Array]:
    """Items of a Euclidean search, centred so that the expansion does not cancel."""
    centre = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    constants = np.concatenate([squared_norms(X[a : a + QUERY_TILE] - centre) for a in range(0, len(X), QUERY_TILE)])

    def table(rows: Array) -> Array:
        return np.repeat(squared_norms(rows)[:, None], int(codes.max()) + 1, axis=1)

    return Items(len(X), lambda part: (X[part] - centre,), -2.0, table, codes, constants), centre


def _by_class(X: Array, codes: Array, anchors: Array, k: int, centre: Array) -> Array:
    """Nearest rows of the anchor's own class, class by class."""
    found = np.full((len(anchors), k), -1, np.int64)
    for code in np.unique(codes[anchors]):
        members, mine = np.flatnonzero(codes == code), np.flatnonzero(codes[anchors] == code)
        rows = X[members] - centre
        own = np.searchsorted(members, anchors[mine])
        queries = rows[own]
        _, ids = nearest(queries.__getitem__, len(mine), _plain(rows), min(k, len(members)), own=own)
        found[mine, : ids.shape[1]] = np.where(ids >= 0, members[ids], -1)
    return found


def _plain(rows: Array) -> Items:
    """Rows as items of a Euclidean search without classes."""
    norms = squared_norms(rows)
    classes = np.zeros(len(rows), np.int32)
    return Items(len(rows), lambda part: (rows[part],), -2.0, lambda q: squared_norms(q)[:, None], classes, norms)


def _direct(X: Array, anchors: Array, candidates: Array) -> Array:
    """Squared distances formed from differences, inf where there is no candidate."""
    out = np.empty(candidates.shape)
    for a in range(0, len(anchors), QUERY_TILE):
        part = slice(a, a + QUERY_TILE)
        delta = X[candidates[part]] - X[anchors[part], None]
        out[part] = squared_norms(delta.reshape(-1, X.shape[1])).reshape(delta.shape[:2])
    out[candidates < 0] = np.inf
    return out


def targets_impostors(
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_targets: int = 3,
    n_impostors: int = 10,
    impostor_margin: float = 0.1,
    random_state: Any = None,
) -> Array:
    """Target neighbours times impostors, as the paper trains (its section 4.2; spec.md 12), anchors shuffled.

    Parameters
    ----------
    n_targets, n_impostors : neighbours of the anchor's class, and nearest rows of other classes, for each anchor.
    impostor_margin : how much farther than the farthest target an impostor may be, in units of the mean squared
        distance between two rows, so that the units of X do not matter.

    Returns
    -------
    (n, 3) row numbers: anchor, positive, negative. An anchor alone in its class, or without impostors, gives none.

    Examples
    --------
    >>> from paloma.triplets import targets_impostors
    >>> targets_impostors([[0.0], [1.0], [1.5], [2.5]], [0, 0, 1, 1], n_targets=1, n_impostors=1, random_state=0)
    array([[2, 3, 1],
           [3, 2, 1],
           [1, 0, 2],
           [0, 1, 2]])
    """
    from sklearn.utils import check_X_y

    rows, labels = check_X_y(X, y, dtype=[np.float64, np.float32])
    codes = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    mined = mine(rows, codes, n_targets, n_impostors, impostor_margin)
    return mined.shuffled(np.random.default_rng(random_state))


def random_triplets(codes: Array, n: int, rng: np.random.Generator, balanced: bool = False) -> Array:
    """n triplets at random: anchor from all rows (or classes evenly), positive from its class, negative elsewhere."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    usable = np.flatnonzero((counts >= 2) & (counts < len(codes)))
    if not len(usable):
        return np.empty((0, 3), np.int64)
    share = np.ones(len(usable)) if balanced else counts[usable].astype(float)
    c = rng.choice(usable, size=n, p=share / share.sum())
    anchor = rng.integers(0, counts[c])
    positive = rng.integers(0, counts[c] - 1)
    positive += positive >= anchor
    negative = rng.integers(0, len(codes) - counts[c])
    negative += np.where(negative >= starts[c], counts[c], 0)
    return np.stack([order[starts[c] + anchor], order[starts[c] + positive], order[negative]], axis=1)


@dataclass
class Reservoir:
    """A uniform sample of each class's rows seen so far, at most `size` a class (Vitter 1985, algorithm R)."""

    size: int
    rows: Array = field(default_factory=lambda: np.empty((0, 0, 0)))
    seen: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, X: Array, codes: Array, rng: np.random.Generator) -> None:
        """Offer rows in order; a full class replaces a row with probability size / seen."""
        if not len(X):
            return
        self._grow(int(codes.max()) + 1, X)
        order = np.argsort(codes, kind="stable")
        sorted_codes = codes[order]
        first = np.searchsorted(sorted_codes, sorted_codes)
        turn = self.seen[sorted_codes] + np.arange(len(order)) - first + 1
        drawn = rng.integers(0, turn)
        place = np.where(turn <= self.size, turn - 1, drawn)
        kept = place < self.size
        self.rows[sorted_codes[kept], place[kept]] = X[order[kept]]
        self.seen += np.bincount(codes, minlength=len(self.seen))

    def _grow(self, n_classes: int, X: Array) -> None:
        if n_classes > len(self.seen):
            rows = np.zeros((n_classes, self.size, X.shape[1]), X.dtype)
            rows[: len(self.seen)] = self.rows if len(self.seen) else 0
            self.rows = rows
            self.seen = np.concatenate([self.seen, np.zeros(n_classes - len(self.seen), np.int64)])

    def sample(self, like: Array) -> tuple[Array, Array]:
        """The rows kept and their class codes."""
        if not len(self.seen):
            return like[:0], np.empty(0, np.int32)
        codes, places = np.nonzero(np.arange(self.size) < np.minimum(self.seen, self.size)[:, None])
        return self.rows[codes, places], codes.astype(np.int32)
