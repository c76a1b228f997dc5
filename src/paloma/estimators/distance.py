"""Distance learners: (p - q)^T M (p - q)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._core.locality import SHARED, Locality
from .._core.measure import DISTANCE
from .._spaces.diagonal import Diagonal, DiagonalMetric
from .._spaces.projected import ProjectedSpace
from .._training.settings import Settings
from .._typing import Array
from ._calls import alone, public
from .base import Learner
from .docs import TEXTS
from .parameters import dense, parse, projected


class SharedMetric:
    """Mahalanobis distance of two vectors under the shared part, independent of the learner and picklable.

    components : the map, or its diagonal if it has nothing else.
    """

    def __init__(self, components: Array) -> None:
        self.components = components

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        difference = np.asarray(u) - np.asarray(v)
        difference = self.components * difference if self.components.ndim == 1 else self.components @ difference
        value = float(difference @ difference)
        return value if squared else float(np.sqrt(value))


@dataclass(kw_only=True, eq=False, repr=False)
class DistanceLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """What every distance learner adds to the protocol: distances, and the shared part as a linear map."""

    psd: str | int = "end"

    _texts = TEXTS

    @public
    def pair_distance(
        self, pairs: ArrayLike, y: ArrayLike | None = None, *, X: ArrayLike | None = None, group: Any = None
    ) -> Array:
        """Distances of pairs (query, candidate), rooted and clipped at 0; y are the classes of the candidates.

        With `group`, instead of y, distances under the metric of that group.
        """
        reader = self._reader()
        return reader.distances(reader.pair_values(pairs, check.of_group(y, group, np.shape(pairs)[0]), X))

    def get_mahalanobis_matrix(self) -> Array:
        """components_^T components_: the shared part made p.s.d., in the units of X."""
        components = self.components_
        return components.T @ components

    @property
    @public
    def components_(self) -> Array:
        """(d, d) linear map whose Euclidean distances are those of the shared part."""
        return self._reader().metric.components()

    @public
    def transform(self, X: ArrayLike) -> Array:
        """X under the shared part: Euclidean distances of the result are distances under U.

        The metrics of the classes are left out, because no one map can hold them all: `MetricKNeighborsClassifier`,
        `MetricIndex`, and `item_vectors` with `query_vectors` keep them.
        """
        reader = self._reader()
        return reader.metric.transform(reader.rows(X))

    def get_metric(self) -> Callable[..., float]:
        """f(u, v, squared=False) under the shared part; picklable. One weight per feature is held as such."""
        metric = self._reader().metric
        return SharedMetric(metric.roots() if isinstance(metric, DiagonalMetric) else metric.components())

    @property
    @alone
    def _n_features_out(self) -> int:
        return int(self._reader().metric.n_components)


@dataclass(kw_only=True, eq=False, repr=False)
class ODML(DistanceLearner):
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
    1.00
    """

    def _choose(self) -> Settings:
        return parse(self, DISTANCE, Locality.shared(), dense(self))


@dataclass(kw_only=True, eq=False, repr=False)
class LODML(DistanceLearner):
    """Local online distance metric learning: one metric per class on top of a shared one (the paper, section 3.1).

    M_c = lam U + mu L_c, mu = 1 - lam. The metric of a pair is that of the candidate's class, so queries need no label:
    d(q, x) = (q - x)^T M_{y(x)} (q - x). A triplet whose positive has class i and whose negative has class j moves
    U -= tau lam (aa^T - bb^T), L_i -= tau mu aa^T, L_j += tau mu bb^T, with a = p - p+, b = p - p-.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between .003 and .3.
    lam : float in [0, 1]
        Weight of the shared part. 1 is ODML, 0 learns each class by itself. Only kappa = lam^2 / (lam^2 + mu^2) and
        C' = C (lam^2 + mu^2) matter for the M_c, so a fixed C does not mean the same across values of lam: if you
        search over lam, search over C as well.
    {regions}
    {common}
    Notes
    -----
    As a transformer in a pipeline it maps rows by the shared part U alone: no single map can hold one metric per class,
    since the metric depends on the item. What keeps the local part: `MetricKNeighborsClassifier` and `MetricIndex`; and
    for other programs `item_vectors(X, y)` of the items with `query_vectors(Q)` of the queries, whose inner products
    are minus the squared local distances.

    Examples
    --------
    >>> from paloma import LODML
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = LODML(random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}")
    1.00
    >>> products = metric.query_vectors(scale(X)[:3]) @ metric.item_vectors(scale(X), y).T
    >>> bool(abs(-products - metric.pairwise_score(scale(X)[:3], scale(X), y) ** 2).max() < 1e-9)
    True
    """

    lam: float = 0.5
    regions: Any = None
    soft_regions: bool = False

    def _choose(self) -> Settings:
        return parse(self, DISTANCE, Locality.per_class(self.lam), dense(self))


