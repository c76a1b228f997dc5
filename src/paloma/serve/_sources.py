"""Items from files and databases: tables, arrays, folders of images."""

import csv
from collections import Counter
from datetime import date, time
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any
from uuid import UUID
from zipfile import is_zipfile

import numpy as np

from .._optional import optional
from .._typing import Array
from ..datasets import embed
from ..neighbors import address_parts
from ._items import LARGEST, LONGEST_ID, Items, places_of_pixels
from ._pictures import KINDS

SIDE = 16  # of images whose vectors are their pixels
_NAMES = {
    "vectors": ("X", "data", "vectors", "features"),
    "labels": ("y", "target", "labels"),
    "ids": ("ids", "id", "name"),
    "texts": ("text", "texts"),
    "pictures": ("pictures", "paths", "files"),
}
_IDS = ("id", "ids")  # of a table, if no column is named
_NONE = {"", "na", "n/a", "nan", "null", "none", "-", "?"}  # what tables write where a number is missing


def from_table(
    path: Path, id_column: str | None = None, label: str | None = None, text: str | None = None,
    images: Path | None = None, *, vectors: str | None = None,
) -> Items:  # fmt: skip
    """Items of a table: columns of numbers are the vector, the others are shown and can be filtered by.

    id_column : by default one that is named id or ids. vectors : the one column that is the vector; its values are
    lists of numbers.
    """
    suffix = path.suffix.lower()
    if not path.is_file():
        raise FileNotFoundError(f"File {path} does not exist.")
    if suffix == ".npz":
        return _arrays(path, {"ids": id_column, "labels": label, "texts": text}, images)
    if suffix in (".csv", ".tsv"):
        columns = _table(path, "\t" if suffix == ".tsv" else ",;\t")
    elif suffix == ".parquet":
        columns = optional("pyarrow.parquet", "parquet").read_table(path).to_pydict()
    else:
        raise ValueError(f"{path}: items come from .npz, .csv, .tsv, .parquet, or a folder of images.")
    return _columns(str(path), columns, id_column, label, text, images, vectors)


def from_database(
    address: str, table: str, vectors: str, id_column: str | None = None, label: str | None = None,
    text: str | None = None, images: Path | None = None,
) -> Items:  # fmt: skip
    """Items of a table of PostgreSQL, read once: a column of vectors or arrays, and others to show and filter by.

    address : as libpq takes it, `postgresql://user@host/database`. table : a name, or `schema.name`.
    """
    psycopg, parts = optional("psycopg", "pgvector"), address_parts(address)
    name = psycopg.sql.Identifier(*table.split(".", 1))
    try:
        with psycopg.connect(**parts) as connection:
            connection.read_only = True
            found = connection.execute(psycopg.sql.SQL("SELECT * FROM {}").format(name))
            columns = [column.name for column in found.description]
            rows = found.fetchall()
    except psycopg.errors.UndefinedTable:
        raise ValueError(f"There is no table {table!r} in that database. Give its name by --table.") from None
    except psycopg.OperationalError as error:
        raise ConnectionError(f"PostgreSQL cannot be reached: {' '.join(str(error).split())}") from None
    lists = {column: [row[k] for row in rows] for k, column in enumerate(columns)}
    return _columns(f"Table {table}", lists, id_column, label, text, images, vectors)


def _vector(value: Any) -> Any:
    """The numbers of a vector that is written down, as [1, 2], {1,2} or 1 2; other values as they are."""
    return value.strip().strip("[](){}").replace(",", " ").split() if isinstance(value, str) else value


