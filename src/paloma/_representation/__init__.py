"""How a model is held: dense matrices, or random projections and a journal; and how it is read out."""

from .dense import Dense, gram, segments_of
from .factored import FactoredMetric
from .grouped import FactorMetric, GroupedMetric
from .journal import Journal
from .metric import SHARED, UNSEEN, DenseMetric
from .projected import Projected, spanning
from .rows import identity_values

__all__ = [
    "SHARED",
    "UNSEEN",
    "Dense",
    "DenseMetric",
    "FactorMetric",
    "FactoredMetric",
    "GroupedMetric",
    "Journal",
    "Projected",
    "gram",
    "identity_values",
    "segments_of",
    "spanning",
]
