"""The support of kernels as a model file holds it."""

import copy
from typing import Any

import numpy as np

from ..._core.fields import Field, Part, Schema
from ..._core.hedge import hedge_schema
from ..pairs import Pairs, pairs_schema
from .functions import LARGEST
from .support import Support


def kernel_schema(m: int, precomputed: bool, budget: int | None) -> Schema:
    """The state of m kernels over a support of n points."""
    limit = "" if budget is None else f"<={int(budget)}"
    points = Field("points", "real", "n d", optional=True)
    training: list[Field] = []
    if precomputed:
        training = [Field("training", "real", "d d"),
                    Field("training_codes", "i4", "d", -1, below="c", optional=True)]  # fmt: skip
        points = Field("points", "i8", "n", 0, below="d", optional=True)
    return Schema(
        Field("gains", "f8", str(m), 1e-300, 1e300),
        Part("hedge", hedge_schema(m)),
        *training,
        Field("last", "i8", f"n{limit}", -1),
        points,
        Field("raw_selfs", "f8", f"{m} n", any_order=True),
        Part("pairs", pairs_schema(m)),
        Field("lam", "float", low=0.0, high=1.0, optional=True),
        rule=_fits,
    )


def _fits(state: dict[str, Any]) -> str | None:
    if state["points"] is None and len(state["last"]):
        return "points are missing"
    single = state["points"] is not None and state["points"].dtype == np.float32
    if np.abs(state["raw_selfs"]).max(initial=0.0) >= LARGEST[4 if single else 8]:
        return "raw_selfs are too large"
    return None


def support_state(support: Support) -> dict[str, Any]:
    """Plain data of a support; points that no step touched are left out."""
    support = copy.copy(support)
    support.close()
    return {
        "gains": np.array([kernel.gain for kernel in support.kernels], np.float64),
        "last": support.last,
        "points": support.points,
        "raw_selfs": support.raw_selfs,
        "pairs": support.pairs.saved(),
    }


def put_back(support: Support, state: dict[str, Any]) -> None:
    """Fill a new support with a state that was checked."""
    support.points, support.last, support.raw_selfs = state["points"], state["last"], state["raw_selfs"]
    support.held = np.ones(len(support.last), bool)
    support.pairs = Pairs(**state["pairs"])
