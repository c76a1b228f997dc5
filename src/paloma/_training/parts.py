"""What training asks of the parts that a learner chooses beside its axes: mining, scale, unlabeled rows, guard.

A trainer knows these contracts and nothing of how they are met: that is in `mining.py`, `scaling.py`, `semi.py` and
`guard.py`, which `paloma.estimators.parameters.parse` picks for a learner.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from .._core.space import Representation, Space
from .._reading.whiteners import Whitener
from .._typing import Array, Rows


@dataclass
class Mined:
    """Triplets grouped by anchor, and how many anchors gave none (alone in their class, or without impostors)."""

    triplets: Array
    n_anchors: int
    n_alone: int
    n_unopposed: int

    def summary(self) -> dict[str, int]:
        """Counts for users: anchors, those alone in their class, those without impostors, triplets."""
        counts = {"anchors": self.n_anchors, "alone": self.n_alone, "unopposed": self.n_unopposed}
        return {**counts, "triplets": len(self.triplets)}

    def shuffled(self, rng: np.random.Generator, codes: Array | None = None) -> Array:
        """The triplets with their anchors in random order; grouped classes are the worst case of online learning.

        codes : class of each row; then as many anchors are drawn, evenly across the classes that have triplets.
        """
        if not len(self.triplets):
            return self.triplets
        anchors = self.triplets[:, 0]
        starts = np.flatnonzero(np.append(True, anchors[1:] != anchors[:-1]))
        sizes = np.diff(starts, append=len(anchors))
        order = rng.permutation(len(starts)) if codes is None else evenly(codes[anchors[starts]], len(starts), rng)
        sizes, starts = sizes[order], starts[order]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.triplets[np.repeat(starts, sizes) + within]


def evenly(classes: Array, n: int, rng: np.random.Generator) -> Array:
    """n places, each class equally often but for one: its places in turn, all in random order."""
    groups = [rng.permutation(np.flatnonzero(classes == c)) for c in rng.permutation(np.unique(classes))]
    share = -(-n // len(groups))
    return rng.permutation(np.stack([np.resize(group, share) for group in groups], axis=1).ravel()[:n])


@dataclass
class Near:
    """Targets and impostors of each anchor as tables of row numbers, nearest first, -1 where there are fewer."""

    anchors: Array
    targets: Array
    impostors: Array

    def renumbered(self, numbers: Array) -> "Near":
        """The same neighbors, row i called numbers[i]."""
        numbers = np.append(numbers, -1)
        return Near(*(numbers[table] for table in (self.anchors, self.targets, self.impostors)))

    def mined(self) -> Mined:
        """Every target of an anchor with every one of its impostors."""
        alone, unopposed = (self.targets < 0).all(axis=1), (self.impostors < 0).all(axis=1)
        row, target, impostor = np.nonzero((self.targets >= 0)[:, :, None] & (self.impostors >= 0)[:, None, :])
        columns = self.anchors[row], self.targets[row, target], self.impostors[row, impostor]
        triplets = np.stack(columns, axis=1).astype(np.int64, copy=False)
        return Mined(triplets, len(self.anchors), int(alone.sum()), int((unopposed & ~alone).sum()))


class Mining(Protocol):
    """How triplets are come by. Codes are classes of rows, below zero without one.

    least : nearest rows of other classes that are impostors however far they are.
    """

    @property
    def least(self) -> int: ...

    def on(self, space: Representation) -> Self:
        """The same for a representation that knows the features."""
        ...

    def rows(self, X: Rows) -> Rows:
        """X as triplets are mined in it."""
        ...

    def blocks(self, codes: Array, rng: np.random.Generator) -> list[Array]:
        """If labeled rows are too many to compare all with all, row numbers of random blocks that mine and learn by
        themselves, each with its share of every class; else none."""
        ...

    def mine(self, X: Rows, codes: Array, anchors: Array | None = None, space: Space | None = None) -> Mined:
        """Triplets from labels in mining rows, of all of them or of `anchors`; those without a label take no part."""
        ...

    def near(self, X: Rows, codes: Array, anchors: Array | None = None) -> Near:
        """Targets and impostors of the labeled rows, or of `anchors` among them, in mining rows."""
        ...

    def free(self, X: Rows, anchors: Array, rng: np.random.Generator) -> Array:
        """Class-free triplets around rows without labels, from who is near whom."""
        ...

    def quiet(self, mined: Mined, codes: Array, anchors: Array | None) -> Array:
        """For each class code, how many triplets its anchors (default: all rows) might have formed and did not."""
        ...


class Scaling(Protocol):
    """What makes learning independent of the units of X: one number, and the whitener before it (theory 21).

    word : "auto", the form of the whitener, or None: rows are taken as they are.
    """

    @property
    def word(self) -> str | None: ...

    def on(self, mining: Any) -> Self:
        """The same for mining that knows the features."""
        ...

    def whitener(self, X: Rows, pairs: Array | None) -> Whitener | None:
        """What X is multiplied by before it is scaled, from pairs (or triplets) that begin with near rows."""
        ...

    def labeled_whitener(self, X: Rows, codes: Array) -> Whitener | None:
        """The same from labels."""
        ...

    def first_whitener(self, X: Rows, pairs: Array | None) -> Whitener | None:
        """The same for a stream, which has not shown more than its first pairs."""
        ...

    def near_pairs(self, X: Rows, codes: Array, anchors: Array | None = None) -> Array | None:
        """Labeled rows, or `anchors` among them, and what is near them: what whiteners look at; None: they do not."""
        ...

    def scale(self, X: Rows, triplets: Array | None) -> Any:
        """What whitened rows are divided by; None as long as there are no triplets to tell."""
        ...


class Unlabeled(Protocol):
    """How rows without labels take part; a confidence is that of the label of each row, 1 if it was given.

    votes : whether rows that labeled ones agree on may vote.
    """

    @property
    def votes(self) -> bool: ...

    def between_epochs(self, trainer: Any, X: Rows, inside: Rows, codes: Array) -> tuple[Array, Array | None]:
        """Learn what they teach by themselves; class codes with those that may be filled in, and their confidence.

        inside : X, whitened. The confidence is None if labels are not to be filled in.
        """
        ...

    def joined(self, trainer: Any, pool: Rows, codes: Array, free: Rows) -> tuple[Rows, Array, Array | None]:
        """The same for rows of a stream: those labeled with confidence join the pool, for this call only."""
        ...

    def accept(self, metric: Any, X: Rows, codes: Array, places: Array, rng: Any) -> tuple[Array, Array]:
        """Class codes with those of confidently labeled rows filled in, and a confidence for each row."""
        ...

    def weights(self, triplets: Array, confidence: Array) -> Array:
        """Weight of each triplet: by its anchor and the less certain of its candidates."""
        ...


class Guarding(Protocol):
    """Who judges how far a read-out follows what was learned, and sets `strength` of a trainer's model (theory 22)."""

    def judge(self, trainer: Any, X: Rows, codes: Array, rng: np.random.Generator) -> None:
        """Judge on the rows of `fit`."""
        ...

    def due(self, before: int, after: int) -> bool:
        """Whether a stream that has seen so many triplets, before and after a call, is to be judged."""
        ...

    def meet(self, trainer: Any, X: Rows, codes: Array) -> None:
        """Judge on rows that a stream is about to learn."""
        ...

    def hear(self, trainer: Any, X: Rows, statements: Array, signs: Array, groups: Array | None) -> None:
        """Judge on what a stream of rows without labels is about to learn: pairs of rows, +1 if alike, -1 if not.

        groups : who speaks of each row, if several do.
        """
        ...

    def judge_stream(self, trainer: Any, X: Rows, codes: Array, given: bool) -> None:
        """Judge on rows that a stream has kept; if their triplets were given, on rows that it has just learned."""
        ...
