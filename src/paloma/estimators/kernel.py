"""Kernel learners: similarities and distances in the feature space of a kernel, or of several."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._hedge import check_beta
from .._locality import Labels
from .._measure import DISTANCE, SIMILARITY, Measure
from .._representation import PRECOMPUTED, Kernel
from .._search import items_of, majority
from ..triplets import Mined, Reservoir, mine_by
from ._axes import PerClassLearner
from ._docs import KERNEL_COMMON
from ._kernel_model import KernelModel
from ._semi import Semi

Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class KernelLearner(PerClassLearner):
    """What kernel learners share: parameters, scale, and reading a model without matrices."""

    C: float = 1e-4
    lam: float = 1.0
    normalize: bool = False
    budget: int | None = None
    when_full: str = "keep"
    measure: str = "similarity"
    cache_size: float = 1000.0

    _common: ClassVar[str] = KERNEL_COMMON

    @abstractmethod
    def _kernels(self, d: int) -> list[Kernel]:
        """The kernels, for rows of d features."""

    @abstractmethod
    def _combining(self) -> dict[str, Any]:
        """How kernels are combined: beta, delta and several of `KernelModel`."""

    @property
    def _measure(self) -> Measure:  # type: ignore[override]
        return DISTANCE if isinstance(self.measure, str) and self.measure == "distance" else SIMILARITY

    @property
    def _precomputed(self) -> bool:
        return False

    # -- learning --------------------------------------------------------------------------------------------

    def _check_held(self, d: int) -> None:
        who = check.name_of(self)
        check.check_word("measure", self.measure, ("similarity", "distance"))
        check.check_word("init", self.init, ("identity", "zero"))
        check.check_real("cache_size", self.cache_size, 0.0)
        if self.psd != "never":
            raise ValueError(f"{who} takes psd='never' only, got psd={self.psd!r}: it holds no matrix to project.")
        if self.remine:
            raise ValueError(f"{who} does not mine again; give triplets, or leave remine=False.")
        if self.budget is not None:
            check.check_count("budget", self.budget, 3)
        check.check_word("when_full", self.when_full, ("keep", "forget"))
        self._kernels(d)
        self._combining()

    def _check_more_rows(self, X: Array) -> None:
        rows = X.astype(self._model.dtype, copy=False)
        check.check_magnitude(self, rows, self._model.factor)
        for kernel in self._model.state.kernels:
            kernel.raw_selfs(rows)

    def _semi(self) -> Semi:
        """Rows without labels teach nothing where the kernel is precomputed: their neighbours are unknown to `mine`."""
        return Semi.parse("none", None) if self._precomputed else super()._semi()

    def _scale_of(self, X: Array, triplets: Array | None) -> float | None:
        """Brings the mean squared distance of the rows that the first triplets name to the number of features."""
        if self.scale is None or self._precomputed:
            return 1.0
        if triplets is None or not len(triplets):
            return None
        scale = float(np.sqrt(2.0 * X[np.unique(triplets)].var(axis=0, dtype=np.float64).mean())) or 1.0
        check.check_magnitude(self, X, 1.0 / scale)
        return scale

    def _new_model(
        self, labels: Labels, rng: np.random.Generator, reservoir: Reservoir, scale: float | None
    ) -> KernelModel:
        return KernelModel(
            labels,
            rng,
            reservoir,
            scale,
            kernels=self._kernels(int(self.n_features_in_)),
            distances=self._measure.symmetric,
            start=float(self.init == "identity"),
            budget=self.budget,
            forgetting=self.when_full == "forget",
            cache=float(self.cache_size) * 2**20,
            gains=self.scale is not None,
            **self._combining(),
        )

    def _mine(self, X: Any, codes: Any, anchors: Array | None = None) -> Mined:
        """Euclidean neighbours; with a precomputed kernel, neighbours under the distance that it induces."""
        if not self._precomputed:
            return super()._mine(X, codes, anchors)
        known = np.flatnonzero(codes >= 0)
        kernel = self._model.state.kernels[0] if hasattr(self, "_model") else self._kernels(X.shape[1])[0]
        if kernel.keys is None or X.shape[0] == X.shape[1]:
            kernel = kernel.fitted(X, None, 1.0, False, False)
        points, own = kernel.points(X[known]), kernel.raw_selfs(X[known])

        def distances(rows: Array) -> Array:
            return own[rows][:, None] + own - 2.0 * X[known[rows]][:, points]

        inside = None if anchors is None else np.searchsorted(known, anchors)
        settings = (self.n_targets, self.n_impostors, self.impostor_margin)
        mined = mine_by(distances, codes[known], *settings, inside)
        mined.triplets = known[mined.triplets]
        return mined

    def _remining_rows(self, X: Array) -> NoReturn:
        raise ValueError(f"{check.name_of(self)} does not mine again.")

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def support_(self) -> Array:
        """(n_support, d) rows that steps touched, in the units of X; row numbers for a precomputed kernel."""
        check_is_fitted(self)
        state = self._model.state
        return np.empty((0, self.n_features_in_), state.dtype) if state.points is None else state.points[state.held]

    @property
    def gain_(self) -> Any:
        """What kernel values are multiplied by; one number a kernel."""
        check_is_fitted(self)
        gains = np.array([kernel.gain for kernel in self._model.state.kernels])
        return gains if self._model.several else float(gains[0])

    def metric_matrix(self, label: Any = None) -> NoReturn:
        """A kernel learner has no matrix in the units of X: raises TypeError."""
        check_is_fitted(self)
        raise TypeError(
            f"{check.name_of(self)} has no metric matrix: it learns in the feature space of a kernel. Use pair_score "
            "or pairwise_score, or learn LOSL on an explicit map: make_pipeline(Nystroem(), LOSL())."
        )

    def query_vectors(self, Q: ArrayLike, *, for_graph: bool = False) -> NoReturn:
        """A kernel learner has no search vectors: raises TypeError."""
        self._rows(Q)
        self._refuse_vectors()

    def item_vectors(self, X: ArrayLike, y: ArrayLike | None = None, *, for_graph: bool = False) -> NoReturn:
        """A kernel learner has no search vectors: raises TypeError."""
        self._codes_of(y, self._rows(X).shape[0], "rows of X")
        self._refuse_vectors()

    def _item_vectors(self, rows: Any, candidates: Array) -> NoReturn:
        self._refuse_vectors()

    def _refuse_vectors(self) -> NoReturn:
        raise TypeError(
            f"{check.name_of(self)} has no search vectors: k(q, x) is no inner product of finite vectors. Use "
            "pairwise_score or MetricKNeighborsClassifier, or learn LOSL on an explicit map, which has them: "
            "make_pipeline(Nystroem(), LOSL())."
        )

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy of leave-one-out 3-NN on these rows.

        With a precomputed kernel, of 3-NN among the training rows: kernel values between other rows are not known. A
        training row is no neighbour of its own.
        """
        if not self._precomputed:
            return super().score(X, y)
        rows = self._rows(X)
        labels = check.check_labels(self, y, rows.shape[0])
        training, codes = self._model.training
        if codes is None:
            raise ValueError(f"{check.name_of(self)} was fitted without y: its training rows have no classes to vote.")
        known = np.flatnonzero(codes >= 0)
        place = np.full(len(codes), -1)
        place[known] = np.arange(len(known))
        numbers = self._model.state.kernels[0].numbers(rows)
        own = np.where(numbers >= 0, place[numbers], -1)
        items = items_of(self._metric(), training[known], codes[known])
        _, ids = items.search(rows, min(3, len(known) - 1), own=own)
        return float((majority(codes[known][ids]) == self._codes_of(labels, len(labels), "rows of X")).mean())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class OKS(KernelLearner):
    """Online kernel similarity learning: OASIS in the feature space of a kernel (Xia et al. 2014).

    S(p, q) = k(p, q) + k_p^T S k_q with k_x = (k(x, x_r))_r over the support, the rows that steps touched. A triplet
    asks for S(p, p+) >= S(p, p-) + 1; its step adds tau to S[p, p+] and -tau to S[p, p-], with
    tau = min(C, loss / (k(p, p) (k(p+, p+) - 2 k(p+, p-) + k(p-, p-)))). With lam < 1 the form of a pair is that of the
    candidate's class, lam U + mu L_c, as in LOSL. With a linear kernel it is OASIS, or LOSL, exactly.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between 1e-5 and 1e-3.
    kernel : str or callable
        A name of scikit-learn's ``pairwise_kernels``, "precomputed", or a callable: of two matrices, giving all values
        at once, or, much slower, of two rows. With "precomputed", X is the (n, n) matrix of kernel values in `fit`, and
        (n_queries, n) elsewhere; candidates (items, and the second of a pair) must be rows of the training matrix;
        `partial_fit` takes more triplets or labels of the same rows.
    kernel_params : dict, optional
        Parameters of the kernel by name, e.g. {"gamma": .1}, in scaled units; None: scikit-learn's defaults.
    {common}
    Notes
    -----
    The text of Xia et al. (2014) could not be read, so where it starts could not be checked: `init` is a choice.
    Search vectors exist only for finite feature maps: for those learn LOSL behind ``Nystroem``.

    Examples
    --------
    >>> from paloma import OKS
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = OKS(random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}")
    1.00
    """

    kernel: Any = "rbf"
    kernel_params: dict[str, Any] | None = None

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    def _kernels(self, d: int) -> list[Kernel]:
        return [Kernel(self.kernel, self.kernel_params, self.normalize)]

    def _combining(self) -> dict[str, Any]:
        return {}


