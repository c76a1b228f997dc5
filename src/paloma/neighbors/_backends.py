"""The backends of an index by name: the engine of each, and its settings."""

from dataclasses import fields
from typing import Any

from .. import _validation as check
from ._engines import NoSettings, Tiles
from ._faiss import Balanced, Flat, GraphSettings, ListSettings
from ._pgvector import Database, DatabaseSettings

BACKENDS: dict[str, tuple[Any, Any]] = {
    "exact": (Tiles, NoSettings),
    "faiss-flat": (Flat, NoSettings),
    "faiss-hnsw": (Balanced, GraphSettings),
    "faiss-ivf": (Balanced, ListSettings),
    "pgvector": (Database, DatabaseSettings),
}


def chosen(backend: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """The engine of a backend, and its settings out of options."""
    check.check_word("backend", backend, tuple(BACKENDS))
    engine, settings = BACKENDS[backend]
    names = [field.name for field in fields(settings)]
    unknown = sorted(set(options) - set(names))
    if unknown:
        raise TypeError(f"backend {backend!r} takes {', '.join(names) or 'no options'}, got {', '.join(unknown)}.")
    return engine, settings(**options)


def options_of(settings: Any) -> dict[str, Any]:
    """Settings as plain data, without the connection to a database, which may hold a password."""
    return {field.name: getattr(settings, field.name) for field in fields(settings) if field.name != "connection"}
