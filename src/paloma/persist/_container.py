"""The bytes of a model file: a safetensors file that ends with the SHA-256 of everything before it.

    8 bytes   length n of the table, little-endian
    n bytes   {"__metadata__":{"format":"paloma","version":"2","header":"..."},"0":{"dtype":...},...,"sha256":{...}}
    arrays    one after the other, little-endian, C order
    32 bytes  the digest, itself the last array of the table

Any reader of safetensors can open it. `header` is JSON without NaN, infinities or repeated names.
"""

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from .._typing import Array
from ..exceptions import MissingModelFileError, ModelFileError

VERSION = 2
# The table and the header are read as a whole: larger ones are none of ours.
LARGEST_TABLE = 1 << 21
DTYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
_DIGEST, _DIGEST_SIZE = "sha256", 32
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_START = b'{"__metadata__":{"format":"paloma","version":"'


def write(path: Path, header: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a model file in one step: whoever opens `path` sees the old file or the new one.

    The arrays must be the file's own: nothing may change them meanwhile.
    """
    _replace(path, _sealed(_chunks(header, arrays)))


def _chunks(header: dict[str, Any], arrays: dict[str, Array]) -> Iterator[Any]:
    """The bytes of a file but for the digest."""
    metadata = {"format": "paloma", "version": str(VERSION), "header": _dumps(header)}
    table: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    for name, array in arrays.items():
        table[name] = {"dtype": NAMES[array.dtype], "shape": array.shape, "data_offsets": (at, at + array.nbytes)}
        at += array.nbytes
    table[_DIGEST] = {"dtype": "U8", "shape": (_DIGEST_SIZE,), "data_offsets": (at, at + _DIGEST_SIZE)}
    text = _dumps(table).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LARGEST_TABLE:
        raise ModelFileError(f"Parameters and names of {len(text):,} bytes do not fit into a model file.")
    yield len(text).to_bytes(8, "little") + text
    for array in arrays.values():
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _sealed(chunks: Iterable[Any]) -> Iterator[Any]:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
    yield digest.digest()


def _replace(path: Path, chunks: Iterable[Any]) -> None:
    """Write under a temporary name in the same folder, sync, verify, rename, sync the folder.

    A file that is replaced keeps its mode: who could not read it before cannot now.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to save {path.name} in: create it first.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    try:
        with open(os.open(temporary, _NEW, 0o666 if mode is None else 0o600), "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        if not _is_sealed(temporary):
            raise OSError(f"{path} was not written: what came back from the disk is not what was given to it.")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _is_sealed(path: Path) -> bool:
    """Whether a file ends with the digest of everything before it."""
    digest, left = hashlib.sha256(), path.stat().st_size - _DIGEST_SIZE
    with path.open("rb") as file:
        while left > 0 and (chunk := file.read(min(left, 1 << 20))):
            digest.update(chunk)
            left -= len(chunk)
        return file.read() == digest.digest()


def _sync_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array], int]:
    """Header, arrays and size of a model file; the digest is verified before anything is parsed."""
    raw = _verified(path)
    length = int.from_bytes(raw[:8], "little")
    if length > LARGEST_TABLE:
        raise ModelFileError(f"{path} has a header that is too large.")
    try:
        metadata = _loads(raw[8 : 8 + length].decode())["__metadata__"]
        header = _loads(metadata["header"])
        arrays = {name: _array(view) for name, view in safetensors.deserialize(raw) if name != _DIGEST}
    except Exception as error:
        raise ModelFileError(f"{path} has a header that cannot be read: {error!r}"[:500]) from None
    entries = {"summary", "environment", "model"}
    if set(metadata) != {"format", "version", "header"} or not isinstance(header, dict) or set(header) != entries:
        raise ModelFileError(f"{path} has a header with missing or unknown entries.")
    return header, arrays, len(raw)


def _verified(path: Path) -> bytes:
    """All bytes of a file of ours, of a version we know, whose digest is right."""
    if not path.exists():
        raise MissingModelFileError(f"There is no model file {path}.")
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file.")
    with path.open("rb") as file:
        start = file.read(8 + len(_START) + 8)
        if not start[8:].startswith(_START):
            raise ModelFileError(f"{path} was not written by paloma.save.")
        file.seek(0)
        try:
            raw = file.read(os.fstat(file.fileno()).st_size)
        except MemoryError:
            raise ModelFileError(f"{path} is larger than the memory there is.") from None
    if hashlib.sha256(memoryview(raw)[:-_DIGEST_SIZE]).digest() != raw[-_DIGEST_SIZE:]:
        raise ModelFileError(f"{path} is damaged: it was cut off, added to or altered (its SHA-256 does not match).")
    version = start[8 + len(_START) :].partition(b'"')[0].decode("ascii", "replace")
    if version != str(VERSION):
        advice = "install the paloma that wrote it, or a later one."
        if version == "1":
            advice = "version 1 was never released; learn the model again and save it."
        raise ModelFileError(
            f"{path} has version {version} of the format, this paloma reads version {VERSION}: {advice}"
        )
    return raw


def _array(view: dict[str, Any]) -> Array:
    """An array over memory of its own: each is a copy."""
    return np.frombuffer(view["data"], DTYPES[view["dtype"]]).reshape(view["shape"])


def _dumps(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_no_repetition)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _no_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name is repeated")
    return out
