"""One writer at a time: a lock beside a model file, which the system lets go of when its process ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..exceptions import ModelFileError

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
else:

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a model file from `load` to `save`, so that no other process that does so comes in between.

    The lock is a file ``.NAME.lock`` beside the model; it is gone afterwards, and does not outlive its process.

    Raises
    ------
    ModelFileError
        Another process holds the lock.

    Examples
    --------
    >>> import os, tempfile
    >>> from paloma.persist import locked
    >>> path = os.path.join(tempfile.mkdtemp(), "model.paloma")
    >>> with locked(path):
    ...     with locked(path):
    ...         pass
    Traceback (most recent call last):
        ...
    paloma.exceptions.ModelFileError: ...model.paloma is being updated by another process: wait for it to end, ...
    """
    real = Path(os.path.realpath(path))
    place = real.with_name(f".{real.name}.lock")
    handle = _opened(place, path)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not take away a file that is open
            place.unlink()
        os.close(handle)


def _opened(place: Path, path: Any) -> int:
    """A handle that holds the lock, on the file that is there: one that was taken away meanwhile locks nothing."""
    if not place.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {place.parent}.")
    while True:
        handle = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(handle)
            if os.path.samestat(os.fstat(handle), os.stat(place)):
                return handle
        except FileNotFoundError:
            pass
        except OSError:
            os.close(handle)
            raise ModelFileError(
                f"{path} is being updated by another process: wait for it to end, or write to another file."
            ) from None
        os.close(handle)
