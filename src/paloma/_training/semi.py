"""Learning from rows without labels (theory 15 II): class-free neighbor triplets, and gated self-labeling."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .. import _validation as check
from .._core.locality import FREE
from .._core.stream import Stream
from .._reading.whiteners import whitened
from .._rows import stacked
from .._search.voting import majority
from .._typing import Array, Rows
from .trainer import Trainer

# Labeled rows that vote on a row without a label; a class of fewer than four cannot win four of five votes.
VOTERS = 5
# Class-free triplets are formed around at most this many rows without labels, drawn again each time.
MAX_FREE_ANCHORS = 4000
MODES = ("neighbors", "self", "both", "none")
NEIGHBORING, LABELING = ("neighbors", "both"), ("self", "both")


@dataclass(frozen=True)
class Semi:
    """`paloma._training.parts.Unlabeled`: which mechanisms are on, and their constants.

    share, quantile : a row is labeled if at least this share of its nearest labeled rows agree, and the nearest of
        them is no farther than this quantile of such distances among the labeled rows of the class.
    weight, neighbor_weight : of triplets with self-labeled rows (times their confidence), and of class-free triplets.
    """

    mode: str
    share: float = 0.8
    quantile: float = 0.9
    weight: float = 1.0
    neighbor_weight: float = 0.3

    @classmethod
    def parse(cls, mode: str, params: dict[str, Any] | None) -> "Semi":
        """Check a mode's word and its constants."""
        if mode == "neighbours":  # British on purpose
            raise ValueError("semi='neighbours' is now spelled semi='neighbors'.")  # British on purpose
        if "neighbour_weight" in (params or {}):  # British on purpose
            raise ValueError("semi_params['neighbour_weight'] is now 'neighbor_weight'.")  # British on purpose
        check.check_word("semi", mode, MODES)
        names = [f.name for f in fields(cls)][1:]
        if unknown := sorted(set(params or {}) - set(names)):
            raise ValueError(f"semi_params takes {names}, got {unknown}.")
        for name, value in (params or {}).items():
            check.check_real(f"semi_params[{name!r}]", value, 0.0, 1.0 if name in names[:2] else 1e30)
        return replace(cls(mode), **(params or {}))

    @property
    def votes(self) -> bool:
        """Whether rows that labeled ones agree on may vote."""
        return self.mode != "none"

    def between_epochs(self, trainer: Trainer, X: Rows, inside: Rows, codes: Array) -> tuple[Array, Array | None]:
        self._learn_neighbors(trainer, inside, np.flatnonzero(codes < 0))
        if self.mode not in LABELING:
            return codes, None
        model = trainer.model
        return self.accept(model.inside(trainer.settings), inside, codes, model.places(X, codes), model.rng)

    def joined(self, trainer: Trainer, pool: Rows, codes: Array, free: Rows) -> tuple[Rows, Array, Array | None]:
        model, known, rows = trainer.model, len(codes), stacked([pool, free])
        self._learn_neighbors(trainer, whitened(rows, model.whitener), np.arange(known, rows.shape[0]))
        if self.mode not in LABELING:
            return pool, codes, None
        codes = np.concatenate([codes, np.full(rows.shape[0] - known, FREE, np.int32)])
        metric, places = model.readout(trainer.settings), model.places(rows, codes)
        codes, confidence = self.accept(metric, rows, codes, places, model.rng)
        kept = np.flatnonzero(codes >= 0)
        return rows[kept], codes[kept], confidence[kept]

    def _learn_neighbors(self, trainer: Trainer, X: Rows, rows: Array) -> None:
        """If that is asked for, a pass over class-free triplets of some whitened rows without labels."""
        if self.mode not in NEIGHBORING:
            return
        model = trainer.model
        anchors = model.rng.permutation(rows)[:MAX_FREE_ANCHORS]
        triplets = trainer.settings.mining.free(X, np.sort(anchors), model.rng)
        triplets = triplets[model.rng.permutation(len(triplets))]
        weight = np.full(len(triplets), self.neighbor_weight)
        trainer.learn(Stream(X, triplets, None, model.space.factor, weight), True)

    def accept(self, metric: Any, X: Any, codes: Array, places: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Class codes with those of confidently labeled rows filled in, and a confidence for each row (known ones: 1).

        places : what decides the metric of each row, see `Reader.candidates`. A class takes in no more rows for each
        of its own than three quarters of the classes do, or their mean: else the majority drifts.
        """
        known, free = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        filled, confidence = codes.copy(), np.where(codes >= 0, 1.0, 0.0)
        if len(known) <= VOTERS or not len(free):
            return filled, confidence
        items, own = metric.items(X[known], places[known]), codes[known]
        values, ids = items.search(X[free], VOTERS)
        votes = own[ids]
        winner = majority(votes)
        share = (votes == winner[:, None]).mean(axis=1)
        reach = _reach(items, own, self.quantile)
        near = np.where(votes == winner[:, None], values, np.inf).min(axis=1)
        taken = np.flatnonzero((share >= self.share) & (near <= reach[winner]))
        taken = taken[_proportional(winner[taken], np.bincount(own, minlength=len(reach)), rng)]
        filled[free[taken]], confidence[free[taken]] = winner[taken], share[taken]
        return filled, confidence

    def weights(self, triplets: Array, confidence: Array) -> Array:
        """Weight of each triplet: by its anchor and the less certain of its candidates."""
        sure = confidence[triplets[:, 0]] * confidence[triplets[:, 1:]].min(axis=1)
        return np.where((confidence[triplets] == 1.0).all(axis=1) & (sure == 1.0), 1.0, self.weight * sure)


def _reach(items: Any, own: Array, quantile: float) -> Array:
    """For each class code, the quantile of the value of its rows' nearest row of the class."""
    values, ids = items.search(items.X, VOTERS, own=np.arange(len(own)))
    nearest = np.where(own[ids] == own[:, None], values, np.inf).min(axis=1)
    out = np.full(int(own.max()) + 1, -np.inf)
    for code in np.unique(own):
        found = nearest[(own == code) & np.isfinite(nearest)]
        out[code] = np.quantile(found, quantile) if len(found) else -np.inf
    return out


def _proportional(winners: Array, known: Array, rng: np.random.Generator) -> Array:
    """Which of the winners to take, in random order, so that no class takes in far more than its share."""
    counts = np.bincount(winners, minlength=len(known))
    present = known > 0
    ratios = counts[present] / known[present]
    limit = np.ceil(max(float(np.quantile(ratios, 0.75)), float(ratios.mean())) * known)
    order = rng.permutation(len(winners))
    ranked = order[np.argsort(winners[order], kind="stable")]
    place = np.arange(len(ranked)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(ranked[place < limit[winners[ranked]]])
