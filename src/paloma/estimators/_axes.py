"""Two axes of a learner as classes to inherit: locality (shared, per class) and representation (dense, projected)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._locality import Labels, Locality
from ..triplets import Reservoir
from ._model import DenseModel, ProjectedModel
from .base import Learner

Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class SharedLearner(Learner):
    """One metric for all classes."""

    def _locality(self) -> Locality:
        return Locality.shared()


@dataclass(kw_only=True, eq=False, repr=False)
class PerClassLearner(Learner):
    """M_c = lam U + (1 - lam) L_c."""

    lam: float = 0.5

    def _locality(self) -> Locality:
        check.check_real("lam", self.lam, 0.0, 1.0)
        return Locality.per_class(self.lam)


@dataclass(kw_only=True, eq=False, repr=False)
class PerRegionLearner(PerClassLearner):
    """Per class, or per region of space where `regions` are given."""

    regions: Any = None
    soft_regions: bool = False

    def _locality(self) -> Locality:
        check.check_word("soft_regions", self.soft_regions, (True, False))
        if not (self.regions is None or callable(self.regions) or hasattr(self.regions, "predict")):
            check.check_count("regions", self.regions)
        if self.regions is not None and not self._linear:
            raise ValueError(f"{check.name_of(self)} localises by class: regions=None only.")
        if self.soft_regions and (self.regions is None or self.psd in ("step", "exact")):
            raise ValueError("soft_regions=True needs regions, and psd other than 'step' and 'exact'.")
        return super()._locality()


@dataclass(kw_only=True, eq=False, repr=False)
class DenseLearner(Learner):
    """Holds U and one L a class as dense d x d matrices."""

    _linear: ClassVar[bool] = True
    _decays: ClassVar[bool] = True

    def _check_held(self, d: int) -> None:
        self._start(d, np.dtype(float), 1.0)

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
    _linear: ClassVar[bool] = True
    _decays: ClassVar[bool] = True

    def _check_held(self, d: int) -> None:
        if not isinstance(self.init, str):
            raise ValueError(f"{check.name_of(self)} starts at init='identity' only: it never holds a d x d matrix.")
        check.check_word("init", self.init, ("identity",))
        for name in ("n_components", "rank"):
            if getattr(self, name) != "auto":
                check.check_count(name, getattr(self, name))
                if getattr(self, name) > d:
                    raise ValueError(f"{name}={getattr(self, name)} is more than the {d} features of X.")
        if getattr(self, "soft_regions", False):
            raise ValueError(f"{check.name_of(self)} keeps one code a pair in its journal: soft_regions=False only.")
        check.check_count("n_power_iter", self.n_power_iter, 0)
        check.check_word("projection", self.projection, ("gaussian", "sparse"))
        if self.max_journal is not None:
            check.check_count("max_journal", self.max_journal)

    @property
    def exact_(self) -> bool:
        """Whether the rows span so few directions that learning ran in their exact coordinates, not on projections."""
        check_is_fitted(self)
        return bool(self._model.state.exact)

    def _new_model(
        self, labels: Labels, rng: np.random.Generator, reservoir: Reservoir, scale: float | None
    ) -> ProjectedModel:
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
