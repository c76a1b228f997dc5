"""How likely each mark is right, by what its speaker said near by (theory 25).

Only who contradicts himself errs. Whose relevance is an equivalence, whatever it is, has all weights as they were.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .._typing import Array
from ._guard import CAUTION
from ._rows import Rows
from ._statement import Lesson

# How often somebody errs is told by so many of the last lessons at least; marks are judged by the lists of so many of
# the nearest queries, their own included, among so many of the last.
LAST, NEAREST, AMONG = 128, 16, 512
# So many of his last lists may contradict what a speaker said before: he turned just now, or a while ago. They are
# compared with those before them among so many statements.
TURNS, RECENT = (32, 64), 256
# Query and item are alike if many of so many of their nearest items are the same.
NEIGHBORS = 16
# At this squared distance, in units of the mean one of query and item, marks count 1 / e; and what ignorance counts.
REACH, IGNORANCE = 0.3, 0.3
# The least squared distance, relative to that of all items; the largest share of errors; a penalty on slopes.
LEAST, MOST, RIDGE = 1e-4, 0.45, 1.0


def trusted(lessons: Sequence[Lesson], n: int, rows: Rows) -> list[Lesson]:
    """The last n lessons, with the marks of who contradicts himself weighing as much as they are likely to be right."""
    out = list(lessons[len(lessons) - n :])
    last = [lesson for lesson in lessons[-max(n, LAST) :] if lesson.asked]
    for user in contradicted(last):
        own = [lesson for lesson in lessons[-max(n, AMONG) :] if lesson.asked and lesson.user == user]
        n_judged = sum(lesson.user == user for lesson in last)
        right = iter(_right(Lists.of(own), n_judged, rows))
        judged = {id(lesson): next(right) for lesson in own[len(own) - n_judged :]}
        out = [weighed(lesson, judged[id(lesson)]) if id(lesson) in judged else lesson for lesson in out]
    return out


def weighed(lesson: Lesson, right: Array) -> Lesson:
    """A lesson whose marks, near ones first, are right with these probabilities; a triplet is if both of its are."""
    near, far = np.split(right, [len(lesson.near)])
    known = dict(zip(map(tuple, np.concatenate([lesson.near, lesson.far]).tolist()), right, strict=True))
    of_pairs = np.array([known.get(tuple(pair), 1.0) for pair in lesson.pairs.tolist()])
    return replace(
        lesson,
        near_weight=lesson.near_weight * near,
        far_weight=lesson.far_weight * far,
        triplet_weight=lesson.triplet_weight * of_pairs[lesson.sides].prod(axis=1),
    )


@dataclass(frozen=True, eq=False)
class Lists:
    """Marks of lists, one list after the other.

    pairs : numbers of query and item. relevant : what they were called. starts : of each list, and the end of the last.
    """

    pairs: Array
    relevant: Array
    starts: Array

    @classmethod
    def of(cls, lessons: Iterable[Lesson]) -> Self:
        parts = [part for lesson in lessons for part in (lesson.near, lesson.far)]
        sizes = np.array([len(part) for part in parts], np.intp)
        relevant = np.repeat(np.arange(len(parts)) % 2 == 0, sizes)
        return cls(np.concatenate(parts), relevant, np.concatenate([[0], sizes.cumsum()[1::2]]))


def contradicted(lessons: Sequence[Lesson]) -> list[str | None]:
    """Users who called two rows irrelevant to each other that a chain of what they called relevant connects."""
    if not lessons:
        return []
    lists, users = Lists.of(lessons), list(dict.fromkeys(lesson.user for lesson in lessons))
    codes = {user: code for code, user in enumerate(users)}
    speaker = np.repeat([codes[lesson.user] for lesson in lessons], np.diff(lists.starts))
    ends = np.unique(lists.pairs * len(users) + speaker[:, None], return_inverse=True)[1].reshape(-1, 2)
    n, near = int(ends.max(initial=-1)) + 1, ends[lists.relevant].T
    part = connected_components(coo_array((np.ones(near.shape[1], bool), near), (n, n)), directed=False)[1]
    against = ~lists.relevant & (part[ends[:, 0]] == part[ends[:, 1]])
    return [users[code] for code in np.unique(speaker[against])]


def _right(lists: Lists, n: int, rows: Rows) -> list[Array]:
    """How likely the marks of the last n lists are right."""
    start = lists.starts[-1 - n]
    pairs, relevant = lists.pairs[start:], lists.relevant[start:]
    squares = _apart(pairs, rows)
    remote = np.log(np.maximum(squares / rows.remoteness(pairs[:, 0]) ** 2, LEAST))
    said = _said_near(lists, n, rows, REACH * max(float(squares.mean()), LEAST))
    chance, wrong = _fitted(np.stack([remote, said, _shared(pairs, rows)], axis=1), relevant)
    as_said = np.where(relevant, chance, 1.0 - chance) * (1.0 - wrong)
    otherwise = np.where(relevant, 1.0 - chance, chance) * wrong
    return np.split(as_said / (as_said + otherwise), lists.starts[-n:-1] - start)


def turned(lessons: Sequence[Lesson], rows: Rows) -> bool:
    """Whether the last lists of a speaker call irrelevant what is like the relevant ones of the lists before them."""
    lists, n = Lists.of(lessons), max(TURNS)
    start, owner = lists.starts[-1 - n], np.repeat(np.arange(n), np.diff(lists.starts[-1 - n :]))
    relevant, squares = lists.relevant[start:], _apart(lists.pairs[start:], rows)
    said = _said_near(lists, n, rows, REACH * max(float(squares.mean()), LEAST), len(lessons) - n)
    for few in TURNS:
        own = owner >= n - few
        terms = (said[own] - said[own].mean()) * (relevant[own] - relevant[own].mean())
        each = np.bincount(owner[own], terms, n)
        if each.sum() < -CAUTION * np.sqrt((1.0 + 1.0 / few) * (each * each).sum()):
            return True
    return False


def _apart(pairs: Array, rows: Rows) -> Array:
    """Squared distances of pairs."""
    gaps = rows.unit_differences(pairs).astype(np.float64)
    return np.asarray((gaps * gaps).sum(axis=1))


def _shared(pairs: Array, rows: Rows) -> Array:
    """log(1 + m), with m the number of items that are near both rows of a pair."""
    numbers, places = np.unique(pairs, return_inverse=True)
    near = rows.nearest(numbers, NEIGHBORS)
    both = np.sort(near[places.reshape(-1, 2)].reshape(len(pairs), -1), axis=1)
    return np.log1p((both[:, 1:] == both[:, :-1]).sum(axis=1))


def _said_near(lists: Lists, n: int, rows: Rows, reach: float, among: int | None = None) -> Array:
    """Whether other marks near by are relevant more often than most, for each mark of the last n lists.

    among : how many lists, the first ones, are asked; None: all.
    """
    among = len(lists.starts) - 1 if among is None else among
    numbers, places = np.unique(lists.pairs, return_inverse=True)
    points, places = rows.unit_rows(numbers), places.reshape(-1, 2)
    queries, items, starts = places[lists.starts[:-1], 0], places[:, 1], lists.starts
    said = (lists.relevant - lists.relevant[: starts[among]].mean()).astype(np.float32)
    between, norms, out = _squares(points[queries[-n:]], points[queries[:among]]), (points * points).sum(axis=1), []
    nearest = np.argpartition(between, min(NEAREST, among) - 1, axis=1)[:, :NEAREST]
    for k, (near, apart) in enumerate(zip(nearest, between, strict=True), len(queries) - n):
        others = np.concatenate([np.arange(starts[each], starts[each + 1]) for each in near])
        sizes, own = starts[near + 1] - starts[near], np.arange(starts[k], starts[k + 1])
        left, right = items[own], items[others]
        squares = norms[left, None] + norms[right] - 2.0 * (points[left] @ points[right].T)
        squares = np.maximum(squares, 0.0) + np.repeat(apart[near], sizes)
        weight = np.where(own[:, None] == others, 0.0, np.exp(squares / -reach))
        out.append((weight @ said[others]) / (weight.sum(axis=1) + IGNORANCE))
    return np.concatenate(out).astype(np.float64)


def _squares(A: Array, B: Array) -> Array:
    """Squared distances of all rows of A and B."""
    return np.maximum((A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2.0 * (A @ B.T), 0.0)


def _fitted(signs: Array, relevant: Array) -> tuple[Array, float]:
    """How likely each mark is relevant in truth, and which share of marks is wrong, most likely at once.

    Truth is a logistic function of the signs, of which the first one falls; wrong marks are drawn regardless of it.
    """
    from scipy.optimize import minimize  # loads slowly, and few need it

    Z = (signs - signs.mean(axis=0)) / np.maximum(signs.std(axis=0), LEAST)

    def chances(at: Array) -> Array:
        return 1.0 / (1.0 + np.exp(-np.clip(at[0] + Z @ at[1:-1], -30.0, 30.0)))

    def loss(at: Array) -> tuple[float, Array]:
        chance, wrong = chances(at), at[-1]
        told = wrong + (1.0 - 2.0 * wrong) * chance
        likely = np.maximum(np.where(relevant, told, 1.0 - told), LEAST)
        slope = np.where(relevant, -1.0, 1.0) / likely
        inner = slope * (1.0 - 2.0 * wrong) * chance * (1.0 - chance)
        gradient = [inner.sum(), *(inner @ Z + RIDGE * at[1:-1]), slope @ (1.0 - 2.0 * chance)]
        return 0.5 * RIDGE * float(at[1:-1] @ at[1:-1]) - float(np.log(likely).sum()), np.array(gradient)

    rising = Z.shape[1] - 1
    bounds = [(None, None), (None, 0.0), *rising * [(0.0, None)], (0.0, MOST)]
    start = np.array([0.0, -1.0, *rising * [1.0], 0.5 * MOST])
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return chances(best), float(best[-1])
