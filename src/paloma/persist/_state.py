"""How an object is taken apart and put together: its attributes less what is only a cache.

A class may say it itself, with two methods that deal in plain values (numbers, strings, lists, dicts, arrays, and
objects that files may hold):

    def __paloma_state__(self) -> dict[str, Any]
    @classmethod
    def __paloma_restore__(cls, state: dict[str, Any]) -> Self
"""

from dataclasses import MISSING, fields, is_dataclass
from functools import singledispatch
from inspect import signature
from typing import Any

from sklearn.base import BaseEstimator

from .._representation.journal import Journal
from ..estimators._model import Model
from ..exceptions import ModelFileError
from ..triplets import Reservoir
from ._checks import check


@singledispatch
def state_of(value: Any) -> dict[str, Any]:
    """The attributes that make up an object."""
    if hasattr(value, "__paloma_state__"):
        return value.__paloma_state__()
    return dict(vars(value))


@state_of.register
def _(value: Model) -> dict[str, Any]:
    return {**vars(value), "metric": None}  # the read-out is built again when first asked for


@state_of.register
def _(value: Journal) -> dict[str, Any]:
    return {**vars(value), "_source": None}


@state_of.register
def _(value: Reservoir) -> dict[str, Any]:
    rows = None if value.rows is None else value.rows[: len(value.codes)]  # without its room to grow
    return {**vars(value), "rows": rows}


def restored(kind: type, state: dict[str, Any]) -> Any:
    """An object of a class that files may hold, from its attributes.

    What a later paloma added to a class, and an older file lacks, takes its default.
    """
    if hasattr(kind, "__paloma_restore__"):
        return kind.__paloma_restore__(state)
    state = _defaults(kind) | state
    _check_names(kind, set(state))
    value: Any = object.__new__(kind)
    value.__dict__.update(state)
    check(value)
    return value


def _defaults(kind: Any) -> dict[str, Any]:
    """Defaults of a dataclass's fields, or of an estimator's parameters."""
    if is_dataclass(kind):
        plain = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
        made = {field.name: field.default_factory() for field in fields(kind) if field.default_factory is not MISSING}
        return plain | made
    if issubclass(kind, BaseEstimator):
        parameters = signature(kind).parameters.values()
        return {each.name: each.default for each in parameters if each.default is not each.empty}
    return {}


def _check_names(kind: Any, names: set[str]) -> None:
    """Every parameter is there, a dataclass has its fields and no others, and no attribute hides a method."""
    who = kind.__name__
    if issubclass(kind, BaseEstimator):
        wrong = set(kind._get_param_names()) - names
    else:
        wrong = {field.name for field in fields(kind)} ^ names if is_dataclass(kind) else set()
    if wrong:
        raise ModelFileError(f"{who} has missing or unknown attributes: {', '.join(sorted(wrong))[:200]}")
    for name in names:
        if not name.isidentifier() or name.startswith("__") or callable(getattr(kind, name, None)):
            raise ModelFileError(f"{who} cannot have an attribute {name[:80]!r}")
