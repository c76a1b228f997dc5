"""The parameters every learner has, their checks, and the parts they choose."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .. import _validation as check
from .._locality import Locality
from .._measure import Measure
from .._parts import Parts
from .._psd import Psd
from .._step import Step
from ._docs import COMMON, REGIONS
from ._semi import Semi

Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters(BaseEstimator):
    """Keyword parameters of a learner, documented in the classes that are exported."""

    C: float = 0.02
    step: str = "pa1"
    step_params: dict[str, float] | None = None
    margin: float = 1.0
    forget: float = 0.0
    psd: str | int = "never"
    project: str = "auto"
    scale: str | None = "auto"
    average: bool | str = "auto"
    init: str | ArrayLike = "identity"
    unlabeled: Any = None
    semi: str = "neighbours"
    semi_params: dict[str, float] | None = None
    n_targets: int = 3
    n_impostors: int = 10
    impostor_margin: float = 0.1
    n_epochs: int = 4
    remine: bool = False
    early_stopping: bool = False
    validation_fraction: float = 0.1
    reservoir_size: int = 64
    memory: str = "auto"
    balanced: bool = False
    pair_threshold: float | str = "auto"
    block_size: int | str = "auto"
    random_state: Any = None
    verbose: int = 0

    _common: ClassVar[str] = COMMON
    _measure: ClassVar[Measure]
    _sparse: ClassVar[bool] = False
    # Whether a step adds pair features to matrices in the space of X; then pairs are triplets with a null candidate
    # and rows can belong to regions. A representation says so, and whether what it holds can decay.
    _linear: ClassVar[bool] = False
    _decays: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__doc__:
            cls.__doc__ = cls.__doc__.replace("{common}", cls._common).replace("{regions}", REGIONS)

    # -- the parts -------------------------------------------------------------------------------------------

    @abstractmethod
    def _locality(self) -> Locality:
        """Which part of the model classes share."""

    def _parts(self) -> Parts:
        """The learner as a choice on each axis; checks every parameter."""
        check.check_real("C", self.C, 0.0, open_low=True)
        check.check_real("margin", self.margin, 0.0, 1e30, open_low=True)
        check.check_real("impostor_margin", self.impostor_margin, 0.0, 1e30)
        check.check_real("validation_fraction", self.validation_fraction, 0.0, 0.9, open_low=True)
        for name in ("n_targets", "n_impostors", "n_epochs", "reservoir_size"):
            check.check_count(name, getattr(self, name))
        self._semi()
        check.check_word("memory", self.memory, ("auto", "sample", "window"))
        check.check_word("balanced", self.balanced, (True, False))
        if self.pair_threshold != "auto":
            check.check_real("pair_threshold", self.pair_threshold, -1e300, 1e300)
        check.check_word("scale", self.scale, ("auto", None))
        check.check_word("project", self.project, ("auto", "components", "effective"))
        check.check_word("average", self.average, ("auto", True, False))
        if self.block_size != "auto":
            check.check_count("block_size", self.block_size)
        step = Step.parse(self.step, self.step_params)
        if step.name == "logistic" and not np.isfinite(self.C):
            raise ValueError(f"step='logistic' always steps, up to C: C must be finite, got {self.C!r}.")
        psd = Psd.parse(self.psd, self.step)
        if not self._measure.symmetric and psd.word not in ("never", "end"):
            raise ValueError(f"psd={self.psd!r} is for distances; a similarity takes 'never' or 'end' (spec E7).")
        check.check_real("forget", self.forget, 0.0, 0.999)
        if self.forget and not self._decays:
            raise ValueError(f"{check.name_of(self)} cannot forget: it takes forget=0 only.")
        if self.forget and psd.word not in ("never", "end"):
            raise ValueError(f"forget={self.forget} goes with psd='never' or 'end', got psd={self.psd!r}: decay "
                             "towards the start and projections inside the loop do not commute.")  # fmt: skip
        return Parts(self._measure, self._locality(), step, psd, float(self.C), float(self.margin), float(self.forget))

    def _semi(self) -> Semi:
        """What is learnt from rows without labels."""
        return Semi.parse(self.semi, self.semi_params)

    def _start(self, d: int, dtype: Any, scale: float) -> Array:
        """Theta_0 in scaled units."""
        if isinstance(self.init, str):
            check.check_word("init", self.init, ("identity",))
            return np.eye(d, dtype=dtype)
        start = np.asarray(self.init, dtype)
        if start.shape != (d, d) or not np.isfinite(start).all():
            raise ValueError(f"init must be 'identity' or a finite ({d}, {d}) array, got shape {start.shape}.")
        if self._measure.symmetric and not np.allclose(start, start.T):
            raise ValueError("init must be symmetric for a distance.")
        return np.ascontiguousarray(start * dtype.type(scale * scale))
