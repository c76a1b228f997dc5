"""Triplets (anchor, positive, negative) as row numbers: from labels, and at random."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_X_y

from . import _validation as check
from ._training.mining import mine, neighbor_triplets
from ._training.parts import Mined
from ._training.reservoir import Reservoir
from ._typing import Array

__all__ = ["Mined", "Reservoir", "mine", "neighbor_triplets", "random_triplets", "targets_impostors"]


def targets_impostors(
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_targets: int = 3,
    n_impostors: int = 10,
    impostor_margin: float = 0.1,
    least_impostors: int | str = "auto",
    random_state: Any = None,
) -> Array:
    """Target neighbors times impostors (the paper, section 4.2), with anchors shuffled.

    All rows are compared with all, which takes n^2 d operations; `fit` mines more than 65,536 rows in blocks instead.

    Parameters
    ----------
    n_targets, n_impostors : nearest rows of the anchor's class, and of other classes, for each anchor.
    impostor_margin : how much farther than the farthest target an impostor may be, in units of the mean squared
        distance between two rows, so that the units of X do not matter.
    least_impostors : nearest rows of other classes that are impostors however far they are; "auto" is n_targets, and 0
        the paper's rule, by which a class that lies apart has no voice.

    Returns
    -------
    (n, 3) row numbers: anchor, positive, negative. An anchor alone in its class, or without impostors, forms none.

    Examples
    --------
    >>> from paloma.triplets import targets_impostors
    >>> targets_impostors([[0.0], [1.0], [1.5], [2.5]], [0, 0, 1, 1], n_targets=1, n_impostors=1, random_state=0)
    array([[2, 3, 1],
           [0, 1, 2],
           [1, 0, 2],
           [3, 2, 1]])
    """
    check.check_count("n_targets", n_targets)
    check.check_count("n_impostors", n_impostors)
    check.check_real("impostor_margin", impostor_margin, 0.0, 1e30)
    least = check.count_or_auto("least_impostors", least_impostors, n_targets)
    rows, labels = check_X_y(X, y, dtype=[np.float64, np.float32], accept_sparse="csr")
    codes = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    mined = mine(rows, codes, n_targets, n_impostors, impostor_margin, least=least)
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
