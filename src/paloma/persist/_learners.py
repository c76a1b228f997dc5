"""A learner in a file: its class by name, its parameters, what users see of it, and the state of its model."""

from typing import Any

import numpy as np

from .. import estimators
from ..estimators import bound_settings_of, reading, settings_of, to_be_saved, with_model
from ..estimators.base import Learner
from ..exceptions import ModelFileError
from . import _plain
from ._clusters import read_clusters, write_clusters
from ._flat import Reader, Writer
from ._model import read_model, write_model

LEARNERS: dict[str, type[Learner]] = {name: getattr(estimators, name) for name in estimators.__all__}
# What users see of a learner; classes_, scale_ and the counters come from the model. The last two are a checkpoint's
# mark, and the format that scikit-learn's set_output asks for.
ATTRIBUTES = ("loss_", "n_iter_", "mined_", "rounds_", "columns_", "_fit_of", "_sklearn_output_config")
_OF_MODEL = {"_model", "classes_", "n_triplets_", "n_updates_"}
_FEATURES = {"n_features_in_", "feature_names_in_"}


# -- writing -----------------------------------------------------------------------------------------------------------


def write_learner(writer: Writer, learner: Learner, where: str) -> dict[str, Any]:
    """JSON of a learner, fitted or not; its arrays are taken in. If another thread has it learn, that is waited for."""
    with reading(learner):
        return _written(writer, learner, where)


def _written(writer: Writer, learner: Learner, where: str) -> dict[str, Any]:
    known = {"class", *ATTRIBUTES, *_OF_MODEL, *_FEATURES, *learner.get_params(deep=False)}
    refuse_unknown(learner.__getstate__(), known | {"_learned_with", "_followed", "_home"}, where)
    out = {
        "class": type(learner).__name__,
        "parameters": {
            name: _write_parameter(writer, name, value, f"{where}.{name}")
            for name, value in learner.get_params(deep=False).items()
            if name != "device"  # a file is read where it is needed
        },
        "attributes": write_attributes(writer, learner, ATTRIBUTES, where),
        "features": write_features(writer, learner, where),
    }
    return {**out, "model": _sound(writer, learner, where) if learner.__sklearn_is_fitted__() else None}


def _write_parameter(writer: Writer, name: str, value: Any, where: str) -> Any:
    if name == "regions" and hasattr(value, "predict"):
        return {"clusters": write_clusters(writer, value, where)}
    return _plain.written(writer, value, where)


def _sound(writer: Writer, learner: Learner, where: str) -> dict[str, Any]:
    """The state of a model, which is made again from it before anything is written."""
    try:
        own, (settings, model), d = Writer(), to_be_saved(learner), learner.n_features_in_
        node = write_model(own, model, settings, d, f"{where}.model")
        read_model(Reader(own.arrays, 2**62), node, settings, d, f"{where}.model")
    except ModelFileError:
        raise
    except (ValueError, LookupError) as error:
        raise ModelFileError(f"{where} cannot be saved: {error}.") from None
    writer.arrays.update(own.arrays)
    return node


def refuse_unknown(state: Any, known: set[str], where: str) -> None:
    """An object may have no attributes but the known ones: others would be lost without a word."""
    if unknown := sorted(set(state) - known):
        raise ModelFileError(f"{where}.{unknown[0]} is not known to paloma, and a model file cannot hold it.")


def write_attributes(writer: Writer, owner: Any, names: tuple[str, ...], where: str) -> dict[str, Any]:
    """Attributes of these names, as far as there are any."""
    held = {name: vars(owner)[name] for name in names if name in vars(owner)}
    return {name: _plain.written(writer, value, f"{where}.{name}") for name, value in held.items()}


def write_features(writer: Writer, owner: Any, where: str) -> int | None:
    """Number of features; their names, if they have any, are taken in."""
    if hasattr(owner, "feature_names_in_"):
        writer.array(owner.feature_names_in_.tolist(), f"{where}.feature_names_in_")
    return int(owner.n_features_in_) if hasattr(owner, "n_features_in_") else None


# -- reading -----------------------------------------------------------------------------------------------------------


