"""The state of a fit after each round, in one model file that replaces the one before it."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any




@dataclass
class State:
    """A learner after some rounds, and what was reported about them."""

    learner: Any
    report: list[dict[str, float]]


class Checkpoint:
    """A file that holds the last round, or nothing where no path is given."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self.fingerprint: dict[str, Any] = {}

    def open(self, fingerprint: dict[str, Any], start: Any) -> State:
        """Where to go on: the last round in the file, or the start; a file of another fit is refused."""
        self.fingerprint = fingerprint
        if self.path is None or not self.path.exists():
            return State(start, [])
        from ..persist import load

        learner = load(self.path)
        found = vars(learner).pop("_fit_of", {})
        differing = [name for name, value in fingerprint.items() if found.get(name) != value]
        if differing:
            raise ValueError(
                f"{self.path} holds rounds of another fit: {', '.join(differing)} differ. Give another path, or remove it."
            )
        return State(learner, vars(learner).pop("rounds_"))

    def write(self, fetch: Callable[[], Any], report: list[dict[str, float]]) -> None:
        """Keep the learner that `fetch` brings, if a path is given."""
        if self.path is not None:
            from ..persist import save

            learner = copy.copy(fetch())
            learner.rounds_, learner._fit_of = report, self.fingerprint
            save(learner, self.path)
