"""The representation axis of the learners: dense matrices, or dual random projection."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import _validation as check
from .._locality import Labels
from ..triplets import Reservoir
from ._model import DenseModel, ProjectedModel
from .base import Learner

Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class DenseLearner(Learner):
    """Holds U and one L a class as dense d x d matrices."""

    def _new_model(
        self, labels: Labels, rng: np.random.Generator, reservoir: Reservoir, scale: float | None
    ) -> DenseModel:
        return DenseModel(labels, rng, reservoir, scale, project=self.project, symmetric=self._measure.symmetric)


@dataclass(kw_only=True, eq=False, repr=False)
class ProjectedLearner(Learner):
    """Learns on random projections and replays the steps on the original rows; never holds a d x d matrix."""

    n_components: int | str = "auto"
    rank: int | str = "auto"
    n_power_iter: int = 2
    projection: str = "gaussian"
    max_journal: int | None = 1_000_000

    _sparse: ClassVar[bool] = True

    def _new_model(
        self, labels: Labels, rng: np.random.Generator, reservoir: Reservoir, scale: float | None
    ) -> ProjectedModel:
        for name in ("n_components", "rank"):
            if getattr(self, name) != "auto":
                check.check_count(name, getattr(self, name))
        check.check_count("n_power_iter", self.n_power_iter, 0)
        check.check_word("projection", self.projection, ("gaussian", "sparse"))
        if self.max_journal is not None:
            check.check_count("max_journal", self.max_journal)
        return ProjectedModel(
            labels,
            rng,
            reservoir,
            scale,
            project=self.project,
            symmetric=self._measure.symmetric,
            n_components=self.n_components,
            rank=self.rank,
            n_power_iter=self.n_power_iter,
            projection=self.projection,
            max_journal=self.max_journal,
        )
