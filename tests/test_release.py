"""What a release promises about itself: one version, constraints that fit, workflows that are pinned."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import paloma

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_of(requirement):
    return re.split(r"[\[<>=!~;\s]", requirement)[0].lower().replace("_", "-")


def pins(path):
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): pin for name, pin in (line.split("==") for line in lines)}


def test_the_version_is_the_same_everywhere():
    assert "version" in PROJECT["dynamic"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    recipe = re.search(r"^  version: (\S+)$", (ROOT / "release/conda/recipe.yaml").read_text(), re.MULTILINE)
    assert cited.group(1) == recipe.group(1) == paloma.__version__
    assert f"## [{paloma.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert version("paloma")


def test_the_lowest_versions_are_those_that_the_project_allows():
    floors = {name_of(r): r.partition(">=")[2] for r in PROJECT["dependencies"]}
    lowest = pins(ROOT / "constraints-lowest.txt")
    for name, floor in floors.items():
        assert lowest[name].startswith(floor), f"{name}: allowed from {floor}, tested with {lowest[name]}"


def test_the_recipe_has_the_dependencies_of_the_project():
    recipe = (ROOT / "release/conda/recipe.yaml").read_text()
    for requirement in PROJECT["dependencies"]:
        assert f"- {requirement.replace('>=', ' >=')}\n" in recipe


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_actions_are_pinned_by_hash(path):
    for line in path.read_text().splitlines():
        if "uses:" in line:
            assert re.search(r"uses: [\w/-]+@[0-9a-f]{40} # v[\d.]+$", line), line


def test_every_extra_but_those_for_development_and_with_weights_is_in_all():
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("paloma[").removesuffix("]").split(","))
    assert set(extras) - named == {"all", "dev", "dev-browser", "docs", "encoders", "gpu", "lowest", "torch"}
