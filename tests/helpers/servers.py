"""Servers that start quickly and are killed: one process imports everything, and each server is a fork of it."""

import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

TOKEN = "a-token-for-tests-0123456789"
POINTS = ("write", "synced", "note", "learn", "learned", "temporary", "renamed", "start")
_ROOT = Path(__file__).resolve().parents[1]


class Servers:
    """`start` forks a server of a folder; at most one at a time runs, and all of them at one port, which is held.

    A port that were free between two servers could go to somebody else's, and a client that tries again would find it.
    """

    def __init__(self, folder: Path) -> None:
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # bound and not listening: a server may too
        self._held.bind(("127.0.0.1", 0))
        command = [sys.executable, "-m", "helpers.servers", str(folder), str(self._held.getsockname()[1])]
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        surroundings = {**os.environ, **one, "PYTHONPATH": path}
        self._parent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings
        )
        self.pid = self.port = 0

    def start(self, point: str = "", count: int = 0) -> None:
        """Start a server, which kills itself when it comes to a point for the count-th time."""
        self._tell(f"{point or '-'} {count}")
        self.pid = int(self._line())
        self.port = int(self._line() or 0)  # nothing if it died before it was there

    def kill(self) -> None:
        """Kill -9, unless it has done so itself."""
        os.kill(self.pid, signal.SIGKILL)  # it stays a zombie until the parent is told
        self.ended()

    def ended(self) -> int:
        """Wait for its end; the signal that ended it."""
        self._tell("wait")
        return int(self._line())

    def alive(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    def close(self) -> None:
        self._parent.stdin.close()
        self._parent.wait(30)
        self._parent.stdout.close()
        self._held.close()

    def _tell(self, line: str) -> None:
        print(line, file=self._parent.stdin, flush=True)

    def _line(self) -> str:
        return self._parent.stdout.readline().strip()


def _forks(folder: Path, port: int) -> None:
    """The parent: a fork for each line of a point and a count, its exit status for each "wait"."""
    from helpers.service import some_digits
    from paloma.feedback import FeedbackSearch
    from paloma.serve import _app, _engine, _safety, _snapshots, serve  # noqa: F401  what a server needs, loaded once

    items, child = some_digits(), 0
    _snapshots.EVERY = 48
    warm = FeedbackSearch(items.vectors)
    for k in range(40):
        warm.mark(k, [k + 1], [k + 2], user=("anna", None)[k % 2])
    for line in sys.stdin:
        if line == "wait\n":
            print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
            continue
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            point, count = line.split()
            _die_at(point, int(count))
            serve(folder, items, port=port, tokens={TOKEN: "admin"}, ready=partial(_tell_port, writer))
            os._exit(0)
        os.close(writer)
        print(child, flush=True)
        with os.fdopen(reader) as answer:
            print(answer.readline().strip(), flush=True)


def _tell_port(handle: int, address: str) -> None:
    os.write(handle, address.rpartition(":")[2].partition("/")[0].encode() + b"\n")
    os.close(handle)


def _die_at(point: str, count: int) -> None:
    """Make this process kill itself when it comes to a point for the count-th time."""
    from paloma.serve import _engine, _journal, _served

    left = [count]

    def here(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)

    def before(owner: Any, name: str) -> None:
        known = getattr(owner, name)
        setattr(owner, name, lambda *given, **named: (here(), known(*given, **named))[1])

    def after(owner: Any, name: str) -> None:
        known = getattr(owner, name)
        setattr(owner, name, lambda *given, **named: (known(*given, **named), here())[0])

    if point in ("write", "synced"):
        from helpers.disk import WatchedSystem

        system, opened = WatchedSystem("watched", here, point), _journal.Journal
        _engine.Journal = lambda path, vfs=None: opened(path, vfs=system.name)
    elif point in ("note", "learn"):
        before(_served.Served, point)
    elif point == "learned":
        after(_served.Served, "learn")
    elif point == "temporary":
        before(Path, "replace")
    elif point == "renamed":
        after(Path, "replace")
    elif point == "start":
        before(_engine.Snapshots, "state_for")


if __name__ == "__main__":
    _forks(Path(sys.argv[1]), int(sys.argv[2]))
