"""How far a reader walks: the functions of paloma that one call enters, in the order in which they are first entered.

A switch is a step of that walk from one module to another; A-B-A is a module left and entered again at once.
"""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from sklearn.datasets import load_wine

import paloma

from .timing import table

ROOT = str(Path(paloma.__file__).parent)


def walk(call: Callable[[], Any]) -> list[tuple[str, str]]:
    """(module, function) of each function of paloma at its first entry; what a comprehension does is its function's."""
    seen: dict[tuple[str, str], None] = {}

    def enter(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            seen.setdefault((code.co_filename, code.co_qualname))

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(seen)


def main() -> None:
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    fitted = paloma.LODML(random_state=0).fit(X, y)
    classifier = paloma.MetricKNeighborsClassifier(fitted).fit(X, y)
    triplets, save = [[0, 1, 60], [60, 61, 1]], paloma.save  # which is loaded here: what an import runs is no step
    with TemporaryDirectory() as folder:
        calls = {
            "LODML().fit": lambda: paloma.LODML(random_state=0).fit(X, y),
            "partial_fit(triplets=)": lambda: fitted.partial_fit(X, y, triplets=triplets),
            "MetricKNeighborsClassifier.predict": lambda: classifier.predict(X),
            "save": lambda: save(fitted, Path(folder) / "model.paloma"),
        }
        rows = []
        for name, call in calls.items():
            path = [module for module, _ in walk(call)]
            switches = sum(a != b for a, b in pairwise(path))
            back = sum(a == c != b for a, b, c in zip(path, path[1:], path[2:], strict=False))
            rows.append([name, str(len(set(path))), str(len(path)), str(switches), str(back)])
    table("Walks through the code", ["call", "modules", "functions", "switches", "A-B-A"], rows)
