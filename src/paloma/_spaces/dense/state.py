"""Dense matrices as a model file holds them."""

from typing import Any

import numpy as np

from ..._core.fields import Field, Schema
from .matrices import Matrices


def matrices_schema(p: Any, q: Any) -> Schema:
    """(p, q) matrices, extents by name or as numbers: c are the class codes there are, s those that were updated."""
    return Schema(
        Field("start", "real", f"{p} {q}", optional=True),  # None is the identity
        *_fields(f"{p} {q}"),
        rule=_fits,
    )


def vectors_schema(d: int) -> Schema:
    """The same for diagonals of d weights, which start at 1."""
    return Schema(*_fields(f"{d}"), rule=_each_once)


def _fields(shape: str) -> list[Field]:
    return [
        Field("shared", "real", shape),
        Field("stack", "real", f"s {shape}"),
        Field("slots", "i4", "n<=c", low=-1, below="s"),
        Field("pending", "f8", "s", 0.0, 1.0),
        Field("mean_shared", "real", shape, optional=True),
        Field("mean_stack", "real", f"s {shape}", optional=True),
    ]


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
    """Plain data of matrices."""
    if matrices._stale:
        matrices = matrices.fork()
        matrices.symmetrize()
    start = matrices.start
    identity = len(start) == start.shape[1] and bool((start == np.eye(len(start), dtype=start.dtype)).all())
    return {"start": None if identity else start, **vectors_state(matrices)}


def vectors_state(matrices: Matrices) -> dict[str, Any]:
    """The same without the start; room to grow is left out."""
    n = matrices.n_slots
    return {
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
    put_vectors(out, state)
    return out


def put_vectors(out: Matrices, state: dict[str, Any]) -> None:
    """Have matrices at their start be those of a state that was checked."""
    out.shared, out.stack, out.slots, out.pending = state["shared"], state["stack"], state["slots"], state["pending"]
    out.n_slots = len(out.stack)
    if state["mean_shared"] is not None:
        out.mean = (state["mean_shared"], state["mean_stack"])