@dataclass(kw_only=True, eq=False, repr=False)
class OMKS(KernelLearner):
    """Online multiple kernel similarity learning: OKS with several kernels, weighted by Hedge (Xia et al. 2014).

    f(p, q) = sum_r theta_r S_r(p, q). Each kernel takes the OKS step of its own loss; one that ranks a triplet wrongly
    before its step, S_r(p, p+) <= S_r(p, p-), has its weight multiplied by beta, and the weights are normalised.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between 1e-5 and 1e-3.
    kernels : list, optional
        Names, callables or (name or callable, params), see OKS; "precomputed" is not among them. None: linear, RBF of
        three widths (gamma 1/4, 1 and 4 over the number of features) and polynomial of degree 2.
    combination : {"deterministic", "stochastic", "uniform"}
        deterministic: all kernels learn from every triplet. stochastic: a kernel learns from a triplet, and is
        discounted on it, with chance (1 - delta) theta_r / max theta + delta, drawn with `random_state`. uniform: the
        weights stay equal. All kernels are used for scores, whatever the combination.
    beta : float in (0, 1] or "auto"
        Discount of a ranking mistake. "auto" tunes it to the triplets so far: regret of order sqrt(T log m).
    delta : float in (0, 1]
        Least chance of a kernel to learn from a triplet, for combination="stochastic".
    {common}
    weights_ : (n_kernels,) weights of the kernels.
    weights_path_ : (triplets, weights) at up to 257 moments, evenly spread over all triplets.

    Notes
    -----
    In `fit` Hedge is played in the first pass only: on triplets already learnt from, mistakes say how well a kernel
    remembers. With them, on Letters, all weight goes to the narrowest kernel.
    The text of Xia et al. (2014) could not be read: the start (`init`) and the sampling of the stochastic combination
    (`combination`, `delta`; taken from the same authors' multiple kernel classifiers) could not be checked.

    Examples
    --------
    >>> from paloma import OMKS
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = OMKS(random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}")
    0.99
    >>> metric.weights_.round(1)
    array([0.1, 0.2, 0.2, 0.3, 0.2])
    """

    kernels: Any = None
    combination: str = "deterministic"
    beta: float | str = 0.99
    delta: float = 0.05

    def _kernels(self, d: int) -> list[Kernel]:
        kernels = self.kernels
        if kernels is None:
            widths = [("rbf", {"gamma": g / d}) for g in (0.25, 1.0, 4.0)]
            kernels = ["linear", *widths, ("poly", {"degree": 2})]
        if isinstance(kernels, str) or not isinstance(kernels, list | tuple) or not len(kernels):
            raise ValueError(f"kernels must be a list of names, callables or (name, params), got {self.kernels!r}.")
        out = []
        for one in kernels:
            function, params = one if isinstance(one, tuple | list) and len(one) == 2 else (one, None)
            if isinstance(function, str) and function == PRECOMPUTED:
                raise ValueError("kernels cannot hold 'precomputed': X has one matrix. Use OKS, or callables.")
            out.append(Kernel(function, params, self.normalize))
        return out

    def _combining(self) -> dict[str, Any]:
        check.check_word("combination", self.combination, ("deterministic", "stochastic", "uniform"))
        check_beta(self.beta)
        check.check_real("delta", self.delta, 0.0, 1.0, open_low=True)
        return {
            "several": True,
            "beta": 1.0 if self.combination == "uniform" else self.beta,
            "delta": float(self.delta) if self.combination == "stochastic" else None,
        }

    @property
    def weights_(self) -> Array:
        """Weight of each kernel; they sum to 1."""
        check_is_fitted(self)
        return self._model.hedge.weights

    @property
    def weights_path_(self) -> tuple[Array, Array]:
        """(triplets seen, weights at that point), at most 257 of them, evenly spread."""
        check_is_fitted(self)
        return self._model.hedge.history
