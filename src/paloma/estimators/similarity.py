"""Similarity learners: p^T M q."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._measure import SIMILARITY, Measure
from .._representation import SHARED
from ._axes import DenseLearner, PerRegionLearner, ProjectedLearner, SharedLearner
from .base import Learner

Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class SimilarityLearner(Learner):
    """What every similarity learner has; the protocol of `Learner` needs nothing more."""

    C: float = 1e-4

    _measure: ClassVar[Measure] = SIMILARITY
    _sparse: ClassVar[bool] = True

    def _remining_rows(self, X: Array) -> Array:
        if sp.issparse(X):
            raise TypeError("remine=True needs dense rows.")
        factors, _ = self._metric().item_side(X, np.full(len(X), SHARED, np.int32))
        return np.hstack([X, *factors])


@dataclass(kw_only=True, eq=False, repr=False)
class OASIS(SimilarityLearner, SharedLearner, DenseLearner):
    """Online similarity learning, one bilinear form for all classes (Chechik et al. 2010).

    Each triplet asks for s(p, p+) >= s(p, p-) + 1, s(p, q) = p^T W q, and the step is W += tau p (p+ - p-)^T with
    tau = min(C, loss / (|p|^2 |p+ - p-|^2)). A similarity is not translation invariant: put
    `paloma.preprocessing.UnitRows` in front of it.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between 1e-5 and 1e-2.
    {common}
    Examples
    --------
    >>> from paloma import OASIS
    >>> from paloma.preprocessing import UnitRows
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> rows = UnitRows().fit_transform(scale(X))
    >>> print(f"{OASIS(random_state=0).fit(rows, y).score(rows, y):.2f}")
    0.99
    """


@dataclass(kw_only=True, eq=False, repr=False)
class LOSL(SimilarityLearner, PerRegionLearner, DenseLearner):
    """Local online similarity learning: one bilinear form a class on top of a shared one (the paper, section 3.2).

    M_c = lam U + mu L_c, mu = 1 - lam, and s(q, x) = q^T M_{y(x)} x with the class of the candidate x. A triplet whose
    positive has class i and whose negative has class j moves U += tau lam p (p+ - p-)^T, L_i += tau mu p p+^T,
    L_j -= tau mu p p-^T. Put `paloma.preprocessing.UnitRows` in front of it.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between 1e-5 and 1e-2.
    lam : float in [0, 1]
        Weight of the shared part. 1 is OASIS, 0 learns each class by itself. Only kappa = lam^2 / (lam^2 + mu^2) and
        C' = C (lam^2 + mu^2) matter for the M_c: when you search over lam, search over C as well.
    {regions}
    {common}
    Examples
    --------
    >>> from paloma import LOSL
    >>> from paloma.preprocessing import UnitRows
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> rows = UnitRows().fit_transform(scale(X))
    >>> print(f"{LOSL(random_state=0).fit(rows, y).score(rows, y):.2f}")
    1.00
    """

    C: float = 1e-3


@dataclass(kw_only=True, eq=False, repr=False)
class L2OSL(SimilarityLearner, PerRegionLearner, ProjectedLearner):
    """LOSL for many features: learns on random projections, keeps identity plus low rank (the paper, section 3.3).

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. Somewhat smaller than LOSL's: large steps would also learn the error of the
        projection (on four splits of Oxford Pets .931 with 2e-4, .933 with 5e-4, .930 with 1e-3).
    lam : float in [0, 1]
        Weight of the shared part; see LOSL.
    {regions}
    n_components, rank, n_power_iter, projection, max_journal
        Projected dimension, recovered directions, power iterations, kind of random matrix, when to fold; see L2ODML.
        Here half of the components are the strongest directions of the first rows instead of random ones.
    {common}
    Examples
    --------
    >>> from paloma import L2OSL
    >>> from paloma.preprocessing import UnitRows
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> rows = UnitRows().fit_transform(X)
    >>> metric = L2OSL(n_components=40, random_state=0).fit(rows[:900], y[:900])
    >>> print(f"{metric.score(rows[900:], y[900:]):.2f}")
    0.98
    """

    C: float = 5e-4
