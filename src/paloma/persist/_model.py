"""What a learner has learned, as a file holds it: `paloma._training.model.Model` but for its caches."""

from typing import Any

import numpy as np

from .._core.fields import Field, Part, Schema
from .._core.locality import Labels
from .._core.space import Kept
from .._core.stream import Counts
from .._reading import Balance
from .._reading.whiteners import NAMES, on_whitened, whitener_of
from .._training.drift import Drift
from .._training.model import Model
from .._training.reservoir import Reservoir
from .._training.settings import Settings
from ..exceptions import ModelFileError
from ._clusters import REGIONS, regions_of, regions_state
from ._flat import Reader, Writer
from ._random import generator_of, generator_state

DTYPES = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}


def _rows_fit(state: dict[str, Any]) -> str | None:
    codes, places, seen = state["codes"], state["places"], state["seen"]
    if state["rows"] is None and len(codes):
        return "rows are missing"
    if len(np.unique(codes * np.int64(state["size"]) + places)) < len(codes):
        return "two rows have one place"
    return "more rows than were seen" if (np.bincount(codes, minlength=len(seen)) > seen).any() else None


COUNTS = Schema(
    Field("seen", "int", low=0),
    Field("updates", "int", low=0),
    Field("n_means", "int", low=0),
    Field("forget", "float", low=0.0, high=0.999),
)
# r rows of u classes
RESERVOIR = Schema(
    Field("size", "int", low=1, high=2**31),
    Field("window", "flag"),
    Field("seen", "i8", "u<=k", 0, 2**53),
    Field("codes", "i4", "r", 0, below="u"),
    Field("places", "i8", "r", 0, below="size"),
    Field("rows", "rows", "r d", optional=True),
    rule=_rows_fit,
)
BALANCE = Schema(
    Field("center", "f8", "b"), Field("spread", "f8", "b", 1e-300), Field("phi", "float", low=0.0)
)  # fmt: skip


def _whitener_fits(state: dict[str, Any]) -> str | None:
    given = [name for name in NAMES if state[name] is not None]
    fits = given in ([], [NAMES[0]], [NAMES[1]], list(NAMES[1:]))
    return None if fits else f"{', '.join(given)} do not go together"


def model_schema(space: Schema) -> Schema:
    """A model over a space; k classes, c codes that matrices may have, d features."""
    return Schema(
        Field("sparse", "flag"),
        Field("whole", "flag"),
        Field("from_labels", "flag"),
        Field("labels", "labels", "k"),
        Field("random", "u8", "6"),
        Field("scale", "f8", "e", 1e-153, 1e153, optional=True),
        Field("whitener", "f8", "d d", optional=True),
        Field("column_whitener", "f8", "d", 1e-153, 1e153, optional=True),
        Field("whitener_directions", "f8", "d w", optional=True),
        Field("whitener_gains", "f8", "w", -0.9999, 1e153, optional=True),
        Field("strength", "float", low=0.0, high=1.0),
        Field("local_strength", "float", low=0.0, high=1.0),
        Field("judged", "int", low=0, optional=True),
        Field("evidence", "f8", "g g", optional=True),
        Field("threshold", "float", optional=True),
        Part("counts", COUNTS),
        Field("drift", "f8", "v<=k 6", 0.0),
        Part("reservoir", RESERVOIR),
        Part("regions", REGIONS, optional=True),
        Part("balance", BALANCE, optional=True),
        Part("space", space),
        rule=_whitener_fits,
    )


def write_model(writer: Writer, model: Model, settings: Settings, d: int, where: str) -> dict[str, Any]:
    """JSON of a model, its arrays taken in. `settings` must know the features."""
    counts, reservoir, balance, regions = model.counts, model.reservoir, model.balance, model.regions
    held, whitener = len(reservoir.codes), {} if model.whitener is None else model.whitener.parts()
    state = {
        "sparse": bool(model.sparse),
        "whole": bool(model.whole),
        "from_labels": bool(model.from_labels),
        "labels": model.labels.labels,
        "random": generator_state(model.rng, f"{where}.random"),
        "scale": None if model.scale is None else np.atleast_1d(np.asarray(model.scale, np.float64)),
        **{name: whitener.get(name) for name in NAMES},
        "strength": float(model.strength[0]),
        "local_strength": float(model.strength[1]),
        "judged": int(model.judged),
        "evidence": model.evidence,
        "threshold": None if model.threshold is None else float(model.threshold),
        "counts": {entry.name: getattr(counts, entry.name) for entry in COUNTS.entries},
        "drift": model.drift.sums,
        "reservoir": {
            **{entry.name: getattr(reservoir, entry.name) for entry in RESERVOIR.entries},
            "rows": None if reservoir.rows is None else reservoir.rows[:held],
        },
        "regions": None if regions is None else regions_state(regions, f"{where}.regions"),
        "balance": None if balance is None else {entry.name: getattr(balance, entry.name) for entry in BALANCE.entries},
        "space": model.space.saved(),
    }
    dtype = np.dtype(model.space.dtype)
    known = {"d": d, "real": dtype, "sparse": state["sparse"], **_codes(settings, len(model.labels))}
    numbers = writer.state(model_schema(settings.space.schema(d)), state, known, where)
    return {"dtype": dtype.name, **numbers}


def _codes(settings: Settings, n_classes: int) -> dict[str, int]:
    """How many class codes, or regions, matrices may belong to."""
    if settings.regions is None:
        return {"k": n_classes, "c": n_classes}
    regions = getattr(settings.regions, "n_clusters", settings.regions)
    return {"k": n_classes, "c": int(regions), "regions": int(regions)}


def read_model(reader: Reader, node: Any, settings: Settings, d: int, where: str) -> Model:
    """The model of such JSON; `settings` must know the features."""
    numbers = dict(node)
    dtype = DTYPES[numbers.pop("dtype")]
    schema = model_schema(settings.space.schema(d))
    raw = reader.raw(schema, numbers, where)
    known = {"d": d, "real": dtype, "sparse": raw["sparse"], **_codes(settings, np.size(raw["labels"]))}
    if known["c"] > reader.room:
        raise ModelFileError(f"{where} has too many regions")
    state = schema.checked(raw, known, where)
    if (state["regions"] is None) != (settings.regions is None):
        raise ModelFileError(f"{where}: regions do not go with the parameters")
    return _built(settings, state, d, dtype)


def _built(settings: Settings, state: dict[str, Any], d: int, dtype: Any) -> Model:
    labels, scale, regions, balance = (state[name] for name in ("labels", "scale", "regions", "balance"))
    if scale is not None and len(scale) == 1:
        scale = float(scale[0])
    labels = Labels(labels) if len(labels) else Labels()
    counts = Counts(**state["counts"])
    whitener = whitener_of(*(state[name] for name in NAMES))
    space = on_whitened(settings.space, whitener, d)
    return Model(
        labels, generator_of(state["random"]), Reservoir(**state["reservoir"]), scale, state["whole"], state["sparse"],
        space.restore(settings.choice, state["space"], Kept(d, dtype, scale)), counts, whitener,
        (state["strength"], state["local_strength"]), state["judged"] or 0, state["evidence"], state["from_labels"],
        state["threshold"],
        None if regions is None else regions_of(settings.regions, settings.soft_regions, regions),
        Drift(state["drift"]), None, None if balance is None else Balance(**balance),
    )  # fmt: skip
