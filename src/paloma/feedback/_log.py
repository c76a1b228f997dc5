"""The log of statements, each as a string of bytes: of all that a model holds this alone goes on growing."""

import marshal
from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import overload

from ._statement import Item, Statement

_FIELDS = tuple(field.name for field in fields(Statement))
_VALUES = attrgetter(*_FIELDS)


class Log(Sequence[Statement]):
    """Statements in the order in which they were said, no two of one id. What is there never changes; more may follow.

    ids : those of the statements, in that order.
    """

    def __init__(self, statements: Iterable[Statement] = ()) -> None:
        self.ids: list[Item] = []
        self._packed: dict[Item, bytes] = {}
        self.extend(statements)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, k: int) -> Statement: ...
    @overload
    def __getitem__(self, k: slice) -> list[Statement]: ...
    def __getitem__(self, k: int | slice) -> Statement | list[Statement]:
        if isinstance(k, slice):
            return [unpacked(self._packed[id]) for id in self.ids[k]]
        return unpacked(self._packed[self.ids[k]])

    def get(self, id: Item) -> Statement | None:
        """The statement of an id, if there is one."""
        found = self._packed.get(id)
        return None if found is None else unpacked(found)

    def packed(self, start: int, stop: int) -> list[bytes]:
        """Some of them as `unpacked` takes them."""
        return [self._packed[id] for id in self.ids[start:stop]]

    def extend(self, statements: Iterable[Statement]) -> None:
        """More of them, of ids that are not there yet."""
        for said in statements:
            self._packed[said.id] = marshal.dumps(_VALUES(said))
            self.ids.append(said.id)

    def only(self, ids: Iterable[Item]) -> "Log":
        """The log of some of them, in the order of `ids`."""
        out = Log()
        out.ids = list(ids)
        out._packed = {id: self._packed[id] for id in out.ids}
        return out


def unpacked(data: bytes) -> Statement:
    """The statement, which was checked when it was made."""
    said = object.__new__(Statement)
    for name, value in zip(_FIELDS, marshal.loads(data), strict=True):
        object.__setattr__(said, name, value)
    return said
