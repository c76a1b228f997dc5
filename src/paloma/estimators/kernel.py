"""Kernel learners: similarities and distances in the feature space of a kernel, or of several."""

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._core.hedge import check_beta
from .._core.locality import Locality
from .._core.measure import DISTANCE, SIMILARITY
from .._spaces.kernel import PRECOMPUTED, Kernel, Kernels, KernelSpace
from .._training.settings import Settings
from .._typing import Array
from ._calls import public
from .base import Learner
from .docs import KERNEL_TEXTS
from .parameters import parse


@dataclass(kw_only=True, eq=False, repr=False)
class KernelLearner(Learner):
    """What kernel learners share: parameters, and attributes of a model without matrices."""

    C: float = 1e-4
    lam: float = 1.0
    normalize: bool = False
    budget: int | None = None
    when_full: str = "keep"
    measure: str = "similarity"
    cache_size: float = 1000.0

    _texts = KERNEL_TEXTS

    def _parse(self, kernels: Any, **combining: Any) -> Settings:
        """Settings with these kernels, a function of the number of features, combined as told."""
        check.check_word("measure", self.measure, ("similarity", "distance"))
        space = Kernels(
            kernels, self.init, self.budget, self.when_full, self.cache_size, self.scale is not None, **combining
        )
        return parse(self, DISTANCE if self.measure == "distance" else SIMILARITY, Locality.per_class(self.lam), space)

    @property
    def _space(self) -> KernelSpace:
        check_is_fitted(self)
        return cast(KernelSpace, self._model.space)

    @property
    @public
    def support_(self) -> Array:
        """(n_support, d) rows that steps touched, in the units of X; row numbers for a precomputed kernel."""
        state = self._space.state
        return np.empty((0, self.n_features_in_), state.dtype) if state.points is None else state.points[state.held]

    @property
    @public
    def gain_(self) -> Any:
        """What kernel values are multiplied by; one number per kernel."""
        space = self._space
        gains = np.array([kernel.gain for kernel in space.state.kernels])
        return gains if space.kind.several else float(gains[0])


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
        A name from scikit-learn's ``pairwise_kernels``, "precomputed", or a callable on two matrices that returns all
        values at once or, much slower, on two rows. With "precomputed", X is the (n, n) matrix of kernel values in
        `fit`, and (n_queries, n) elsewhere; candidates (items, and the second of a pair) must be rows of the training
        matrix; `partial_fit` takes more triplets or labels of the same rows.
    kernel_params : dict, optional
        Parameters of the kernel by name, e.g. {"gamma": .1}, in scaled units; None: scikit-learn's defaults.
    {common}
    Notes
    -----
    The text of Xia et al. (2014) was not available, so its starting point could not be checked: `init` is our choice.
    Search vectors exist only for finite feature maps: use LOSL after ``Nystroem``.

    Examples
    --------
    >>> from paloma import OKS
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = OKS(random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}")
    0.98
    """

    kernel: Any = "rbf"
    kernel_params: dict[str, Any] | None = None

    def _choose(self) -> Settings:
        precomputed = isinstance(self.kernel, str) and self.kernel == PRECOMPUTED
        kernels = partial(_one_kernel, self.kernel, self.kernel_params, self.normalize)
        return self._parse(kernels, precomputed=precomputed)


@dataclass(kw_only=True, eq=False, repr=False)
class OMKS(KernelLearner):
    """Online multiple kernel similarity learning: OKS with several kernels, weighted by Hedge (Xia et al. 2014).

    f(p, q) = sum_r theta_r S_r(p, q). Each kernel takes the OKS step of its own loss; if a kernel ranks a triplet
    incorrectly before its step, S_r(p, p+) <= S_r(p, p-), its weight is multiplied by beta, and the weights are
    normalized.

    Parameters
    ----------
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between 1e-5 and 1e-3.
    kernels : list, optional
        Names, callables or (name or callable, params), see OKS; "precomputed" is not among them. None: linear, RBF of
        three widths (gamma 1/4, 1 and 4 over the number of features) and polynomial of degree 2.
    combination : {"deterministic", "stochastic", "uniform"}
        deterministic: all kernels learn from every triplet. stochastic: a kernel learns from a triplet, and is
        discounted on it, with probability (1 - delta) theta_r / max theta + delta, drawn with `random_state`. uniform:
        the weights stay equal. All kernels are used for scores, whatever the combination.
    beta : float in (0, 1] or "auto"
        Discount of a ranking mistake. "auto" tunes it to the triplets so far: regret of order sqrt(T log m). The
        closer to 1, the more triplets it takes until one kernel has nearly all the weight.
    delta : float in (0, 1]
        Smallest probability that a kernel learns from a triplet, for combination="stochastic".
    {common}
    weights_ : (n_kernels,) weights of the kernels.
    weights_path_ : (triplets, weights) at up to 257 points, evenly spread over all triplets.

    Notes
    -----
    In `fit`, Hedge is only played in the first pass: on triplets already learned, mistakes measure how well a kernel
    remembers. If they counted, all weight would go to the narrowest kernel on Letters. The text of Xia et al. (2014)
    was not available: the start (`init`) and the sampling of the stochastic combination (`combination`, `delta`; taken
    from the same authors' multiple kernel classifiers) could not be checked.

    Examples
    --------
    >>> from paloma import OMKS
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = OMKS(random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}")
    1.00
    >>> metric.weights_.round(2)
    array([0.19, 0.21, 0.21, 0.21, 0.19])
    """

    kernels: Any = None
    combination: str = "deterministic"
    beta: float | str = 0.999
    delta: float = 0.05

    def _choose(self) -> Settings:
        check.check_word("combination", self.combination, ("deterministic", "stochastic", "uniform"))
        check_beta(self.beta)
        check.check_real("delta", self.delta, 0.0, 1.0, open_low=True)
        beta = 1.0 if self.combination == "uniform" else self.beta
        delta = float(self.delta) if self.combination == "stochastic" else None
        kernels = partial(_several_kernels, self.kernels, self.normalize)
        return self._parse(kernels, several=True, beta=beta, delta=delta)

    @property
    @public
    def weights_(self) -> Array:
        """Weight of each kernel; they sum to 1."""
        return self._space.hedge.weights

    @property
    @public
    def weights_path_(self) -> tuple[Array, Array]:
        """(triplets seen, weights at that point), at most 257 of them, evenly spread."""
        return self._space.hedge.history


def _one_kernel(function: Any, params: Any, normalize: Any, d: int) -> list[Kernel]:
    return [Kernel(function, params, normalize)]


def _several_kernels(given: Any, normalize: Any, d: int) -> list[Kernel]:
    """The kernels of OMKS, for rows of d features."""
    kernels = given
    if kernels is None:
        widths = [("rbf", {"gamma": g / d}) for g in (0.25, 1.0, 4.0)]
        kernels = ["linear", *widths, ("poly", {"degree": 2})]
    if isinstance(kernels, str) or not isinstance(kernels, list | tuple) or not len(kernels):
        raise ValueError(f"kernels must be a list of names, callables or (name, params), got {given!r}.")
    out = []
    for one in kernels:
        function, params = one if isinstance(one, tuple | list) and len(one) == 2 else (one, None)
        if isinstance(function, str) and function == PRECOMPUTED:
            raise ValueError("kernels cannot hold 'precomputed': X has one matrix. Use OKS, or callables.")
        out.append(Kernel(function, params, normalize))
    return out
