"""The guard: how far a read-out follows what was learned, judged on rows that the metric has not seen (theory 22).

Values are linear in the metric, so the values of every read-out on the plane through start, shared and local,

    M_c(s, t) = start + (s - t) (shared - start) + t (local_c - start),    0 <= t <= s <= 1,

follow from three tables of values of the same pairs. s is the strength of learning, t / s the share of the local part;
a global learner has s alone. Each point of a grid votes for the judged rows, and its score is the log of the share of
the votes that the true class gets. What a point gains over the start counts less half a standard error, and the
strength is the mean of all points that the best one does not beat by more than half a standard error: little evidence
gives a middle of the plane near the start, and no point that is clearly worse takes part.

A stream is judged before it learns: rows that arrive are classified by those that it keeps, and the moments of their
scores are the evidence. There a point counts by its gain over the start, less one and a half standard errors. Without
labels, the score of a row is the share of the votes for what it is said to be like, less that for what it is not.
"""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .._compiled.topk import nearest_mixed
from .._core.locality import SHARED, UNSEEN
from .._core.stream import Stream
from .._progress import reporting
from .._reading.whiteners import whitened
from .._rows import evenly_spaced, stacked
from .._search.voting import vote_weights
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
# How often rows are cut if they are fewer than are judged at most: which rows meet in a half is chance.
CUTS_OF_FEW = 2
# Passes over a half, and the largest factor by which C grows so that the halves move as far in sum as the fit does.
N_PASSES = 1
MAX_GROWTH = 32.0
# A stream of labeled rows judges the first EAGER rows or so as they arrive, then ever fewer: EAGER log(1 + n / EAGER)
# of n rows. Their evidence weighs as much as MAX_EVIDENCE rows: with new ones, what younger metrics did counts less.
EAGER, MAX_EVIDENCE = 200, 200
# What a row's triplets are at most by default, which tells how many rows triplets stand for that were given.
TRIPLETS_PER_ROW = 30
# What a read-out costs beside learning a row, as measured: it solves an eigenproblem for each class, one for so many
# classes times features, and maps the rows that vote, one for so many rows. A projected one costs at least PROJECTED.
SOLVED, MAPPED, PROJECTED = 700.0, 1750.0, 40.0
# If less than this share of them was judged, because rows came many at once or the read-out is costly, halves of the
# rows that are kept judge each other, whenever the stream has seen GROWTH times as many triplets, and MIN_ROWS rows:
# fewer hardly teach each other. A metric that is judged goes on moving, so a point must still be a gain GROWTH times as
# far from the start.
THIN, MIN_ROWS = 0.2, 50
GROWTH = 1.5
# Standard errors by which a gain over the start must be certain, (1 + FEW / n) times as many after n rows of evidence:
# few tell the error badly as well, and fewer than FEW are no evidence. And n rows count n / (n + PRIOR).
CAUTION, FEW = 1.5, 10.0
PRIOR = 50.0
# Decimals of a score that are kept: how a projection was solved, from scratch or from the last one, leaves no trace.
DECIMALS = 6
N_NEIGHBORS = 10
# Standard errors that a gain over the start counts less, and by which a point may be behind the best one and still take
# part; more if rows taught what they judge.
TOLERANCE, GIVEN_TOLERANCE = 0.5, 1.0
# A true class without a vote counts as if it had this share.
LEAST_SHARE = 0.2
QUERY_TILE = 256


