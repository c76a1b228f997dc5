"""The LogDet distance learner: a step of its own, the same protocol."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigvalsh

from .. import _validation as check
from .._logdet import logdet_path
from .._parts import Parts
from ._axes import DenseLearner, PerClassLearner
from .distance import DistanceLearner

# Smallest eigenvalue of a start, as a share of the largest.
SMALLEST_SHARE = 1e-12
# One step may shrink an eigenvalue by 1 + C |a|^2; from here on the matrix is no longer one that float64 can hold.
LARGEST_SHRINKING = 1e14


@dataclass(kw_only=True, eq=False, repr=False)
class SLMOML(DistanceLearner, PerClassLearner, DenseLearner):
    """Online distance learning by exact LogDet steps, positive definite without any projection (Zhong et al. 2016).

    Each triplet asks for d_M(p, p+) + 1 <= d_M(p, p-), and the step minimises D(M, M_t) + C loss with the LogDet
    divergence D(M, N) = tr(M N^-1) - log det(M N^-1) - d. It adds to the inverse,

        M^-1 = M_t^-1 + tau (aa^T - bb^T),    a = p - p+,  b = p - p-,

    with tau in closed form from a^T M a, b^T M b and a^T M b; O(d^2) a triplet, and faster in exact blocks where d is
    large. A step never leaves the cone, and directions that matter are stretched by factors rather than by amounts.

    With lam < 1 it is local: M_c = lam U + mu L_c, mu = 1 - lam, and D is summed over U, L_i and L_j. They meet in one
    dual variable tau, found by a safeguarded Newton iteration; U^-1 moves by lam tau (aa^T - bb^T), L_i^-1 by
    mu tau aa^T and L_j^-1 by -mu tau bb^T. Class-free triplets move U alone.

    The text of the original paper could not be had, so three things are not verified against it: whether it punishes
    the loss or its square (here the loss; step="pa2" is the square), its margin (here 1; `margin`) and whether its step
    is exact (here it is; code in circulation under this name takes a first-order step and clips eigenvalues, which is
    another algorithm). The local version is this library's own.

    Of the parameters that all learners share, `step` takes "pa1" and "pa2" alone, `psd` "never" or "end", which come to
    the same here, and `init` must be positive definite. `forget` lets the inverses decay towards that of the start,
    M^-1 <- M_0^-1 + g (M^-1 - M_0^-1), g = 1 - forget: exact, and O(d^3) a triplet.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest tau, in units of a reciprocal squared distance. With scale="auto" useful values lie
        between .001 and 1, and the choice matters little. It must be finite: without a bound a triplet with p = p-
        has no solution. The smallest eigenvalue falls like 1 / C, so precision sets a limit: at unit scale all matrices
        stay positive definite through 100,000 random, contradictory triplets up to C = 10,000, or 1 in float32.
    lam : float in [0, 1]
        Weight of the shared part; 1 is the global learner, smaller values localise it.
    {common}
    Examples
    --------
    >>> from paloma import SLMOML
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = SLMOML(random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}")
    0.99
    """

    _linear: ClassVar[bool] = False

    C: float = 0.003
    lam: float = 1.0
    psd: str | int = "never"

    def _parts(self) -> Parts:
        parts = super()._parts()
        who = check.name_of(self)
        if parts.step.name not in ("pa1", "pa2"):
            raise ValueError(
                f"{who}: the LogDet step is derived for step='pa1' and 'pa2' only, there is no derivation for "
                f"step={self.step!r}. ODML and LODML take it."
            )
        if parts.psd.word not in ("never", "end"):
            raise ValueError(f"{who} is positive definite without projection: psd='never' or 'end', got {self.psd!r}.")
        if not np.isfinite(parts.C):
            raise ValueError(
                f"{who}: C must be finite, a LogDet step without bound may have no solution; got {self.C!r}."
            )
        return replace(parts, path=logdet_path)

    def _scale_of(self, X: Any, triplets: Any) -> float | None:
        scale = super()._scale_of(X, triplets)
        if scale is not None:
            self._check_shrinking(X, 1.0 / scale)
        return scale

    def _check_magnitude(self, X: Any, factor: Any) -> None:
        super()._check_magnitude(X, factor)
        if self._model.scale is not None:
            self._check_shrinking(X, factor)

    def _check_shrinking(self, X: Any, factor: float) -> None:
        """Refuse rows for which a LogDet step is beyond float64: C |x|^2 from above."""
        largest = float(np.abs(X).max(initial=0.0)) * factor * np.sqrt(X.shape[1])
        if not self.C * largest * largest < LARGEST_SHRINKING:
            raise ValueError(
                f"{check.name_of(self)}: values in X are too large, a step would overflow (C times the largest squared "
                f"row norm is about {self.C * largest * largest:.0e} in scaled units, limit {LARGEST_SHRINKING:.0e}). "
                "Scale the data, or take a smaller C."
            )

    def _check_held(self, d: int) -> None:
        super()._check_held(d)
        if not isinstance(self.init, str):
            values = eigvalsh(self._start(d, np.dtype(float), 1.0))
            if not values[0] > SMALLEST_SHARE * values[-1]:
                raise ValueError(
                    f"{check.name_of(self)}: init must be positive definite, its eigenvalues are {values[0]:.3g} to "
                    f"{values[-1]:.3g}."
                )
