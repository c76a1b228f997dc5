"""The parameters of a learner once they are checked: what every call of one fit shares."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from .._core.choice import Choice
from .._core.locality import FREE, Labels
from .._core.space import Representation
from .._typing import Array, Rows
from .mining import Mined, Near, in_blocks, mine_by, near
from .semi import Semi
from .whitening import whitener_of


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
    random_state: Any
    verbose: int

    def bound(self, d: int, names: Any) -> "Settings":
        """The same for rows of d features, called by `names` if they have any; refuses what does not fit them."""
        return replace(self, space=self.space.bound(self.who, self.choice, d, names))

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
        return "scalar" if self.scale in ("auto", None) else self.scale

    def whitener(self, X: Rows, triplets: Array | None) -> Array | None:
        """What X is multiplied by before it is scaled, from the first triplets; None: nothing."""
        return None if triplets is None else whitener_of(self.form(X), X, triplets[:, :2])

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

    def mine(self, X: Rows, codes: Array, anchors: Array | None = None, space: Any = None) -> Mined:
        """Triplets from labels in mining rows; rows without a label take no part."""
        known = np.flatnonzero(codes >= 0)
        distances = self.space.mining_distances(X, known, space)
        if distances is None:
            return self.near(X, codes, anchors).mined()
        inside = None if anchors is None else np.searchsorted(known, anchors)
        mined = mine_by(
            distances,
            codes[known],
            self.n_targets,
            self.n_impostors,
            self.impostor_margin,
            inside,
            self.least_impostors,
        )
        mined.triplets = known[mined.triplets]
        return mined

    def near(self, X: Rows, codes: Array, anchors: Array | None = None) -> Near:
        """Targets and impostors of the labeled rows, or of `anchors` among them."""
        sizes = (self.n_targets, self.n_impostors, self.impostor_margin)
        known, device = np.flatnonzero(codes >= 0), self.space.device
        if len(known) == len(codes):
            return near(X, codes, *sizes, anchors, self.least_impostors, device)
        inside = None if anchors is None else np.searchsorted(known, anchors)
        return near(X[known], codes[known], *sizes, inside, self.least_impostors, device).renumbered(known)

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
