"""The model as a function of the log of statements alone, so that undoing one is forgetting that it was said.

Statements are counted. At the counts of RENEWALS the start is taken anew from the statistics of all statements so far,
and all of them are learned from there in one call; in between, at multiples of PAGE, the statements since the last such
moment, a page, are judged, and then learned in one call. Statements of a page that is not full yet are learned one by
one on top of it, and again with their page once it is. What is held after n statements is thus the same whatever was
said and undone on the way, bit for bit.
"""

import threading
from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from .. import _validation as check
from .._spaces.dense.space import following
from .._typing import Array
from ..estimators import LODML
from ._guard import STRENGTHS, Judged
from ._rows import Rows
from ._start import root_of, scatter_of
from ._statement import Lesson, Statement, lesson_of

RENEWALS = frozenset((1, 2, 3, 5, 8, 12, 20, 40, 80, 160, 320, 640, 1280))
# Up to the last renewal pages are short, so that the guard answers soon.
PAGE, LONG_PAGE = 32, 128
# The largest step of one statement and its margin, in units of the mean squared distance of two rows; after n
# statements steps are n / (n + WARM) of it.
STEP, MARGIN, WARM = 1.0, 0.2, 100.0
# Groups are users; this marks statements of nobody, and the other is a user that never speaks.
NOBODY, STRANGER = "", " "
# States that are kept at most, for undoing.
KEPT_STATES = 20
# Lessons that are kept, enough for every renewal; others are drawn from their statements again.
KEPT_LESSONS = 2048


@dataclass(frozen=True, eq=False)
class FeedbackState:
    """What is known after n statements; that of a full page is never changed, and can be kept in a file.

    root : W, symmetric; rows become X W, among which random pairs have the mean squared distance 1.
    learner : learned on such rows; None: nothing was said that could be learned.
    judged, strength, distrusted : what the guard knows, and what it makes of it.
    """

    n: int
    root: Array
    learner: LODML | None = None
    judged: Judged = field(default_factory=Judged)
    strength: float = 1.0
    distrusted: frozenset[str] = frozenset()

    def metric(self, user: str | None, strength: float) -> Array:
        """M of rows X; up to 1/2 a power of the start, beyond it the start and a share of what was learned."""
        if strength == 0.0:
            return np.eye(len(self.root))
        if strength == 0.25:
            return self.root
        inside = self._learned(user)
        if inside is None or strength == 0.5:
            return self.root @ self.root
        if strength < 1.0:
            inside = (2.0 - 2.0 * strength) * np.eye(len(inside)) + (2.0 * strength - 1.0) * inside
        return self.root @ inside @ self.root

    def values(self, differences: Array, user: str | None) -> Array:
        """Squared distances under the metrics of all STRENGTHS, (n, len(STRENGTHS)): they share two products."""
        mapped, inside = differences @ self.root, self._learned(user)
        start = (mapped * mapped).sum(axis=1)
        learned = start if inside is None else ((mapped @ inside) * mapped).sum(axis=1)
        half, none = (mapped * differences).sum(axis=1), (differences * differences).sum(axis=1)
        return np.stack([none, half, start, 0.5 * (start + learned), learned], axis=1)

    def _learned(self, user: str | None) -> Array | None:
        """M that was learned on mapped rows: the same bits whenever it is read."""
        if self.learner is None:
            return None
        before = following.set(False)
        try:
            return self.learner.metric_matrix(STRANGER if user is None else user)
        finally:
            following.reset(before)

    def __paloma_state__(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "root": self.root,
            "scores": self.judged.scores,
            "names": list(self.judged.names),
            "codes": self.judged.codes,
            "strength": self.strength,
            "distrusted": sorted(self.distrusted),
        } | ({} if self.learner is None else {"learner": self.learner})

    @classmethod
    def __paloma_restore__(cls, state: dict[str, Any]) -> Self:
        root, scores, codes = state["root"], state["scores"], state["codes"]
        names = tuple(str(name) for name in state["names"])
        n, strength, learner = state["n"], state["strength"], state.get("learner")
        check.check_count("n", n)
        right = strength in STRENGTHS and isinstance(learner, LODML | None) and root.ndim == 2
        known = len(codes) == 0 or 0 <= codes.min() <= codes.max() < len(names)
        if not right or not known or scores.shape != (len(codes), len(STRENGTHS)) or len(scores) > n:
            raise ValueError("FeedbackState: parts of other kinds or shapes than those of a state.")
        judged = Judged(names, ((scores, codes),) if len(codes) else ())
        return cls(n, root, learner, judged, strength, frozenset(map(str, state["distrusted"])))


