"""What may stand before a learner in a pipeline: a few transformers, with listed parameters and what `fit` has found.

Parameters are those by which a transformer is used or fitted again; all of them are checked by scikit-learn. Everything
found is public and documented there.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from .._core.fields import Field, Schema
from ..exceptions import ModelFileError
from ..preprocessing import FillMissing, UnitRows
from . import _plain
from ._flat import Reader, Writer
from ._learners import read_attributes, read_features, refuse_entries, refuse_unknown, write_attributes, write_features


class Step(NamedTuple):
    """A transformer, and what it has found, by the names of scikit-learn; d features come in, w go out."""

    kind: Any
    found: Schema


def _vector(name: str, low: float | None = None, optional: bool = False) -> Field:
    return Field(name, "floats", "d", low, optional=optional)


_SMALLEST = 1e-300
_MAP = (
    Field("components_", "floats", "w d", any_order=True),
    Field("explained_variance_", "floats", "w", 0.0),
    Field("explained_variance_ratio_", "floats", "w"),
    Field("singular_values_", "floats", "w"),
)
STEPS = {
    "StandardScaler": Step(StandardScaler, Schema(
        _vector("mean_", optional=True), _vector("var_", 0.0, optional=True),
        _vector("scale_", _SMALLEST, optional=True), Field("n_samples_seen_", "f8", "e<=d", 0.0),
    )),
    "MinMaxScaler": Step(MinMaxScaler, Schema(
        _vector("min_"), _vector("scale_", _SMALLEST), _vector("data_min_"), _vector("data_max_"),
        _vector("data_range_", 0.0), Field("n_samples_seen_", "int", low=0),
    )),
    "MaxAbsScaler": Step(MaxAbsScaler, Schema(
        _vector("scale_", _SMALLEST), _vector("max_abs_", 0.0), Field("n_samples_seen_", "int", low=0),
    )),
    "RobustScaler": Step(RobustScaler, Schema(
        _vector("center_", optional=True), _vector("scale_", _SMALLEST, optional=True)
    )),
    "Normalizer": Step(Normalizer, Schema()),
    "PCA": Step(PCA, Schema(
        _vector("mean_"), *_MAP, Field("n_components_", "int", low=1), Field("n_samples_", "int", low=0),
        Field("noise_variance_", "floats", "1"), rule=lambda found: _components_fit(found),
    )),
    "TruncatedSVD": Step(TruncatedSVD, Schema(*_MAP)),
    "FillMissing": Step(FillMissing, Schema(_vector("means_"))),
    "UnitRows": Step(UnitRows, Schema(Field("constant_", "float", low=0.0))),
}  # fmt: skip
# Which parameters need what was found.
_NEEDED = (
    ("with_mean", "mean_"), ("with_std", "scale_"), ("with_std", "var_"), ("with_centering", "center_"),
    ("with_scaling", "scale_"),
)  # fmt: skip
_OUTPUT = ("_sklearn_output_config",)
# Kept by scikit-learn for itself, and not needed: the solver that PCA chose.
_LEFT_OUT = {"_fit_svd_solver", "_sklearn_version", "n_features_in_", "feature_names_in_", *_OUTPUT}


def _components_fit(found: dict[str, Any]) -> str | None:
    return None if found["n_components_"] == len(found["components_"]) else "n_components_ does not fit components_"


def write_step(writer: Writer, step: Any, where: str) -> Any:
    """JSON of a transformer, or of "passthrough"."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return step
    known = STEPS.get(type(step).__name__)
    if known is None or known.kind is not type(step):
        raise ModelFileError(
            f"{where} is {_plain.described(step)}, which a model file cannot hold. Save the last step by itself, "
            "paloma.save(model[-1], path), and the transformers as scikit-learn advises; a file holds "
            f"{', '.join(sorted(STEPS))}."
        )
    names, parameters = [entry.name for entry in known.found.entries], step.get_params(deep=False)
    refuse_unknown(vars(step), {*names, *parameters, *_LEFT_OUT}, where)
    found = {name: getattr(step, name) for name in names}
    if "n_samples_seen_" in found and type(step) is StandardScaler:
        found["n_samples_seen_"] = np.atleast_1d(np.asarray(found["n_samples_seen_"], np.float64))
    if "noise_variance_" in found:
        found["noise_variance_"] = np.atleast_1d(found["noise_variance_"])
    return {
        "class": type(step).__name__,
        "parameters": {k: _plain.written(writer, v, f"{where}.{k}") for k, v in parameters.items()},
        "attributes": write_attributes(writer, step, _OUTPUT, where),
        "features": write_features(writer, step, where),
        "found": writer.state(known.found, found, {"d": step.n_features_in_}, f"{where}.found"),
    }


def read_step(reader: Reader, node: Any, where: str) -> Any:
    """The transformer of such JSON."""
    if node in (None, "passthrough"):
        return node
    refuse_entries(node, {"class", "parameters", "attributes", "features", "found"}, where)
    if node["class"] not in STEPS:
        raise ModelFileError(f"{where}: a step of the class {str(node['class'])[:80]!r} is unknown to this paloma")
    known = STEPS[node["class"]]
    refuse_entries(node["parameters"], set(known.kind._get_param_names()), where)
    step = known.kind(**{k: _plain.read(reader, v, f"{where}.{k}") for k, v in node["parameters"].items()})
    if hasattr(step, "_parameter_constraints"):
        step._validate_params()
    read_attributes(reader, step, node["attributes"], _OUTPUT, where)
    read_features(reader, step, node["features"], where)
    found = reader.state(known.found, node["found"], {"d": step.n_features_in_}, f"{where}.found")
    if type(step) is StandardScaler and len(seen := found["n_samples_seen_"]) == 1:
        found["n_samples_seen_"] = seen[0]
    if "noise_variance_" in found:
        found["noise_variance_"] = found["noise_variance_"][0]
    for switch, name in _NEEDED:
        if getattr(step, switch, False) and found[name] is None:
            raise ModelFileError(f"{where}.found.{name} is missing, and {switch} needs it")
    vars(step).update(found)
    return step


def width_after(step: Any, d: int) -> int:
    """How many features a step gives, for d that come in; refuses a step that takes another number."""
    if step is None or isinstance(step, str):
        return d
    if step.n_features_in_ != d:
        raise ModelFileError(f"{type(step).__name__} takes {step.n_features_in_} features and is given {d}")
    if hasattr(step, "components_"):
        return len(step.components_)
    return d + (getattr(step, "constant_", 0.0) > 0)