class Guard:
    """`paloma._training.parts.Guarding`: rows vote under metrics that they did not teach, or hardly."""

    def judge(self, trainer: Trainer, X: Rows, codes: Array, rng: np.random.Generator) -> None:
        """Let two halves of the rows judge, each by what the other one teaches, how far to follow what was learned."""
        settings, model = trainer.settings, trainer.model
        found = by_halves(settings, model, X, codes, int((codes >= 0).sum()), rng)
        if found is not None:
            model.strength, model.metric = strength(found, _points(settings)), None

    def due(self, before: int, after: int) -> bool:
        """At about every power of GROWTH."""
        return after > 0 and (before == 0 or int(np.log(before) / np.log(GROWTH)) < int(np.log(after) / np.log(GROWTH)))

    def meet(self, trainer: Trainer, X: Rows, codes: Array) -> None:
        """Let rows that are kept classify new ones, or some of them, as long as the metric does not know these."""
        settings, model = trainer.settings, trainer.model
        if not model.counts.seen:
            model.strength = 0.0, 0.0
            return
        (old, old_codes), known = model.reservoir.sample(X), np.flatnonzero(codes >= 0)
        if not len(old_codes):  # these are the first labels
            model.judged, model.evidence = 0, None
            return
        share = min(1.0, len(known) / _worth(settings, model, X.shape[1], min(len(old_codes), MAX_CANDIDATES)))
        if model.judged >= share * _wanted(model) or (old_codes == old_codes[:1]).all():
            return
        voters, rows = evenly_spaced(np.arange(len(old_codes)), MAX_CANDIDATES), evenly_spaced(known, MAX_JUDGED)
        model.judged += len(rows)
        rows, n = rows[np.isin(codes[rows], old_codes[voters])], len(voters)
        if len(rows):
            both, own = stacked([old[voters], X[rows]]), np.concatenate([old_codes[voters], codes[rows]])
            inside, places, points = whitened(both, model.whitener), model.places(both, own), _points(settings)
            new = np.arange(n, len(own))
            found = judged(*_ends(settings, model), inside, own, places, new, points, n)
            model.evidence = gathered(model.evidence, found)
        if model.judged >= THIN * _wanted(model):
            self._follow(settings, model, 1.0 + len(known) / int(model.reservoir.seen.sum()))

    def hear(self, trainer: Trainer, X: Rows, statements: Array, signs: Array, groups: Array | None) -> None:
        """Let statements about rows without classes judge before they are learned: X votes for what they name."""
        settings, model = trainer.settings, trainer.model
        thin = X.shape[0] < MIN_ROWS and model.strength == (1.0, 1.0)
        if (groups is None and len(model.labels)) or thin or not len(statements):
            return
        if not model.counts.seen:
            model.strength = 0.0, 0.0
            return
        anchors, n_voters = np.unique(statements[:, 0]), min(X.shape[0], MAX_CANDIDATES)
        share = min(1.0, len(anchors) / _worth(settings, model, X.shape[1], n_voters))
        if model.judged >= share * _expected(model.counts.seen):
            return
        anchors = evenly_spaced(anchors, MAX_JUDGED)
        model.judged += len(anchors)
        of = np.isin(statements[:, 0], anchors)
        voters = np.union1d(evenly_spaced(np.arange(X.shape[0]), MAX_CANDIDATES), statements[of])
        rows, (firsts, others) = np.searchsorted(voters, anchors), np.searchsorted(voters, statements[of]).T
        counted = np.zeros((len(rows), len(voters)), np.int8)
        counted[np.searchsorted(rows, firsts), others] = signs[of]
        groups = None if groups is None else groups[voters]
        inside, places = whitened(X[voters], model.whitener), model.places(X[voters], groups)
        points = GLOBAL if places is None else _points(settings)
        found = heard(*_ends(settings, model), inside, places, rows, counted, points, groups)
        model.evidence = gathered(model.evidence, found)
        model.strength, model.metric = cautious(model.evidence, points), None

    def judge_stream(self, trainer: Trainer, X: Rows, codes: Array, given: bool) -> None:
        """Let rows that were learned judge, unless enough were judged before; those of given triplets always do."""
        settings, model = trainer.settings, trainer.model
        if given:
            self._judge_given(settings, model, X, codes)
        elif model.judged < THIN * _wanted(model) and model.reservoir.rows is not None:
            self._judge_kept(settings, model)

    def _judge_kept(self, settings: Settings, model: Model) -> None:
        """Halves of the rows that are kept judge each other; the model's own randomness is left alone."""
        (X, codes), n = model.reservoir.sample(None), int(model.reservoir.seen.sum())
        once, rng = replace(settings, n_epochs=1), np.random.default_rng(model.counts.seen)
        found = by_halves(once, model, X, codes, n, rng) if n >= MIN_ROWS else None
        if found is not None:
            model.evidence = gathered(None, found)
            self._follow(settings, model)

    def _judge_given(self, settings: Settings, model: Model, X: Rows, codes: Array) -> None:
        """Rows whose triplets were given judge, each among the others: honest enough in a single pass."""
        chosen, rows = spaced(codes)
        if len(np.unique(codes[chosen])) < 2:
            return
        X, codes = X[chosen], codes[chosen]
        inside, places, points = whitened(X, model.whitener), model.places(X, codes), _points(settings)
        found = judged(*_ends(settings, model), inside, codes, places, rows, points)
        model.strength, model.metric = cautious(moments(found), points, GIVEN_TOLERANCE), None

    def _follow(self, settings: Settings, model: Model, growth: float = 1.0) -> None:
        """Set the strength by the evidence; growth : rows after what is learned next, as a multiple of those before."""
        model.strength, model.metric = cautious(model.evidence, _points(settings), growth=growth), None


