"""What people say, as plain data, and what it teaches: pairs that should be near, pairs that should not, triplets.

Every statement teaches with a total weight of at most 1, however long its lists are, and with at most MAX_TAUGHT pairs
and triplets of each kind.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Self
from zlib import crc32

import numpy as np

from .._typing import Array

Item = int | str
MAX_TAUGHT = 64
IMPLIED = 0.5


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that somebody said. Plain data: `as_dict` and `from_dict` are each other's inverse.

    Parameters
    ----------
    id : a whole number or a string; saying a statement twice changes nothing.
    query : the item that the lists are about, or a row of numbers if it is no item; None if there are only sets.
    relevant, irrelevant : items that should, and that should not, be near the query.
    grades : one number for each of `relevant`, larger is nearer; empty: all alike.
    sets : items of one set belong together, those of different sets do not.
    user : who says it; None: nobody in particular.
    time : a number, of any clock; None: unknown.

    Examples
    --------
    >>> from paloma.feedback import Statement
    >>> said = Statement(id=1, query=3, relevant=[4, 5], irrelevant=[9], user="anna")
    >>> Statement.from_dict(said.as_dict()) == said
    True
    """

    id: Item
    query: Any = None
    relevant: tuple[Item, ...] = ()
    irrelevant: tuple[Item, ...] = ()
    grades: tuple[float, ...] = ()
    sets: tuple[tuple[Item, ...], ...] = ()
    user: str | None = None
    time: float | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "id", _item(self.id, "id"))
        put(self, "relevant", _items(self.relevant, "relevant"))
        put(self, "irrelevant", _items(self.irrelevant, "irrelevant"))
        put(self, "grades", tuple(_number(grade, "grades") for grade in _listed(self.grades, "grades")))
        put(self, "sets", tuple(_items(each, "sets") for each in _listed(self.sets, "sets")))
        if self.query is not None:
            row = isinstance(self.query, Sequence | np.ndarray) and not isinstance(self.query, str)
            put(self, "query", tuple(_number(v, "query") for v in self.query) if row else _item(self.query, "query"))
        user: Any = self.user
        if user is not None and not (isinstance(user, str) and user.strip()):
            raise ValueError(f"Statement: user must be a string that is not blank, or None; got {self.user!r}.")
        put(self, "user", user and str(user))
        if self.time is not None:
            put(self, "time", _number(self.time, "time"))
        self._check()

    def _check(self) -> None:
        listed = bool(self.relevant or self.irrelevant)
        if listed == bool(self.sets) or listed != (self.query is not None):
            raise ValueError(
                "Statement: give a query with relevant or irrelevant items, or sets; not both, not neither."
            )
        if self.grades and len(self.grades) != len(self.relevant):
            raise ValueError(
                f"Statement: grades must have one number for each of the {len(self.relevant)} relevant items, got "
                f"{len(self.grades)}."
            )
        members = [*self.relevant, *self.irrelevant, *(item for each in self.sets for item in each)]
        if len(set(members)) < len(members):
            raise ValueError("Statement: an item stands in it twice; it can be in one list, or one set, only.")
        if self.query in members:
            raise ValueError("Statement: the query is among the items that it is compared with.")

    @property
    def items(self) -> tuple[Item, ...]:
        """All items that it speaks of; a query that is a row is none."""
        query = () if self.query is None or isinstance(self.query, tuple) else (self.query,)
        return (*query, *self.relevant, *self.irrelevant, *(item for each in self.sets for item in each))

    def as_dict(self) -> dict[str, Any]:
        """Names and plain values; what is empty is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None and value != ()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The statement of such a dict; unknown names are refused."""
        given: Any = values
        if not isinstance(given, Mapping) or "id" not in given:
            raise TypeError(f"Statement: expected a Statement, or a dict with an id, got {values!r:.200}.")
        if unknown := sorted(map(str, values.keys() - _NAMES)):
            raise ValueError(f"Statement: unknown entries {unknown}; there are {[f.name for f in fields(cls)]}.")
        return cls(**values)


_NAMES = frozenset(field.name for field in fields(Statement))


def _item(value: Any, what: str) -> Item:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise TypeError(f"Statement: {what} must be whole numbers or strings, got {value!r}.")


def _items(values: Any, what: str) -> tuple[Item, ...]:
    if isinstance(values, str | int | np.integer):
        values = (values,)
    return tuple(_item(value, what) for value in _listed(values, what))


def _listed(values: Any, what: str) -> Iterable[Any]:
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise TypeError(f"Statement: {what} must be a list, got {values!r}.")
    return values


