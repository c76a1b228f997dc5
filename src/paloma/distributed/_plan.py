"""What is decided before the first round: what the shards contain, which rows are held out, who is near whom.

Everything here runs on workers and calls the learner, `paloma.triplets` or `paloma._training.partitions`.
"""

from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from .._core.locality import FREE, Labels, labeled
from .._rows import stacked
from .._training.partitions import Found, Partition, meet, total_of
from .._training.parts import Near
from .._training.reservoir import Reservoir
from .._typing import Array
from ..estimators import bound_settings_of, settings_of
from ._shards import Rows, read


@dataclass
class About:
    """What one shard holds; `total` is the sum of its rows, `labels` a checksum of its labels in their order."""

    n: int
    width: int
    dtype: Any
    sparse: bool
    names: Any
    classes: Array
    counts: Array
    total: Array = field(repr=False)
    labels: int


def describe(learner: Any, pair: Any, number: int) -> About:
    """Check a shard and count what is in it."""
    learner = clone(learner)
    rows = read(learner, pair, number)
    known = labeled(rows.y, settings_of(learner).unlabeled)
    classes, counts = np.unique(known, return_counts=True)
    names = getattr(learner, "feature_names_in_", None)
    kept = rows.X if len(known) == len(rows.y) else rows.X[rows.y != learner.unlabeled]
    kind = len(rows.y), rows.X.shape[1], rows.X.dtype, sp.issparse(rows.X), names
    return About(*kind, classes, counts, total_of(kept), crc32(repr(rows.y.tolist()).encode()))


@dataclass
class Job:
    """One shard of one fit: all that its tasks need besides its rows. `first` numbers its rows in the whole data."""

    number: int
    first: int
    seed: int
    n_held: int
    dtype: Any
    labels: Labels

    def held(self, n: int) -> Array:
        """Row numbers that are kept back from learning."""
        rng = np.random.default_rng((self.seed, 0, self.number))
        return np.sort(rng.choice(n, min(self.n_held, n), replace=False))

    def random(self, round_number: int) -> np.random.Generator:
        """Randomness of this shard in a round, counted from 1."""
        return np.random.default_rng((self.seed, round_number, self.number))


def rows_of(learner: Any, pair: Any, job: Job) -> tuple[Rows, Array]:
    """A shard's rows and their class codes; FREE for those held out or without a label."""
    rows = read(learner, pair, job.number, job.dtype)
    return rows, rows.codes(learner, job.labels, job.held(len(rows.y)))


def held_out(learner: Any, pair: Any, job: Job) -> tuple[Any, Array]:
    """The labeled rows among those kept back."""
    rows = read(learner, pair, job.number, job.dtype)
    kept = job.held(len(rows.y))
    kept = kept[np.isin(rows.y[kept], job.labels.labels)]
    return rows.X[kept], rows.y[kept]