def _wanted(model: Model) -> float:
    """How many rows of a stream should have been judged as they arrived."""
    return _expected(max(int(model.reservoir.seen.sum()), model.counts.seen // TRIPLETS_PER_ROW))


def _expected(n: int) -> float:
    """How many are judged of n that a stream has brought: ever fewer."""
    return EAGER * float(np.log1p(n / EAGER))


def _worth(settings: Settings, model: Model, d: int, n_voters: int) -> float:
    """How many rows a batch must have to be worth a read-out; smaller ones are judged more rarely."""
    n_solved = (max(len(model.labels), 1) if settings.choice.locality.is_local else 1) if model.cone(settings) else 0
    cost = n_solved * d / SOLVED + n_voters / MAPPED
    return max(cost, 1.0 if settings.space.light else PROJECTED)


def by_halves(
    settings: Settings, model: Model, X: Rows, codes: Array, n_rows: int, rng: np.random.Generator
) -> Array | None:
    """Scores of rows by what others teach, (n_points, n_judged); n_rows : how many the model has learned from.

    None if classes are too few.
    """
    n_cuts = CUTS_OF_FEW if int((codes >= 0).sum()) < MAX_JUDGED else 1
    cuts = [_by_cut(settings, model, X, codes, n_rows, rng) for _ in range(n_cuts)]
    found = [cut for cut in cuts if cut is not None]
    return np.mean(found, axis=0) if found else None


def _by_cut(
    settings: Settings, model: Model, X: Rows, codes: Array, n_rows: int, rng: np.random.Generator
) -> Array | None:
    """The same by one cut, in the order of the judged rows."""
    parts = drawn(codes, rng)
    if parts is None:
        return None
    chosen, part, turns = parts
    X, codes = X[chosen], codes[chosen]
    points, found, numbers = _points(settings), [], []
    inside = settings.space.turned(whitened(X, model.whitener), len(np.unique(codes)))
    places = model.places(X, codes)
    for number in range(turns):
        taught, rows = part == number, evenly_spaced(np.flatnonzero(part == 1 - number), MAX_JUDGED)
        with reporting(None):
            half = _taught(settings, model, inside[taught], codes[taught], places[taught], n_rows, rng)
        found.append(judged(*_ends(settings, half), inside, codes, places, rows, points))
        numbers.append(chosen[rows])
    return np.concatenate(found, axis=1)[:, np.argsort(np.concatenate(numbers))]


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
    trainer = Trainer(replace(settings, choice=choice), half)
    mined = settings.mining.mine(settings.mining.rows(X), codes)
    half.begin(trainer.settings, X, mined.triplets)
    evenly = codes if settings.balanced else None
    for _ in range(N_PASSES):
        trainer.learn(Stream(X, mined.shuffled(rng, evenly), places, half.space.factor), True)
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


def judged(
    start: Any, learned: Any, X: Rows, codes: Array, places: Array, rows: Array, points: Array, n: int | None = None
) -> Array:
    """Scores of some of the rows X, each among all others, or among the first n, (n_points, n_rows).

    places : as for `tables_of`.
    """
    found = [
        scores(tables, codes[:n], codes[part], points, learned.symmetric, own)
        for part, tables, own in tables_of(start, learned, X, places, rows, n)
    ]
    return np.concatenate(found, axis=1)


def heard(
    start: Any, learned: Any, X: Rows, places: Array | None, rows: Array, counted: Array, points: Array,
    groups: Array | None = None,
) -> Array:  # fmt: skip
    """Share of the votes of all others, of the same group, for what a row is said to be like, less that for what it is
    not."""
    found, done = [], 0
    for part, tables, own in tables_of(start, learned, X, places, rows):
        if groups is not None:
            tables[:, groups[part][:, None] != groups] = np.inf
        found.append(shares(tables, counted[done : done + len(part)], points, learned.symmetric, own))
        done += len(part)
    return np.concatenate(found, axis=1)


def tables_of(
    start: Any, learned: Any, X: Rows, places: Array | None, rows: Array, n: int | None = None
) -> Iterator[tuple[Array, Array, Array | None]]:
    """Some of the rows X at a time: their numbers, their `tables` with the first n rows (all others), and `own`, as
    `shares` takes them.

    places : what decides the metric of a row, its class unless there are regions; None: all rows are read by the shared
    part. A class that the metric has not met is read by it as well.
    """
    voters, Q, items = X[:n], X[rows], None
    both = np.empty((2, Q.shape[0], voters.shape[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a half may come to a metric of 0; nobody will use it
        for metric, values in zip((start, learned), both, strict=True):
            _common_values(metric, Q, voters, values)
        if places is not None and learned.locality.is_local:
            kinds = learned.resolve(places[:n])
            if kinds.ndim == 1:
                kinds = np.where(kinds == UNSEEN, SHARED, kinds).astype(np.int32)
            items = learned.items(voters, kinds)
    room = np.empty((3, min(len(rows), QUERY_TILE), voters.shape[0]))
    for a in range(0, len(rows), QUERY_TILE):
        tile = slice(a, a + QUERY_TILE)
        part, own = rows[tile], None
        tables = room[:, : len(part)]
        tables[:2] = both[:, tile]
        if items is None:
            tables[2] = tables[1]
        else:
            items.rough_values(Q[tile], tables[2])
        if n is None:
            tables[:, np.arange(len(part)), part] = np.inf
        if not learned.symmetric:
            shared = np.full(len(part), SHARED, np.int32)
            own = np.stack([-metric.values(Q[tile], Q[tile], shared) for metric in (start, learned)])
        yield part, tables, own


def _common_values(metric: Any, Q: Rows, X: Rows, out: Array) -> None:
    """Values of rows Q with rows X under the shared part; of a distance, Q are mapped if they are few."""
    swapped = metric.symmetric and Q.shape[0] < min(X.shape)
    items, rows, out = (Q, X, out.T) if swapped else (X, Q, out)
    metric.items(items, np.full(items.shape[0], SHARED, np.int32)).rough_values(rows, out)


def scores(
    tables: Array, codes: Array, truth: Array, points: Array, is_distance: bool, own: Array | None = None
) -> Array:
    """Log share of the votes for the true class, (n_points, n_queries).

    codes, truth : classes of the items, and of the queries; the others as for `shares`.
    """
    return np.log(shares(tables, codes == truth[:, None], points, is_distance, own) + LEAST_SHARE)


def shares(tables: Array, counted: Array, points: Array, is_distance: bool, own: Array | None = None) -> Array:
    """Share of the votes, each times what its item counts, (n_points, n_queries).

    tables : (3, n_queries, n_items), the values under start, shared and local metrics; infinite where an item has no
    vote. Negative squared distances count as 0. counted : (n_queries, n_items).
    own : of similarities, the values of the queries with themselves under start and shared metric, (2, n_queries).
    """
    tables = np.ascontiguousarray(tables, np.float64)
    k = min(N_NEIGHBORS, int(np.isfinite(tables[0]).sum(axis=1).min()))
    n, n_items = counted.shape
    shape = len(points), n, k
    best, ids = np.full((len(points) * n, k), np.inf), np.empty(shape, np.int64)
    floor, room = 0.0 if is_distance else -np.inf, (np.empty(n_items, np.int64), np.empty((4, n_items)))
    nearest_mixed(tables, floor, points, *room, best, ids.reshape(best.shape))
    if own is not None:
        own = (own[0] + points[:, :1] * (own[1] - own[0])).ravel()
    weight = vote_weights("soft", best, is_distance, own).reshape(shape)
    counts = counted[np.arange(n)[:, None], ids]
    return np.asarray((weight * counts).sum(axis=2) / weight.sum(axis=-1))


def strength(found: Array, points: Array) -> Strength:
    """(s, t): the mean of the points level with that of the most certain gain; found is (n_points, n_queries)."""

    def error(k: int) -> Array:
        return (found[k] - found).std(axis=1) / np.sqrt(found.shape[1])

    gains = found.mean(axis=1) - TOLERANCE * error(0)
    best = int(gains.argmax())
    s, t = points[gains[best] - gains <= TOLERANCE * error(best)].mean(axis=0)
    return float(s), float(t)


def moments(found: Array) -> Array:
    """The Gram matrix of (1, score of each point) over rows."""
    rows = np.vstack([np.ones(found.shape[1]), np.round(found, DECIMALS)])
    return np.asarray(rows @ rows.T)


def gathered(evidence: Array | None, found: Array) -> Array:
    """Moments of scores, older ones faded to make room."""
    new = moments(found)
    if evidence is None or evidence.shape != new.shape:  # another locality has other points
        evidence = np.zeros_like(new)
    old = min(evidence[0, 0], max(MAX_EVIDENCE - new[0, 0], 0.0)) / max(evidence[0, 0], 1.0)
    return old * evidence + min(1.0, MAX_EVIDENCE / new[0, 0]) * new


def farther(gains: Array, times: float) -> Array:
    """Gains of points so many times as far from the start in the same direction, the last of a direction at most."""
    steps, directions = np.array((0.0, *STEPS)), gains[1:].reshape(len(STEPS), -1).T
    aims = np.minimum(times * steps[1:], 1.0)
    each = [np.interp(aims, steps, np.concatenate([gains[:1], along])) for along in directions]
    return np.concatenate([gains[:1], np.stack(each, axis=1).ravel()])


def cautious(evidence: Array | None, points: Array, tolerance: float = TOLERANCE, growth: float = 1.0) -> Strength:
    """(s, t) by such moments: the mean of the points level with the one whose gain over the start is most certain.

    No evidence, no strength. growth : how many times as far the metric moves before it is judged again, beside GROWTH.
    """
    if evidence is None or len(evidence) != len(points) + 1 or evidence[0, 0] < FEW:
        return 0.0, 0.0
    n, means = evidence[0, 0], evidence[0, 1:] / evidence[0, 0]
    covariance = evidence[1:, 1:] / n - means[:, None] * means
    spread = covariance.diagonal()

    def error(k: int) -> Array:
        return np.sqrt(np.maximum(spread + spread[k] - 2.0 * covariance[k], 0.0) / n)

    gains = means - means[0] - CAUTION * (1.0 + FEW / n) * error(0)
    gains = np.minimum(gains, farther(gains, GROWTH * growth))
    best = int(gains.argmax())
    s, t = n / (n + PRIOR) * points[gains[best] - gains <= tolerance * error(best)].mean(axis=0)
    return float(s), float(t)