def _table(path: Path, delimiters: str) -> dict[str, list[Any]]:
    """Columns by name; cells end at that of the delimiters that the first line has most of."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            delimiter = max(delimiters, key=file.readline().count)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            head, *lines = reader
        except ValueError:  # of nothing, or of bytes that are no UTF-8
            raise ValueError(f"{path}: expected a table in UTF-8 whose first line names its columns.") from None
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num} cannot be read: {error}.") from None
    if _numbers(head) is not None and head != [str(k) for k in range(len(head))]:
        raise ValueError(
            f"{path}: its first line has numbers, where names of columns are expected. Add a line of names."
        )
    lines = [line for line in lines if line]
    for number, line in enumerate(lines, 1):
        if len(line) != len(head):
            raise ValueError(f"{path}: row {number} has {len(line)} cells, but there are {len(head)} columns.")
    if len(set(head)) < len(head):
        raise ValueError(f"{path}: two columns have one name.")
    return {name: [line[k] for line in lines] for k, name in enumerate(head)}


def _arrays(path: Path, chosen: dict[str, str | None], images: Path | None) -> Items:
    """Arrays by the names that were chosen for them, or by names that they usually have."""
    if not is_zipfile(path):
        raise ValueError(f"{path} is no .npz file.")
    with np.load(path, allow_pickle=False) as found:
        for name in filter(None, chosen.values()):
            if name not in found:
                raise ValueError(f"{path} has no array {name!r}. Its arrays: {', '.join(found.files)}.")
        names = {kind: (chosen.get(kind),) if chosen.get(kind) else usual for kind, usual in _NAMES.items()}
        given = {kind: next((found[name] for name in each if name in found), None) for kind, each in names.items()}
    vectors = given.pop("vectors")
    if vectors is None or vectors.ndim != 2:
        raise ValueError(f"{path}: expected an array X of shape (n, d); it may have y, ids, text and paths beside it.")
    lists = {kind: None if values is None else [str(value) for value in values] for kind, values in given.items()}
    return _made(str(path), vectors, lists, images)


def _columns(
    source: str, columns: dict[str, list[Any]], id_column: str | None, label: str | None, text: str | None,
    images: Path | None, vectors: str | None,
) -> Items:  # fmt: skip
    id_column = id_column or next((name for name in _IDS if name in columns), None)
    for wanted in (id_column, label, text, vectors):
        if wanted is not None and wanted not in columns:
            raise ValueError(f"{source} has no column {wanted!r}. Its columns: {', '.join(list(columns)[:20])}.")
    if not columns or not next(iter(columns.values())):
        raise ValueError(f"{source} contains no rows.")
    special = {id_column, label, text, "picture" if images else None, ""}  # "": row numbers, as pandas writes them
    numbers, others = dict[str, Array](), dict[str, list[Any]]()
    for name, values in columns.items():
        if name in special:
            continue
        if vectors is None:
            _check_whole(source, name, values)
            found = _numbers(values)
        else:
            found = _numbers([_vector(value) for value in values]) if name == vectors else None
        if found is None:
            others[name] = values
        else:
            numbers[name] = found
    if not numbers:
        what = "column of numbers, or of lists of numbers,"
        if vectors is not None:
            what = f"lists of numbers in {vectors!r}, all of one length,"
        raise ValueError(f"{source} has no {what} to compare items by.")
    joined = np.concatenate(list(numbers.values()), axis=1)
    payload = [_shown({name: values[k] for name, values in others.items()}) for k in range(len(joined))]
    lists = {"ids": id_column, "labels": label, "texts": text, "pictures": "picture" if images else None}
    named = {kind: None if name not in columns else _words(columns[name]) for kind, name in lists.items()}
    features = [
        name if found.shape[1] == 1 else f"{name} {k + 1}" for name, found in numbers.items()
        for k in range(found.shape[1])
    ]  # fmt: skip
    return _made(source, joined, named, images, payload, features)


def _check_whole(source: str, name: str, values: list[Any]) -> None:
    """Refuse a column of numbers that would be taken for one of words: with missing ones, or with decimal commas."""
    missing = [value is None or (isinstance(value, str) and value.strip().lower() in _NONE) for value in values]
    given = [value for value, gone in zip(values, missing, strict=True) if not gone]
    if any(missing) and given and _numbers(given) is not None:
        raise ValueError(
            f"{source}: column {name!r} has numbers, but none in row {missing.index(True) + 1}. Fill it in, or leave "
            "the row or the column out."
        )
    pointed = [value.replace(",", ".", 1) if isinstance(value, str) else value for value in given]
    if pointed != given and _numbers(given) is None and _numbers(pointed) is not None:
        raise ValueError(
            f"{source}: column {name!r} has decimal commas. Write points (1.5 in place of 1,5), or leave it out."
        )


def _shown(told: dict[str, Any]) -> dict[str, Any]:
    """What can be shown and filtered by: words, numbers, and dates and the like in words."""
    words = {name: str(value) if isinstance(value, date | time | Decimal | UUID) else value
             for name, value in told.items()}  # fmt: skip
    return {name: value for name, value in words.items()
            if isinstance(value, str) or (isinstance(value, int | float) and isfinite(value))}  # fmt: skip


def _words(values: list[Any]) -> list[str]:
    """A column in words; "" where nothing is."""
    return ["" if value is None or value != value else str(value) for value in values]


def _numbers(values: list[Any]) -> Array | None:
    """A column as numbers, (n, width); None if some value is none."""
    try:
        found = np.array(values, np.float64)
    except (TypeError, ValueError):
        return None
    return found.reshape(len(values), -1)


def _made(
    source: str, vectors: Array, lists: dict[str, Any], images: Path | None, payload: Any = (),
    features: list[str] | None = None,
) -> Items:  # fmt: skip
    if np.asarray(vectors).dtype.kind not in "fiub":
        raise ValueError(f"{source}: vectors must be real numbers, got {np.asarray(vectors).dtype}.")
    vectors = np.asarray(vectors, np.float64)
    sound = np.isfinite(vectors).all(axis=1) & (np.abs(vectors) <= LARGEST).all(axis=1)
    if not sound.all():
        row = int(np.flatnonzero(~sound)[0])
        raise ValueError(f"{source}: row {row + 1} has a missing or infinite number, or one beyond {LARGEST:g}. "
                         "Fill it in, or leave the row out.")  # fmt: skip
    for kind, values in lists.items():
        if values is not None and len(values) != len(vectors):
            raise ValueError(f"{source}: it has {len(vectors)} vectors, but {len(values)} {kind}.")
    ids = lists["ids"] or [str(k) for k in range(len(vectors))]
    if wrong := next((id for id in ids if not 1 <= len(id) <= LONGEST_ID), None):
        raise ValueError(f"{source}: ids have 1 to {LONGEST_ID} characters, but one has {len(wrong)}: {wrong[:40]}...")
    if "" in ids:
        raise ValueError(f"{source}: row {ids.index('') + 1} has no id.")
    if len(set(ids)) < len(ids):
        twice = next(id for id, n in Counter(ids).items() if n > 1)
        raise ValueError(f"{source}: ids must be different, but {twice!r} repeats. Choose their column with --id.")
    pictures = lists["pictures"]
    if images is not None:
        files = [images / name for name in pictures or ids]
        if not any(file.is_file() for file in files):
            raise ValueError(
                f"{source}: none of its items has a picture in {images}; the first would be {files[0]}. Name the files "
                "in a column 'picture' (.npz: an array 'paths'), or make them the ids (--id)."
            )
        pictures = [f"file:{file.resolve()}" for file in files]
    return Items(vectors, ids, lists["labels"], lists["texts"], pictures if images else None, list(payload), features)


def from_images(folder: Path, encoder: str | Path | None = None) -> Items:
    """Items of a folder of images: vectors of an encoder, or the pixels of small gray copies."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in KINDS and path.is_file())
    if len(files) < 2:
        raise ValueError(f"{folder} has {len(files)} images; a search needs at least two.")
    if encoder is not None:
        target = Path(f"{folder.absolute()}.features.npz")
        embed(folder, target, encoder=encoder, verbose=1)
        return from_table(target, images=folder)
    Image = optional("PIL.Image", "images")
    rows = []
    for path in files:
        try:
            with Image.open(path) as picture:
                rows.append(np.asarray(picture.convert("L").resize((SIDE, SIDE)), np.float64).ravel() / 255.0)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # no whole image, or too large a one
            raise ValueError(f"{path} cannot be read as an image. Mend it, or move it elsewhere.") from None
    names = [str(path.relative_to(folder)) for path in files]
    if odd := next((name for name in names if name != name.encode(errors="ignore").decode()), None):
        raise ValueError(f"{folder}: the name of {odd!a} is not UTF-8, so that no page can ask for it. Rename it.")
    labels = [path.parent.name if path.parent != folder else path.stem for path in files]
    pictures = [f"file:{path.resolve()}" for path in files]
    return Items(np.stack(rows), names, labels, pictures=pictures, features=places_of_pixels(SIDE))
