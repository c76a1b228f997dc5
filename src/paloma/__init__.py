"""paloma: passive-aggressive local metric learning.

Learns similarity and distance online, from triplets ("this should be nearer than that"), with one metric a class on
top of a shared one.
"""

from . import datasets, evaluate, exceptions, persist, preprocessing, triplets
from .estimators import L2ODML, L2OSL, LODML, LOSL, OASIS, ODML, OKS, OMDML, OMKS, SLMOML
from .neighbors import MetricKNeighborsClassifier
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
    "MetricKNeighborsClassifier",
    "datasets",
    "evaluate",
    "exceptions",
    "load",
    "persist",
    "preprocessing",
    "save",
    "triplets",
]
