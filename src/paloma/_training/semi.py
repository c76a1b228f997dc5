"""Learning from rows without labels (theory 15 II): class-free neighbor triplets, and gated self-labeling."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .. import _validation as check
from .._search.voting import majority
from .._typing import Array

# Labeled rows that vote on a row without a label; a class of fewer than four cannot win four of five votes.
VOTERS = 5
MODES = ("neighbors", "self", "both", "none")


@dataclass(frozen=True)
class Semi:
    """Which mechanisms are on, and their constants.

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

    @property
    def labels(self) -> bool:
        return self.mode in ("self", "both")

    @property
    def neighbors(self) -> bool:
        return self.mode in ("neighbors", "both")

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
