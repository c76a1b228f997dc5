"""Distances over several modalities, given as groups of columns of one X."""

from dataclasses import dataclass
from typing import Any, cast

from sklearn.utils.validation import check_is_fitted

from .._core.locality import Locality
from .._core.measure import DISTANCE
from .._spaces.grouped import Grouped, GroupedSpace
from .._training.settings import Settings
from .._typing import Array
from ._calls import alone, public
from .distance import DistanceLearner
from .parameters import parse


@dataclass(kw_only=True, eq=False, repr=False)
class OMDML(DistanceLearner):
    """Online multimodal distance metric learning: one metric and one weight per modality (Wu et al. 2016).

    A modality is a group of columns of X: image features and words, color and shape. The distance is
    d(p, q) = sum_r theta_r d_r(p, q), d_r a Mahalanobis distance on the columns of r. Each triplet is a round. If it
    opens the gate, every modality takes ODML's step on its own loss, and Hedge (Freund & Schapire 1997) multiplies
    theta_r by beta if d_r(p, p+) >= d_r(p, p-), a mistake, and normalizes. With `rank`, M_r = W_r^T W_r and W_r moves
    by online gradient, W -= eta 2 W (aa^T - bb^T), a = p - p+, b = p - p-: time and memory grow with d, not d^2.

    Parameters
    ----------
    groups : list, dict or None
        The modalities: slices, lists of column numbers, masks, or column names if X is a dataframe; each by itself or
        as a (name, columns) pair; or a dict {name: columns}, such as `output_indices_` of a ColumnTransformer. Groups
        may overlap; columns in no group are ignored. None: one group of all columns, which is ODML (LODML if
        lam < 1).
    gate : {"combined", "own"}
        "combined": modalities step and are discounted, each by its own loss, in rounds where
        sum_r theta_r (d_r(p, p+) - d_r(p, p-)) + gate_margin > 0: they learn what the weighted distance does not know
        yet, and the weights settle where the modalities complement each other. "own": in every round, as if each were
        alone; all the weight then goes to the one modality that errs least, which is what Hedge promises, and the
        others are lost (on Letters in three groups, .846 instead of .972).
    gate_margin : float or None
        Margin of the combined gate: 0 opens it only on mistakes of the weighted distance; None is `margin`, which opens
        it on every triplet that it does not yet rank correctly by the margin of the hinge.
    beta : float in (0, 1] or "auto"
        The factor by which a mistake multiplies a weight. 1 keeps the weights equal. "auto" is the value tuned to the
        number of rounds so far, sqrt(t) / (sqrt(t) + sqrt(ln m)) in round t.
    rank : int or None
        None: full matrices. Otherwise the number of rows of each W_r, at most the number of columns of its group.
    eta : float or None
        With `rank`, a fixed rate: steps of this size on each triplet with a loss. None: the step rule on the
        linearized constraint, eta = min(C / 4, loss / |gradient|^2) for "pa1", which needs no tuning to the gradient;
        the 4 makes C mean what it means for full matrices.
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between .003 and .3.
    lam : float in [0, 1]
        Weight of the shared part of each modality's metric; see LODML. 1 means one metric per modality for all classes.
    {common}
    groups_ : dict {name: column numbers}.
    weights_ : (n_groups,) array, theta.
    weights_path_ : (rounds, weights), theta over time: numbers of triplets seen, and an array (len(rounds), n_groups).

    Notes
    -----
    `scale_` has one number per group if there are several, and every group is divided by its own. `shared_` and
    `local_` are block-diagonal (d, d): the iterates of each group on its columns, without theta; if groups overlap,
    they add up. With `rank` they are W^T W. `init` as an array is used block by block, with `rank` by its leading
    eigenvectors; "identity" with `rank` is the projection on the principal directions of the rows that learning begins
    with.
    Triplets from labels are mined in X with each group divided by its spread (scale=None: in X as it is).
    `loss_` is the hinge loss of the weighted distance; `n_updates_` counts triplets on which a modality stepped.

    The text of the original paper was not available; the algorithm is known from a third-party reimplementation. What
    that leaves open is our choice: its beta (`beta`), whether all modalities learn in rounds that the weighted distance
    already ranks correctly (`gate`, `gate_margin`), and the rate of its low-rank variant (`eta`; the linearized step is
    ours). It projects in each step (psd="step") and starts W at the first rows of the identity (`init`: a diagonal of
    ones and zeros). It counts f_r > 0 as a mistake; here a tie is one too, as in `triplet_score`, so a modality that
    cannot tell items apart loses weight.

    Examples
    --------
    >>> from paloma import OMDML
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = OMDML(groups=[("acids", slice(0, 5)), ("rest", slice(5, 13))], random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}", dict(zip(metric.groups_, metric.weights_.round(2).tolist())))
    0.99 {'acids': 0.33, 'rest': 0.67}
    """

    lam: float = 1.0
    groups: Any = None
    gate: str = "combined"
    gate_margin: float | None = None
    beta: float | str = "auto"
    rank: int | None = None
    eta: float | None = None

    def _choose(self) -> Settings:
        gating = (self.gate, self.gate_margin, self.beta, self.rank, self.eta)
        return parse(self, DISTANCE, Locality.per_class(self.lam), Grouped(self.groups, None, self.init, *gating))

    @property
    def _space(self) -> GroupedSpace:
        check_is_fitted(self)
        return cast(GroupedSpace, self._model.space)

    @property
    @alone
    def groups_(self) -> dict[str, Array]:
        """{name: column numbers} of the modalities."""
        return dict(self._space.groups)

    @property
    @public
    def weights_(self) -> Array:
        """(n_groups,) weights theta of the modalities, in the order of `groups_`."""
        return self._space.state.hedge.weights

    @property
    @public
    def weights_path_(self) -> tuple[Array, Array]:
        """Weights over time: triplets seen, and theta then; at most a few hundred points."""
        return self._space.state.hedge.history