@dataclass(kw_only=True, eq=False, repr=False)
class DiagonalODML(DistanceLearner):
    """ODML or LODML with one weight per feature, for very many dense features.

    M_c = diag(m_c) with m_c = lam u + mu l_c, mu = 1 - lam, so that d(q, x) = sum_s m_{y(x),s} (q_s - x_s)^2. A triplet
    whose positive has class i and whose negative has class j moves u -= tau lam (a^2 - b^2), l_i -= tau mu a^2,
    l_j += tau mu b^2, with a = p - p+, b = p - p- and squares taken feature by feature. Time is O(d) per triplet and
    memory O(d) per class: 100,000 dense features are routine. It weighs features and never combines them, so in few
    dimensions the learners with full matrices are the better choice.

    Parameters
    ----------
    C : float
        Aggressiveness per feature: the largest step is C d. With scale="auto" useful values lie between .003 and .3.
    lam : float in [0, 1]
        Weight of the shared part; 1 learns one metric for all classes, smaller values one per class as well.
    {regions}
    {common}
    Examples
    --------
    >>> import numpy as np
    >>> from paloma import DiagonalODML
    >>> rng, y = np.random.default_rng(0), np.arange(120) % 3
    >>> X = rng.normal(size=(120, 1000))                  # 20 features tell the classes apart, 980 are noise
    >>> X[:, :20] += 2 * rng.normal(size=(3, 20))[y]
    >>> metric = DiagonalODML(random_state=0).fit(X[:60], y[:60])
    >>> print(f"{metric.score(X[60:], y[60:]):.2f}")
    1.00
    >>> print(np.sort(np.argsort(metric.feature_weights_)[-10:]))
    [ 0  1  3  4  5  8 10 13 14 16]
    """

    lam: float = 1.0
    regions: Any = None
    soft_regions: bool = False

    def _choose(self) -> Settings:
        return parse(self, DISTANCE, Locality.per_class(self.lam), Diagonal(self.init))

    @property
    @public
    def feature_weights_(self) -> Array:
        """(d,) weight of each feature in the shared part, in the units of X: the diagonal of `metric_matrix()`."""
        return cast(DiagonalMetric, self._reader().metric).diagonal(SHARED).copy()


@dataclass(kw_only=True, eq=False, repr=False)
class L2ODML(DistanceLearner):
    """LODML for many features: learns on random projections, keeps the metric as identity plus low rank (section 3.3).

    Rows are projected to m dimensions, X R with R_ab ~ N(0, 1/m); LODML runs there, and each step size is replayed on
    the original rows, so the metric is not confined to the span of R. No d x d matrix is ever formed.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between .003 and .3.
    lam : float in [0, 1]
        Weight of the shared part; see LODML.
    {regions}
    n_components : int or "auto"
        Projected dimension m. "auto" is 4.5 log(number of triplets) or one per class, whichever is larger, in
        multiples of 16 from 48 to 400: the error of inner products falls with the square root of m, and learning costs
        m^2 per triplet. Half of the components are the strongest directions of the rows, if rows have clearly more in
        these. Data with up to four times as many features is not projected at all: that would save little.
    rank : int or "auto"
        Directions in which the recovered metric may differ from the identity, jointly for all classes. "auto" is 128 or
        2.5 per class, whichever is larger, at most 1024. If `score` improves with it, raise it.
    n_power_iter : int
        Power iterations of the recovery, at most 100; 1 is enough unless the spectrum is flat.
    projection : {"gaussian", "sparse"}
        The random matrix: Gaussian as in the paper, or mostly zeros, which is faster if d is very large.
    max_journal : int or None
        Pairs of rows to remember before they are folded into the low-rank factors, which bounds the memory of a stream
        to this many pairs and the rows they touch. On Oxford Pets and Banking77, in batches of 200 rows, folding at
        20,000, 5,000 or 1,000 pairs changed 3-NN accuracy by less than .001; each fold costs a recovery.
    {common}
    Examples
    --------
    >>> from paloma import L2ODML
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> metric = L2ODML(n_components=40, random_state=0).fit(X[:900], y[:900])
    >>> print(f"{metric.score(X[900:], y[900:]):.2f}")
    0.96
    """

    lam: float = 0.5
    regions: Any = None
    soft_regions: bool = False
    n_components: int | str = "auto"
    rank: int | str = "auto"
    n_power_iter: int = 1
    projection: str = "gaussian"
    max_journal: int | None = 1_000_000

    _sparse = True

    def _choose(self) -> Settings:
        return parse(self, DISTANCE, Locality.per_class(self.lam), projected(self))

    @property
    def exact_(self) -> bool:
        """Whether the rows span so few directions that learning ran in their exact coordinates, not on projections."""
        check_is_fitted(self)
        return cast(ProjectedSpace, self._model.space).exact
