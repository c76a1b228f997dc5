"""Lines of a file or of a stream that is still being written, in blocks; and how to stop between two of them."""

import io
import os
import select
import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Self

_READ = 1 << 20


class Interrupt:
    """Turns Ctrl-C and SIGTERM into a wish that is granted between two batches: a batch is learnt as a whole.

    While `waiting` for input nothing is half done, and the wait ends at once; a second Ctrl-C ends everything.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._wish) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _wish(self, number: int, _: FrameType | None) -> None:
        if self.waiting or self.signal:
            self.signal = number
            raise KeyboardInterrupt
        self.signal = number

    @property
    def exit_code(self) -> int:
        """0, or the usual code of a command that a signal ended."""
        return 128 + self.signal if self.signal else 0


def lines_of(path: Path, size: int) -> Iterator[list[str]]:
    """Blocks of `size` lines of a text file."""
    with path.open(encoding="utf-8-sig") as file:
        while block := list(islice(file, size)):
            yield block


def follow(stream: BinaryIO, size: int, patience: float, interrupt: Interrupt) -> Iterator[list[str]]:
    """Blocks of `size` lines of a stream; after `patience` seconds of silence what there is, or an empty block.

    So the blocks of a stream that never pauses do not depend on how its bytes arrive.
    """
    rest, waiting = b"", list[str]()
    while not interrupt.signal:
        data = _read(stream, patience, interrupt)
        if data is None:
            yield waiting
            waiting = []
            continue
        rest += data
        whole, _, rest = rest.rpartition(b"\n") if data else (rest, b"", b"")
        if whole or data.startswith(b"\n"):
            waiting += whole.decode("utf-8").split("\n")
        for a in range(0, len(waiting) - size + 1, size):
            yield waiting[a : a + size]
        waiting = waiting[len(waiting) - len(waiting) % size :]
        if not data:
            break
    if waiting:
        yield waiting


def _read(stream: BinaryIO, patience: float, interrupt: Interrupt) -> bytes | None:
    """What there is to read, b"" at the end, None after `patience` seconds or where a signal ended the wait."""
    interrupt.waiting = True
    try:
        ready = select.select([stream], [], [], patience)[0]
        return os.read(stream.fileno(), _READ) if ready else None
    except io.UnsupportedOperation:  # a stream in memory
        return stream.read(_READ)
    except KeyboardInterrupt:
        return None
    finally:
        interrupt.waiting = False
