"""Archives as a user downloads them: unpacked into a temporary folder, nothing outside it, nothing without bound."""

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["unpacked"]

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2")
MAX_BYTES = 20 * 2**30
MAX_DEPTH = 2


@contextmanager
def unpacked(folder: Path) -> Iterator[Path]:
    """The folder itself if it contains no archives, else a temporary one with their contents next to its files.

    Archives inside archives are unpacked too (Caltech101 comes so). More than 20 GB are refused before a byte is
    written, and so are members that would land outside.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; pass the folder that contains the files you downloaded.")
    archives = _archives(folder)
    if not archives:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="paloma-") as name:
        root = Path(name)
        for path in folder.iterdir():
            if path not in archives:
                (root / path.name).symlink_to(path.resolve())
        for archive in archives:
            _unpack(archive, root / _stem(archive), MAX_DEPTH)
        yield root


def _archives(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIXES) and path.is_file())


def _stem(path: Path) -> str:
    """A folder for the contents; its name is no archive's own, which readers look for."""
    return f"from-{path.name}".replace(".", "-")


def _unpack(archive: Path, target: Path, depth: int) -> None:
    target.mkdir(exist_ok=True)
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as packed:
                _check(archive, target, sum(info.file_size for info in packed.infolist()))
                packed.extractall(target)
        else:
            with tarfile.open(archive) as tar:
                _check(archive, target, sum(member.size for member in tar.getmembers()))
                tar.extractall(target, filter="data")
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise ValueError(f"{archive} could not be unpacked: {error}") from error
    if depth > 1:
        for inner in [path for path in target.rglob("*") if path.name.endswith(SUFFIXES) and path.is_file()]:
            _unpack(inner, inner.parent / _stem(inner), depth - 1)


def _check(archive: Path, target: Path, size: int) -> None:
    room = min(MAX_BYTES, shutil.disk_usage(target).free)
    if size > room:
        raise ValueError(f"{archive} would unpack to {size:,} bytes, but the limit is {room:,}.")
