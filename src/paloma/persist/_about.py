"""What a model file says about itself to people and other tools; `load` does not need it."""

import platform
from functools import cache
from importlib.metadata import version
from typing import Any

from threadpoolctl import ThreadpoolController

from .._version import __version__
from ..estimators import learner_of

# Classes, and features, that are named.
LISTED = 1000
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "safetensors")


def summary(model: Any) -> dict[str, Any]:
    """Learner, parameters, classes, features and counters as plain JSON."""
    learner = learner_of(model)
    parameters = learner.get_params(deep=False) if hasattr(learner, "get_params") else {}
    known = (getattr(model, "columns_", None) or {}).get("features")
    columns = getattr(model, "feature_names_in_", ()) if known is None else known
    return {
        "model": type(model).__name__,
        "learner": type(learner).__name__,
        "parameters": {name: repr(value)[:200] for name, value in parameters.items()},
        "classes": [str(label)[:200] for label in getattr(learner, "classes_", ())[:LISTED]],
        "features": [str(name)[:200] for name in list(columns)[:LISTED]],
        "n_features": int(getattr(learner, "n_features_in_", 0)),
        "n_triplets": int(getattr(learner, "n_triplets_", 0)),
        "n_updates": int(getattr(learner, "n_updates_", 0)),
    }


def environment() -> dict[str, Any]:
    """Versions of Python and the libraries, BLAS and its threads: what the last bits depend on.

    Examples
    --------
    >>> sorted(environment())
    ['libraries', 'machine', 'python', 'threads']
    """
    pools = [{key: pool.get(key) for key in ("user_api", "internal_api", "version", "architecture", "num_threads")}
             for pool in _pools().info()]  # fmt: skip
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": _versions(),
        "threads": pools,
    }


@cache
def _pools() -> ThreadpoolController:
    """The libraries that have threads; finding them takes milliseconds, asking them does not."""
    return ThreadpoolController()


@cache
def _versions() -> dict[str, str]:
    return {"paloma": __version__, **{name: version(name) for name in _LIBRARIES}}
