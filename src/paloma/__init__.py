"""paloma: passive-aggressive local metric learning.

Learns similarity and distance online, from triplets ("this should be closer than that"), with one metric per class on
top of a shared one.
"""

from . import (
    datasets,
    distributed,
    evaluate,
    exceptions,
    export,
    feedback,
    metrics,
    persist,
    plot,
    preprocessing,
    triplets,
    workflow,
)
from .estimators import L2ODML, L2OSL, LODML, LOSL, OASIS, ODML, OKS, OMDML, OMKS, SLMOML, DiagonalODML
from .neighbors import MetricIndex, MetricKNeighborsClassifier
from .persist import load, save
from .workflow import train

__version__ = "0.1.0"

__all__ = [
    "L2ODML",
    "L2OSL",
    "LODML",
    "LOSL",
    "OASIS",
    "ODML",
    "OKS",
    "OMDML",
    "OMKS",
    "SLMOML",
    "DiagonalODML",
    "MetricIndex",
    "MetricKNeighborsClassifier",
    "datasets",
    "distributed",
    "evaluate",
    "exceptions",
    "export",
    "feedback",
    "load",
    "metrics",
    "persist",
    "plot",
    "preprocessing",
    "save",
    "train",
    "triplets",
    "workflow",
]
