"""The state of a fit after each round, in one model file that replaces the one before it."""

import copy
from pathlib import Path
from typing import Any

from ..persist import load, save


class Checkpoint:
    """A file that holds the last round; without a path nothing is kept."""

    def __init__(self, path: str | Path | None, fingerprint: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.fingerprint = fingerprint

    def read(self, start: Any) -> tuple[Any, list[dict[str, float]]]:
        """The learner after the last round in the file, or the start, and what was reported about the rounds; a file of
        another fit is refused."""
        if self.path is None or not self.path.exists():
            return start, []
        learner = load(self.path)
        found = vars(learner).pop("_fit_of", {})
        other = [name for name, value in self.fingerprint.items() if found.get(name) != value]
        if other:
            raise ValueError(
                f"{self.path} contains rounds of another fit ({', '.join(other)}). Choose another path, or delete the "
                "file."
            )
        return learner, vars(learner).pop("rounds_")

    def write(self, learner: Any, report: list[dict[str, float]]) -> None:
        """Keep a learner and the report so far."""
        if self.path is None:
            return
        kept = copy.copy(learner)
        kept.rounds_, kept._fit_of = report, self.fingerprint
        save(kept, self.path)
