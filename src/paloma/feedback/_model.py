"""The model as a function of the log of statements alone, so that undoing one is forgetting that it was said.

Statements are counted. At the counts of RENEWALS the start is taken anew from the statistics of all statements so far,
and all of them are learned from there in one call; in between, at multiples of PAGE, the statements since the last such
moment, a page, are judged, and then learned in one call. Statements of a page that is not full yet are learned one by
one on top of it, and again with their page once it is. What is held after n statements is thus the same whatever was
said and undone on the way, bit for bit.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np

from .._typing import Array
from ..estimators import LODML
from ._guard import STRENGTHS, Judged
from ._rows import Rows
from ._start import root_of, scatter_of
from ._statement import Lesson

RENEWALS = frozenset((1, 2, 3, 5, 8, 12, 20, 40, 80, 160, 320, 640, 1280))
# Up to the last renewal pages are short, so that the guard answers soon.
PAGE, LONG_PAGE = 32, 128
# The largest step of one statement and its margin, in units of the mean squared distance of two rows; after n
# statements steps are n / (n + WARM) of it.
STEP, MARGIN, WARM = 1.0, 0.2, 100.0
# Groups are users; this marks statements of nobody, and the other is a user that never speaks.
NOBODY, STRANGER = "", " "
MAX_SNAPSHOTS = 8


@dataclass(frozen=True, eq=False)
class State:
    """What is known after n statements; that of a full page is never changed.

    root : W, symmetric; rows become X W, among which random pairs have the mean squared distance 1.
    learner : learned on such rows; None: nothing was said that could be learned.
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
        return None if self.learner is None else self.learner.metric_matrix(STRANGER if user is None else user)


class Model:
    """States along a log of lessons: the last full page, what was learned since, and snapshots on the way."""

    def __init__(self, rows: Rows, lam: float, guard: bool) -> None:
        self.rows, self.lam, self.guard = rows, lam, guard
        self.whole, self.spread = scatter_of(rows.X)
        self.lessons: list[Lesson] = []
        self.base = self.live = State(0, np.eye(len(self.whole)))
        self._snapshots = [self.base]
        self._spacing = PAGE

    def metric(self, user: str | None = None, strength: float | None = None) -> Array:
        """M of rows X, under which two random rows have the mean squared distance 1; by default as it is published."""
        metric = self.live.metric(user, self.live.strength if strength is None else strength)
        return metric / self._typical(metric)

    def _typical(self, metric: Array) -> float:
        """Mean squared distance of two random rows."""
        return 2.0 * self.spread * float((metric * self.whole).sum())

    def hear(self, lesson: Lesson) -> None:
        """One statement in, the metric one step further."""
        self.lessons.append(lesson)
        n = len(self.lessons)
        if _full(n):
            self._turn(n)
        elif _name(lesson) in self.live.distrusted:
            self.live = replace(self.live, n=n)
        else:
            shared = self.live.learner is self.base.learner
            learner = deepcopy(self.live.learner) if shared else self.live.learner
            self.live = replace(self.live, n=n, learner=self._taught(learner, [lesson], self.live.root, n))

    def forget(self, numbers: Sequence[int]) -> None:
        """The model that never heard these statements: the rest is heard again from the last snapshot before them."""
        first, gone = min(numbers), set(numbers)
        rest = [lesson for k, lesson in enumerate(self.lessons) if k not in gone]
        self._snapshots = [state for state in self._snapshots if state.n <= first]
        self.base, self.lessons = self._snapshots[-1], rest[: self._snapshots[-1].n]
        self.extend(rest[self.base.n :])

    def extend(self, lessons: Sequence[Lesson]) -> None:
        """The same as hearing one after the other, page by page."""
        heard = [*self.lessons, *lessons]
        self.live = self.base
        for n in range(self.base.n + 1, len(heard) + 1):
            if _full(n):
                self.lessons = heard[:n]
                self._turn(n)
        self.lessons = heard[: self.base.n]
        for lesson in heard[self.base.n :]:
            self.hear(lesson)

    def _turn(self, n: int) -> None:
        """A page is full: judge its statements, then learn them."""
        base, page = self.base, self.lessons[self.base.n : n]
        judged = base.judged.extended(*self._judge(base, page)) if self.guard else base.judged
        distrusted = judged.distrusted()
        if n in RENEWALS or distrusted != base.distrusted:
            lessons = [lesson for lesson in self.lessons[:n] if _name(lesson) not in distrusted]
            root = self._root(lessons)
            learner = self._taught(None, lessons, root, n)
        else:
            lessons = [lesson for lesson in page if _name(lesson) not in distrusted]
            root, learner = base.root, self._taught(deepcopy(base.learner), lessons, base.root, n)
        strength = judged.strength() if self.guard else 1.0
        self.base = self.live = State(n, root, learner, judged, strength, distrusted)
        self._keep(self.base)

    def _keep(self, state: State) -> None:
        """Snapshots are evenly spaced, at most MAX_SNAPSHOTS."""
        if state.n >= self._snapshots[-1].n + self._spacing:
            self._snapshots.append(state)
        if len(self._snapshots) > MAX_SNAPSHOTS:
            self._snapshots, self._spacing = self._snapshots[::2], 2 * self._spacing

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

    def _judge(self, state: State, page: list[Lesson]) -> tuple[Array, list[str]]:
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
