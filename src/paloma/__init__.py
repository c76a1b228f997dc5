"""paloma: passive-aggressive local metric learning.

Learns similarity and distance online, from triplets ("this should be nearer than that"), with one metric a class on
top of a shared one.
"""

from . import datasets, distributed, evaluate, exceptions, metrics, persist, preprocessing, triplets
from .estimators import L2ODML, L2OSL, LODML, LOSL, OASIS, ODML, OKS, OMDML, OMKS, SLMOML
from .neighbors import MetricIndex, MetricKNeighborsClassifier
from .persist import load, save

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
    "MetricIndex",
    "MetricKNeighborsClassifier",
    "datasets",
    "distributed",
    "evaluate",
    "exceptions",
    "load",
    "metrics",
    "persist",
    "preprocessing",
    "save",
    "triplets",
]
