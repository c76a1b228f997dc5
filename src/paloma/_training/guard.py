"""The guard: how far a read-out follows what was learned, judged on rows that the metric has not seen (theory 22).

Values are linear in the metric, so the values of every read-out on the plane through start, shared and local,

    M_c(s, t) = start + (s - t) (shared - start) + t (local_c - start),    0 <= t <= s <= 1,

follow from three tables of values of the same pairs. s is the strength of learning, t / s the share of the local part;
a global learner has s alone. Each point of a grid votes for the judged rows, and its score is the log of the share of
the votes that the true class gets. The strength is the mean of all points that the best one does not beat by more than
half a standard error: little evidence gives the middle of the plane, and no point that is clearly worse takes part.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from .._compiled.topk import nearest_mixed
from .._core.locality import SHARED, UNSEEN
from .._core.stream import Stream
from .._progress import reporting
from .._reading.whitened import whitened
from .._rows import evenly_spaced
from .._search.voting import rank_weights, vote_weights
from .._typing import Array, Rows
from .model import Model
from .reservoir import Reservoir
from .settings import Settings
from .trainer import Trainer

Strength = tuple[float, float]
STEPS = (0.25, 0.5, 0.75, 1.0)
GLOBAL = np.array([(0.0, 0.0), *((s, s) for s in STEPS)])
LOCAL = np.array([(0.0, 0.0), *((s, s * share) for s in STEPS for share in (0.0, *STEPS))])
# So many rows (with many classes, so many of each) `fit` cuts in two halves: each is judged by a metric that the other
# one taught. If there are more, half as many are judged once, by what up to so many others teach. No more than so many
# rows are judged, of a stream as well; of a stream among so many, since neighbors of a thin sample are too far away.
MAX_ROWS, MAX_TAUGHT, MAX_CANDIDATES = 800, 2000, 4000
ROWS_PER_CLASS, MAX_JUDGED = 20, 400
# Passes over a half, and the largest factor by which C grows so that the halves move as far in sum as the fit does.
N_PASSES = 1
MAX_GROWTH = 32.0
# A stream is judged by some of the rows that it keeps, each among the others, whenever it has seen GROWTH times as
# many triplets; n judged rows count n / (n + PRIOR). They were learned from, hence the larger tolerance.
GROWTH = 1.5
PRIOR = 50.0
N_NEIGHBORS = 10
# Standard errors by which a point may be behind the best one and still take part.
TOLERANCE, STREAM_TOLERANCE = 0.5, 1.0
# A true class without a vote counts as if it had this share.
LEAST_SHARE = 0.05
QUERY_TILE = 256


class Guard:
    """`paloma._training.parts.Guarding`: rows vote under metrics that they did not teach, or hardly."""

    def judge(self, trainer: Trainer, X: Rows, codes: Array, rng: np.random.Generator) -> None:
        """Let two halves of the rows judge, each by what the other one teaches, how far to follow what was learned."""
        settings, model, parts = trainer.settings, trainer.model, drawn(codes, rng)
        if parts is None:
            return
        (chosen, part, turns), n_rows = parts, int((codes >= 0).sum())
        X, codes = X[chosen], codes[chosen]
        inside, places = settings.space.turned(whitened(X, model.whitener)), model.places(X, codes)
        points, found = _points(settings), []
        for number in range(turns):
            taught, rows = part == number, evenly_spaced(np.flatnonzero(part == 1 - number), MAX_JUDGED)
            with reporting(None):
                half = _taught(settings, model, inside[taught], codes[taught], places[taught], n_rows, rng)
            found.append(judged(*_ends(settings, half), inside, codes, places, rows, points))
        model.strength, model.metric = strength(np.concatenate(found, axis=1), points), None

    def due(self, before: int, after: int) -> bool:
        """At about every power of GROWTH."""
        return after > 0 and (before == 0 or int(np.log(before) / np.log(GROWTH)) < int(np.log(after) / np.log(GROWTH)))

    def judge_stream(self, trainer: Trainer, X: Rows, codes: Array) -> None:
        """Let rows that were learned from judge, each among the others: honest enough in a single pass."""
        settings, model, (chosen, rows) = trainer.settings, trainer.model, spaced(codes)
        if len(np.unique(codes[chosen])) < 2:
            return
        X, codes = X[chosen], codes[chosen]
        inside, places, points = whitened(X, model.whitener), model.places(X, codes), _points(settings)
        found = judged(*_ends(settings, model), inside, codes, places, rows, points)
        model.strength = shrunk(strength(found, points, STREAM_TOLERANCE), len(rows))
        model.metric = None


def _points(settings: Settings) -> Array:
    """The grid of (s, t)."""
    return LOCAL if settings.choice.locality.is_local else GLOBAL


def _ends(settings: Settings, model: Model) -> tuple[Any, Any]:
    """The metrics of whitened rows at the start, and after all that was learned."""
    how = settings.choice, model.counts, model.cone(settings), model.blend(settings)
    learned = model.space.readout(*how)
    start = learned.at_start()
    return (model.space.readout(*how, (0.0, 0.0)) if start is learned else start), learned


def _taught(
    settings: Settings, model: Model, X: Rows, codes: Array, places: Array, n_rows: int, rng: np.random.Generator
) -> Model:
    """A model of a few whitened rows, with the scale of this one; steps grow so that it moves as far in sum."""
    growth = settings.n_epochs * n_rows / (N_PASSES * len(codes))
    choice = replace(settings.choice, C=settings.choice.C * min(growth, MAX_GROWTH))
    half = Model(model.labels, rng, Reservoir(1), model.scale, False, model.sparse, whitener=model.whitener)
    half.from_labels = True
    half.know(model.labels)
    trainer = Trainer(replace(settings, choice=choice, space=settings.space.judging()), half)
    mined = settings.mining.mine(settings.mining.rows(X), codes)
    trainer.begin_space(X, mined.triplets)
    for _ in range(N_PASSES):
        trainer.learn(Stream(X, settings.drawn(mined, codes, rng), places, half.space.factor), True)
    half.space.close()
    return half


def drawn(codes: Array, rng: np.random.Generator) -> tuple[Array, Array, int] | None:
    """Labeled rows at random, for each its part, 0 or 1, and how often they change roles; None if classes are too few.

    Part 0 teaches part 1; if rows are few, the parts are halves, and 1 then teaches 0. Classes are cut as evenly as
    they can be.
    """
    known = rng.permutation(np.flatnonzero(codes >= 0))
    most = max(MAX_ROWS, ROWS_PER_CLASS * len(np.unique(codes[known])))
    turns = 2 if len(known) < most else 1
    n_judges = min(most, len(known)) // 2
    chosen = known[: n_judges + max(MAX_TAUGHT, n_judges)] if turns == 1 else known
    part = np.zeros(len(chosen), np.intp)
    part[evenly_spaced(np.argsort(codes[chosen], kind="stable")[::-1], n_judges)] = 1
    enough = all(len(np.unique(codes[chosen[part == number]])) > 1 for number in (0, 1))
    return (chosen, part, turns) if enough else None


def spaced(codes: Array) -> tuple[Array, Array]:
    """Labeled rows of a stream, and which of them are judged, both evenly spaced: no randomness is used up."""
    chosen = evenly_spaced(np.flatnonzero(codes >= 0), MAX_CANDIDATES)
    return chosen, evenly_spaced(np.arange(len(chosen)), MAX_JUDGED)


def judged(start: Any, learned: Any, X: Rows, codes: Array, places: Array, rows: Array, points: Array) -> Array:
    """Scores of some of the rows X, each among all others, (n_points, n_rows).

    places : what decides the metric of a row, its class unless there are regions. A class that the metric has not met
    is read as the shared part.
    """
    kinds, shared = learned.resolve(places), np.full(X.shape[0], SHARED, np.int32)
    if kinds.ndim == 1:
        kinds = np.where(kinds == UNSEEN, SHARED, kinds).astype(np.int32)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a half may come to a metric of 0; nobody will use it
        items = [start.items(X, shared), learned.items(X, shared)]
        items.append(learned.items(X, kinds) if learned.locality.is_local else items[-1])
    for a in range(0, len(rows), QUERY_TILE):
        part = rows[a : a + QUERY_TILE]
        tables = np.stack([each.rough_values(X[part]) for each in items])
        tables[:, np.arange(len(part)), part] = np.inf
        found.append(scores(tables, codes, codes[part], points, learned.symmetric))
    return np.concatenate(found, axis=1)


def scores(tables: Array, codes: Array, truth: Array, points: Array, is_distance: bool) -> Array:
    """Log share of the votes for the true class, (n_points, n_queries).

    tables : (3, n_queries, n_items), the values under start, shared and local metrics; infinite where an item has no
    vote. Negative squared distances count as 0. codes, truth : classes of the items, and of the queries.
    """
    tables = np.ascontiguousarray(np.maximum(tables, 0.0) if is_distance else tables, np.float64)
    k = min(N_NEIGHBORS, int(np.isfinite(tables[0]).sum(axis=1).min()))
    bounds = np.partition(tables.max(axis=0), k - 1, axis=1)[:, k - 1]  # no mixture is above the largest of the three
    bounds += 1e-12 * np.abs(bounds)
    shape = len(points), len(truth), k
    best, ids = np.full((len(points) * len(truth), k), np.inf), np.empty(shape, np.int64)
    nearest_mixed(tables, points, bounds, np.empty(len(codes), np.int64), best, ids.reshape(best.shape))
    weight = vote_weights("soft", best, is_distance=True).reshape(shape) if is_distance else rank_weights(k)
    share = (weight * (codes[ids] == truth[:, None])).sum(axis=2) / weight.sum(axis=-1)
    return np.log(share + LEAST_SHARE)


def shrunk(strength: Strength, n: int) -> Strength:
    """No evidence, no strength: (s, t) after n judged rows of a stream."""
    share = n / (n + PRIOR)
    return share * strength[0], share * strength[1]


def strength(found: Array, points: Array, tolerance: float = TOLERANCE) -> Strength:
    """(s, t): the mean of the points level with the best one; found is (n_points, n_queries)."""
    means = found.mean(axis=1)
    best = int(means.argmax())
    error = (found[best] - found).std(axis=1) / np.sqrt(found.shape[1])
    level = means[best] - means <= tolerance * error
    s, t = points[level].mean(axis=0)
    return float(s), float(t)
