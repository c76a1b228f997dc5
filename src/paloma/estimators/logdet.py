"""The LogDet distance learner: a geometry of its own, the same protocol."""

from dataclasses import dataclass

from .._core.locality import Locality
from .._core.measure import DISTANCE
from .._spaces.logdet import LogDet
from .._training.settings import Settings
from .distance import DistanceLearner
from .parameters import parse


@dataclass(kw_only=True, eq=False, repr=False)
class SLMOML(DistanceLearner):
    """Online distance learning by exact LogDet steps, positive definite without any projection (Zhong et al. 2016).

    Each triplet asks for d_M(p, p+) + 1 <= d_M(p, p-), and the step minimizes D(M, M_t) + C loss with the LogDet
    divergence D(M, N) = tr(M N^-1) - log det(M N^-1) - d. It adds to the inverse,

        M^-1 = M_t^-1 + tau (aa^T - bb^T),    a = p - p+,  b = p - p-,

    with tau in closed form from a^T M a, b^T M b, and a^T M b; O(d^2) per triplet, and faster in exact blocks if d is
    large. A step never leaves the cone, and it stretches the directions that matter by factors rather than by amounts.

    With lam < 1 it is local: M_c = lam U + mu L_c, mu = 1 - lam, and D is summed over U, L_i and L_j. They meet in one
    dual variable tau, found by a safeguarded Newton iteration; U^-1 moves by lam tau (aa^T - bb^T), L_i^-1 by
    mu tau aa^T and L_j^-1 by -mu tau bb^T. Class-free triplets move U alone.

    The text of the original paper was not available, so three things are not verified against it: whether it penalizes
    the loss or its square (here the loss; step="pa2" is the square), its margin (here 1; `margin`), and whether its
    step is exact (here it is; code in circulation under this name takes a first-order step and clips eigenvalues, which
    is a different algorithm). The local version is our own.

    Of the parameters that all learners share, `step` accepts only "pa1" and "pa2", `psd` only "never" and "end", which
    mean the same here, and `init` must be positive definite. `forget` lets the inverses decay toward that of the start,
    M^-1 <- M_0^-1 + g (M^-1 - M_0^-1), g = 1 - forget: exact, and O(d^3) per triplet.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest tau, in units of a reciprocal squared distance. With scale="auto" useful values lie
        between .001 and 1, and the choice matters little. It must be finite: without a bound a triplet with p = p-
        has no solution. The smallest eigenvalue falls like 1 / C, so precision sets a limit: at unit scale all matrices
        stay positive definite through 100,000 random, contradictory triplets up to C = 10,000, or 1 in float32.
    lam : float in [0, 1]
        Weight of the shared part; 1 is the global learner, smaller values make it local.
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

    C: float = 0.003
    lam: float = 1.0
    psd: str | int = "never"

    def _choose(self) -> Settings:
        return parse(self, DISTANCE, Locality.per_class(self.lam), LogDet(self.init))
