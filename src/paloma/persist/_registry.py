"""The classes that a model file may hold: nothing else is ever made by `load`.

A learner is here because `paloma.estimators` exports it; a new class behind one costs its name in `_ALLOWED`.
"""

from functools import cache
from importlib import import_module
from typing import Any

from ..exceptions import ModelFileError

_ALLOWED = {
    "paloma.estimators._model": ("DenseModel", "ProjectedModel"),
    "paloma.estimators._vectors": ("Balance",),
    "paloma.neighbors": ("MetricKNeighborsClassifier", "MetricIndex"),
    "paloma.preprocessing": ("UnitRows",),
    "paloma.triplets": ("Reservoir",),
    "paloma._learner": ("Parts",),
    "paloma._locality": ("Labels", "Locality"),
    "paloma._measure": ("Distance", "Similarity"),
    "paloma._psd": ("Psd",),
    "paloma._search": ("LocalItems",),
    "paloma._step": ("Step",),
    "paloma._representation": ("Dense", "DenseMetric", "FactoredMetric", "Projected"),
    "paloma._representation.journal": ("Journal",),
    "sklearn.decomposition": ("PCA", "TruncatedSVD"),
    "sklearn.frozen": ("FrozenEstimator",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("MaxAbsScaler", "MinMaxScaler", "Normalizer", "RobustScaler", "StandardScaler"),
}
_registered: dict[str, type] = {}


def register(kind: type) -> type:
    """Allow model files to hold instances of a class of yours, under its name; usable as a decorator.

    It must be registered before `load` as well. `paloma.persist._state` says how instances are taken apart.

    Examples
    --------
    >>> @register
    ... class Note:
    ...     text = "kept with the model"
    >>> name_of(Note())
    'Note'
    """
    known = class_of(kind.__name__, None)
    if known not in (None, kind):
        raise ValueError(f"{kind.__name__} is already the name of {known.__module__}.{known.__qualname__}.")
    _registered[kind.__name__] = kind
    return kind


@cache
def _modules() -> dict[str, str]:
    """Module of each allowed name."""
    learners = dict.fromkeys(import_module("paloma.estimators").__all__, "paloma.estimators")
    return learners | {name: module for module, names in _ALLOWED.items() for name in names}


def class_of(name: str, default: Any = ModelFileError) -> Any:
    """The class of this name, or an error (or `default`) where there is none."""
    module = _modules().get(name)
    kind = _registered.get(name) if module is None else getattr(import_module(module), name, None)
    if kind is None and default is ModelFileError:
        raise ModelFileError(f"a class {name[:80]!r} is unknown to this paloma")
    return default if kind is None else kind


def name_of(value: Any) -> str | None:
    """The name under which files hold instances of this very class; None where they may not."""
    name = type(value).__name__
    return name if class_of(name, None) is type(value) else None
