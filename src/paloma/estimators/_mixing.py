"""Iterative parameter mixing (McDonald et al. 2010): forks of one learner learn shards of the data, and are averaged.

With Delta_s what shard s learnt from Theta in a round and w_s its share of the round's steps,
Theta <- Theta + sum_s w_s Delta_s: one weight for all matrices of a shard, so that what ties them together
(U - I = lam / mu sum_c (L_c - I), spec.md Fact 2) holds for the mean as it does for each shard. A class that a shard
does not have has Delta = 0 there. Journals of steps are put together, each step times its shard's weight.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .. import _validation as check
from .._hedge import Hedge
from .._locality import Labels
from .._parts import Stream, Tally
from ..triplets import Near, Reservoir
from ._axes import DenseLearner, ProjectedLearner
from ._drift import Drift
from ._kernel_model import KernelModel
from ._model import Model, ProjectedModel
from .base import Learner
from .kernel import KernelLearner
from .multimodal import OMDML

Array = NDArray[Any]


@dataclass
class Learnt:
    """What one shard, or several mixed ones, learnt in a round: a fork of the model, and what it has seen."""

    model: Any
    tally: Tally


def check_mixable(learner: Learner) -> None:
    """Refuse learners, and parameters, whose shards cannot be averaged; check all others."""
    who = check.name_of(learner)
    if not isinstance(learner, DenseLearner | ProjectedLearner | OMDML | KernelLearner):
        raise TypeError(f"{who} cannot be mixed from shards: its state is not a mean of theirs. Fit it on one machine.")
    learner._parts()
    if isinstance(learner, KernelLearner) and learner._precomputed:
        raise ValueError(f"{who}: a precomputed kernel has all rows in one place already; fit it on one machine.")
    if isinstance(learner, KernelLearner) and learner.budget is not None:
        raise ValueError(f"{who}: the supports of shards add up, so that no budget can be kept; leave budget out.")
    if isinstance(learner, OMDML) and learner.rank is not None:
        raise ValueError(f"{who}: low-rank factors have no meaningful mean over shards; leave rank out.")
    if learner.remine:
        raise ValueError(f"{who}: remine=True needs all rows in one place; leave it out.")
    if learner.forget:
        raise ValueError(f"{who}: forget={learner.forget:g} needs an order in time, which shards do not have.")
    if getattr(learner, "regions", None) is not None:
        raise ValueError(f"{who}: regions are found where all rows are in one place; leave them out.")


def same_everywhere(learner: Learner) -> bool:
    """Whether rows are mined in the same units in every shard; OMDML divides its groups by the spread it sees."""
    return not (isinstance(learner, OMDML) and learner.groups is not None)


def begin(learner: Learner, labels: Labels, scale: Any, rows: Any, triplets: Array, n_triplets: int) -> Learner:
    """A clone at its start, with the scale that all shards share.

    rows, triplets : of one shard: kernels take their gain from them, projections of similarities strong directions;
    n_triplets : of all shards.
    """
    model = learner._new_model(labels, learner._generator(), Reservoir(learner.reservoir_size), scale)
    model.sparse, model.from_labels = sp.issparse(rows), True
    if not isinstance(learner, KernelLearner):
        triplets = np.broadcast_to(np.int64(0), (n_triplets, 3))  # their number alone matters
    learner._model = model.begin(lambda s: learner._start(rows.shape[1], rows.dtype, s), rows, triplets)
    learner._publish()
    return learner


def common_scale(scales: Sequence[Any], counts: Sequence[int]) -> Any:
    """The scale of all triplets from that of each shard's: squares are means over triplets, so they average."""
    pairs = [(np.square(scale), n) for scale, n in zip(scales, counts, strict=True) if n]
    if not pairs:
        return None
    scale = np.sqrt(sum(square * n for square, n in pairs) / sum(n for _, n in pairs))
    return float(scale) if np.ndim(scale) == 0 else scale


def learn_shard(learner: Learner, X: Any, codes: Array, ids: Array, near: Near, rng: np.random.Generator) -> Learnt:
    """One pass of a fork over a shard's triplets in random order; ids number the rows in the whole data."""
    out = copy.copy(learner)
    out._model = model = fork(learner._model, rng)
    out._check_magnitude(X, model.factor)
    if isinstance(model, ProjectedModel):
        model.state.journal.open(X, ids)
    mined = near.mined()
    stream = Stream(X, out._drawn(mined, codes), codes, model.factor)
    first = {} if model.seen else {"codes": codes, "quiet": out._quiet(mined, codes, near.anchors)}
    tally = out._pass(learner._parts(), stream, out._averaging(given=False, passes=1), **first)
    model.close()
    return Learnt(model, tally)


def mix(shards: list[Learnt]) -> Learnt:
    """Shards averaged in the given order, weighted by their updates; where nobody took a step, evenly."""
    updates = np.array([shard.tally.updates for shard in shards], float)
    weights = updates / updates.sum() if updates.any() else np.full(len(shards), 1.0 / len(shards))
    tally = Tally()
    for shard in shards:
        tally.add(shard.tally.triplets, shard.tally.loss, shard.tally.updates)
    return Learnt(mixed([shard.model for shard in shards], weights), tally)


def join(learner: Learner, learnt: Learnt) -> Learner:
    """The learner moved to where its mixed shards got to."""
    out = copy.copy(learner)
    out._model = joined(learner._model, learnt.model, learnt.tally, learner._parts())
    out.loss_ = learnt.tally.loss / max(learnt.tally.triplets, 1)
    out.n_iter_ = getattr(learner, "n_iter_", 0) + 1
    out._publish()
    return out


# -- models --------------------------------------------------------------------------------------------------------


def fork(model: Any, rng: np.random.Generator) -> Any:
    """A copy of a model that learns a shard of the data."""
    out = copy.copy(model)
    out.rng, out.state, out.metric, out.balance, out.drift = rng, model.state.fork(), None, None, Drift()
    if isinstance(model, KernelModel):
        out.hedge, out.passes = model.hedge.fork(), int(model.seen > 0)  # only new triplets count for Hedge
    return out


def mixed(forks: list[Any], weights: Array) -> Any:
    """Weighted mean of forks of one model, itself a fork; weights sum to 1."""
    out = copy.copy(forks[0])
    out.state = type(out.state).mixed([fork.state for fork in forks], weights)
    out.n_means = max(fork.n_means for fork in forks)  # the averages' time is that of the longest shard
    out.drift = Drift.joined([fork.drift for fork in forks])
    if isinstance(out, KernelModel):
        out.hedge = Hedge.mixed([fork.hedge for fork in forks])
    return _bounded(out)


def joined(model: Any, fork: Any, tally: Tally, parts: Any) -> Any:
    """A model moved to where its forks got to, which have seen `tally` in all; p.s.d. where the policy keeps it so.

    A mean of p.s.d. matrices is p.s.d. but for rounding, or for steps since the last projection; psd="end" is a
    read-out, as always.
    """
    out = copy.copy(model)
    out.state, out.n_means = model.state.joined(fork.state), fork.n_means
    out.drift = Drift.joined([model.drift, fork.drift])
    if isinstance(out, ProjectedModel | KernelModel):
        out.parts = fork.parts
    if isinstance(out, KernelModel):
        out.hedge = fork.hedge.fork()
    out.count(tally)
    if parts.psd.word in ("every", "step", "exact"):
        (out.state.inner if isinstance(out, ProjectedModel) else out.state).project()
    return _bounded(out)


def _bounded(model: Model) -> Model:
    if isinstance(model, ProjectedModel):
        model.bound()
    return model
