"""Everything that `save` takes: learners, classifiers, indexes, pipelines, frozen estimators, registered classes."""

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from .. import _validation as check
from .._core.fields import Field, Schema, Triple, ascending
from .._search.voting import RULES
from ..estimators import bare_learner, is_learner, parted, reader_of, reading
from ..estimators.base import Learner
from ..exceptions import ModelFileError
from ..neighbors import MetricIndex, MetricKNeighborsClassifier
from ..neighbors.classifier import check_n_neighbors, judged_of, kept_rows, put_rows
from ..neighbors.index import still
from ..neighbors.voters import check_judged
from . import _plain
from ._flat import Reader, Writer
from ._index import read_index, write_index
from ._learners import (
    LEARNERS,
    read_attributes,
    read_features,
    read_learner,
    refuse_entries,
    refuse_unknown,
    write_attributes,
    write_features,
    write_learner,
)  # fmt: skip
from ._registry import name_of, registered
from ._steps import read_step, width_after, write_step

# Objects inside objects: an index over a pipeline that ends in a frozen classifier over a frozen learner.
DEEPEST = 6
_COLUMNS = ("columns_", "_sklearn_output_config")

ROWS = Schema(
    Field("classes", "labels", "k"),
    Field("numbers", "i8", "n", 0, below="k"),
    Field("row_numbers", "i8", "n", 0, optional=True),
    Field("rows", "rows", "n d"),
    Field("weights", "f8", "n", 0.0, optional=True),
    Field("n_fitted", "int", low=0, optional=True),
    Field("n_seen", "int", low=0, optional=True),
    rule=lambda state: _rows_fit(state),
)


def _rows_fit(state: dict[str, Any]) -> str | None:
    n, numbers, seen = len(state["numbers"]), state["row_numbers"], state["n_seen"]
    if not n:
        return "there are no rows"
    if (state["n_fitted"] is None) != (seen is None):
        return "either both or none of n_fitted and n_seen"
    if numbers is not None and not ascending(numbers):
        return "row_numbers must be ascending"
    if seen is not None and not max(state["n_fitted"], n if numbers is None else int(numbers[-1]) + 1) <= seen:
        return "there are more rows than ever came"
    return None


# -- writing -----------------------------------------------------------------------------------------------------------


def write_object(writer: Writer, value: Any, where: str) -> dict[str, Any]:
    """JSON of an object, its arrays taken in."""
    kind = type(value)
    if is_learner(value) and (LEARNERS.get(kind.__name__) is kind or name_of(value)):
        return write_learner(writer, value, where)
    if kind is MetricKNeighborsClassifier:
        with reading(bare_learner(value.metric_)):
            return _write_classifier(writer, value, where)
    if kind is MetricIndex:
        with still(value):
            return {"class": "MetricIndex", **write_index(writer, value, where, write_object)}
    if kind is Pipeline:
        return _write_pipeline(writer, value, where)
    if kind is FrozenEstimator:
        refuse_unknown(vars(value), {"estimator", *_COLUMNS}, where)
        attributes = write_attributes(writer, value, _COLUMNS, where)
        inside = write_object(writer, value.estimator, f"{where}.estimator")
        return {"class": "FrozenEstimator", "attributes": attributes, "estimator": inside}
    if name_of(value):
        return {"class": kind.__name__, "state": _write_registered(writer, value, where)}
    raise ModelFileError(f"{where} is {_plain.described(value)}, which a model file cannot hold.")


def _write_classifier(writer: Writer, model: MetricKNeighborsClassifier, where: str) -> dict[str, Any]:
    own = {"metric", "n_neighbors", "weights", "streamed_rows", "n_jobs", "device", "metric_", "classes_", "_kept",
           "_placed", "_judged", "_home"}  # fmt: skip
    refuse_unknown(vars(model), {*own, "n_features_in_", "feature_names_in_", *_COLUMNS}, where)
    rows, reader = kept_rows(model), reader_of(bare_learner(model.metric_))
    if rows is None:
        raise ModelFileError(
            f"{where}: the metric has learned, or was set otherwise, since the rows were put under it. Call refresh(), "
            "then save."
        )
    known = {"d": reader.n_features, "real": np.dtype(reader.dtype)}
    metric: Any = None
    if model.metric is model.metric_:
        metric = "fitted"
    elif model.metric is not None:
        metric = write_object(writer, model.metric, f"{where}.metric")
    return {
        "class": "MetricKNeighborsClassifier",
        "n_neighbors": "auto" if model.n_neighbors == "auto" else int(model.n_neighbors),
        "judged": judged_of(model),
        "weights": str(model.weights),
        "streamed_rows": int(model.streamed_rows),
        "metric": metric,
        "metric_": write_object(writer, model.metric_, f"{where}.metric_"),
        "attributes": write_attributes(writer, model, _COLUMNS, where),
        "features": write_features(writer, model, where),
        "rows": writer.state(ROWS, rows, known, f"{where}.rows"),
    }


def _write_pipeline(writer: Writer, model: Pipeline, where: str) -> dict[str, Any]:
    refuse_unknown(vars(model), {"steps", "memory", "transform_input", "verbose", *_COLUMNS}, where)
    for name in ("memory", "transform_input"):
        if getattr(model, name, None) is not None:
            raise ModelFileError(f"{where}.{name} cannot be kept in a model file: set it to None before saving.")
    (*before, (last, learner)) = model.steps
    return {
        "class": "Pipeline",
        "verbose": bool(model.verbose),
        "attributes": write_attributes(writer, model, _COLUMNS, where),
        "names": [str(name) for name, _ in model.steps],
        "steps": [write_step(writer, step, f"{where}.{name}") for name, step in before],
        "last": write_object(writer, learner, f"{where}.{last}"),
    }


