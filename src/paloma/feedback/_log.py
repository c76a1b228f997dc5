"""The log of statements, packed: of all that a model holds it alone goes on growing, so it takes little room."""

import marshal
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, overload

import numpy as np

from ._statement import Item, Statement

_FIELDS = tuple(field.name for field in fields(Statement))
_VALUES = attrgetter(*_FIELDS)
_SHEET = 128  # statements that are compressed together; where some were undone, a half to one and a half as many


class Log(Sequence[Statement]):
    """Statements in the order in which they were said, no two of one id. What is there never changes; more may follow.

    One thread may add some while others read.

    ids : those of the statements, in that order.
    """

    def __init__(self, statements: Iterable[Statement] = ()) -> None:
        self.ids = _Ids()
        self._sheets: list[bytes] = []
        self._ends = array("q")  # how many statements there are up to the end of each sheet
        self._open: tuple[int, list[bytes]] = (0, [])  # the one after so many sheets, not compressed
        self._read: tuple[int, list[bytes]] = (-1, [])  # the sheet that was read last
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
        n_sheets, rest = self._open
        for number in range(bisect_right(self._ends, start, hi=n_sheets), n_sheets):
            if start >= stop:
                return found
            first, end = self._span(number)
            found += self._sheet(number)[start - first : stop - first]
            start = end
        first, _ = self._span(n_sheets)
        return found + rest[start - first : max(stop - first, 0)]

    def _span(self, number: int) -> tuple[int, int]:
        """How many statements come before a sheet, and up to its end; those of the open one have none yet."""
        end = self._ends[number] if number < len(self._ends) else len(self)
        return self._ends[number - 1] if number else 0, end

    def _sheet(self, number: int) -> list[bytes]:
        read = self._read
        if read[0] != number:
            read = self._read = number, marshal.loads(zlib.decompress(self._sheets[number]))
        return read[1]

    def extend(self, statements: Iterable[Statement]) -> None:
        """More of them, of ids that are not there yet."""
        for said in statements:
            if len(self._open[1]) >= _SHEET:
                self._close()
            self._open[1].append(marshal.dumps(_VALUES(said)))
            self.ids.add(said.id)

    def _close(self) -> None:
        """Compress the open sheet and begin another one."""
        rest = self._open[1]
        self._share(zlib.compress(marshal.dumps(rest), 1), len(rest))

    def _share(self, sheet: bytes, n: int) -> None:
        self._ends.append(self._span(len(self._sheets))[0] + n)
        self._sheets.append(sheet)
        self._open = len(self._sheets), []

    def first(self, n: int) -> "Log":
        """The log as it was after n statements."""
        return self._kept(n, [])

    def without(self, places: Iterable[int]) -> "Log":
        """The log without the statements at these places."""
        return self._kept(len(self), sorted(set(places)))

    def _kept(self, n: int, gone: list[int]) -> "Log":
        """The first n but for those at some places, which ascend. Sheets that lose none are shared.

        What is left of others waits for the next one until it is half a sheet.
        """
        out, (n_sheets, rest) = Log(), self._open
        for number in range(bisect_left(self._ends, n, hi=n_sheets) + 1):
            start, end = self._span(number)
            some = {place - start for place in gone[bisect_left(gone, start) : bisect_left(gone, end)]}
            if len(out._open[1]) >= _SHEET // 2:
                out._close()
            if number < n_sheets and end <= n and not some and not out._open[1]:
                out._share(self._sheets[number], end - start)
            else:
                sheet = rest if number == n_sheets else self._sheet(number)
                out._open[1].extend(data for k, data in enumerate(sheet[: n - start]) if k not in some)
        out.ids = self.ids.without(n, gone)
        return out


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

    def without(self, n: int, gone: Sequence[int]) -> "_Ids":
        """The first n but for those at some places, which ascend."""
        ids, places_of = self._held
        kept, start = ids[:0], 0
        for place in (*gone, n):
            kept += ids[start:place]
            start = place + 1
        out = _Ids()
        out._held = kept, None if places_of is None else {each: k for k, each in enumerate(kept)}
        return out

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
