"""A projection with its journal as a model file holds it."""

from typing import Any

import numpy as np

from ..._core.fields import Field, Part, Schema
from ..dense.state import matrices_of, matrices_schema, matrices_state
from ..pairs import Pairs, pairs_schema
from .projection import Projection


def _folded_fits(state: dict[str, Any]) -> str | None:
    same = np.array_equal(state["now"]["slots"], state["mean"]["slots"])
    return None if same else "the last and the averaged iterates must have the same classes"


def _fits(state: dict[str, Any]) -> str | None:
    d, m = state["map"].shape
    if m > d or not m <= state["limit"] <= 2 * m + 50:
        return f"{m} dimensions out of {d} do not fit the limit of {state['limit']}"
    return "an exact basis must be dense" if state["exact"] and not isinstance(state["map"], np.ndarray) else None


# pairs of n rows
JOURNAL = Schema(
    Field("ids", "i8", "n", -1),
    Field("rows", "rows", "n d", optional=True),
    Part("pairs", pairs_schema(1)),
    rule=lambda state: "rows are missing" if state["rows"] is None and len(state["ids"]) else None,
)
FOLDED = Schema(
    Field("basis", "real", "d q", -1.001, 1.001, any_order=True),  # orthonormal, but for rounding
    Part("now", matrices_schema("q", "q")),
    Part("mean", matrices_schema("q", "q")),
    rule=_folded_fits,
)
SCHEMA = Schema(
    Field("m", "int", low=1),
    Field("map", "map", "d m", any_order=True),
    Field("exact", "flag"),
    Field("seed", "int", low=0, high=2**31),
    Field("limit", "int", low=1),
    Part("inner", matrices_schema("m", "m")),
    Part("journal", JOURNAL),
    Part("folded", FOLDED, optional=True),
    Field("aged", "float", low=0.0, high=1.0),
    Field("lam", "float", low=0.0, high=1.0, optional=True),
    rule=_fits,
)


def projection_state(projection: Projection) -> dict[str, Any]:
    """Plain data of a projection."""
    journal, folded = projection.journal, None
    if projection.folded is not None:
        basis, now, mean = projection.folded
        folded = {"basis": basis, "now": matrices_state(now), "mean": matrices_state(mean)}
    return {
        "m": projection.map.shape[1],
        "map": projection.map,
        "exact": projection.exact,
        "seed": projection.seed,
        "limit": projection.limit,
        "inner": matrices_state(projection.inner),
        "journal": {"ids": journal.ids, "rows": journal.rows, "pairs": journal.pairs.saved()},
        "folded": folded,
        "aged": projection.aged,
    }


def projection_of(state: dict[str, Any], symmetric: bool) -> Projection:
    """A projection from a state that was checked."""
    d, m = state["map"].shape
    out = Projection(d, m, state["map"].dtype, symmetric, "", state["seed"], basis=state["map"])
    out.exact, out.limit, out.aged = state["exact"], state["limit"], state["aged"]
    out.inner = matrices_of(state["inner"], symmetric)
    journal = state["journal"]
    out.journal.ids, out.journal.rows, out.journal.pairs = journal["ids"], journal["rows"], Pairs(**journal["pairs"])
    if state["folded"] is not None:
        basis, now, mean = state["folded"].values()
        out.folded = (basis, matrices_of(now, symmetric), matrices_of(mean, symmetric))
    return out
