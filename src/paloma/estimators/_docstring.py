"""Docstrings with texts that several learners share."""

from collections.abc import Mapping
from inspect import cleandoc


def filled(doc: str | None, texts: Mapping[str, str]) -> str:
    """A docstring with texts instead of {words}; without indentation, as Python 3.13 and later compile docstrings."""
    found = cleandoc(doc or "")
    for word, text in texts.items():
        found = found.replace(f"{{{word}}}", text.replace("\n    ", "\n"))
    return found
