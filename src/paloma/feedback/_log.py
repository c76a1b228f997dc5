"""The log of statements, packed: of all that a model holds it alone goes on growing, so it takes little room."""

import marshal
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, overload

import numpy as np

from ._statement import Item, Statement

_FIELDS = tuple(field.name for field in fields(Statement))
_VALUES = attrgetter(*_FIELDS)
_SHEET = 128  # statements that are compressed together


class Log(Sequence[Statement]):
    """Statements in the order in which they were said, no two of one id. What is there never changes; more may follow.

    One thread may add some while others read.

    ids : those of the statements, in that order.
    """

    def __init__(self, statements: Iterable[Statement] = ()) -> None:
        self.ids = _Ids()
        self._sheets: list[bytes] = []  # full ones
        self._open: tuple[int, list[bytes]] = (0, [])  # the one after so many full ones, not compressed
        self._read: tuple[int, list[bytes]] = (-1, [])  # the full one that was read last
        self.extend(statements)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Statement]:
        for number in range(-(-len(self) // _SHEET)):
            yield from self[number * _SHEET : (number + 1) * _SHEET]

    @overload
    def __getitem__(self, k: int) -> Statement: ...
    @overload
    def __getitem__(self, k: slice) -> list[Statement]: ...
    def __getitem__(self, k: int | slice) -> Statement | list[Statement]:
        if isinstance(k, slice):
            start, stop, step = k.indices(len(self))
            return [unpacked(data) for data in self.packed(start, stop)[::step]]
        place = range(len(self))[k]
        return unpacked(self.packed(place, place + 1)[0])

    def get(self, id: Item) -> Statement | None:
        """The statement of an id, if there is one."""
        place = self.ids.place(id)
        return None if place is None else self[place]

    def packed(self, start: int, stop: int) -> list[bytes]:
        """Some of them as `unpacked` takes them."""
        found: list[bytes] = []
        for number in range(start // _SHEET, -(-stop // _SHEET)):
            first = number * _SHEET
            found += self._sheet(number)[max(start - first, 0) : stop - first]
        return found

    def _sheet(self, number: int) -> list[bytes]:
        n_full, rest = self._open
        if number >= n_full:
            return rest
        read = self._read
        if read[0] != number:
            read = self._read = number, marshal.loads(zlib.decompress(self._sheets[number]))
        return read[1]

    def extend(self, statements: Iterable[Statement]) -> None:
        """More of them, of ids that are not there yet."""
        for said in statements:
            self._add(said.id, marshal.dumps(_VALUES(said)))

    def _add(self, id: Item, data: bytes) -> None:
        n_full, rest = self._open
        if len(rest) == _SHEET:
            self._sheets.append(zlib.compress(marshal.dumps(rest), 1))
            n_full, rest = self._open = n_full + 1, []
        rest.append(data)
        self.ids.add(id)

    def first(self, n: int) -> "Log":
        """The log as it was after n statements."""
        out, n_full = Log(), n // _SHEET
        out._sheets, out._open = self._sheets[:n_full], (n_full, [])
        for id in self.ids[: n_full * _SHEET]:
            out.ids.add(id)
        out._add_all(self, range(n_full * _SHEET, n))
        return out

    def without(self, places: Iterable[int]) -> "Log":
        """The log without the statements at these places, one at least."""
        gone = set(places)
        out = self.first(min(gone))
        out._add_all(self, [k for k in range(len(out), len(self)) if k not in gone])
        return out

    def _add_all(self, other: "Log", places: Sequence[int]) -> None:
        if len(places):
            data = other.packed(places[0], places[-1] + 1)
            for place in places:
                self._add(other.ids[place], data[place - places[0]])


class _Ids(Sequence[Item]):
    """Ids in order. Whole numbers that only grow, as those do that nobody chose, take eight bytes each."""

    def __init__(self) -> None:
        self._held: tuple[Any, dict[Item, int] | None] = (array("q"), None)

    def __len__(self) -> int:
        return len(self._held[0])

    @overload
    def __getitem__(self, k: int) -> Item: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Item]: ...
    def __getitem__(self, k: int | slice) -> Item | Sequence[Item]:
        found: Item | Sequence[Item] = self._held[0][k]
        return found

    def __iter__(self) -> Iterator[Item]:
        return iter(self._held[0])

    def place(self, id: Item) -> int | None:
        """Where an id stands, if it does."""
        ids, places = self._held
        if places is not None:
            return places.get(id)
        if not isinstance(id, int | np.integer):
            return None
        place = bisect_left(ids, id)
        return place if place < len(ids) and ids[place] == id else None

    def add(self, id: Item) -> None:
        """One more at the end."""
        ids, places = self._held
        if places is None and not (isinstance(id, int) and abs(id) < 2**63 and (not ids or id > ids[-1])):
            ids, places = self._held = list(ids), {each: k for k, each in enumerate(ids)}
        if places is not None:
            places[id] = len(ids)
        ids.append(id)


def unpacked(data: bytes) -> Statement:
    """The statement, which was checked when it was made."""
    said = object.__new__(Statement)
    for name, value in zip(_FIELDS, marshal.loads(data), strict=True):
        object.__setattr__(said, name, value)
    return said
