"""paloma: passive-aggressive local metric learning.

Learns similarity and distance online, from triplets ("this should be closer than that"), with one metric per class on
top of a shared one.

Everything below is imported when it is first used: `import paloma` by itself takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

if TYPE_CHECKING:
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
    from ._device import tf32
    from .estimators import L2ODML, L2OSL, LODML, LOSL, OASIS, ODML, OKS, OMDML, OMKS, SLMOML, DiagonalODML
    from .neighbors import MetricIndex, MetricKNeighborsClassifier
    from .persist import load, save
    from .workflow import train

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
    "tf32",
    "train",
    "triplets",
    "workflow",
]

# Where names that are no modules live; the others are learners.
_HOME = {
    "MetricIndex": "neighbors",
    "MetricKNeighborsClassifier": "neighbors",
    "load": "persist",
    "save": "persist",
    "tf32": "_device",
    "train": "workflow",
}


# Packages whose contents are reached from here, but that may be named all the same.
_INNER = ("estimators", "neighbors", "serve", "stream")


def __getattr__(name: str) -> Any:
    if name not in __all__ and name not in _INNER:
        raise AttributeError(f"module 'paloma' has no attribute {name!r}")
    if name.islower() and name not in _HOME:
        return import_module(f".{name}", __name__)
    value = globals()[name] = getattr(import_module(f".{_HOME.get(name, 'estimators')}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
