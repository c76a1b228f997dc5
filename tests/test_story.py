"""The command lines of README and quickstart, run as they stand there."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import paloma

ROOT = Path(__file__).resolve().parents[1]
PAGES = [path for path in (ROOT / "README.md", ROOT / "docs" / "quickstart.md") if "```console" in path.read_text()]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def commands(page):
    """(command, expected output) of every console block."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for part in block.split("$ ")[1:]:
            command, _, expected = part.partition("\n")
            yield command, expected


# Said the first time that a machine meets a kind of data.
COMPILING = "paloma compiles its loops for this kind of data: once, for a few seconds.\n"


@pytest.mark.skipif(os.name != "posix", reason="written for a POSIX shell")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_story(page, tmp_path):
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "paloma"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m paloma "$@"\n')
    script.chmod(0o755)
    source = str(Path(paloma.__file__).parents[1])
    path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    options = {"shell": True, "capture_output": True, "text": True, "cwd": tmp_path}
    options["env"] = {**os.environ, "PATH": path, "PYTHONPATH": source}
    before = os.times().children_user
    checker = doctest.OutputChecker()
    for command, expected in commands(page):
        result = subprocess.run(f"{command} 2>&1", **options)
        assert result.returncode == 0, result.stdout
        said = result.stdout.replace(COMPILING, "")
        assert checker.check_output(expected, said, FLAGS), f"{command}\n{result.stdout}"
    assert os.times().children_user - before < 60
