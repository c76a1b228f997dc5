"""A journal of finished tasks: one JSON line each, appended and flushed, so a killed run loses only what was
running."""

import json
import os
from pathlib import Path
from typing import Any

Task = dict[str, Any]


class Journal:
    """Results by task, in a file that only grows.

    A task is a flat dict of JSON values; the same task is never run twice. A last line that was cut off by a kill is
    dropped; any other line that cannot be read is an error, because it means that the file is not a journal.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "journal.jsonl"
    >>> Journal(path).add({"kind": "table2", "run": 0}, {"accuracy": 0.95}, {"seconds": 1.5})
    >>> Journal(path).get({"run": 0, "kind": "table2"})
    {'accuracy': 0.95}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = {}
        for record in _read(path):
            self.records[key_of(record["task"])] = record

    def add(self, task: Task, result: Any, about: dict[str, Any]) -> None:
        """Enter a result, on disk before this returns."""
        record = {"task": task, "result": result, "about": about}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _mend(self.path)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.records[key_of(task)] = record

    def get(self, task: Task) -> Any:
        """The result of a task, None if it has not been run."""
        record = self.records.get(key_of(task))
        return None if record is None else record["result"]

    def __contains__(self, task: Task) -> bool:
        return key_of(task) in self.records


def key_of(task: Task) -> str:
    """The task as text, whatever the order of its parts."""
    return json.dumps(task, sort_keys=True)


def _read(path: Path) -> list[dict[str, Any]]:
    """The records of a file, but for a last line that is not whole; reading never changes a file."""
    if not path.exists():
        return []
    try:
        records = [json.loads(line) for line in _whole(path.read_bytes()).splitlines()]
        if not all(isinstance(record["task"], dict) and "result" in record for record in records):
            raise KeyError("task")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a journal of paloma reproduce: {error}. Move it, or choose "
                         "another output folder.") from error  # fmt: skip
    return records


def _whole(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _mend(path: Path) -> None:
    """Cut a torn last line away, so that the next one starts on a line of its own."""
    if path.exists():
        content = path.read_bytes()
        if _whole(content) != content:
            os.truncate(path, len(_whole(content)))
