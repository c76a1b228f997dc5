"""What the shards hold, all together: classes, sizes, kinds; what does not fit together is refused."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _validation as check
from .._core.locality import Labels
from ..estimators import settings_of
from . import _plan as plan
from ._runner import Here, There, later

HELD_ROWS = 2000


@dataclass
class Survey:
    """Shards, what they hold, and for each the job that its tasks share."""

    learner: Any
    runner: Here | There
    shards: list[Any]
    about: list[plan.About]
    jobs: list[plan.Job]

    @classmethod
    def of(cls, learner: Any, runner: Here | There, shards: list[Any], held_out: float) -> "Survey":
        """Look at every shard once, with a separate learner; shards that the workers have room for stay there."""
        about = runner.fetch(runner.run([later(plan.describe, learner, pair, k) for k, pair in enumerate(shards)]))
        _check_widths(learner, about)
        first = next(one for one in about if one.n)
        learner.n_features_in_ = first.width
        if first.names is not None:
            learner.feature_names_in_ = first.names
        settings_of(learner).bound(first.width, first.names)
        kept = runner.kept(shards, _bytes(about))
        return cls(learner, runner, kept, about, _jobs(learner, about, held_out))

    @property
    def each(self) -> list[tuple[Any, plan.Job]]:
        """The shards, each with its job."""
        return list(zip(self.shards, self.jobs, strict=True))

    @property
    def first(self) -> plan.About:
        """The first shard that has rows."""
        return next(one for one in self.about if one.n)

    @property
    def n_rows(self) -> int:
        return sum(one.n for one in self.about)

    @property
    def n_bytes(self) -> int:
        return _bytes(self.about)

    def run(self, tasks: list[Any]) -> list[Any]:
        return self.runner.run(tasks)

    def fetch(self, tasks: list[Any]) -> list[Any]:
        """Run tasks and bring their results here."""
        return self.runner.fetch(self.runner.run(tasks))


def _bytes(about: list[plan.About]) -> int:
    return sum(one.n * one.width * one.dtype.itemsize for one in about)


def _check_widths(learner: Any, about: list[plan.About]) -> None:
    filled = [k for k, one in enumerate(about) if one.n]
    if not filled:
        raise ValueError(f"{check.name_of(learner)}: all {len(about)} partitions are empty.")
    first = about[filled[0]]
    for k in filled:
        if about[k].width != first.width:
            raise ValueError(
                f"Partition {k}: X has {about[k].width} features, but partition {filled[0]} has {first.width}."
            )
        if not np.array_equal(about[k].names, first.names):
            raise ValueError(f"Partition {k}: its column names differ from those of partition {filled[0]}.")
        if about[k].sparse != first.sparse:
            raise ValueError(f"Partition {k} and partition {filled[0]} differ: one is sparse, the other is not.")


def _jobs(learner: Any, about: list[plan.About], held_out: float) -> list[plan.Job]:
    labels = _labels(about)
    if len(labels) < 2:
        raise ValueError(
            f"{check.name_of(learner)} learns from rows of at least 2 classes, got {len(labels)} class"
            f"{'' if len(labels) == 1 else 'es'}."
        )
    dtype = np.result_type(*(one.dtype for one in about if one.n))
    seed = int(settings_of(learner).generator().integers(np.iinfo(np.int32).max))
    limit = HELD_ROWS // len(about) + 1
    firsts = np.cumsum([0, *(one.n for one in about)]).tolist()
    return [
        plan.Job(k, firsts[k], seed, min(int(held_out * one.n), limit), dtype, labels) for k, one in enumerate(about)
    ]


def _labels(about: list[plan.About]) -> Labels:
    """The classes of all shards, in sorted order."""
    labels = Labels()
    for k, one in enumerate(about):
        try:
            labels = labels.extended(one.classes)
        except TypeError as error:
            raise TypeError(f"Partition {k}: {error}") from None
    return Labels(labels.sorted)
