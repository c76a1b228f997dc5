"""Distances over several modalities, given as groups of columns of one X."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._hedge import check_beta
from .._joint import JointParts, select
from .._locality import Labels
from .._parts import Parts
from .._psd import Psd
from ..triplets import Reservoir
from ._axes import PerClassLearner
from ._groups import column_groups
from ._modalities import GroupedModel
from .distance import DistanceLearner

Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class OMDML(DistanceLearner, PerClassLearner):
    """Online multi-modal distance metric learning: a metric a modality, and weights of the modalities (Wu et al. 2016).

    A modality is a group of columns of X: image features and words, colour and shape. The distance is
    d(p, q) = sum_r theta_r d_r(p, q), d_r a Mahalanobis distance on the columns of r. Each triplet is a round. If it
    opens the gate, every modality takes ODML's step on its own loss, and Hedge (Freund & Schapire 1997) multiplies
    theta_r by beta where d_r(p, p+) >= d_r(p, p-), a mistake, and normalises. With `rank`, M_r = W_r^T W_r and W_r
    moves by online gradient, W -= eta 2 W (aa^T - bb^T), a = p - p+, b = p - p-: time and memory grow with d, not d^2.

    Parameters
    ----------
    groups : list, dict or None
        The modalities: slices, lists of column numbers, masks, or column names where X is a frame; each by itself or
        as a (name, columns) pair; or a dict {name: columns}, such as `output_indices_` of a ColumnTransformer. Groups
        may overlap; columns in no group do not count. None: one group of all columns, which is ODML (LODML if
        lam < 1).
    gate : {"combined", "own"}
        "combined": modalities step and are discounted, each by its own loss, in rounds where
        sum_r theta_r (d_r(p, p+) - d_r(p, p-)) + gate_margin > 0: they learn what the weighed distance does not know
        yet, and the weights settle where they serve each other. "own": in every round, as if each were alone; then the
        weights go to the one modality that errs least, which is what Hedge promises, and the others are lost (on
        Letters in three groups .972 against .846).
    gate_margin : float or None
        Margin of the combined gate: 0 opens it on mistakes of the weighed distance alone; None is `margin`, every
        triplet that it does not yet rank by the margin of the hinge.
    beta : float in (0, 1] or "auto"
        What a mistake multiplies a weight by. 1 keeps the weights equal. "auto" is the value tuned to the number of
        rounds so far, sqrt(t) / (sqrt(t) + sqrt(ln m)) in round t.
    rank : int or None
        None: full matrices. Else rows of each W_r, at most the columns of its group.
    eta : float or None
        With `rank`, a fixed rate: steps of this size on each triplet with a loss. None: the step rule on the
        linearised constraint, eta = min(C / 4, loss / |gradient|^2) for "pa1", which needs no tuning to the gradient;
        the 4 makes C mean what it means for full matrices.
    C : float
        Aggressiveness: the largest step. With scale="auto" useful values lie between .003 and .3.
    lam : float in [0, 1]
        Weight of the shared part of each modality's metric; see LODML. 1 is one metric a modality for all classes.
    {common}
    groups_ : dict {name: column numbers}.
    weights_ : (n_groups,) array, theta.
    weights_path_ : (rounds, weights), theta over time: numbers of triplets seen, and an array (len(rounds), n_groups).

    Notes
    -----
    `scale_` has a number a group where there are several, and every group is divided by its own. `shared_` and `local_`
    are block-diagonal (d, d): the iterates of each group on its columns, without theta; where groups overlap, they add
    up. With `rank` they are W^T W. `init` as an array is taken by blocks, with `rank` by its leading eigenvectors;
    "identity" with `rank` is the projection on the principal directions of the rows that learning begins with.
    Triplets from labels are mined in X with each group divided by its spread (scale=None: in X as it is).
    `loss_` is the hinge loss of the weighed distance; `n_updates_` counts triplets on which a modality stepped.

    The text of the original paper could not be read; the algorithm is known from a re-implementation by others. What
    it leaves open was chosen here: its beta (`beta`), whether all modalities learn in rounds that the weighed distance
    already ranks right (`gate`, `gate_margin`), and the rate of its low-rank variant (`eta`; the linearised step is
    ours). It projects in each step (psd="step") and starts W at the first rows of the identity (`init`: a diagonal of
    ones and zeros). It counts f_r > 0 as a mistake; here a tie is one too, as in `triplet_score`, so that a modality
    that tells nothing apart loses weight.

    Examples
    --------
    >>> from paloma import OMDML
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = OMDML(groups=[("acids", slice(0, 5)), ("rest", slice(5, 13))], random_state=0).fit(scale(X), y)
    >>> print(f"{metric.score(scale(X), y):.2f}", dict(zip(metric.groups_, metric.weights_.round(2).tolist())))
    0.99 {'acids': 0.21, 'rest': 0.79}
    """

    lam: float = 1.0
    groups: Any = None
    gate: str = "combined"
    gate_margin: float | None = None
    beta: float | str = "auto"
    rank: int | None = None
    eta: float | None = None

    def _parts(self) -> JointParts:
        parts = super()._parts()
        check.check_word("gate", self.gate, ("combined", "own"))
        gate = parts.margin if self.gate_margin is None else self.gate_margin
        check.check_real("gate_margin", gate, 0.0)
        check_beta(self.beta)
        if self.rank is not None:
            check.check_count("rank", self.rank)
            if parts.psd.word == "exact":
                raise ValueError("psd='exact' is for full matrices; with rank every metric is p.s.d. by itself.")
        if self.eta is not None:
            check.check_real("eta", self.eta, 0.0, open_low=True)
            if self.rank is None:
                raise ValueError("eta is the rate of the low-rank variant: give rank as well, or leave eta out.")
        gate = np.inf if self.gate == "own" else float(gate)
        chosen = {field.name: getattr(parts, field.name) for field in fields(Parts)}
        if self.rank is not None:
            # A step eta along the gradient of W moves M = W^T W by 4 eta (aa^T - bb^T), to first order, from W = I.
            chosen.update(psd=Psd("never"), C=parts.C / 4.0 if self.eta is None else float(self.eta))
        return JointParts(**chosen, gate=gate, beta=self.beta, plain=self.eta is not None)

    def _columns(self, d: int) -> dict[str, Array]:
        return column_groups(self.groups, d, getattr(self, "feature_names_in_", None))

    def _check_held(self, d: int) -> None:
        self._columns(d)
        if not isinstance(self.init, str):
            super()._start(d, np.dtype(float), 1.0)
        else:
            check.check_word("init", self.init, ("identity",))

    def _new_model(self, labels: Labels, rng: np.random.Generator, reservoir: Reservoir, scale: Any) -> GroupedModel:
        groups = self._columns(self.n_features_in_)
        return GroupedModel(
            labels, rng, reservoir, scale, project=self.project, groups=groups, beta=self.beta, rank=self.rank
        )

    def _start(self, d: int, dtype: Any, scale: Any) -> Any:
        """The start of each group in its scaled units; None is the identity."""
        groups = self._columns(d).values()
        if isinstance(self.init, str):
            return [None] * len(groups)
        starts = zip(groups, np.asarray(scale).tolist(), strict=True)
        return [np.ascontiguousarray(super(OMDML, self)._start(d, dtype, s)[np.ix_(c, c)]) for c, s in starts]

    def _scale_of(self, X: Any, triplets: Array | None) -> Any:
        """One number a group."""
        scales = [super(OMDML, self)._scale_of(select(X, c), triplets) for c in self._columns(X.shape[1]).values()]
        return None if scales[0] is None else np.array(scales)

    def _check_magnitude(self, X: Any, factor: Any) -> None:
        for columns, one in zip(self._model.columns, np.broadcast_to(factor, len(self._model.groups)), strict=True):
            check.check_magnitude(self, select(X, columns), float(one))

    def _mining_rows(self, X: Any) -> Any:
        """The columns of all groups, each group divided by its spread, so that units do not decide who is near."""
        groups = list(self._columns(X.shape[1]).values())
        if len(groups) == 1:
            return select(X, groups[0])
        parts = [select(X, columns) for columns in groups]
        if self.scale is not None:
            spreads = [np.sqrt(part.var(axis=0, dtype=np.float64).sum()) for part in parts]
            parts = [part / part.dtype.type(s if s > 0 else 1.0) for part, s in zip(parts, spreads, strict=True)]
        return np.hstack(parts)

    def _publish(self) -> None:
        super()._publish()
        self.groups_ = dict(self._model.groups)
        if np.ndim(self.scale_):
            self.scale_ = float(self._model.scale[0]) if len(self.groups_) == 1 else self._model.scale
        elif len(self.groups_) > 1:
            self.scale_ = np.ones(len(self.groups_))

    @property
    def weights_(self) -> Array:
        """(n_groups,) weights theta of the modalities, in the order of `groups_`."""
        check_is_fitted(self)
        return self._model.state.hedge.weights

    @property
    def weights_path_(self) -> tuple[Array, Array]:
        """Weights over time: triplets seen, and theta then; at most a few hundred points."""
        check_is_fitted(self)
        return self._model.state.hedge.history

    @property
    def _n_features_out(self) -> int:
        widths, rank = [len(columns) for columns in self._model.columns], self._model.rank
        return sum(widths if rank is None else [min(rank, width) for width in widths])
