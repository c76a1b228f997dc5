"""Snapshots: what was learned up to a full page, so that a restart learns only what was said since.

A snapshot is a memory of a function of items and log: it is used only if both begin as they did when it was written, by
the same versions on the same kind of machine, so that what follows is what a replay of everything would give, to the
bit. One that is damaged, or of something else, is passed over.
"""

import json
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..exceptions import ModelFileError
from ..feedback import FeedbackState
from ..persist import environment, load, register, save
from ._served import Served

KEPT = 2
EVERY = 1024  # statements heard between two snapshots


@register
@dataclass(frozen=True)
class ServiceSnapshot:
    """The state that its statements about the first `n_items` items led to; `told` is the digest of their numbers."""

    n_items: int
    told: str
    state: FeedbackState
    made_by: str

    def __paloma_state__(self) -> dict[str, Any]:
        return {"n_items": self.n_items, "told": self.told, "state": self.state, "made_by": self.made_by}

    @classmethod
    def __paloma_restore__(cls, state: dict[str, Any]) -> Self:
        if not isinstance(state["state"], FeedbackState):
            raise ValueError("ServiceSnapshot: its state is none.")
        return cls(int(state["n_items"]), str(state["told"]), state["state"], str(state["made_by"]))


class Snapshots:
    """Files in a folder, the newest two of which are kept: written under another name, synced, and renamed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heard = 0
        self.failed = 0
        self._writer = ThreadPoolExecutor(1, "paloma-snapshots")
        self._written: Future[Any] = self._writer.submit(int)
        folder.mkdir(exist_ok=True)
        for rest in folder.glob(".*.tmp"):  # a kill while it was written
            rest.unlink()

    def state_for(self, served: Served) -> FeedbackState | None:
        """The newest state that what was noted begins with."""
        for path in self._files():
            try:
                found = load(path)
            except (ModelFileError, OSError):
                continue
            fits = isinstance(found, ServiceSnapshot) and found.made_by == _maker()
            if fits and served.follows(found.n_items, found.state.n, found.told):
                state: FeedbackState = found.state
                return state
        return None

    def heard(self, n: int, served: Served) -> None:
        """So many statements more were heard: write a snapshot if it is time, unless one is being written."""
        self._heard += n
        if self._heard >= EVERY and self._written.done():
            self.write(served)

    def write(self, served: Served) -> None:
        """Write a snapshot of all full pages, unless nothing was heard since the last one; learning goes on."""
        self._written.result()
        learned = served.learned
        if learned is None or not self._heard:
            return
        self._heard = 0
        self._written = self._writer.submit(self._write, served.seq, *learned)

    def close(self, served: Served) -> None:
        """Write the last one, and wait for it."""
        self.write(served)
        self._writer.shutdown()
        self._written.result()

    def _write(self, seq: int, n_items: int, told: str, state: FeedbackState) -> None:
        """A disk that refuses costs a restart time, and nothing else."""
        try:
            save(ServiceSnapshot(n_items, told, state, _maker()), self._folder / f"{seq:016d}.paloma")
            for old in self._files()[KEPT:]:
                old.unlink()
        except OSError:
            self.failed += 1

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.paloma"), reverse=True)


def _maker() -> str:
    """What the last bits depend on: versions, the machine, BLAS; not which other libraries happen to be loaded."""
    about = environment()
    about["threads"] = sorted(map(str, (pool for pool in about["threads"] if pool["user_api"] == "blas")))
    return json.dumps(about, sort_keys=True)
