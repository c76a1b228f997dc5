"""The classes that a model file may hold: nothing else is ever made by `load`.

They are paloma's own below the model files, so that a new learner is here because it exists; a few of scikit-learn; and
those that a user registers. None of them does anything when it is made: attributes are set, no code runs.
"""

import inspect
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from ..exceptions import ModelFileError

_OWN = ("_", "estimators", "neighbors", "preprocessing", "triplets")
_OTHERS = {
    "sklearn.cluster": ("KMeans", "MiniBatchKMeans"),
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
    known = _allowed().get(kind.__name__, _registered.get(kind.__name__, kind))
    if known is not kind:
        raise ValueError(f"{kind.__name__} is already the name of {known.__module__}.{known.__qualname__}.")
    _registered[kind.__name__] = kind
    return kind


@cache
def _allowed() -> dict[str, type]:
    """Class of each name."""
    others = [getattr(import_module(module), name) for module, names in _OTHERS.items() for name in names]
    return {kind.__name__: kind for kind in [*own_classes(), *others]}


def own_classes() -> list[type]:
    """Every class that paloma defines in the layers below the model files."""
    paloma = import_module("paloma")
    modules = [
        import_module(each.name)
        for each in walk_packages(paloma.__path__, "paloma.")
        if each.name.removeprefix("paloma.").startswith(_OWN) and "_kernels" not in each.name and "__" not in each.name
    ]
    return [kind for module in modules for kind in vars(module).values() if _defined_in(module.__name__, kind)]


def _defined_in(module: str, kind: Any) -> bool:
    return inspect.isclass(kind) and kind.__module__ == module and not inspect.isabstract(kind)


def class_of(name: str) -> type:
    """The class of this name, or an error where there is none."""
    kind = _allowed().get(name, _registered.get(name))
    if kind is None:
        raise ModelFileError(f"a class {name[:80]!r} is unknown to this paloma")
    return kind


def name_of(value: Any) -> str | None:
    """The name under which files hold instances of this very class; None where they may not."""
    kind = type(value)
    return kind.__name__ if _allowed().get(kind.__name__, _registered.get(kind.__name__)) is kind else None