class Model:
    """States along a log of statements: the last full page, what was learned since, and states on the way there.

    One thread at a time may call `hear`; meanwhile others read: what they see is changed under `lock`, for as long as
    it takes to learn one statement.
    """

    def __init__(self, rows: Rows, lam: float, guard: bool) -> None:
        self.rows, self.lam, self.guard = rows, lam, guard
        self.whole, self.spread = scatter_of(rows.X)
        self.log: list[Statement] = []
        self.base = self.live = FeedbackState(0, np.eye(len(self.whole)))
        self.kept = [self.base]
        self.lock = threading.Lock()
        self._lesson = lru_cache(KEPT_LESSONS)(lambda said: lesson_of(said, rows.number, len(rows.ids)))

    def metric(self, user: str | None = None, strength: float | None = None) -> Array:
        """M of rows X, under which two random rows have the mean squared distance 1; by default as it is published."""
        with self.lock:
            live = self.live
            metric = live.metric(user, live.strength if strength is None else strength)
        return metric / self._typical(metric)

    def page_metric(self) -> Array:
        """M of the last full page that users have in common."""
        base = self.base
        metric = base.metric(None, base.strength)
        return metric / self._typical(metric)

    def _typical(self, metric: Array) -> float:
        """Mean squared distance of two random rows."""
        return 2.0 * self.spread * float((metric * self.whole).sum())

    def hear(self, statements: Sequence[Statement]) -> None:
        """Statements in, one after the other; those of a page that gets full are learned with it alone."""
        self.log += statements
        n, heard = len(self.log), len(self.log) - len(statements)
        for k in range(heard + 1, n + 1):
            if _full(k):
                self._turn(k)
        for k in range(max(heard, self.base.n), n):
            self._step(self._lesson(self.log[k]), k + 1)

    def _step(self, lesson: Lesson, n: int) -> None:
        """One statement of a page that is not full."""
        learner = self.live.learner
        if _name(lesson) in self.live.distrusted:
            self.live = replace(self.live, n=n)
        else:
            learner = deepcopy(learner) if learner is self.base.learner else learner
            with self.lock:
                self.live = replace(self.live, n=n, learner=self._taught(learner, [lesson], self.live.root, n))

    def without(self, numbers: Sequence[int]) -> "Model":
        """The model that never heard these statements: the rest is heard again from the last state before them."""
        gone = set(numbers)
        return self._from(min(gone), [said for k, said in enumerate(self.log) if k not in gone])

    def after(self, n: int) -> "Model":
        """The model as it was after the first n statements."""
        return self._from(n, self.log[:n])

    def resumed(self, state: FeedbackState, log: Sequence[Statement]) -> "Model":
        """The model of a log whose first statements led to a state."""
        out = copy(self)
        out.kept = [self.kept[0], state]
        return out._from(state.n, log)

    def _from(self, n: int, log: Sequence[Statement]) -> "Model":
        """The model of a log, heard from the last state of at most n statements on."""
        out = copy(self)
        out.kept = [state for state in self.kept if state.n <= n]
        out.base = out.live = out.kept[-1]
        out.log = list(log[: out.base.n])
        out.lock = threading.Lock()
        out.hear(log[out.base.n :])
        return out

    def _turn(self, n: int) -> None:
        """A page is full: judge its statements, then learn them."""
        base, page = self.base, self._lessons(self.base.n, n)
        judged = base.judged.extended(*self._judge(base, page)) if self.guard else base.judged
        distrusted = judged.distrusted()
        if n in RENEWALS or distrusted != base.distrusted:
            lessons = [lesson for lesson in self._lessons(0, n) if _name(lesson) not in distrusted]
            root = self._root(lessons)
            learner = self._taught(None, lessons, root, n)
        else:
            lessons = [lesson for lesson in page if _name(lesson) not in distrusted]
            root, learner = base.root, self._taught(deepcopy(base.learner), lessons, base.root, n)
        strength = judged.strength() if self.guard else 1.0
        self.base = self.live = FeedbackState(n, root, learner, judged, strength, distrusted)
        self.kept = [*_thinned(self.kept, n), self.base]

    def _lessons(self, start: int, stop: int) -> list[Lesson]:
        return [self._lesson(said) for said in self.log[start:stop]]

    def _root(self, lessons: list[Lesson]) -> Array:
        """The start from statistics, scaled so that random pairs have the mean squared distance 1."""
        if not lessons:
            return np.eye(len(self.whole))
        near, far = (self.rows.differences(np.concatenate([getattr(each, name) for each in lessons]))
                     for name in ("near", "far"))  # fmt: skip
        weights = (np.concatenate([getattr(each, f"{name}_weight") for each in lessons]) for name in ("near", "far"))
        root = root_of(near, next(weights), far, next(weights), self.whole)
        return root / np.sqrt(self._typical(root @ root))

    def _taught(self, learner: LODML | None, lessons: list[Lesson], root: Array, n: int) -> LODML | None:
        """Learn triplets in one call, each statement with its bounded weight."""
        lessons = [lesson for lesson in lessons if len(lesson.triplets)]
        if not lessons:
            return learner
        lam, mu = self.lam, 1.0 - self.lam
        both = lam * lam + mu * mu
        if learner is None:
            learner = LODML(
                C=STEP / both, lam=lam, margin=MARGIN, scale=None, unlabeled=NOBODY, average=False, random_state=0
            )
        weight = [each.triplet_weight * (1.0 if each.user else both / (lam * lam)) for each in lessons]
        groups = [_name(each) for each in lessons for _ in each.triplets]
        rows, numbers = np.unique(np.concatenate([each.triplets for each in lessons]), return_inverse=True)
        return learner.partial_fit(
            self.rows.take(rows) @ root,
            triplets=numbers.reshape(-1, 3),
            triplet_weight=np.concatenate(weight) * (n / (n + WARM)),
            groups=groups,
        )

    def _judge(self, state: FeedbackState, page: list[Lesson]) -> tuple[Array, list[str]]:
        """Share of the triplets of each statement that is ranked right at each strength; a tie is half right.

        Of a long page as many statements are judged as of a short one.
        """
        page = [lesson for lesson in page if len(lesson.triplets) and not lesson.implied]
        page = [page[k] for k in np.linspace(0, len(page) - 1, min(len(page), PAGE)).astype(int)]
        scores, users = np.empty((len(page), len(STRENGTHS))), [_name(lesson) for lesson in page]
        for user in dict.fromkeys(users):
            own = [k for k, name in enumerate(users) if name == user]
            triplets = np.concatenate([page[k].triplets for k in own])
            owner = np.repeat(np.arange(len(own)), [len(page[k].triplets) for k in own])
            weight = np.concatenate([page[k].triplet_weight for k in own])
            sides = np.concatenate([triplets[:, :2], triplets[:, ::2]])
            pairs, places = np.unique(sides, axis=0, return_inverse=True)
            near, far = state.values(self.rows.differences(pairs), user or None)[places].reshape(2, len(triplets), -1)
            right = weight[:, None] * (0.5 + 0.5 * np.sign(far - near))
            scores[own] = np.stack([np.bincount(owner, column, len(own)) for column in right.T], axis=1)
        return scores, users


def _full(n: int) -> bool:
    return n in RENEWALS or n % (PAGE if n < max(RENEWALS) else LONG_PAGE) == 0


def _name(lesson: Lesson) -> str:
    return lesson.user or NOBODY


def _thinned(states: Sequence[FeedbackState], n: int) -> list[FeedbackState]:
    """States to keep beside that of n statements: the farther back, the farther apart, and never more of them.

    Each time that one goes whose absence costs least: the statements that are heard again for want of it, for each
    statement that came after.
    """
    kept = list(states)
    while len(kept) >= KEPT_STATES:
        costs = [(newer.n - older.n) / (n - newer.n) for older, newer in zip(kept, kept[2:], strict=False)]
        del kept[1 + int(np.argmin(costs))]
    return kept
