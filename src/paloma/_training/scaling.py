"""What makes learning independent of the units of X: the whitener that rows are multiplied by, then one number.

The whitener takes half of what full whitening would take, so that a start depends on the units of the features. Pixels
and embeddings have one unit, which says which features matter; lengths in mm and weights in kg have units that say
nothing. Neither is known, so two starts are made for a few rows, one with the features as given and one with each
divided by its standard deviation; the labeled rows classify each other under both, and so judge (theory 21).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from .._core.choice import Choice
from .._reading.whiteners import Whitener, whitened
from .._rows import evenly_spaced
from .._threads import sharing
from .._typing import Array, Rows
from .._validation import check_not_tiny
from .guard import scores
from .mining import TILE, Miner
from .whitening import MAX_FULL, whitener_from

# A number for each feature or for few directions is known well enough from the targets of so many rows, evenly spaced.
MAX_ANCHORS = 2000
# Rows that judge, evenly spaced, and rows among which they find neighbors.
MAX_JUDGES, MAX_ROWS = 300, 500
# Standard deviations of features within this factor of each other are taken as equal; a feature whose deviation is
# less than so small a share of its largest value is constant up to rounding.
ALIKE, ROUNDING = 1.5, 1e-6
START = np.array([(0.0, 0.0), (1.0, 1.0)])

Whitening = Callable[[Array, Array], Whitener | None]


@dataclass(frozen=True)
class Scaler:
    """`paloma._training.parts.Scaling`: near rows of one class are those that mining finds.

    word : the parameter `scale` of the learner.
    """

    who: str
    word: str | None
    choice: Choice
    mining: Miner

    def on(self, mining: Miner) -> Self:
        return replace(self, mining=mining)

    def _form(self, X: Rows) -> str:
        """The form of the scale for these rows: "full", "low-rank", "diagonal" or "scalar"."""
        sparse = sp.issparse(X)
        if self.word in ("full", "low-rank") and sparse:
            raise ValueError(
                f"{self.who}: scale={self.word!r} would fill sparse rows; use 'diagonal', 'scalar' or 'auto'."
            )
        if self.word != "auto":
            return self.word or "scalar"
        form = self.mining.space.whitening if self.choice.measure.is_distance else "scalar"
        if form in ("full", "low-rank") and sparse:
            return "diagonal"
        return "low-rank" if form == "full" and X.shape[1] > MAX_FULL else form

    def whitener(self, X: Rows, pairs: Array | None, units: Array | None = None) -> Whitener | None:
        """units : X is given divided by them."""
        if pairs is None:
            return None
        with sharing(TILE, X.shape[1], X.shape[1]):
            return whitener_from(self._form(X), X, pairs[:, :2], units)

    def labeled_whitener(self, X: Rows, codes: Array) -> Whitener | None:
        """By default, labels also judge in which units the features are taken."""
        units = None
        if self.word == "auto" and self._form(X) != "scalar" and not sp.issparse(X):
            units = better_units(X, codes, lambda rows, own: self.whitener(rows, self.near_pairs(rows, own)))
        rows = X if units is None else (X / units).astype(X.dtype, copy=False)
        return self.whitener(rows, self.near_pairs(rows, codes), units)

    def first_whitener(self, X: Rows, pairs: Array | None) -> Whitener | None:
        """By default only if the pairs are as many as features: it is not made again."""
        few = pairs is None or (self.word == "auto" and len(np.unique(pairs[:, :2], axis=0)) < X.shape[1])
        return None if few else self.whitener(X, pairs)

    def near_pairs(self, X: Rows, codes: Array, anchors: Array | None = None) -> Array | None:
        form = self._form(X)
        if form in ("diagonal", "low-rank") and anchors is None:
            anchors = evenly_spaced(np.flatnonzero(codes >= 0), MAX_ANCHORS)
        return None if form == "scalar" else self.mining.target_pairs(X, codes, anchors)

    def scale(self, X: Rows, triplets: Array | None) -> Any:
        space = self.mining.space
        if self.word is None or space.pairwise:
            space.check_magnitude(self.who, self.choice, X, 1.0)
            return 1.0
        if triplets is None or not len(triplets):
            return None
        check_not_tiny(self.who, X)
        return space.scale(self.who, self.choice, X, triplets)


def units_of(X: Array) -> Array | None:
    """Standard deviations of the features, 1 for constant ones; None if all are about the same."""
    rows = np.asarray(X, np.float64)
    units = rows.std(axis=0)
    varies = units > ROUNDING * np.abs(rows).max(axis=0, initial=0.0)
    if not varies.any() or units[varies].max() <= ALIKE * units[varies].min():
        return None
    return np.where(varies, units, 1.0)


def better_units(X: Array, codes: Array, whitener: Whitening) -> Array | None:
    """(d,) what to divide features by, or None: as they are. `whitener` makes W from rows and their class codes."""
    known = np.flatnonzero(codes >= 0)
    chosen = evenly_spaced(known, MAX_ROWS)
    rows, codes = X[chosen], codes[chosen]
    units = units_of(rows)
    if units is None or len(np.unique(codes)) < 2:
        return None
    judges = evenly_spaced(np.arange(len(chosen)), MAX_JUDGES)
    both = rows, (rows / units).astype(X.dtype)
    as_given, divided = (_start_values(each, codes, judges, whitener) for each in both)
    found = scores(np.stack([as_given, as_given, divided]), codes, codes[judges], START, is_distance=True)
    return units if found[1].mean() > found[0].mean() else None


def _start_values(rows: Array, codes: Array, judges: Array, whitener: Whitening) -> Array:
    """Squared distances of some rows to all under the start, infinite to themselves."""
    W = whitener(rows, codes)
    inside = whitened(rows - rows.mean(axis=0), W)
    norms = (inside * inside).sum(axis=1)
    values = norms[judges, None] + norms - 2.0 * (inside[judges] @ inside.T)
    values[np.arange(len(judges)), judges] = np.inf
    return np.asarray(values)
