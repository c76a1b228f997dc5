"""The page docs/cli.md, generated from the help texts: ``python -m paloma.cli._reference > docs/cli.md``."""

from collections.abc import Iterator
from typing import Any

from typer.testing import CliRunner

from . import COMMANDS, app

_INTRODUCTION = """\
# The command line

Generated from the help texts by `python -m paloma.cli._reference > docs/cli.md`; a test checks that it is current.

A table is a `.csv` or `.tsv` file with a header (unnamed columns are numbered), `.jsonl` (one object per line), `.npz`
with arrays `X` and `y`, `.npy` with `--labels`, `.parquet` (extra `parquet`), `.svm` (svmlight, read as sparse rows),
the name of a data set, or `-` for CSV or JSON lines from standard input. An error is one line on stderr; errors in a
table name the row, counted from 1, and the column.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | an error; `paloma --debug COMMAND ...` shows the traceback |
| 2 | an invalid option or argument |
| 130, 143 | terminated by Ctrl-C or SIGTERM; `update` saves what it has learned first |
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *(_section(words) for words in _words(COMMANDS, []))])


def _words(commands: Any, before: list[str]) -> Iterator[list[str]]:
    """The words of each command, including groups."""
    yield before
    if isinstance(commands, dict):
        for name, command in commands.items():
            yield from _words(command, [*before, name])


def _section(words: list[str]) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="paloma", env={"COLUMNS": "80"})
    return f"## paloma {' '.join(words)}".rstrip() + f"\n\n```text\n{result.stdout.strip()}\n```\n"


if __name__ == "__main__":
    print(page(), end="")
