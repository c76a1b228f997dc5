"""The page docs/cli.md, generated from the help: ``python -m paloma.cli._reference > docs/cli.md``."""

from collections.abc import Iterator
from typing import Any

from typer.testing import CliRunner

from . import COMMANDS, app

_INTRODUCTION = """\
# The command line

Generated from the help of each command by `python -m paloma.cli._reference > docs/cli.md`; a test compares the two.

A table is a `.csv` or `.tsv` file with a header (columns without names are numbered), `.jsonl` (one object a line),
`.npz` with arrays `X` and `y`, `.npy` with `--labels`, `.parquet` (extra `parquet`), `.svm` (svmlight, stays sparse),
the name of a data set, or `-` for CSV or JSON lines from standard input. Errors are one line on stderr that names the
row, counted from 1, and the column.

| exit code | |
|---|---|
| 0 | done |
| 1 | an error, in one line; `paloma --debug COMMAND ...` shows where |
| 2 | a wrong option or argument |
| 130, 143 | ended by Ctrl-C, by SIGTERM; `update` has saved what it learnt |
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *(_section(words) for words in _words(COMMANDS, []))])


def _words(commands: Any, before: list[str]) -> Iterator[list[str]]:
    """The words of each command, groups included."""
    yield before
    if isinstance(commands, dict):
        for name, command in commands.items():
            yield from _words(command, [*before, name])


def _section(words: list[str]) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="paloma", env={"COLUMNS": "80"})
    return f"## paloma {' '.join(words)}".rstrip() + f"\n\n```text\n{result.stdout.strip()}\n```\n"


if __name__ == "__main__":
    print(page(), end="")