def _write_registered(writer: Writer, value: Any, where: str) -> dict[str, Any]:
    out = {}
    for name, part in value.__paloma_state__().items():
        path = f"{where}.{name}"
        plain = not hasattr(part, "get_params") and not isinstance(part, MetricIndex) and name_of(part) is None
        out[str(name)] = ({"value": _plain.written(writer, part, path)} if plain else
                          {"object": write_object(writer, part, path)})  # fmt: skip
    return out


# -- reading -----------------------------------------------------------------------------------------------------------


def read_object(reader: Reader, node: Any, where: str, depth: int = DEEPEST) -> Any:
    """The object of such JSON."""
    if not isinstance(node, dict) or not isinstance(node.get("class"), str):
        raise ModelFileError(f"{where} is no object")
    if not depth:
        raise ModelFileError("objects are nested too deeply")
    name = node["class"]
    if name in LEARNERS:
        return read_learner(reader, node, LEARNERS[name], where)
    if name == "MetricKNeighborsClassifier":
        return _read_classifier(reader, node, where, depth)
    if name == "MetricIndex":
        return read_index(reader, node, where, lambda inside, path: read_object(reader, inside, path, depth - 1))
    if name == "Pipeline":
        return _read_pipeline(reader, node, where, depth)
    if name == "FrozenEstimator":
        refuse_entries(node, {"class", "attributes", "estimator"}, where)
        out = FrozenEstimator(read_object(reader, node["estimator"], f"{where}.estimator", depth - 1))
        read_attributes(reader, out, node["attributes"], _COLUMNS, where)
        return out
    kind = registered(name)
    if issubclass(kind, Learner):
        return read_learner(reader, node, kind, where)
    refuse_entries(node, {"class", "state"}, where)
    return kind.__paloma_restore__(
        {key: _read_part(reader, part, f"{where}.{key}", depth) for key, part in node["state"].items()}
    )


def _read_part(reader: Reader, part: Any, where: str, depth: int) -> Any:
    ((kind, content),) = part.items()
    if kind == "object":
        return read_object(reader, content, where, depth - 1)
    refuse_entries(part, {"value"}, where)
    return _plain.read(reader, content, where)


def _read_classifier(reader: Reader, node: Any, where: str, depth: int) -> MetricKNeighborsClassifier:
    parameters = {"n_neighbors", "weights", "streamed_rows"}
    refuse_entries(node, {"class", *parameters, "judged", "metric", "metric_", "attributes", "features", "rows"}, where)
    fitted = read_object(reader, node["metric_"], f"{where}.metric_", depth - 1)
    metric = fitted if node["metric"] == "fitted" else node["metric"]
    if metric is not None and metric is not fitted:
        metric = read_object(reader, metric, f"{where}.metric", depth - 1)
        bare_learner(metric)
    check_n_neighbors(node["n_neighbors"])
    check.check_word("weights", node["weights"], RULES)
    check.check_count("streamed_rows", node.get("streamed_rows", 1))
    out = MetricKNeighborsClassifier(metric, **{name: node[name] for name in parameters if name in node})
    learner = bare_learner(fitted)
    view = reader_of(learner)
    raw = reader.raw(ROWS, node["rows"], f"{where}.rows")
    if isinstance(raw["rows"], Triple) and not get_tags(learner).input_tags.sparse:
        raise ModelFileError(f"{where}: {type(learner).__name__} takes no sparse rows")
    known = {"d": view.n_features, "real": np.dtype(view.dtype)}
    rows = ROWS.checked(raw, known, f"{where}.rows")
    if view.regions is not None:
        reader.afford(len(rows["numbers"]), len(view.order), where)
    read_features(reader, out, node["features"], where)
    if getattr(out, "n_features_in_", None) != view.n_features:
        raise ModelFileError(f"{where} has another number of features than its metric")
    read_attributes(reader, out, node["attributes"], _COLUMNS, where)
    check_judged(node["judged"], node["n_neighbors"], len(rows["numbers"]))
    put_rows(out, fitted, rows, node["judged"])
    return out


def _read_pipeline(reader: Reader, node: Any, where: str, depth: int) -> Pipeline:
    refuse_entries(node, {"class", "verbose", "attributes", "names", "steps", "last"}, where)
    names, steps = node["names"], node["steps"]
    sound = isinstance(names, list) and isinstance(steps, list) and len(names) == len(steps) + 1
    if not sound or not all(isinstance(name, str) and name and "__" not in name for name in names):
        raise ModelFileError(f"{where} must have a name for each step")
    if len(set(names)) < len(names) or type(node["verbose"]) is not bool:
        raise ModelFileError(f"{where} has two steps of one name")
    before = [read_step(reader, step, f"{where}.{name}") for name, step in zip(names, steps, strict=False)]
    last = read_object(reader, node["last"], f"{where}.{names[-1]}", depth - 1)
    if not hasattr(parted(last)[1], "n_features_in_") or isinstance(parted(last)[1], Pipeline):
        raise ModelFileError(f"{where} must end in a fitted learner or classifier")
    out = Pipeline([*zip(names, [*before, last], strict=True)], verbose=node["verbose"])
    _check_widths(before, int(parted(last)[1].n_features_in_))
    read_attributes(reader, out, node["attributes"], _COLUMNS, where)
    return out


def _check_widths(steps: list[Any], d: int) -> None:
    """Each step must take as many features as the one before it gives, and the learner those of the last."""
    known = [step.n_features_in_ for step in steps if step is not None and not isinstance(step, str)]
    width = known[0] if known else d
    for step in steps:
        width = width_after(step, width)
    if width != d:
        raise ModelFileError(f"the steps of a pipeline give {width} features, and the last takes {d}")
