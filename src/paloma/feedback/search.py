"""FeedbackSearch: the object that people talk to."""

import json
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from .. import _validation as check
from .._threads import sharing, single
from .._typing import Array
from ._answers import Quality, Suggestion
from ._explain import Explanation, explained
from ._guard import LEAST, STRENGTHS
from ._log import Log
from ._metrics import Form
from ._model import FeedbackState, Model
from ._near import Near
from ._rows import Rows, checked_ids, reach_of
from ._statement import Item, Statement
from ._suggest import ASKED, ONE_IN, STRIDES, Relevance, marked, spread_choice

# Judged statements that a point of the curve is a mean of.
RECENT = 100
# Numbers of items, and, in units of their spread, of queries, that can be computed with.
LARGEST, FARTHEST = 1e100, 1e15
# Rows in float32 that differ by more, or less, are held in float64.
REACH = 1e15


class FeedbackSearch:
    """Nearest items under a metric that learns from what people say about results, never far from no feedback.

    A statement is learned as soon as it is said. The model is a function of the log of statements: removing one gives,
    bit for bit, the model that never heard it. Without statements distances are Euclidean, up to a factor: two random
    items have the mean squared distance 1.

    Parameters
    ----------
    X : (n, d) rows of the items. They need no labels.
    ids : (n,) whole numbers or strings; by default 0, 1, 2, ...
    lam : between 0 and 1: the weight of what all users have in common. Each user who speaks has a metric of his own on
        top of it, M = lam U + (1 - lam) L_user; others have the shared one.
    guard : whether statements are judged before they are learned, so that the metric follows them only as far as it
        predicts the next ones, and users who contradict the rows and all others are not believed.

    Examples
    --------
    >>> import numpy as np
    >>> from paloma.feedback import FeedbackSearch
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> search = FeedbackSearch(X / X.std(axis=0))
    >>> for query in range(0, 178, 3):
    ...     _, near = search.search(query, 10)
    ...     relevant = [int(item) for item in near if y[item] == y[query]]
    ...     _ = search.mark(query, relevant, [int(item) for item in near if y[item] != y[query]])
    >>> def precision(feedback):
    ...     return np.mean([y[search.search(q, 20, feedback=feedback)[1]] == y[q] for q in range(1, 178, 3)])
    >>> print(f"{precision(False):.2f} {precision(True):.2f}")
    0.91 0.92
    >>> search.undo(3), len(search.log)
    ([3], 59)
    """

    def __init__(self, X: ArrayLike, ids: Any = None, *, lam: float = 0.5, guard: bool = True) -> None:
        check.check_real("lam", lam, 0.0, 1.0)
        if not 0.0 < lam < 1.0:
            raise ValueError(f"FeedbackSearch: lam must lie between 0 and 1, got {lam!r}.")
        check.check_word("guard", guard, (True, False))
        rows = check_array(X, dtype=[np.float64, np.float32], estimator="FeedbackSearch", ensure_min_samples=2)
        if (largest := float(max(rows.max(), -rows.min()))) > LARGEST:
            raise ValueError(f"FeedbackSearch: X has numbers beyond {LARGEST:g}, whose products overflow; scale it.")
        if rows.dtype == np.float32 and not 1.0 / REACH < (reach_of(rows) or 1.0) < REACH:
            rows = rows.astype(np.float64)
        self.lam, self.guard = float(lam), bool(guard)
        names = list(range(len(rows))) if ids is None else checked_ids(ids, len(rows))
        self._rows = Rows(rows.copy(), names)
        self._model = Model(self._rows, self.lam, self.guard)
        self._next = 0
        self._farthest = largest + FARTHEST * np.sqrt(self._rows.spread)
        self._near, self._prepared = Near(self._rows.X), self._model.base
        self._forms: tuple[FeedbackState, dict[tuple[str | None, bool], Form]] = (self._model.live, {})
        self._lock, self._preparing = threading.RLock(), threading.Lock()

    def __repr__(self) -> str:
        n = len(self._log)
        return f"FeedbackSearch of {len(self):,} items after {n:,} statement{'s' * (n != 1)}"

    def __len__(self) -> int:
        return len(self._rows.ids)

    @property
    def ids(self) -> list[Item]:
        """Ids of all items."""
        return list(self._rows.ids)

    @property
    def X(self) -> Array:
        """(n, d) rows of the items, which must not be changed."""
        view = self._rows.X.view()
        view.flags.writeable = False
        return view

    @property
    def log(self) -> list[Statement]:
        """All statements, in the order in which they were learned: the model is a function of this list."""
        return list(self._log)

    @property
    def said(self) -> list[Item]:
        """Ids of the statements of `log`."""
        return list(self._log.ids)

    def statement(self, id: Item) -> Statement | None:
        """The statement of an id, if there is one."""
        return self._log.get(id)

    def n_before(self, user: str | None) -> int:
        """How many statements were heard before the last one of a user; all, if there is none of his.

        >>> search = FeedbackSearch([[0.0], [1.0], [2.0]])
        >>> search.mark(0, [1], [2], user="anna"), search.mark(1, [0], [2])
        (0, 1)
        >>> search.n_before("anna"), search.n_before("ben")
        (0, 2)
        """
        log = self._log
        return next((k for k in reversed(range(len(log))) if log[k].user == user), len(log))

    @property
    def _log(self) -> Log:
        return self._model.log

    @property
    def state(self) -> FeedbackState:
        """What the log taught up to its last full page, which is `state.n` statements long; see `resume`."""
        return self._model.base

    def resume(self, log: Sequence[Statement | Mapping[str, Any]], state: FeedbackState | None = None) -> None:
        """Hear a log anew, in place of what was heard; `state` is what its first `state.n` statements led to before.

        The result is that of hearing all of it, to the bit, if `state` is that of the same items and statements.
        """
        said = [each if isinstance(each, Statement) else Statement.from_dict(each) for each in log]
        names = {each.id for each in said}
        if len(names) < len(said):
            raise ValueError("FeedbackSearch: two statements have one id.")
        if state is not None and (state.n > len(said) or state.root.shape != (self._rows.X.shape[1],) * 2):
            raise ValueError("FeedbackSearch: the state is of another log, or of items of another width.")
        for each in said:
            self._rows.check(each)
        with self._lock, single():
            fresh = self._model.after(0)
            self._model = fresh.resumed(state or fresh.base, said)
            self.prepare()
            self._next = max((each + 1 for each in names if isinstance(each, int)), default=0)

    # -- saying ------------------------------------------------------------------------------------------------------

    def tell(self, statement: Statement | Mapping[str, Any]) -> Item:
        """Learn a statement, or a dict of one, and return its id. One that was heard already changes nothing."""
        return self.tell_all([statement])[0]

    def tell_all(self, statements: Sequence[Statement | Mapping[str, Any]], *, prepare: bool = True) -> list[Item]:
        """Learn statements in order: the same as telling one after the other, to the bit, but faster.

        Either all of them are learned, or, if one is refused, none. prepare : see the method of that name.
        """
        said = [each if isinstance(each, Statement) else Statement.from_dict(each) for each in statements]
        with self._lock, single():
            new: dict[Item, Statement] = {}
            for each in said:
                known = self._log.get(each.id) or new.setdefault(each.id, each)
                if known != each:
                    raise ValueError(f"FeedbackSearch: statement {each.id!r} was said before, with other content.")
            for each in new.values():
                self._rows.check(each)
            self._model.hear(list(new.values()))
            if prepare:
                self.prepare()
            self._next = max([self._next, *(each + 1 for each in new if isinstance(each, int))])
            return [each.id for each in said]

    def mark(
        self, query: Any, relevant: Any = (), irrelevant: Any = (), *, grades: Any = (), user: str | None = None,
        id: Item | None = None, time: float | None = None,
    ) -> Item:  # fmt: skip
        """Results that are, and that are not, what was looked for; `query` is an item or a row.

        grades : one number for each relevant item, larger is nearer.
        """
        return self._say(id, query=query, relevant=relevant, irrelevant=irrelevant, grades=grades, user=user, time=time)

    def compare(
        self, query: Any, nearer: Item, farther: Item, *, user: str | None = None, id: Item | None = None,
        time: float | None = None,
    ) -> Item:  # fmt: skip
        """One item is nearer to the query than another."""
        return self._say(id, query=query, relevant=(nearer,), irrelevant=(farther,), user=user, time=time)

    def together(
        self, items: Sequence[Item], *, user: str | None = None, id: Item | None = None, time: float | None = None
    ) -> Item:
        """These items belong together; at least two."""
        given: Any = items
        if not isinstance(given, Sized) or isinstance(given, str) or len(given) < 2:
            raise ValueError(f"FeedbackSearch: together needs at least two items, got {items!r:.200}.")
        return self._say(id, sets=(items,), user=user, time=time)

    def label(
        self, items: Sequence[Item], y: ArrayLike, *, user: str | None = None, id: Item | None = None,
        time: float | None = None,
    ) -> Item:  # fmt: skip
        """Classes of some items: those of one class belong together, others do not."""
        named, labels = (
            [items] if isinstance(items, str) or not isinstance(items, Iterable) else [*items],
            np.asarray(y),
        )
        if labels.shape != (len(named),):
            raise ValueError(f"FeedbackSearch: y must have one label for each of the {len(named)} items.")
        if any(own is None or own != own for own in labels.tolist()):
            raise ValueError("FeedbackSearch: y has a label that is missing; leave such items out.")
        classes, codes = np.unique(labels, return_inverse=True)
        sets: list[list[Item]] = [[] for _ in classes]
        for item, code in zip(named, codes.tolist(), strict=True):
            sets[code].append(item)
        return self._say(id, sets=sets, user=user, time=time)

    def _say(self, name: Item | None, **content: Any) -> Item:
        with self._lock:
            return self.tell(Statement(id=self._next if name is None else name, **content))

    def undo(
        self, statement: Item | Sequence[Item] | None = None, *, user: str | None = None, since: float | None = None,
        until: float | None = None,
    ) -> list[Item]:  # fmt: skip
        """Forget a statement, or several, or all of a user, or of a time (since <= time < until), or what is all of it.

        What is left is, bit for bit, the model that never heard them. Returns the ids of what was forgotten.
        """
        if statement is None and user is None and since is None and until is None:
            raise ValueError("FeedbackSearch: undo what? Give a statement's id, a user, since or until.")
        for name, value in (("since", since), ("until", until)):
            check.check_real(name, 0.0 if value is None else value, -np.inf, np.inf)
        with self._lock, single():
            log = self._log
            places = range(len(log)) if statement is None else self._places_of(statement)
            gone = [k for k in places if _meant(log[k], user, since, until)]
            if gone:
                self._model = self._model.without(gone)
                self.prepare()
            return [log.ids[k] for k in gone]

    def _places_of(self, statement: Item | Sequence[Item]) -> Sequence[int]:
        """Where statements stand in the log, ascending."""
        named = [statement] if isinstance(statement, str) or not isinstance(statement, Iterable) else statement
        places = set[int]()
        for id in named:
            place = self._log.ids.place(id)
            if place is None:
                raise ValueError(f"FeedbackSearch: there is no statement {id!r} to undo.")
            places.add(place)
        return sorted(places)

    # -- reading -----------------------------------------------------------------------------------------------------

    def search(
        self, query: Any, k: int = 10, *, user: str | None = None, feedback: bool = True, metric: Array | None = None,
        among: Iterable[Item] | None = None, like: Iterable[Item] = (), unlike: Iterable[Item] = (),
    ) -> tuple[Array, list[Item]]:  # fmt: skip
        """Distances and ids of the k nearest items, nearest first; an item that is the query is left out.

        query : an item's id, or a row. user : whose metric ranks; one who never spoke, and None, have the shared one.
        feedback : False ranks as if nothing had been said. metric : ranks instead, e.g. one that was (`metric_matrix`).
        among : ids of the items that are ranked, e.g. those that a database finds near; None: all of them.
        like, unlike : ids of examples of what this query is for, and of what it is not, which move it toward the ones
        and away from the others. Nothing is learned from them; `mark` does that.

        If there are many items, candidates come from the shared metric as it was at the last full page of statements,
        and are ranked exactly.

        >>> search = FeedbackSearch([[0.0], [1.0], [2.0], [4.0]])
        >>> search.search(0, 2, among=[0, 3, 2])[1]
        [2, 3]
        """
        check.check_count("k", k)
        own = self._place(query)
        row = self._rows.take(np.array([own]))[0] if own is not None else self._row(query)
        row = self._rows.moved(row, self._rows.among(like), self._rows.among(unlike))
        given = None if among is None else self._rows.among(among)
        n = len(self) - (own is not None) if given is None else len(given) - (own in given)
        if k > n:
            others = f" beside the query, {n}" if own is not None else f", {n}"
            raise ValueError(f"FeedbackSearch: k={k} is more than the items that there are{others}.")
        model = self._model
        with single():
            form = self._form(user, feedback) if metric is None else Form(None, metric)
            if given is not None:
                places = given
            elif self._near.few:
                places = self._near.exact(row, k, form, form)
            else:
                places = self._near.rough(row, k, model.page_form if feedback else None)
            if own is not None:
                places = places[places != own]
            values = form.values(self._rows.X[places] - row)
        order = np.argsort(values, kind="stable")[:k]
        found = places[order]
        return np.sqrt(np.maximum(values[order], 0.0)), [self._rows.ids[place] for place in found]

    def _form(self, user: str | None, feedback: bool) -> Form:
        """The metric that ranks; those of the newest state are kept."""
        model, (live, kept) = self._model, self._forms
        if live is not model.live:
            live, kept = self._forms = model.live, {}
        key = user, feedback
        if key not in kept:
            kept[key] = model.form(user, None if feedback else 0.0)
        return kept[key]

    def prepare(self) -> None:
        """Make candidates of many items those of the last full page; saying does so, unless another thread is to."""
        with self._preparing, sharing(*3 * (self._rows.X.shape[1],)):
            if not self._near.few and self._prepared is not self._model.base:
                self._prepared = self._model.base
                self._near.renew(self._model.page_form())

    def _place(self, query: Any) -> int | None:
        """Number of the item that the query is; None if it is a row."""
        if isinstance(query, Sequence | np.ndarray) and not isinstance(query, str):
            return None
        if not isinstance(query, Hashable) or query not in self._rows.places:
            raise ValueError(f"FeedbackSearch: there is no item {query!r}.")
        return self._rows.places[query]

    def _row(self, query: Any) -> Array:
        try:
            row = np.asarray(query, np.float64)
        except (TypeError, ValueError):
            row = np.empty(0)
        if row.shape != (self._rows.X.shape[1],) or not np.isfinite(row).all():
            raise ValueError(f"FeedbackSearch: a query is an item, or a row of {self._rows.X.shape[1]} finite numbers.")
        if np.abs(row).max() > self._farthest:
            raise ValueError(f"FeedbackSearch: a query has numbers up to {self._farthest:g} among these items.")
        return row

    def metric_matrix(self, user: str | None = None, *, after: int | None = None) -> Array:
        """M as it is published, (d, d): d(q, x)^2 = (q - x)^T M (q - x).

        after : as it was after so many statements of the log; None: after all of them.
        """
        check.check_count("after", 0 if after is None else after, 0)
        if after is not None and after > len(self._log):
            raise ValueError(f"FeedbackSearch: after={after} is more than what was said, {len(self._log)} statements.")
        with single():
            return (self._model if after is None else self._model.after(after)).metric(user)

    def quality(self) -> Quality:
        """How well the metric predicts what people say, and what the guard makes of it."""
        state = self._model.base
        scores, column = state.judged.believed(state.distrusted), STRENGTHS.index(state.strength)
        before, now = (float(scores[:, k].mean()) if len(scores) else 0.5 for k in (0, column))
        distrusted = tuple(sorted(state.distrusted))
        return Quality(len(self._log), len(state.judged), before, now, state.strength, distrusted)

    def curve(self, n_points: int = 200) -> Array:
        """How quality went, (p, 3): judged statements, and the shares without feedback and as published.

        Each point is a mean over the last RECENT judged statements, to a page if they are long ago; the share as
        published is at today's strength. What an undo, or learning a log again, had no need to judge, long ago, is
        left out.
        """
        state = self._model.base
        scores = state.judged.scores.shares[:, [0, STRENGTHS.index(state.strength)]]
        numbers = np.flatnonzero(~np.isnan(scores[:, 0]))
        scores = scores[numbers]
        ends = np.unique(np.linspace(min(len(scores), LEAST), len(scores), n_points).astype(int))
        sums = np.concatenate([np.zeros((1, 2)), scores.cumsum(axis=0)])
        starts = np.maximum(ends - RECENT, 0)
        counts = np.concatenate([[0], numbers + 1])[ends]
        return np.column_stack([counts, (sums[ends] - sums[starts]) / np.maximum(ends - starts, 1)[:, None]])

    def explain(self, query: Any, item: Item, *, user: str | None = None, n_directions: int = 5) -> Explanation:
        """Why an item is as near to the query as it is, feature by feature, and what feedback changed about it."""
        own, other = self._place(query), self._place(item)
        if other is None:
            raise ValueError("FeedbackSearch: explain a query and an item.")
        row = self._row(query) if own is None else self._rows.take(np.array([own]))[0]
        difference = row - self._rows.take(np.array([other]))[0]
        return explained(difference, self._model.metric(user), self._model.metric(user, 0.0), n_directions)

    def suggest(self, n: int = 1, *, k: int = 10, user: str | None = None, n_tried: int = 100) -> list[Suggestion]:
        """Questions whose answers teach most: n queries, each with k results to be marked.

        Of `n_tried` items that nobody has asked about those are taken whose answers are likely to name relevant and
        irrelevant items alike, judged by the distances of what was marked so far, and that are far from each other and
        from the last ones that were asked about. If the first k results are too much alike for that, every third or
        tenth one of more is shown.
        """
        check.check_count("n", n)
        check.check_count("n_tried", n_tried)
        metric, n_said = self._model.metric(user), len(self._log)
        recent = self._log[-ASKED:]
        asked = {said.query for said in recent if not isinstance(said.query, tuple)}
        free = np.array([place for place, item in enumerate(self._rows.ids) if item not in asked], np.intp)
        tried = np.random.default_rng(n_said).permutation(free)[: max(n_tried, n)]
        pairs, relevant = marked(reversed(recent), self._rows)
        gaps = self._rows.take(pairs[:, 0]) - self._rows.take(pairs[:, 1])
        likely = Relevance(((gaps @ metric) * gaps).sum(axis=1), relevant)
        steps = [step for step in STRIDES if step == 1 or ONE_IN * step * k <= len(self)]
        found = [self.search(self._rows.ids[place], min(steps[-1] * k, len(self) - 1), user=user) for place in tried]
        chances = [likely(distances**2) for distances, _ in found]
        shares = np.array([[each[::step][:k].mean() for step in steps] for each in chances]).reshape(-1, len(steps))
        mixed = shares * (1.0 - shares)
        best = int(mixed.mean(axis=0).argmax()) if len(tried) else 0
        shown = [tuple(near[:: steps[best]][:k]) for _, near in found]
        past = self._rows.take(np.unique(pairs[:, 0]))
        chosen = spread_choice(mixed[:, best], self._rows.take(tried), metric, n, past)
        return [Suggestion(self._rows.ids[tried[each]], shown[each]) for each in chosen]

    # -- as plain data -----------------------------------------------------------------------------------------------

    def __paloma_state__(self) -> dict[str, Any]:
        """Items and the log; the rest is learned again from them."""
        with self._lock:
            return {
                "X": self._rows.X,
                "ids": _packed(self._rows.ids),
                "lam": self.lam,
                "guard": self.guard,
                "log": _packed([said.as_dict() for said in self._log]),
            }

    @classmethod
    def __paloma_restore__(cls, state: dict[str, Any]) -> Self:
        out = cls(state["X"], _unpacked(state["ids"]), lam=state["lam"], guard=state["guard"])
        out.resume(_unpacked(state["log"]))
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return FeedbackSearch.__paloma_restore__, (self.__paloma_state__(),)


def _packed(values: list[Any]) -> Array:
    """Plain values as the bytes of their JSON: lists may be long."""
    return np.frombuffer(json.dumps(values, allow_nan=False).encode(), np.uint8)


def _unpacked(data: Array) -> list[Any]:
    return list(json.loads(data.tobytes()))


def _meant(said: Statement, user: str | None, since: float | None, until: float | None) -> bool:
    """Whether a statement is of a user and a span of time; one without a time is in no such span."""
    if since is not None or until is not None:
        if said.time is None or said.time < (-np.inf if since is None else since):
            return False
        if until is not None and said.time >= until:
            return False
    return user is None or said.user == user
