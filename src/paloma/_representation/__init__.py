"""How a model is held: dense matrices, random projections and a journal, or index space; and how it is read out."""

from .dense import Dense, gram, segments_of
from .factored import FactoredMetric, refuse_dense
from .grouped import FactorMetric, GroupedMetric
from .index import Index
from .journal import Journal
from .kernel import PRECOMPUTED, Kernel
from .kernel_metric import KernelMetric
from .metric import SHARED, UNSEEN, DenseMetric
from .projected import Projected, spanning
from .rows import identity_values

__all__ = [
    "PRECOMPUTED",
    "SHARED",
    "UNSEEN",
    "Dense",
    "DenseMetric",
    "FactorMetric",
    "FactoredMetric",
    "GroupedMetric",
    "Index",
    "Journal",
    "Kernel",
    "KernelMetric",
    "Projected",
    "gram",
    "identity_values",
    "refuse_dense",
    "segments_of",
    "spanning",
]
