"""Lines of a file, or of a stream that is still being written, in blocks; and how to stop between blocks."""

import gzip
import io
import os
import select
import signal
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Self

_READ = 1 << 20


class Interrupt:
    """Defers Ctrl-C and SIGTERM until the current batch is learned.

    While `waiting` for input, the wait ends immediately. A second Ctrl-C raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self.waiting or self.signal:
            self.signal = number
            raise KeyboardInterrupt
        self.signal = number

    @property
    def exit_code(self) -> int:
        """0, or the conventional exit code for the signal received."""
        return 128 + self.signal if self.signal else 0


def suffix_of(path: Path) -> str:
    """The suffix of a file name in lower case; of a compressed file, that before .gz."""
    return Path(path.stem if path.suffix.lower() == ".gz" else path).suffix.lower()


def lines_of(path: Path, size: int, advance: Callable[[int], None] = lambda n_bytes: None) -> Iterator[list[str]]:
    """Blocks of `size` lines of a text file, which may be compressed by gzip; `advance` counts the bytes read."""
    with path.open("rb") as raw:
        whole: Any = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
        file, at = io.TextIOWrapper(whole, encoding="utf-8-sig"), 0
        try:
            while block := list(islice(file, size)):
                advance(raw.tell() - at)
                at = raw.tell()
                yield block
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not text in UTF-8 ({error}). Save it as UTF-8 first.") from None


def follow(stream: BinaryIO, size: int, patience: float, interrupt: Interrupt) -> Iterator[list[str]]:
    """Blocks of `size` lines of a stream; after `patience` seconds without input, the lines so far, possibly none.

    The blocks of a stream that never pauses do not depend on how its bytes arrive.
    """
    rest, waiting, encoding = b"", list[str](), "utf-8-sig"
    while not interrupt.signal:
        data = _read(stream, patience, interrupt)
        if data is None:
            yield waiting
            waiting = []
            continue
        rest += data
        whole, _, rest = rest.rpartition(b"\n") if data else (rest, b"", b"")
        if whole or data.startswith(b"\n"):
            waiting += whole.decode(encoding).split("\n")
            encoding = "utf-8"
        for a in range(0, len(waiting) - size + 1, size):
            yield waiting[a : a + size]
        waiting = waiting[len(waiting) - len(waiting) % size :]
        if not data:
            break
    if waiting:
        yield waiting


def _read(stream: BinaryIO, patience: float, interrupt: Interrupt) -> bytes | None:
    """Available bytes, b"" at the end, None after `patience` seconds or if a signal ended the wait."""
    interrupt.waiting = True
    try:
        ready = select.select([stream], [], [], patience)[0]
        return os.read(stream.fileno(), _READ) if ready else None
    except io.UnsupportedOperation:  # a stream in memory
        return stream.read(_READ)
    except KeyboardInterrupt:
        if not interrupt.signal:
            raise
        return None
    finally:
        interrupt.waiting = False
