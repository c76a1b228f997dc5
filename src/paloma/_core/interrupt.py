"""Ctrl-C while a model learns: it takes effect before learning begins or when it is done, never in the middle."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Hold:
    """Whether learning has begun, and whether Ctrl-C was pressed since."""

    def __init__(self) -> None:
        self.learning = self.received = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        if not self.learning:
            signal.default_int_handler(number, frame)
        self.received = True


_current: list[_Hold] = []


@contextmanager
def whole_calls() -> Iterator[None]:
    """Hold back Ctrl-C from `learning_begins` to the end of this block, and raise KeyboardInterrupt then.

    Handlers of the program's own are left alone, and so are threads, which no signal interrupts.
    """
    handler = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not handler:
        yield
        return
    hold = _Hold()
    try:
        _current.append(hold)
        signal.signal(signal.SIGINT, hold.receive)
        yield
    finally:
        hold.learning = True  # so that nothing is raised before the handler is back
        signal.signal(signal.SIGINT, handler)
        if hold in _current:
            _current.remove(hold)
    if hold.received:
        raise KeyboardInterrupt


def learning_begins() -> None:
    """From here on, what is changed must be finished."""
    if _current and threading.current_thread() is threading.main_thread():
        _current[-1].learning = True
