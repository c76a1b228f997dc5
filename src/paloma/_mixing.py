"""Iterative parameter mixing (McDonald et al. 2010): forks of one model learn shards of the data, and are averaged.

With Delta_s what shard s learned from Theta in a round and w_s its share of the round's steps,
Theta <- Theta + sum_s w_s Delta_s: one weight for all matrices of a shard, so that what ties them together
(U - I = lam / mu sum_c (L_c - I), theory Fact 2) holds for the mean as it does for each shard. A class that a shard
does not have has Delta = 0 there. Journals of steps are merged, each step times its shard's weight (theory 18).
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._core.choice import Choice
from ._core.locality import Labels
from ._core.stream import Tally
from ._training.drift import Drift
from ._training.model import Model
from ._training.parts import Near
from ._training.reservoir import Reservoir
from ._training.settings import Settings
from ._training.trainer import Trainer
from ._typing import Array, Rows


@dataclass
class Learned:
    """What one shard, or several mixed ones, learned in a round: a fork of the model, and what it has seen."""

    model: Model
    tally: Tally


def check_mixable(settings: Settings) -> None:
    """Refuse learners, and parameters, whose shards cannot be averaged."""
    who = settings.who
    settings.space.refuse(who, "shards")
    if settings.remine:
        raise ValueError(f"{who}: remine=True needs all rows in one place; use remine=False.")
    if settings.choice.forget:
        raise ValueError(f"{who}: forget={settings.choice.forget:g} needs an order in time, which shards do not have.")
    if (scale := settings.scaling.word) in ("full", "diagonal"):
        raise ValueError(f"{who}: scale={scale!r} needs all rows in one place; use 'scalar' or 'auto'.")
    if settings.regions is not None:
        raise ValueError(f"{who}: finding regions needs all rows in one place; use regions=None.")


def begin(settings: Settings, labels: Labels, scale: Any, rows: Rows, triplets: Array, n_triplets: int) -> Model:
    """A model at its start, with the scale that all shards share.

    rows, triplets : of one shard: kernels take their gain from them, projections of similarities strong directions;
    n_triplets : of all shards.
    """
    reservoir = Reservoir(settings.reservoir_size)
    model = Model(labels, settings.generator(), reservoir, scale, False, sp.issparse(rows), from_labels=True)
    model.begin(settings, rows, triplets, n_triplets)
    model.space.close()
    return model


def common_scale(scales: Sequence[Any], counts: Sequence[int]) -> Any:
    """The scale of all triplets from that of each shard's: squares are means over triplets, so they average."""
    pairs = [(np.square(scale), n) for scale, n in zip(scales, counts, strict=True) if n]
    if not pairs:
        return None
    scale = np.sqrt(sum(square * n for square, n in pairs) / sum(n for _, n in pairs))
    return float(scale) if np.ndim(scale) == 0 else scale


def learn_shard(
    settings: Settings, model: Model, X: Rows, codes: Array, ids: Array, near: Near, rng: np.random.Generator
) -> Learned:
    """One pass of a fork over a shard's triplets in random order; ids number the rows in the whole data."""
    fork = copy.copy(model)
    fork.rng, fork.space, fork.counts, fork.drift = rng, model.space.fork(model.counts), replace(model.counts), Drift()
    fork.metric = fork.balance = None
    settings.space.check_magnitude(settings.who, settings.choice, X, fork.space.factor)
    fork.space.open(X, ids)
    tally = Trainer(settings, fork).learn_mined(X, codes, near.mined(), near.anchors)
    fork.space.close()
    return Learned(fork, tally)


def mix(shards: list[Learned]) -> Learned:
    """Shards averaged in the given order, weighted by their updates; evenly if nobody took a step."""
    updates = np.array([shard.tally.updates for shard in shards], float)
    weights = updates / updates.sum() if updates.any() else np.full(len(shards), 1.0 / len(shards))
    tally, forks = Tally(), [shard.model for shard in shards]
    for shard in shards:
        tally.add(shard.tally.triplets, shard.tally.loss, shard.tally.updates)
    out = copy.copy(forks[0])
    # the averages' time is that of the longest shard
    out.counts = replace(out.counts, n_means=max(fork.counts.n_means for fork in forks))
    out.space = out.space.mixed([fork.space for fork in forks], weights, out.counts)
    out.drift = Drift.joined([fork.drift for fork in forks])
    return Learned(out, tally)


def join(model: Model, learned: Learned, choice: Choice) -> Model:
    """A model moved to where its mixed shards got to; p.s.d. if the policy keeps it so.

    A mean of p.s.d. matrices is p.s.d. but for rounding, or for steps since the last projection; psd="end" is a
    read-out, as always.
    """
    out, fork = copy.copy(model), learned.model
    out.counts = replace(model.counts, n_means=fork.counts.n_means)
    out.counts.add(learned.tally)
    out.metric = out.balance = None
    out.drift = Drift.joined([model.drift, fork.drift])
    out.space = model.space.joined(fork.space, choice, out.counts)
    out.space.close()
    return out
