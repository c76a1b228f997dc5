"""What a model file says about itself to people and other tools; `load` does not need it."""

import platform
from functools import cache
from importlib.metadata import version
from typing import Any

from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_info

_LIBRARIES = ("paloma", "numpy", "scipy", "scikit-learn", "numba", "safetensors")


def learner_of(model: Any) -> Any:
    """The learner inside a pipeline, a frozen estimator, a classifier or an index; else the model itself."""
    while True:
        if isinstance(model, Pipeline):
            model = model[-1]
        held = [vars(model)[name] for name in ("metric_", "metric", "estimator") if name in vars(model)]
        if not held:
            return model
        model = held[0]


def summary(model: Any) -> dict[str, Any]:
    """Learner, parameters, classes, features and counters as plain JSON."""
    learner = learner_of(model)
    parameters = learner.get_params(deep=False) if hasattr(learner, "get_params") else {}
    return {
        "model": type(model).__name__,
        "learner": type(learner).__name__,
        "parameters": {name: repr(value)[:200] for name, value in parameters.items()},
        "classes": [str(label) for label in getattr(learner, "classes_", ())],
        "features": [str(name) for name in getattr(learner, "feature_names_in_", ())],
        "n_features": int(getattr(learner, "n_features_in_", 0)),
        "n_triplets": int(getattr(learner, "n_triplets_", 0)),
        "n_updates": int(getattr(learner, "n_updates_", 0)),
    }


def environment() -> dict[str, Any]:
    """Versions of Python and the libraries, BLAS and its threads: what the last bits depend on."""
    pools = [{key: pool.get(key) for key in ("user_api", "internal_api", "version", "architecture", "num_threads")}
             for pool in threadpool_info()]  # fmt: skip
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": _versions(),
        "threads": pools,
    }


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in _LIBRARIES}
