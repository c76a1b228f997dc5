"""The shape of the project: layers, file sizes, who imports numba, nothing private in tracked files."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from benchmarks.walk import walk

from helpers.data import IRIS, LABELS
from paloma import LODML, MetricKNeighborsClassifier, save

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "paloma"
MAX_LINES = 500
# The whole public protocol of a learner is one idea, and most of it is documentation.
LONGER = {"src/paloma/estimators/base.py": 600}
BINARY = {".npz", ".paloma", ".png"}
SOURCES = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))


def name_of(path):
    return str(path.relative_to(ROOT))


def imported_packages(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_files_stay_short(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGER.get(name_of(path), MAX_LINES), f"{name_of(path)} has {lines} lines: is it still one idea?"


def test_no_test_module_imports_another():
    tests = [path for path in SOURCES if path.is_relative_to(ROOT / "tests")]
    found = [name_of(path) for path in tests if any(name.startswith("test_") for name in imported_packages(path))]
    assert found == [], "shared helpers live in tests/axes.py, same.py, conftest.py, twins/ and helpers/"


def test_layers():
    pytest.importorskip("importlinter")
    linter = "from importlinter.cli import lint_imports_command as run; run()"
    command = [sys.executable, "-c", linter, "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def section(title):
    """What ARCHITECTURE.md says under a title."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return text.partition(f"# {title}\n")[2].partition("\n#")[0]


def test_the_drawing_is_the_contract():
    contract, _ = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (drawing,) = re.findall("^```\n(.*?)^```", section("Layers"), re.MULTILINE | re.DOTALL)
    assert drawing.splitlines() == contract["layers"]


WAYS = {
    "`LODML().fit(X, y)`": lambda model, path: LODML(random_state=0).fit(IRIS, LABELS),
    "`MetricKNeighborsClassifier.predict(X)`": lambda model, path: model.predict(IRIS),
    "`paloma.save(model, path)`": lambda model, path: save(model.metric_, path),
}


@pytest.mark.parametrize("title", WAYS)
def test_the_ways_of_calls_are_what_runs(title, tmp_path):
    model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(IRIS, LABELS)
    stations = re.findall(r"`([a-z_/]+\.py)`", section(title))
    passed = iter(walk(lambda: WAYS[title](model, tmp_path / "model.paloma")))
    assert stations
    for station in stations:
        assert any(Path(module) == PACKAGE / station for module, _ in passed), f"{station} is not reached in this order"


def test_only_compiled_loops_import_numba():
    others = [path for path in PACKAGE.rglob("*.py") if "_compiled" not in path.parts]
    assert [name_of(path) for path in others if "numba" in imported_packages(path)] == []


def test_constraints_hold_versions_and_nothing_else():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or line.count("==") == 1
        assert not any(word in line for word in ("://", "@", "file:", "-url", "-links")), line


def test_tracked_files_name_no_machine():
    # Written in parts, so that this file passes its own test.
    words = ["/" + "work/", "/" + "root/", "/" + "home/", "index-" + "url", "find-" + "links"]
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    tracked = [path for name in listing.stdout.splitlines() if (path := ROOT / name).is_file()]
    texts = {path: path.read_text(encoding="utf-8") for path in tracked if path.suffix not in BINARY}
    assert [(name_of(path), word) for path, text in texts.items() for word in words if word in text] == []
