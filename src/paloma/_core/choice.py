"""A learner as a choice on each axis; `paloma._core.space.Representation` is the one axis with state behind it."""

from dataclasses import dataclass

from .locality import Locality
from .measure import Measure
from .psd import Psd
from .step import Step


@dataclass(frozen=True)
class Choice:
    """Measure, locality, step and p.s.d. policy, and the numbers of the step; `forget` is 1 - g of `decay`."""

    measure: Measure
    locality: Locality
    step: Step
    psd: Psd
    C: float
    margin: float
    forget: float = 0.0
