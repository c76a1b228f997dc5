"""Distance learners: (p - q)^T M (p - q)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._measure import DISTANCE, Measure
from ._axes import DenseLearner, PerRegionLearner, ProjectedLearner, SharedLearner
from .base import Learner

Array = NDArray[Any]


class SharedMetric:
    """Mahalanobis distance of two vectors under the shared part, independent of the learner and picklable."""

    def __init__(self, components: Array) -> None:
        self.components = components

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        difference = self.components @ (np.asarray(u) - np.asarray(v))
        value = float(difference @ difference)
        return value if squared else float(np.sqrt(value))


@dataclass(kw_only=True, eq=False, repr=False)
class DistanceLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """What every distance learner adds to the protocol: distances, and the shared part as a linear map."""

    psd: str | int = "end"

    _measure: ClassVar[Measure] = DISTANCE

    def pair_distance(self, pairs: ArrayLike, y: ArrayLike | None = None, *, X: ArrayLike | None = None) -> Array:
        """Distances of pairs (query, candidate), rooted and clipped at 0; y are the classes of the candidates."""
        return self._as_learnt(np.sqrt(np.maximum(self._pair_values(pairs, y, X), 0.0)))

    def get_mahalanobis_matrix(self) -> Array:
        """components_^T components_: the shared part made p.s.d., in the units of X."""
        components = self.components_
        return components.T @ components

    @property
    def components_(self) -> Array:
        """(d, d) linear map whose Euclidean distances are those of the shared part."""
        return self._metric().components()

    def transform(self, X: ArrayLike) -> Array:
        """X under the shared part: Euclidean distances of the result are distances under U."""
        return self._metric().transform(self._rows(X))

    def get_metric(self) -> Callable[..., float]:
        """f(u, v, squared=False) under the shared part; picklable."""
        return SharedMetric(self.components_)

    def _remining_rows(self, X: Array) -> Array:
        return self._metric().transform(X)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)


@dataclass(kw_only=True, eq=False, repr=False)
class ODML(DistanceLearner, SharedLearner, DenseLearner):
    """Online distance metric learning with one metric for all classes (Wu et al. 2016).

    Each triplet asks for d_M(p, p+) + 1 <= d_M(p, p-), d_M(p, q) = (p - q)^T M (p - q), and the step from M is
    M -= tau (aa^T - bb^T), a = p - p+, b = p - p-, tau = min(C, loss / |aa^T - bb^T|^2).

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between .003 and .3.
    {common}
    Examples
    --------
    >>> from paloma import ODML
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = ODML(random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}")
    0.99
    """


@dataclass(kw_only=True, eq=False, repr=False)
class LODML(DistanceLearner, PerRegionLearner, DenseLearner):
    """Local online distance metric learning: one metric a class on top of a shared one (the paper, section 3.1).

    M_c = lam U + mu L_c, mu = 1 - lam. The metric of a pair is that of the candidate's class, so queries need no label:
    d(q, x) = (q - x)^T M_{y(x)} (q - x). A triplet whose positive has class i and whose negative has class j moves
    U -= tau lam (aa^T - bb^T), L_i -= tau mu aa^T, L_j += tau mu bb^T, with a = p - p+, b = p - p-.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between .003 and .3.
    lam : float in [0, 1]
        Weight of the shared part. 1 is ODML, 0 learns each class by itself. Only kappa = lam^2 / (lam^2 + mu^2) and
        C' = C (lam^2 + mu^2) matter for the M_c, so a fixed C is not comparable over lam: when you search over lam,
        search over C as well.
    {regions}
    {common}
    Examples
    --------
    >>> from paloma import LODML
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = LODML(random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}")
    0.99
    """


@dataclass(kw_only=True, eq=False, repr=False)
class L2ODML(DistanceLearner, PerRegionLearner, ProjectedLearner):
    """LODML for many features: learns on random projections, keeps the metric as identity plus low rank (section 3.3).

    Rows are projected to m dimensions, X R with R_ab ~ N(0, 1/m); LODML runs there, and each step size is replayed on
    the original rows, so that the metric is not confined to the span of R. No d x d matrix is ever formed.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between .003 and .3.
    lam : float in [0, 1]
        Weight of the shared part; see LODML.
    {regions}
    n_components : int or "auto"
        Projected dimension m. "auto" is 10 log(number of triplets) or 1.6 a class, whichever is more, between 50 and
        400: the error of the inner products falls with the root of m, learning costs m^2 a triplet. Up to twice as many
        features are not projected at all, which would save next to nothing.
    rank : int or "auto"
        Directions in which the recovered metric may differ from the identity, jointly for all classes. "auto" is 256
        or 3.75 a class, whichever is more, at most 1024. If `score` rises with it, raise it: on CUB-200 (200 classes,
        d = 1280) 256 gives .717, 500 .723, 768 .726 and LODML .730.
    n_power_iter : int
        Power iterations of the recovery; 2 is enough unless the spectrum is flat.
    projection : {"gaussian", "sparse"}
        The random matrix: Gaussian as in the paper, or mostly zeros, faster where d is very large.
    max_journal : int or None
        Pairs of rows to remember before they are folded into the low-rank factors, which bounds the memory of a stream
        to so many pairs and the rows they touch. On Oxford Pets and Banking77, in batches of 200 rows, folding at
        20,000, 5,000 or 1,000 pairs changed 3-NN accuracy by less than .001; each fold costs a recovery.
    {common}
    Examples
    --------
    >>> from paloma import L2ODML
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> metric = L2ODML(n_components=40, random_state=0).fit(X[:900], y[:900])
    >>> print(f"{metric.score(X[900:], y[900:]):.2f}")
    0.99
    """
