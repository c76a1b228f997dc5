"""An index in a file: its metric, the metric that was published, its backend, and its items.

Graphs, lists and tiles are built again. Nothing about a connection to a database is written or read, nor leave to
replace a table: `MetricIndex.connect` gives a connection to an index that was loaded.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.fields import Field, Part, Schema
from ..estimators import is_learner, learner_of, parted, reader_of
from ..exceptions import ModelFileError
from ..neighbors import MetricIndex
from . import _plain
from ._flat import Reader, Writer
from ._learners import refuse_entries
from ._model import BALANCE

_NEVER = {"connection", "replace"}


def _items_fit(state: dict[str, Any]) -> str | None:
    if state["ids"].dtype.kind not in "iU" or (state["ids"].dtype.kind == "i" and state["ids"].dtype != np.int64):
        return "ids must be whole numbers or strings"
    whole = state["ids"].dtype.kind == "i"
    if whole and state["ids"].max(initial=-1) >= state["next_id"]:
        return "the next id was used before"
    if not all(map(_is_json, state["payload"] or ())):
        return "payload must be JSON"
    shares = state["shares"]
    sums = np.bincount(np.repeat(np.arange(shares.shape[0]), np.diff(shares.indptr)), shares.data, shares.shape[0])
    return None if np.allclose(sums, 1.0) else "shares of classes must sum to 1"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


# n items; shares have a column for "no class" and one for each label
ITEMS = Schema(
    Field("next_id", "int", low=0, high=2**63),
    Field("labels", "labels", "l"),
    Field("ids", "labels", "n"),
    Field("X", "rows", "n d"),
    Field("shares", "csr", "n w", 0.0, 1.0),
    Field("center", "real", "d", optional=True),
    Field("payload", "names", "n", optional=True),
    rule=_items_fit,
)
# What a database was told, which cannot be found again without it.
ENGINE = Schema(Field("extent", "float", low=0.0), Part("balance", BALANCE, optional=True))


def write_index(writer: Writer, index: MetricIndex, where: str, write: Callable[..., Any]) -> dict[str, Any]:
    """JSON of an index, its arrays taken in; `write` takes objects."""
    parts = index.__paloma_state__()
    options = {name: value for name, value in parts["options"].items() if name not in _NEVER}
    published = parts["published"]
    out = {
        "backend": parts["backend"],
        "options": {name: _plain.written(writer, value, f"{where}.{name}") for name, value in options.items()},
        "metric": write(writer, parts["metric"], f"{where}.metric"),
        "published": None if published is None else write(writer, published, f"{where}.published"),
    }
    engine = parts["engine"]
    out["engine"] = writer.state(ENGINE, engine, {}, f"{where}.engine") if engine else None
    items = {entry.name: parts[entry.name] for entry in ITEMS.entries}
    known = _known(learner_of(index), len(items["labels"]))
    if not len(items["ids"]):
        items["X"] = np.empty((0, known["d"]), known["real"])
    return {**out, "items": writer.state(ITEMS, items, known, f"{where}.items")}


def _known(learner: Any, n_labels: int) -> dict[str, Any]:
    reader = reader_of(learner)
    return {"d": reader.n_features, "real": np.dtype(reader.dtype), "w": 1 + n_labels}


def read_index(reader: Reader, node: Any, where: str, read: Callable[[Any, str], Any]) -> MetricIndex:
    """The index of such JSON; `read` makes objects."""
    refuse_entries(node, {"class", "backend", "options", "metric", "published", "engine", "items"}, where)
    options = {name: _plain.read(reader, value, f"{where}.{name}") for name, value in node["options"].items()}
    if _NEVER & set(options) or not all(map(_plain_option, options.values())):
        raise ModelFileError(f"{where} has options that no file may have")
    metric = read(node["metric"], f"{where}.metric")
    learner = parted(metric)[1]
    published = None if node["published"] is None else read(node["published"], f"{where}.published")
    if not is_learner(learner) or not (published is None or is_learner(published)):
        raise ModelFileError(f"{where} has a metric that is no learner")
    engine = {} if node["engine"] is None else reader.state(ENGINE, node["engine"], {}, f"{where}.engine")
    raw = reader.raw(ITEMS, node["items"], f"{where}.items")
    searched = learner if published is None else published
    known = _known(searched, len(np.atleast_1d(raw["labels"])))
    items = ITEMS.checked(raw, known, f"{where}.items")
    view, n = reader_of(searched), len(items["ids"])
    if node["backend"] != "exact" or view.regions is not None or items["shares"].nnz > n:
        reader.afford(n, view.n_features + len(view.order) + 4, where)
    if bool(engine) != (node["backend"] == "pgvector" and len(items["ids"]) > 0):
        raise ModelFileError(f"{where} has an engine that does not go with its backend")
    parts = {"metric": metric, "published": published, "backend": node["backend"], "options": options, "engine": engine}
    return MetricIndex.__paloma_restore__(parts | items)


def _plain_option(value: Any) -> bool:
    """Options are whole numbers, words, flags, or a pair of names."""
    if isinstance(value, tuple):
        return len(value) == 2 and all(isinstance(name, str) for name in value)
    return value is None or type(value) in (bool, int, str)
