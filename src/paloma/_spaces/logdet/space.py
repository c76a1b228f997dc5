"""LogDet geometry on dense matrices: steps add up in the inverses, and never leave the cone (theory 8)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh

from ... import _validation as check
from ..._core.choice import Choice
from ..._core.fields import Schema
from ..._core.space import Beginning, Kept, Representation
from ..._typing import Array, Rows
from ..dense.space import DenseSpace, begin, checked_start, restore
from ..dense.state import matrices_schema
from .blocks import plan

# Smallest eigenvalue of a start, as a share of the largest.
SMALLEST_SHARE = 1e-12
# One step may shrink an eigenvalue by 1 + C |a|^2; from here on the matrix is no longer one that float64 can hold.
LARGEST_SHRINKING = 1e14


@dataclass(frozen=True)
class LogDet(Representation):
    """Dense positive definite matrices whose inverses take the steps; `init` as for `Dense`."""

    decays = guarded = light = True
    whitening = "full"

    init: str | ArrayLike = "identity"

    def adapted(self, who: str, choice: Choice) -> Choice:
        if choice.step.name not in ("pa1", "pa2"):
            raise ValueError(
                f"{who}: the LogDet step is derived only for step='pa1' and 'pa2'; there is no derivation for "
                f"step={choice.step.name!r}. ODML and LODML support it."
            )
        if choice.psd.word not in ("never", "end"):
            policy = choice.psd.every or choice.psd.word
            raise ValueError(
                f"{who} is positive definite without projection: use psd='never' or 'end', got {policy!r}."
            )
        if not np.isfinite(choice.C):
            raise ValueError(
                f"{who}: C must be finite: without a bound, a LogDet step may have no solution; got {choice.C!r}."
            )
        return choice

    def bound(self, who: str, choice: Choice, d: int, names: Any) -> "LogDet":
        start = checked_start(self.init, d, np.dtype(float), symmetric=True)
        if not isinstance(self.init, str):
            values = eigvalsh(start)
            if not values[0] > SMALLEST_SHARE * values[-1]:
                raise ValueError(
                    f"{who}: init must be positive definite, but its eigenvalues range from {values[0]:.3g} to "
                    f"{values[-1]:.3g}."
                )
        return self

    def start(self, d: int, dtype: Any) -> Array | None:
        return None if isinstance(self.init, str) else np.asarray(self.init, dtype)

    def scale(self, who: str, choice: Choice, X: Rows, triplets: Array) -> float:
        scale: float = super().scale(who, choice, X, triplets)
        _check_shrinking(who, choice, X, 1.0 / scale)
        return scale

    def check_magnitude(self, who: str, choice: Choice, X: Rows, factor: Any) -> None:
        check.check_magnitude(who, X, factor)
        _check_shrinking(who, choice, X, factor)

    def begin(self, choice: Choice, at: Beginning) -> DenseSpace:
        return begin(self.init, choice, at, plan)

    def schema(self, d: int) -> Schema:
        return matrices_schema(d, d)

    def restore(self, choice: Choice, state: dict[str, Any], kept: Kept) -> DenseSpace:
        return restore(choice, state, kept, plan)


def _check_shrinking(who: str, choice: Choice, X: Rows, factor: float) -> None:
    """Refuse rows for which a LogDet step is beyond float64: C |x|^2 from above."""
    largest = float(np.abs(X).max(initial=0.0)) * factor * np.sqrt(X.shape[1])
    if not choice.C * largest * largest < LARGEST_SHRINKING:
        raise ValueError(
            f"{who}: values in X are too large, a step would overflow (C times the largest squared row norm is about "
            f"{choice.C * largest * largest:.0e} in scaled units, limit {LARGEST_SHRINKING:.0e}). Scale the data, or "
            "use a smaller C."
        )