def together(parts: list[tuple[Any, Array]]) -> tuple[Any, Array]:
    """Rows and labels of several shards."""
    parts = [part for part in parts if len(part[1])] or parts[:1]
    return stacked([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def reservoir_of(learner: Any, pair: Any, job: Job) -> Reservoir:
    """A sample of each class of a shard, for learning that continues later."""
    rows, codes = rows_of(learner, pair, job)
    out = Reservoir(learner.reservoir_size, window=learner.memory == "window")
    out.add(rows.X, codes, job.random(0))
    return out


# -- who is near whom ----------------------------------------------------------------------------------------------


@dataclass
class Plan:
    """Neighbors of a shard's rows, numbered in the shard's pool: its own rows, then those that others lent it."""

    near: Near
    scale: Any
    n_triplets: int
    summary: dict[str, int]
    lent: Any = None
    lent_codes: Array = field(default_factory=lambda: np.empty(0, np.int32))
    lent_numbers: Array = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, learner: Any, near: Near, pool: Any, summary: Any = None, **lent: Any) -> "Plan":
        mined = near.mined()
        scale = bound_settings_of(learner).scaling.scale(pool, mined.triplets)
        tables = Near(*(a.astype(np.int32) for a in (near.anchors, near.targets, near.impostors)))
        return cls(tables, scale, len(mined.triplets), summary or mined.summary(), **lent)

    def figures(self) -> tuple[Any, int, dict[str, int]]:
        return self.scale, self.n_triplets, self.summary

    def pool(self, X: Any, codes: Array, first: int) -> tuple[Any, Array, Array]:
        """Rows, class codes and numbers in the whole data that the triplets are about."""
        numbers = first + np.arange(len(codes))
        if self.lent is None:
            return X, codes, numbers
        together = np.concatenate([codes, self.lent_codes]), np.concatenate([numbers, self.lent_numbers])
        return stacked([X, self.lent]), *together


def plan_within(learner: Any, pair: Any, job: Job) -> Plan:
    """Targets and impostors among the rows of the shard itself."""
    rows, codes = rows_of(learner, pair, job)
    known = np.flatnonzero(codes != FREE)
    if len(np.unique(codes[known])) < 2:
        nobody = np.full((len(known), 1), -1)
        return Plan.of(learner, Near(known, nobody, nobody), rows.X)
    mining = bound_settings_of(learner).mining
    return Plan.of(learner, mining.near(mining.rows(rows.X), codes), rows.X)


def partition(learner: Any, pair: Any, job: Job) -> Partition:
    """The rows of a shard that take part, with their numbers in the whole data."""
    rows, codes = rows_of(learner, pair, job)
    known = np.flatnonzero(codes != FREE)
    X = rows.X if len(known) == len(codes) else rows.X[known]
    return Partition(bound_settings_of(learner).mining.rows(X), codes[known], job.first + known)


def look(learner: Any, found: Found | None, own: Any, jobs: tuple[Job, Job], other: Any, center: Any) -> Found:
    """Let a shard look for neighbors in another one, or in itself."""
    mine = partition(learner, own, jobs[0])
    theirs = mine if jobs[0].number == jobs[1].number else partition(learner, other, jobs[1])
    if found is None:
        found = Found.nothing(len(mine.codes), learner.n_targets, learner.n_impostors)
    return meet(found, mine, theirs, center)


def sums_of(found: Found) -> tuple[float, Any, int]:
    """Squared norms of a shard's rows about the center, and the rows, added up; and how many rows there are."""
    return found.norms, found.total, len(found.targets[0])


@dataclass
class Wanted:
    """Neighbors by number in the whole data, and the numbers of those that lie in other shards."""

    near: Near
    numbers: Array
    summary: dict[str, int]


def want(learner: Any, pair: Any, job: Job, found: Found, slack: float) -> Wanted:
    """Who the neighbors of a shard's rows are, once all shards were looked at."""
    mine = partition(learner, pair, job)
    near = found.near(mine.numbers, slack, settings_of(learner).mining.least)
    usable = ~((near.targets < 0).all(axis=1) | (near.impostors < 0).all(axis=1))
    named = np.unique(np.concatenate([near.targets[usable].ravel(), near.impostors[usable].ravel()]))
    here = (named >= job.first) & (named < job.first + pair[0].shape[0])
    return Wanted(near, named[(named >= 0) & ~here], near.mined().summary())


def near_of(wanted: Wanted) -> Near:
    return wanted.near


def numbers_of(wanted: Wanted) -> Array:
    return wanted.numbers


def lend(learner: Any, pair: Any, job: Job, wanted: list[Array]) -> list[Any]:
    """The rows of a shard that each of the others asks for: (rows, codes, numbers)."""
    rows, codes = rows_of(learner, pair, job)
    out = []
    for numbers in wanted:
        asked = numbers[(numbers >= job.first) & (numbers < job.first + len(codes))]
        out.append((rows.X[asked - job.first], codes[asked - job.first], asked))
    return out


def plan_across(learner: Any, pair: Any, job: Job, wanted: Wanted, lent: list[Any]) -> Plan:
    """Neighbors over all shards, and the rows of other shards that they are."""
    rows, _ = rows_of(learner, pair, job)
    n, lent = rows.X.shape[0], [part for part in lent if len(part[1])]
    numbers = np.concatenate([job.first + np.arange(n), *(part[2] for part in lent)])
    place = np.argsort(numbers)
    near = Near(*(_places(table, numbers[place], place) for table in vars(wanted.near).values()))
    if not lent:
        return Plan.of(learner, near, rows.X, wanted.summary)
    X, codes = stacked([part[0] for part in lent]), np.concatenate([part[1] for part in lent])
    pool, lent_numbers = stacked([rows.X, X]), numbers[n:]
    return Plan.of(learner, near, pool, wanted.summary, lent=X, lent_codes=codes, lent_numbers=lent_numbers)


def _places(table: Array, known: Array, place: Array) -> Array:
    """Places in the pool of rows given by their numbers, which `known` lists in order; -1 for rows not in it."""
    at = np.minimum(np.searchsorted(known, table), max(len(known) - 1, 0))
    return np.where(known[at] == table, place[at], -1) if len(known) else np.full(table.shape, -1)
