"""Dense matrices as a model file holds them."""

from typing import Any

import numpy as np

from ..._core.fields import Field, Schema
from .matrices import Matrices


def matrices_schema(p: Any, q: Any) -> Schema:
    """(p, q) matrices, extents by name or as numbers: c are the class codes there are, s those that were updated."""
    one, many = f"{p} {q}", f"s {p} {q}"
    return Schema(
        Field("start", "real", one, optional=True),  # None is the identity
        Field("shared", "real", one),
        Field("stack", "real", many),
        Field("slots", "i4", "n<=c", low=-1, below="s"),
        Field("pending", "f8", "s", 0.0, 1.0),
        Field("mean_shared", "real", one, optional=True),
        Field("mean_stack", "real", many, optional=True),
        rule=_fits,
    )


def vectors_schema(d: int) -> Schema:
    """The same for diagonals of d weights, which start at 1."""
    return Schema(
        Field("shared", "real", f"{d}"),
        Field("stack", "real", f"s {d}"),
        Field("slots", "i4", "n<=c", low=-1, below="s"),
        Field("pending", "f8", "s", 0.0, 1.0),
        Field("mean_shared", "real", f"{d}", optional=True),
        Field("mean_stack", "real", f"s {d}", optional=True),
        rule=_each_once,
    )


def _fits(state: dict[str, Any]) -> str | None:
    if wrong := _each_once(state):
        return wrong
    rows, columns = state["shared"].shape
    return "a start is missing" if state["start"] is None and rows != columns else None


def _each_once(state: dict[str, Any]) -> str | None:
    used = np.sort(state["slots"][state["slots"] >= 0])
    if len(used) != len(state["stack"]) or (used != np.arange(len(used))).any():
        return "slots must name each matrix of the stack once"
    if (state["mean_shared"] is None) != (state["mean_stack"] is None):
        return "of the averages one part is missing"
    return None


def matrices_state(matrices: Matrices) -> dict[str, Any]:
    """Plain data of matrices; room to grow is left out."""
    if matrices._stale:
        matrices = matrices.fork()
        matrices.symmetrize()
    n, start = matrices.n_slots, matrices.start
    identity = len(start) == start.shape[1] and bool((start == np.eye(len(start), dtype=start.dtype)).all())
    return {
        "start": None if identity else start,
        "shared": matrices.shared,
        "stack": matrices.stack[:n],
        "slots": matrices.slots,
        "pending": matrices.pending[:n],
        "mean_shared": None if matrices.mean is None else matrices.mean[0],
        "mean_stack": None if matrices.mean is None else matrices.mean[1][:n],
    }


def matrices_of(state: dict[str, Any], symmetric: bool) -> Matrices:
    """Matrices from a state that was checked."""
    shared = state["shared"]
    start = np.eye(len(shared), dtype=shared.dtype) if state["start"] is None else state["start"]
    out = Matrices(start, symmetric)
    out.shared, out.stack, out.slots, out.pending = shared, state["stack"], state["slots"], state["pending"]
    out.n_slots = len(out.stack)
    if state["mean_shared"] is not None:
        out.mean = (state["mean_shared"], state["mean_stack"])
    return out
