"""Fits under a limit of CPU seconds: in a copy of this process, or in the environment of the peers (peers_fit.py)."""

import multiprocessing
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .peers_fit import MISSING


class OverLimit(Exception):
    """The fit took more CPU seconds than it was given."""


class Missing(Exception):
    """The package of the method is not installed."""


class Failed(Exception):
    """The method raised an error; its message."""


def call(python: str, method: str, limit: float, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays go to the other environment as a file, what its method learned comes back as one."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "split.npz", Path(folder) / "result.npz"
        np.savez(given, **arrays)
        command = [python, str(Path(__file__).with_name("peers_fit.py")), str(given), method, str(made)]
        single = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(
            command, env=single, preexec_fn=lambda: _bound(limit), stderr=subprocess.PIPE, text=True, check=False
        )
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        if done.returncode == MISSING:
            raise Missing(last)
        _check(done.returncode, last)
        with np.load(made) as file:
            return dict(file)


def forked(function: Callable[[], Any], limit: float) -> Any:
    """What the function returns, computed in a copy of this process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(function, sender, limit))
    process.start()
    sender.close()
    try:
        answer, error = receiver.recv()
    except EOFError:
        answer, error = None, "no message"
    process.join()
    _check(process.exitcode or 0, error)
    return answer


def _send(function: Callable[[], Any], sender: Any, limit: float) -> None:
    _bound(limit)
    try:
        sender.send((function(), None))
    except Exception as error:  # whatever a method raises is its result
        sender.send((None, f"{type(error).__name__}: {error}"))
        os._exit(1)


def _bound(limit: float) -> None:
    seconds = max(1, round(limit))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


def _check(status: int, message: str) -> None:
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        raise OverLimit
    if status:
        raise Failed(message)
