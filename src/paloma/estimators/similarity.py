"""Similarity learners: p^T M q."""

from dataclasses import dataclass
from typing import Any, cast

from sklearn.utils.validation import check_is_fitted

from .._core.locality import Locality
from .._core.measure import SIMILARITY
from .._spaces.projected import ProjectedSpace
from .._training.settings import Settings
from .base import Learner
from .docs import TEXTS
from .parameters import dense, parse, projected


class SimilarityLearner(Learner):
    """What similarity learners share: sparse rows, and the texts of the parameters."""

    _texts, _sparse = TEXTS, True


@dataclass(kw_only=True, eq=False, repr=False)
class OASIS(SimilarityLearner):
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
    0.98
    """

    C: float = 3e-4

    def _choose(self) -> Settings:
        return parse(self, SIMILARITY, Locality.shared(), dense(self))


@dataclass(kw_only=True, eq=False, repr=False)
class LOSL(SimilarityLearner):
    """Local online similarity learning: one bilinear form per class on top of a shared one (the paper, section 3.2).

    M_c = lam U + mu L_c, mu = 1 - lam, and s(q, x) = q^T M_{y(x)} x with the class of the candidate x. A triplet whose
    positive has class i and whose negative has class j moves U += tau lam p (p+ - p-)^T, L_i += tau mu p p+^T,
    L_j -= tau mu p p-^T. Put `paloma.preprocessing.UnitRows` in front of it.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between 1e-5 and 1e-2.
    lam : float in [0, 1]
        Weight of the shared part. 1 is OASIS, 0 learns each class by itself. Only kappa = lam^2 / (lam^2 + mu^2) and
        C' = C (lam^2 + mu^2) matter for the M_c: if you search over lam, search over C as well.
    {regions}
    {common}
    Examples
    --------
    >>> from paloma import LOSL
    >>> from paloma.preprocessing import UnitRows
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> rows = UnitRows().fit_transform(X)
    >>> metric = LOSL(random_state=0).fit(rows[:300], y[:300])
    >>> print(f"{metric.score(rows[300:], y[300:]):.2f}")
    0.89
    """

    C: float = 1e-3
    lam: float = 0.5
    regions: Any = None
    soft_regions: bool = False

    def _choose(self) -> Settings:
        return parse(self, SIMILARITY, Locality.per_class(self.lam), dense(self))


@dataclass(kw_only=True, eq=False, repr=False)
class L2OSL(SimilarityLearner):
    """LOSL for many features: learns on random projections, keeps identity plus low rank (the paper, section 3.3).

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. Somewhat smaller than for LOSL: large steps would also learn the projection
        error (on four splits of Oxford Pets, .931 with 2e-4, .933 with 5e-4, .930 with 1e-3).
    lam : float in [0, 1]
        Weight of the shared part; see LOSL.
    {regions}
    n_components, rank, n_power_iter, projection, max_journal
        Projected dimension, recovered directions, power iterations, kind of random matrix, when to fold; see L2ODML.
        Here half of the components are always the strongest directions of the first rows.
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
    0.96
    """

    C: float = 5e-4
    lam: float = 0.5
    regions: Any = None
    soft_regions: bool = False
    n_components: int | str = "auto"
    rank: int | str = "auto"
    n_power_iter: int = 1
    projection: str = "gaussian"
    max_journal: int | None = 1_000_000

    def _choose(self) -> Settings:
        return parse(self, SIMILARITY, Locality.per_class(self.lam), projected(self))

    @property
    def exact_(self) -> bool:
        """Whether the rows span so few directions that learning ran in their exact coordinates, not on projections."""
        check_is_fitted(self)
        return cast(ProjectedSpace, self._model.space).exact
