"""The parameters of a learner once they are checked: what every call of one fit shares."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from .._core.choice import Choice
from .._core.locality import FREE, Labels
from .._core.space import Representation
from .._threads import sharing
from .._typing import Array, Rows
from .mining import Mined, Near, in_blocks, mine_by, near, target_pairs
from .semi import Semi
from .units import better_units
from .whitening import MAX_FULL, whitener_of

# Rows that one product of mining or whitening takes on a side, or more.
TILE = 1024


@dataclass(frozen=True)
class Settings:
    """A choice on each axis, how Theta is held, and how triplets are come by; see the learners for what each means."""

    who: str
    choice: Choice
    space: Representation
    scale: str | None
    guard: bool
    averaging: bool | str
    project: str
    regions: Any
    soft_regions: bool
    unlabeled: Any
    semi: Semi
    n_targets: int
    n_impostors: int
    impostor_margin: float
    least_impostors: int
    n_epochs: int
    remine: bool
    early_stopping: bool
    validation_fraction: float
    reservoir_size: int
    window: bool
    balanced: bool
    pair_threshold: float | str
    block_size: int | str
    n_jobs: int | None
    random_state: Any
    verbose: int

    def bound(self, d: int, names: Any) -> "Settings":
        """The same for rows of d features, called by `names` if they have any; refuses what does not fit them."""
        space = self.space.bound(self.who, self.choice, d, names)
        return self if space is self.space else replace(self, space=space)

    def generator(self) -> np.random.Generator:
        """Fresh randomness from random_state."""
        return np.random.default_rng(int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)))

    # -- labels ------------------------------------------------------------------------------------------------------

    def labeled(self, y: Array) -> Array:
        """The labels that are none of `unlabeled`."""
        return y if self.unlabeled is None else y[y != self.unlabeled]

    def codes(self, labels: Labels, y: Any) -> Any:
        """Class codes of labels, FREE for the unlabeled; None without labels."""
        if y is None:
            return None
        codes = labels.codes(y)
        return codes if self.unlabeled is None else np.where(y != self.unlabeled, codes, FREE).astype(np.int32)

    # -- scale: one number, and the whitener before it -----------------------------------------------------------------

    @property
    def scaled(self) -> bool:
        """Whether learning is made independent of the units of X."""
        return self.scale is not None

    def form(self, X: Rows) -> str:
        """The form of the scale for these rows: "full", "diagonal" or "scalar"."""
        sparse = sp.issparse(X)
        if self.scale == "full" and sparse:
            raise ValueError(f"{self.who}: scale='full' would fill sparse rows; use 'diagonal', 'scalar' or 'auto'.")
        if self.scale != "auto":
            return self.scale or "scalar"
        form = self.space.whitening if self.choice.measure.is_distance else "scalar"
        return "diagonal" if form == "full" and (sparse or X.shape[1] > MAX_FULL) else form

    def whitener(self, X: Rows, pairs: Array | None, units: Array | None = None) -> Array | None:
        """What X is multiplied by before it is scaled, from pairs (or triplets) that begin with near rows.

        units : X is given divided by them.
        """
        if pairs is None:
            return None
        with sharing(TILE, X.shape[1], X.shape[1]):
            return whitener_of(self.form(X), X, pairs[:, :2], units)

    def labeled_whitener(self, X: Rows, codes: Array) -> Array | None:
        """The same from labels, which by default also judge in which units the features are taken."""
        units = None
        if self.scale == "auto" and self.form(X) != "scalar" and not sp.issparse(X):
            units = better_units(X, codes, lambda rows, own: self.whitener(rows, self.near_pairs(rows, own)))
        rows = X if units is None else (X / units).astype(X.dtype, copy=False)
        return self.whitener(rows, self.near_pairs(rows, codes), units)

    def first_whitener(self, X: Rows, pairs: Array | None) -> Array | None:
        """The same for a stream; by default only if its first pairs are as many as features: it is not made again."""
        few = pairs is None or (self.scale == "auto" and len(np.unique(pairs[:, :2], axis=0)) < X.shape[1])
        return None if few else self.whitener(X, pairs)

    def near_pairs(self, X: Rows, codes: Array, anchors: Array | None = None) -> Array | None:
        """Labeled rows, or `anchors` among them, and their targets: what the whitener looks at; None: it does not."""
        if self.form(X) == "scalar":
            return None
        known = np.flatnonzero(codes >= 0)
        inside = None if anchors is None else np.searchsorted(known, anchors)
        return known[target_pairs(self.mining_rows(X[known]), codes[known], self.n_targets, inside)]

    def scale_of(self, X: Rows, triplets: Array | None) -> Any:
        """What whitened rows are divided by; None as long as there are no triplets to tell."""
        if not self.scaled or self.space.pairwise:
            self.space.check_magnitude(self.who, self.choice, X, 1.0)
            return 1.0
        if triplets is None or not len(triplets):
            return None
        return self.space.scale(self.who, self.choice, X, triplets)

    # -- triplets from labels ----------------------------------------------------------------------------------------

    def mining_rows(self, X: Rows) -> Rows:
        """X as triplets are mined in it."""
        return self.space.mining_rows(X, self.scaled)

    def in_blocks(self, codes: Array) -> bool:
        """Whether labeled rows are too many to compare all with all, so that `fit` mines and learns by blocks."""
        return in_blocks(codes) and not self.space.pairwise

    @property
    def _sizes(self) -> tuple[int, int, float, int]:
        return self.n_targets, self.n_impostors, self.impostor_margin, self.least_impostors

    def mine(self, X: Rows, codes: Array, anchors: Array | None = None, space: Any = None) -> Mined:
        """Triplets from labels in mining rows; rows without a label take no part."""
        with sharing(TILE, TILE, X.shape[1]):
            return self._mined(X, codes, anchors, space)

    def _mined(self, X: Rows, codes: Array, anchors: Array | None, space: Any) -> Mined:
        known = np.flatnonzero(codes >= 0)
        distances = self.space.mining_distances(X, known, space)
        if distances is None:
            return self.near(X, codes, anchors).mined()
        inside = None if anchors is None else np.searchsorted(known, anchors)
        mined = mine_by(distances, codes[known], *self._sizes, inside)
        mined.triplets = known[mined.triplets]
        return mined

    def near(self, X: Rows, codes: Array, anchors: Array | None = None) -> Near:
        """Targets and impostors of the labeled rows, or of `anchors` among them."""
        known, search = np.flatnonzero(codes >= 0), None if sp.issparse(X) else self.space.search
        if len(known) == len(codes):
            return near(X, codes, *self._sizes, anchors, search)
        inside = None if anchors is None else np.searchsorted(known, anchors)
        return near(X[known], codes[known], *self._sizes, inside, search).renumbered(known)

    def drawn(self, mined: Mined, codes: Array | None, rng: np.random.Generator) -> Array:
        """Mined triplets in random order; balanced: as many anchors as there are, drawn evenly across classes."""
        return mined.shuffled(rng, codes if self.balanced else None)

    def quiet(self, mined: Mined, codes: Any, anchors: Array | None) -> Array:
        """For each class code, how many triplets its anchors (default: all rows) might have formed and did not."""
        classes = codes if anchors is None else codes[anchors]
        n_anchors = np.bincount(classes[classes >= 0])
        formed = np.bincount(codes[mined.triplets[:, 0]], minlength=len(n_anchors))
        return np.maximum(n_anchors * self.n_targets * self.n_impostors - formed, 0)

    def averages(self, *, given: bool, passes: int) -> bool:
        """Whether averaged iterates are kept: not by default if a single pass of given triplets is learned."""
        return bool(self.averaging) if self.averaging != "auto" else not (given and passes == 1)
