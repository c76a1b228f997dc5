"""What makes learning independent of the units of X: the whitener that rows are multiplied by, then one number."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from .._core.choice import Choice
from .._reading.whiteners import Whitener
from .._rows import evenly_spaced
from .._threads import sharing
from .._typing import Array, Rows
from .._validation import check_not_tiny
from .mining import TILE, Miner
from .starts import better_power, better_units
from .whitening import MAX_FULL, POWER, whitener_from

# A number for each feature is known well enough from the targets of so many rows, evenly spaced; few directions from
# fewer, if these are so many of each class.
MAX_ANCHORS, FEWEST_ANCHORS, PER_CLASS = 2000, 1000, 10


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

    def whitener(
        self, X: Rows, pairs: Array | None, units: Array | None = None, power: float = POWER
    ) -> Whitener | None:
        """units : X is given divided by them."""
        if pairs is None:
            return None
        with sharing(TILE, X.shape[1], X.shape[1]):
            return whitener_from(self._form(X), X, pairs[:, :2], units, power)

    def labeled_whitener(self, X: Rows, codes: Array) -> Whitener | None:
        """By default, labels also judge in which units the features are taken, and how much the whitener takes."""
        if self.word != "auto" or self._form(X) == "scalar" or sp.issparse(X):
            return self._from_near(X, codes)
        units = better_units(X, codes, self._from_near)
        rows = X if units is None else (X / units).astype(X.dtype, copy=False)
        power = better_power(rows, codes, self._from_near)
        return self.whitener(rows, self.near_pairs(rows, codes), units, power)

    def _from_near(self, X: Rows, codes: Array) -> Whitener | None:
        return self.whitener(X, self.near_pairs(X, codes))

    def first_whitener(self, X: Rows, pairs: Array | None) -> Whitener | None:
        """By default only if the pairs are as many as features: it is not made again."""
        few = pairs is None or (self.word == "auto" and len(np.unique(pairs[:, :2], axis=0)) < X.shape[1])
        return None if few else self.whitener(X, pairs)

    def near_pairs(self, X: Rows, codes: Array, anchors: Array | None = None) -> Array | None:
        form = self._form(X)
        if form in ("diagonal", "low-rank") and anchors is None:
            known, most = np.flatnonzero(codes >= 0), MAX_ANCHORS
            if form == "low-rank":
                most = min(most, max(FEWEST_ANCHORS, PER_CLASS * len(np.unique(codes[known]))))
            anchors = evenly_spaced(known, most)
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