def read_learner(reader: Reader, node: dict[str, Any], kind: type[Learner], where: str) -> Learner:
    """The learner of such JSON."""
    refuse_entries(node, {"class", "parameters", "attributes", "features", "model"}, where)
    names = kind._get_param_names()
    given = {
        name: _read_parameter(reader, name, value, f"{where}.{name}") for name, value in node["parameters"].items()
    }
    refuse_entries(given, set(names), where)
    learner = kind(**given)
    for name, default in kind().get_params(deep=False).items():
        if isinstance(default, bool) and not isinstance(getattr(learner, name), bool):
            raise ModelFileError(f"{where}.{name} must be true or false")
    settings_of(learner)
    read_attributes(reader, learner, node["attributes"], ATTRIBUTES, where)
    read_features(reader, learner, node["features"], where)
    if node["model"] is None:
        return learner
    d = learner.n_features_in_
    _check_groups(getattr(learner, "groups", None), d, reader.room)
    model = read_model(reader, node["model"], bound_settings_of(learner), d, f"{where}.model")
    return with_model(learner, model)


def _read_parameter(reader: Reader, name: str, node: Any, where: str) -> Any:
    if name == "regions" and isinstance(node, dict) and set(node) == {"clusters"}:
        return read_clusters(reader, node["clusters"], where)
    return _plain.read(reader, node, where)


def _check_groups(groups: Any, d: int, room: int) -> None:
    """Refuse groups of more columns than the file could hold matrices for, before they are made."""
    selections = groups.values() if isinstance(groups, dict) else groups if isinstance(groups, list | tuple) else ()
    columns = 0
    for selection in selections:
        part = selection[1] if isinstance(selection, tuple) and len(selection) == 2 else selection
        columns += len(range(*part.indices(d))) if isinstance(part, slice) else np.size(part)
    if columns > room:
        raise ModelFileError("groups select more columns than the file could hold matrices for")


def refuse_entries(node: Any, known: set[str], where: str) -> None:
    """JSON with other entries than these is none of ours; parameters that are missing take their defaults."""
    if not isinstance(node, dict) or set(node) - known:
        unknown = ", ".join(sorted(set(node) - known))[:200] if isinstance(node, dict) else "no entries at all"
        raise ModelFileError(f"{where} has unknown entries: {unknown}")


def read_attributes(reader: Reader, owner: Any, node: Any, names: tuple[str, ...], where: str) -> None:
    """Set attributes of these names, as far as there are any."""
    refuse_entries(node, set(names), where)
    for name, value in node.items():
        found = _plain.read(reader, value, f"{where}.{name}")
        if not _SOUND[name](found):
            raise ModelFileError(f"{where}.{name} has a wrong value")
        setattr(owner, name, found)


def read_features(reader: Reader, owner: Any, n: Any, where: str) -> None:
    """Set the number of features, and their names."""
    names = reader.array(f"{where}.feature_names_in_", "names")
    if n is None and names is None:
        return
    if type(n) is not int or not 1 <= n <= reader.room or (names is not None and len(names) != n):
        raise ModelFileError(f"{where} has the wrong number of features")
    owner.n_features_in_ = n
    if names is not None:
        owner.feature_names_in_ = np.array(names, object)


# -- attributes --------------------------------------------------------------------------------------------------------


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _names(value: Any) -> bool:
    return value is None or type(value) in (str, int) or (isinstance(value, list) and all(map(_names, value)))


def _table(fits: Any) -> Any:
    return lambda value: isinstance(value, dict) and all(isinstance(k, str) and fits(v) for k, v in value.items())


_SOUND: dict[str, Any] = {
    "loss_": lambda value: type(value) is float,
    "n_iter_": lambda value: value is None or type(value) is int,
    "mined_": _table(lambda value: _number(value) or type(value) is str),
    "rounds_": lambda value: isinstance(value, list) and all(map(_table(_number), value)),
    "columns_": lambda value: _table(_names)(value) and isinstance(value.get("features"), list | None),
    "_fit_of": _table(lambda _: True),
    "_sklearn_output_config": _table(lambda word: word in ("default", "pandas", "polars")),
}