def _number(value: Any, what: str) -> float:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not isfinite(value):
        raise ValueError(f"Statement: {what} must be finite numbers, got {value!r}.")
    return float(value)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a statement teaches, in numbers of rows: pairs, triplets (anchor, nearer, farther), a weight for each.

    pairs, sides : the distinct (anchor, item) of the triplets, and for each triplet which two of them it compares.

    The weights of each kind sum to 1, if there are any; to less in a list of relevant and irrelevant results (`_sums`).
    implied : nothing was said to be farther, so that triplets have random items there, and a total weight of IMPLIED;
    they are learned, but prove nothing. asked : about the results of a query.
    """

    user: str | None
    near: Array
    far: Array
    triplets: Array
    near_weight: Array
    far_weight: Array
    triplet_weight: Array
    pairs: Array
    sides: Array
    implied: bool = False
    asked: bool = False


def lesson_of(statement: Statement, number: Callable[[Any], int], n_items: int) -> Lesson:
    """`number` gives the number of an item's row, or of a query's; items have the numbers below n_items."""
    taught = Taught()
    if statement.sets:
        sets = [[number(item) for item in each] for each in statement.sets]
        everyone, first = [row for each in sets for row in each], 0
        for own in sets:
            apart = Without(everyone, first, len(own))
            first += len(own)
            for k, anchor in enumerate(own):
                taught.compare(anchor, Without(own, k, 1), (), apart)
    else:
        relevant, others = ([number(item) for item in each] for each in (statement.relevant, statement.irrelevant))
        taught.compare(number(statement.query), relevant, statement.grades, others)
    near, far, triplets = (_thinned(each) for each in (taught.near, taught.far, taught.triplets))
    implied = bool(near) and not triplets
    if implied:
        rng = np.random.default_rng(_seed(statement, _numbers(near, 2)))
        triplets = [(*pair[:2], int(rng.integers(n_items)), pair[2]) for pair in near]
    pairs = {pair: None for each in triplets for pair in (each[:2], each[:3:2])}
    place = {pair: number for number, pair in enumerate(pairs)}
    near_sum, far_sum, triplet_sum = (
        (1.0, 1.0, IMPLIED) if implied else _sums(len(statement.relevant), len(statement.irrelevant))
    )
    return Lesson(
        statement.user, _numbers(near, 2), _numbers(far, 2), _numbers(triplets, 3),
        near_sum * _weights(near), far_sum * _weights(far), triplet_sum * _weights(triplets),
        _numbers(list(pairs), 2), _numbers([(place[each[:2]], place[each[:3:2]]) for each in triplets], 2), implied,
        not statement.sets,
    )  # fmt: skip


def _seed(statement: Statement, near: Array) -> Array:
    """What the random items of a statement depend on: its items, and a query that is none by its content."""
    if isinstance(statement.query, tuple):
        near = near.copy()
        near[:, 0] = crc32(np.array(statement.query).tobytes())
    return near.ravel()


@dataclass(frozen=True)
class Without:
    """A list without some neighboring members, and without a copy of it."""

    whole: Sequence[int]
    start: int
    n_left_out: int

    def __len__(self) -> int:
        return len(self.whole) - self.n_left_out

    def __getitem__(self, k: int) -> int:
        return self.whole[k if k < self.start else k + self.n_left_out]


# So many tuples, and the k-th of them: of long lists there are far too many to be written down.
Part = tuple[int, Callable[[int], tuple[Any, ...]]]


class Taught:
    """Pairs and triplets of all anchors, each with its weight behind it."""

    def __init__(self) -> None:
        self.near, self.far, self.triplets = list[Part](), list[Part](), list[Part]()

    def compare(self, anchor: int, rows: Any, grades: Sequence[float], others: Any) -> None:
        """What one anchor teaches; grades may be empty: all alike."""
        n, n_others = len(rows), len(others)
        self.far.append((n_others, lambda k: (anchor, others[k], 1.0)))
        if not n:
            return
        halves = [0.5 * grade for grade in grades]  # so that no difference of two of them overflows
        low = min(halves, default=0.0)
        span = (max(halves, default=0.0) - low) or 1.0

        def weight(k: int) -> float:
            return 0.5 + 0.5 * (halves[k] - low) / span if halves else 0.5

        def told_apart(k: int) -> tuple[Any, ...]:
            row, other = divmod(k, n_others)
            return anchor, rows[row], others[other], weight(row)

        self.near.append((n, lambda k: (anchor, rows[k], weight(k))))
        self.triplets.append((n * n_others, told_apart))
        if halves:
            self._in_order(anchor, rows, halves, span)

    def _in_order(self, anchor: int, rows: Any, halves: list[float], span: float) -> None:
        """Triplets of one relevant row and another of a smaller grade."""
        levels = np.array(halves)
        ends = np.searchsorted(np.sort(levels), levels).cumsum()

        def graded(k: int) -> tuple[Any, ...]:
            row = int(np.searchsorted(ends, k, "right"))
            less = np.flatnonzero(levels < levels[row])
            other = int(less[k - int(ends[row])])  # counted from the end of those of the row
            return anchor, rows[row], rows[other], 0.5 * (halves[row] - halves[other]) / span

        self.triplets.append((int(ends[-1]), graded))


def _thinned(parts: list[Part]) -> list[Any]:
    """At most MAX_TAUGHT of them, evenly spaced."""
    n = sum(n for n, _ in parts)
    if n <= MAX_TAUGHT:
        return [of(k) for n, of in parts for k in range(n)]
    ends = np.cumsum([n for n, _ in parts], dtype=np.int64)
    chosen = np.linspace(0, n - 1, MAX_TAUGHT).astype(np.int64)
    places = np.searchsorted(ends, chosen, "right")
    return [parts[p][1](int(k - ends[p] + parts[p][0])) for k, p in zip(chosen, places, strict=True)]


def _numbers(taught: list[Any], width: int) -> Array:
    return np.array([each[:width] for each in taught], np.int64).reshape(-1, width)


def _sums(n_near: int, n_far: int) -> tuple[float, float, float]:
    """What pairs that are near, pairs that are not, and triplets of one list of results weigh in all (theory 25).

    A click among few of its kind is wrong more often than one among many, in the words of a user who errs.
    """
    if not n_near or not n_far:
        return 1.0, 1.0, 1.0
    share = n_near / (n_near + n_far)
    return share**0.5, (1.0 - share) ** 0.125, 2.0 * (share * (1.0 - share)) ** 0.5


def _weights(taught: list[Any]) -> Array:
    weight = np.array([each[-1] for each in taught])
    return weight / weight.sum() if len(weight) else weight
