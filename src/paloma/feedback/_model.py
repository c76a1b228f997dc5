"""The model as a function of the log of statements alone, so that undoing one is forgetting that it was said.

Statements are counted. At the counts of RENEWALS the start is taken anew from the statistics of all statements so far,
and all of them are learned from there in one call; in between, at multiples of PAGE, the statements since the last such
moment, a page, are judged, and then learned in one call. Statements of a page that is not full yet are learned one by
one on top of it, and again with their page once it is. What is held after n statements is thus the same whatever was
said and undone on the way, bit for bit.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np

from .. import _validation as check
from .._core.choice import Choice
from .._core.locality import Locality
from .._core.measure import DISTANCE
from .._core.psd import Psd
from .._core.step import Step
from .._rows import evenly_spaced
from .._typing import Array
from ._guard import STRENGTHS, WINDOW, Judged, Scores
from ._log import Log, unpacked
from ._metrics import Form, Metrics
from ._rows import Rows, row_differences
from ._start import root_of
from ._statement import Lesson, Statement, lesson_of
from ._trust import AMONG, RECENT, TURNS, trusted, turned

RENEWALS = frozenset((1, 2, 3, 5, 8, 12, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280))
# Up to the last renewal pages are short, so that the guard answers soon.
PAGE, LONG_PAGE = 32, 128
# The last statements, so many, are learned anew if others are believed than before, however long the log is.
RECALL = 4096
# Every so many statements, what has left the cone gets eigenvalues of at least FLOOR; all start at 1.
LIFT, FLOOR = 2048, 0.1
# The largest step of one statement and its margin, in units of the mean squared distance of two rows; after n
# statements steps are n / (n + WARM) of it.
STEP, MARGIN, WARM = 1.0, 0.2, 100.0
# Numbers that items may have for all of them to be held as the root maps them.
MAPPED = 1 << 23
# Metrics that may wait to judge.
JUDGES = 8
# Who speaks if nobody in particular does.
NOBODY = ""
# States that are kept at most, for undoing.
KEPT_STATES = 20
# Lessons that are kept; others are drawn from their statements again.
KEPT_LESSONS = 16_384


@dataclass(frozen=True, eq=False)
class FeedbackState:
    """What is known after n statements; that of a full page is never changed, and can be kept in a file.

    root
        W, symmetric; rows X, in units of their spread, become X W, among which random pairs have the mean squared
        distance 1.
    learned
        Learned on such rows; None: nothing was said that could be learned.
    lam
        The weight of what is shared in it.
    judged, strength, distrusted
        What the guard knows, and what it makes of it.
    """

    n: int
    root: Array
    lam: float
    learned: Metrics | None = None
    judged: Judged = field(default_factory=Judged)
    strength: float = 1.0
    distrusted: frozenset[str] = frozenset()

    def form(self, user: str | None, strength: float) -> Form:
        """M of rows X; up to 1/2 a power of the start, beyond it the start and a share of what was learned."""
        if strength == 0.25:
            return Form(None, self.root)
        identity = np.eye(len(self.root))
        if strength <= 0.5 or self.learned is None:
            return Form(None if strength == 0.0 else self.root, identity)
        inside = self.learned.inside(user, self.lam).astype(np.float64)
        if strength < 1.0:
            inside = (2.0 - 2.0 * strength) * identity + (2.0 * strength - 1.0) * inside
        return Form(self.root, inside)

    def metric(self, user: str | None, strength: float) -> Array:
        """The same as a matrix."""
        return self.form(user, strength).matrix()

    def values(self, differences: Array, inside: Array | None) -> Array:
        """Squared distances under the metrics of all STRENGTHS, (n, len(STRENGTHS)): they share two products.

        inside : M of mapped rows; None: nothing was learned.
        """
        mapped = differences @ self.root.astype(differences.dtype, copy=False)
        none, half, start = (_products(*each) for each in ((differences,) * 2, (mapped, differences), (mapped,) * 2))
        learned = start if inside is None else _products(mapped @ inside, mapped)
        return np.stack([none, half, start, 0.5 * (start + learned), learned], axis=1)

    def __paloma_state__(self) -> dict[str, Any]:
        learned = {} if self.learned is None else {
            "shared": self.learned.shared,
            "users": list(self.learned.own),
            "own": np.array([*self.learned.own.values()], np.float32).reshape(-1, *self.root.shape),
        }  # fmt: skip
        return {
            "n": self.n,
            "root": self.root,
            "lam": self.lam,
            "names": list(self.judged.names),
            "marks": self.judged.marks,
            "strength": self.strength,
            "distrusted": sorted(self.distrusted),
            **self.judged.scores.as_arrays(),
            **learned,
        }

    @classmethod
    def __paloma_restore__(cls, state: dict[str, Any]) -> Self:
        scores = Scores.of_arrays(*(state[name] for name in ("scores", "codes", "sizes", "counts", "means")))
        root, codes, learned = state["root"], state["codes"], None
        marks, names = state["marks"], tuple(str(name) for name in state["names"])
        n, lam, strength = state["n"], state["lam"], state["strength"]
        check.check_count("n", n)
        check.check_real("lam", lam, 0.0, 1.0)
        right = strength in STRENGTHS and root.ndim == 2 and root.shape[0] == root.shape[1]
        known = len(codes) == 0 or 0 <= codes.min() <= codes.max() < len(names)
        known &= marks.shape == (len(names), 5, 5) and marks.dtype == np.float64
        if "shared" in state:
            shared, own, users = state["shared"], state["own"], [str(user) for user in state["users"]]
            right &= shared.shape == root.shape and own.shape == (len(set(users)), *root.shape)
            right &= len(own) == len(users) and all(each.dtype == np.float32 for each in (shared, own))
            learned = Metrics(shared, dict(zip(users, own, strict=False)))
        if not right or not known or len(scores) > n:
            raise ValueError("FeedbackState: parts of other kinds or shapes than those of a state.")
        judged = Judged(names, scores, marks)
        return cls(n, root, lam, learned, judged, strength, frozenset(map(str, state["distrusted"])))


@dataclass(frozen=True, eq=False)
class Page:
    """Statements up to the n-th. ranked, marked : those that are judged; of a long page as many as of a short one."""

    n: int
    lessons: list[Lesson]

    @cached_property
    def ranked(self) -> list[Lesson]:
        return _few([lesson for lesson in self.lessons if len(lesson.triplets) and not lesson.implied])

    @cached_property
    def marked(self) -> list[Lesson]:
        return _few([lesson for lesson in self.lessons if lesson.asked])


class Model:
    """States along a log of statements: the last full page, what was learned since, and states on the way there.

    One thread at a time may call `hear`; meanwhile others read: states are never changed, one takes another's place.
    """

    def __init__(self, rows: Rows, lam: float, guard: bool) -> None:
        self.rows, self.lam, self.guard = rows, lam, guard
        self.log = Log()
        self.base = self.live = FeedbackState(0, np.eye(len(rows.whole)), lam)
        self.kept = [self.base]
        locality = Locality.per_class(lam)
        both = locality.kernel.lam2 + locality.kernel.mu2
        self._alone = both / locality.kernel.lam2  # weight of a statement of nobody, which moves U alone
        self._choice = Choice(DISTANCE, locality, Step.parse("pa1", None), Psd("end"), STEP / both, MARGIN)
        self._mapped: tuple[Array, Array] = (self.base.root, rows.whole)
        self._items: tuple[Array, Array] = (self.base.root, rows.whole[:0])
        self._judging: tuple[FeedbackState, dict[str, Array]] = (self.base, {})
        self._lesson = lru_cache(KEPT_LESSONS)(lambda said: lesson_of(unpacked(said), rows.number, len(rows.ids)))

    def metric(self, user: str | None = None, strength: float | None = None) -> Array:
        """M of rows X, under which two random rows have the mean squared distance 1; by default as it is published."""
        return self.form(user, strength).matrix()

    def form(self, user: str | None = None, strength: float | None = None) -> Form:
        """The same as factors."""
        live = self.live
        return self._scaled(live, user, live.strength if strength is None else strength)

    def page_form(self) -> Form:
        """M of the last full page that users have in common."""
        return self._scaled(self.base, None, self.base.strength)

    def _scaled(self, state: FeedbackState, user: str | None, strength: float) -> Form:
        form = state.form(user, strength)
        return replace(form, factor=1.0 / self._typical(form))

    def _typical(self, form: Form) -> float:
        """Mean squared distance of two random rows: what M and the scatter of all rows have in common."""
        whole, (root, mapped) = self.rows.whole, self._mapped
        if form.outer is not None:
            if root is not form.outer:
                mapped = form.outer @ whole @ form.outer
                self._mapped = form.outer, mapped
            whole = mapped
        return 2.0 * self.rows.spread * float(np.vdot(form.core, whole))

    def hear(self, statements: Sequence[Statement]) -> None:
        """Statements in, one after the other; those of a page that gets full are learned with it alone."""
        heard, before = len(self.log), (self.base, self.live, self.kept)
        try:
            self.log.extend(statements)
            self._follow(heard)
        except BaseException:
            self.log, (self.base, self.live, self.kept) = self.log.first(heard), before
            raise

    def _follow(self, heard: int) -> None:
        """Learn what stands in the log after so many statements."""
        n = len(self.log)
        if any(_full(k) for k in range(heard + 1, n + 1)):
            self._turn(self._pages(self.base.n, n))
        heard = max(heard, self.base.n)
        for k, lesson in enumerate(self._lessons(heard, n), heard + 1):
            self._step(lesson, k)

    def _step(self, lesson: Lesson, n: int) -> None:
        """One statement of a page that is not full."""
        live = self.live
        learned = live.learned
        if _name(lesson) not in live.distrusted:
            learned = self._told(learned, lesson, live.root, n)
        self.live = replace(live, n=n, learned=learned)
        if self.guard and len(self._judges()) < JUDGES:
            self._judge(_name(lesson))

    def _judge(self, user: str) -> Array | None:
        """M of mapped rows that judges what a user says: that of the last full page; None if nothing was learned.

        That of the first users is found when they speak, so that not all of them are when the page is full.
        """
        if self.base.learned is None:
            return None
        known = self._judges()
        found = known.get(user)
        if found is None:
            found = self.base.learned.inside(user or None, self.lam)
            if len(known) < JUDGES:
                known[user] = found
        return found

    def _judges(self) -> dict[str, Array]:
        """Those that were found since the last page was full."""
        if self._judging[0] is not self.base:
            self._judging = self.base, {}
        return self._judging[1]

    def without(self, numbers: Sequence[int]) -> "Model":
        """The model that never heard these statements: the rest is heard again from the last state before them."""
        return self._from(min(numbers), self.log.without(numbers))

    def after(self, n: int) -> "Model":
        """The model as it was after the first n statements."""
        return self._from(n, self.log.first(n))

    def resumed(self, state: FeedbackState, log: Sequence[Statement]) -> "Model":
        """The model of a log whose first statements led to a state."""
        out = copy(self)
        out.kept = [self.kept[0], state]
        return out._from(state.n, Log(log))

    def _from(self, n: int, log: Log) -> "Model":
        """The model of a log, heard from the last state of at most n statements on.

        What a state lacks, because its last statements were not judged, must not be missed at the end of the log.
        """
        out = copy(self)
        out.log, out.kept = log, [state for state in self.kept if state.n <= n]
        while not out.kept[-1].judged.complete:
            pages = out._pages(out.kept[-1].n, len(log))
            if sum(len(page.ranked) for page in pages) >= WINDOW:
                break
            out.kept.pop()
        out.base = out.live = out.kept[-1]
        out._follow(out.base.n)
        return out

    def _pages(self, start: int, stop: int) -> list[Page]:
        """The pages of the log that get full after `start` statements, up to `stop`."""
        ends = [k for k in range(start + 1, stop + 1) if _full(k)]
        return [Page(b, self._lessons(a, b)) for a, b in pairwise([start, *ends])]

    def _turn(self, pages: list[Page]) -> None:
        """Pages are full: judge the statements of each, then learn them.

        Whom to believe is settled by distances without feedback. So, if many pages are heard at once, the last ones
        alone are judged, which decide on strength, and what came before the start was last taken anew until then need
        not be learned.
        """
        beliefs = [(self.base.judged, self.base.distrusted)]
        for page in pages:
            beliefs.append(self._heard(page, *beliefs[-1]) if self.guard else beliefs[-1])
        counts = np.array([len(page.ranked) for page in pages])
        n_skipped = int(np.count_nonzero(counts.sum() - counts.cumsum() >= WINDOW))
        anew = [page.n in RENEWALS or beliefs[k][1] != beliefs[k + 1][1] for k, page in enumerate(pages)]
        for k in range(max((k for k in range(n_skipped) if anew[k]), default=0), len(pages)):
            page, (judged, distrusted) = pages[k], beliefs[k + 1]
            if self.guard and k >= n_skipped:
                _, codes = judged.scores.pages[-1]
                judged = replace(judged, scores=self.base.judged.scores.extended(self._scores(page.ranked), codes))
            self._learn(page, anew[k], judged, distrusted)

    def _heard(self, page: Page, judged: Judged, distrusted: frozenset[str]) -> tuple[Judged, frozenset[str]]:
        """What is known after one more page, but for its scores, and who is not believed."""
        none, known = np.full((len(page.ranked), len(STRENGTHS)), np.nan), judged.known(distrusted)
        marked = [lesson for lesson in page.marked if _name(lesson) not in known]
        judged = judged.extended(none, _names(page.ranked), _marks(marked, self.rows), _names(marked))
        turned = self._turned(page, known)
        return judged.without_marks(turned), judged.distrusted(distrusted) | turned

    def _turned(self, page: Page, users: frozenset[str]) -> frozenset[str]:
        """Those of these speakers on a page whose last lists contradict what they said before."""
        users &= frozenset(map(_name, page.marked))
        lessons = self._lessons(max(0, page.n - RECENT), page.n) if users else []
        lists = {user: [lesson for lesson in lessons if lesson.asked and _name(lesson) == user] for user in users}
        return frozenset(user for user, own in lists.items() if len(own) > max(TURNS) and turned(own, self.rows))

    def _learn(self, page: Page, anew: bool, judged: Judged, distrusted: frozenset[str]) -> None:
        """The statements of a page, or, if the start is taken `anew`, all that are recalled, of whom to believe."""
        base, n = self.base, min(RECALL, page.n) if anew else len(page.lessons)
        lessons = trusted(self._lessons(max(0, page.n - max(n, AMONG)), page.n), n, self.rows)
        lessons = [lesson for lesson in lessons if _name(lesson) not in distrusted]
        root = self._root(lessons) if anew else base.root
        learned = self._taught(None if anew else base.learned, lessons, root, page.n)
        if learned is not None and page.n % LIFT == 0:
            learned = learned.lifted(FLOOR, dict.fromkeys(_names(self._lessons(page.n - LIFT, page.n))))
        strength = judged.strength(distrusted) if self.guard else 1.0
        self.base = self.live = FeedbackState(page.n, root, self.lam, learned, judged, strength, distrusted)
        self.kept = [*_thinned(self.kept, page.n), self.base]

    def _lessons(self, start: int, stop: int) -> list[Lesson]:
        return [self._lesson(said) for said in self.log.packed(start, stop)]

    def _root(self, lessons: list[Lesson]) -> Array:
        """The start from statistics, scaled so that random pairs have the mean squared distance 1."""
        if not lessons:
            return np.eye(len(self.rows.whole))
        root = root_of(*self._scatter(lessons, "near"), *self._scatter(lessons, "far"), self.rows.whole)
        return root / np.sqrt(2.0 * float(np.vdot(root @ root, self.rows.whole)))

    def _scatter(self, lessons: list[Lesson], name: str) -> tuple[Array, float]:
        """The scatter of pairs of this name, and how many statements they are of."""
        pairs = np.concatenate([getattr(each, name) for each in lessons])
        weight = np.concatenate([getattr(each, f"{name}_weight") for each in lessons])
        return self.rows.scatter(pairs, weight), float(weight.sum())

    def _taught(self, learned: Metrics | None, lessons: list[Lesson], root: Array, n: int) -> Metrics | None:
        """Learn triplets, each statement with its bounded weight, of so many statements at a time as a page has."""
        lessons = [lesson for lesson in lessons if len(lesson.triplets)]
        for start in range(0, len(lessons), LONG_PAGE):
            some = lessons[start : start + LONG_PAGE]
            users, (pairs, sides, sizes) = _names(some), _joined(some)
            weight = np.concatenate([each.triplet_weight for each in some])
            weight *= np.repeat([self._unit(user, n) for user in users], [len(each.sides) for each in some])
            learned, differences = learned or Metrics.start(len(root)), self._differences(pairs, root, n)
            learned = learned.taught(self._choice, differences, sides, weight, users, sizes)
        return learned

    def _differences(self, pairs: Array, root: Array, n: int) -> Array:
        """Differences of rows X W; after many statements, which speak of the same items, each is mapped once."""
        narrow = root.astype(np.float32)
        if n < max(RENEWALS) or self.rows.X.size > MAPPED or pairs.min() < 0:
            return self.rows.unit_differences(pairs) @ narrow
        if self._items[0] is not root:
            self._items = root, self.rows.units() @ narrow
        return row_differences(self._items[1], pairs)

    def _told(self, learned: Metrics | None, lesson: Lesson, root: Array, n: int) -> Metrics | None:
        """Learn the triplets of one statement."""
        if not len(lesson.triplets):
            return learned
        learned, differences = learned or Metrics.start(len(root)), self.rows.unit_differences(lesson.pairs)
        user = _name(lesson)
        weight = lesson.triplet_weight * self._unit(user, n)
        return learned.told(self._choice, root.astype(np.float32), differences, lesson.sides, weight, user)

    def _unit(self, user: str, n: int) -> float:
        """What one of n statements weighs."""
        return (1.0 if user else self._alone) * (n / (n + WARM))

    def _scores(self, ranked: list[Lesson]) -> Array:
        """Share of each statement that is ranked right at each strength; a tie of a triplet is half right."""
        users, scores = _names(ranked), np.empty((len(ranked), len(STRENGTHS)))
        for user in dict.fromkeys(users):
            own = [k for k, name in enumerate(users) if name == user]
            lessons = [ranked[k] for k in own]
            pairs, sides, _ = _joined(lessons)
            values = self.base.values(self.rows.unit_differences(pairs), self._judge(user))
            owner = np.repeat(np.arange(len(own)), [len(each.sides) for each in lessons])
            weight = np.concatenate([each.triplet_weight / each.triplet_weight.sum() for each in lessons])
            right = weight[:, None] * (0.5 + 0.5 * np.sign(values[sides[:, 1]] - values[sides[:, 0]]))
            scores[own] = np.stack([np.bincount(owner, column, len(own)) for column in right.T], axis=1)
        return scores


def _full(n: int) -> bool:
    return n in RENEWALS or n % (PAGE if n < max(RENEWALS) else LONG_PAGE) == 0


def _few(lessons: list[Lesson]) -> list[Lesson]:
    """As many as a short page has, evenly spaced."""
    return [lessons[k] for k in evenly_spaced(np.arange(len(lessons)), PAGE)]


def _joined(lessons: list[Lesson]) -> tuple[Array, Array, Array]:
    """Pairs of all lessons, what their triplets compare in numbers of these pairs, and how many pairs each has."""
    none, sizes = np.empty((0, 2), np.int64), np.array([len(each.pairs) for each in lessons], np.int64)
    sides = np.concatenate([none, *(each.sides for each in lessons)])
    sides += np.repeat(sizes.cumsum() - sizes, [len(each.sides) for each in lessons])[:, None]
    return np.concatenate([none, *(each.pairs for each in lessons)]), sides, sizes


def _marks(lessons: list[Lesson], rows: Rows) -> Array:
    """What `Judged` sums over the results of each query: items, their distances, and both of relevant ones.

    Distances are relative to those of all items from the query: what is far from everything is far from its like.
    """
    none, n = np.empty((0, 2), np.int64), len(lessons)
    sums = list[Array]()
    for name in ("near", "far"):
        each = [getattr(lesson, name) for lesson in lessons]
        pairs, owner = np.concatenate([none, *each]), np.repeat(np.arange(n), [len(one) for one in each])
        gaps, (queries, query) = rows.unit_differences(pairs), np.unique(pairs[:, 0], return_inverse=True)
        distances = np.sqrt(_products(gaps, gaps)) / rows.remoteness(queries)[query]
        sums += [np.bincount(owner, minlength=n), np.bincount(owner, distances, n)]
    return np.stack([sums[0] + sums[2], sums[1] + sums[3], *sums[:2]], axis=1)


def _products(left: Array, right: Array) -> Array:
    return np.einsum("ij,ij->i", left, right)


def _name(lesson: Lesson) -> str:
    return lesson.user or NOBODY


def _names(lessons: list[Lesson]) -> list[str]:
    return [_name(lesson) for lesson in lessons]


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
