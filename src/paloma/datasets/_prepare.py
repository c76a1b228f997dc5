"""Official archives into ``.npz`` files, checked against Table 1 of the paper."""

import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Array
from ._archives import unpacked
from ._embed import Encoder, Image, ImageArray, ImageFile, embed_images, save
from ._images import find_images, read_image

__all__ = ["KNOWN", "prepare"]

Arrays = dict[str, Array]


@dataclass(frozen=True)
class Source:
    """How a set is read, where it comes from, and the rows, classes and columns of Table 1; None: not fixed."""

    read: Callable[[Path, "Encode"], Arrays]
    hint: str
    n: int
    n_classes: int
    d: int | None = None


class Encode:
    """Turns images into features with the encoder that the user gave; remembers whether there is one."""

    def __init__(self, name: str, target: Path, encoder: Any, **options: Any) -> None:
        self.name, self.target, self.encoder, self.options = name, target, encoder, options

    def __call__(self, images: Sequence[Image]) -> tuple[Array, Array]:
        """Features of images, and the numbers of those that could be read."""
        if self.encoder is None:
            raise ValueError(
                f"{self.name} is a set of photographs: pass an encoder, e.g. --encoder efficientnet-lite2."
            )
        made = embed_images(images, self.target, self.encoder, **self.options)
        return made.features, made.numbers

    def files(self, paths: Sequence[Path]) -> tuple[Array, Array]:
        return self([ImageFile(path) for path in paths])


def prepare(
    name: str,
    folder: str | os.PathLike[str],
    data_home: str | os.PathLike[str] | None = None,
    *,
    encoder: Encoder | str | os.PathLike[str] | None = None,
    check: bool = True,
    skip_errors: bool = False,
    verbose: int = 0,
) -> Path:
    """Convert the downloaded archives of a data set into the ``.npz`` file that `load` reads.

    Parameters
    ----------
    name : "letters", "yaleb", "caltech101", "caltech256", "cifar10", "pets" or "cub200".
    folder : contains the official files, packed or unpacked.
    data_home : output folder; by default the one that PALOMA_DATA names.
    encoder : for sets of photographs, its name, an ONNX model file or a callable from pixels to features (see `embed`).
        CIFAR10 keeps its pixels without one.
    check : refuse data that differs from the paper's Table 1 in rows, classes, or columns. False accepts anything.
    skip_errors : skip unreadable images; the check then counts them as missing.
    verbose : above 0, a progress bar while images are encoded.

    Returns
    -------
    The file written.
    """
    if name not in KNOWN:
        raise ValueError(f"Unknown data set {name!r}; choose from: {', '.join(KNOWN)}.")
    home = data_home if data_home is not None else os.environ.get("PALOMA_DATA")
    if not home or not Path(home).is_dir():
        raise FileNotFoundError("Set data_home or PALOMA_DATA to an existing folder for the output file.")
    source, target = KNOWN[name], Path(home) / f"{name}.npz"

    encode = Encode(name, target, encoder, skip_errors=skip_errors, verbose=verbose)
    with unpacked(Path(folder)) as root:
        arrays = source.read(root, encode)
    if check:
        _check(name, arrays, source)
    save(target, **arrays)
    return target


def _check(name: str, arrays: Arrays, expected: Source) -> None:
    n, d = arrays["X"].shape
    classes = len(np.unique(arrays["y"]))
    found = {"rows": (n, expected.n), "classes": (classes, expected.n_classes), "columns": (d, expected.d or d)}
    wrong = [f"{what} {got:,} instead of {want:,}" for what, (got, want) in found.items() if got != want]
    if wrong:
        raise ValueError(f"{name} differs from Table 1 of the paper: {'; '.join(wrong)}. Is the download complete? "
                         "check=False (--no-check) accepts it anyway.")  # fmt: skip


def _one(root: Path, pattern: str, hint: str) -> Path:
    """The one file or folder of this name below the root."""
    found = sorted(root.rglob(pattern))
    if not found:
        raise FileNotFoundError(f"There is no {pattern} in the given folder: {hint}.")
    return found[0]


def _letters(root: Path, encode: Encode) -> Arrays:
    path = _one(root, "letter-recognition.data", KNOWN["letters"].hint)
    table = np.loadtxt(path, dtype=str, delimiter=",", ndmin=2)
    return {"X": table[:, 1:].astype(np.uint8), "y": table[:, 0]}


def _yaleb(root: Path, encode: Encode) -> Arrays:
    """A MATLAB file with fea and gnd, or one folder of .pgm images per person, brought to 32 x 32."""
    files = sorted(root.rglob("*.mat"))
    if files:
        from scipy.io import loadmat

        content = loadmat(files[0])
        if not {"fea", "gnd"} <= set(content):
            raise ValueError(f"{files[0].name} must contain fea and gnd, like the 32 x 32 file of Extended Yale B.")
        return {"X": content["fea"].astype(np.uint8), "y": content["gnd"].ravel().astype(np.int64)}
    paths = [path for path in find_images(root) if path.suffix == ".pgm" and "Ambient" not in path.name]
    if not paths:
        raise FileNotFoundError(f"There is neither a .mat nor a .pgm file: {KNOWN['yaleb'].hint}.")
    pixels = [read_image(path, (32, 32), gray=True).ravel(order="F") for path in paths]
    return {"X": np.stack(pixels), "y": np.array([path.parent.name for path in paths])}


def _class_folders(pattern: str, leave_out: frozenset[str]) -> Callable[[Path, Encode], Arrays]:
    def read(root: Path, encode: Encode) -> Arrays:
        folder = _one(root, pattern, f"the folder of class folders, {pattern}")
        paths = [path for path in find_images(folder) if path.parent.name not in leave_out]
        features, kept = encode.files(paths)
        labels = np.array([paths[number].parent.name for number in kept])
        return {"X": features, "y": labels, "name": _names(paths, kept, folder)}

    return read


def _names(paths: list[Path], kept: Array, folder: Path) -> Array:
    return np.array([paths[number].relative_to(folder).as_posix() for number in kept])


def _cifar10(root: Path, encode: Encode) -> Arrays:
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    batches = [_cifar_batch(_one(root, name, KNOWN["cifar10"].hint)) for name in names]
    sizes = [len(labels) for _, labels in batches]
    X, y = np.concatenate([rows for rows, _ in batches]), np.concatenate([labels for _, labels in batches])
    n_train = sum(sizes[:-1])
    if encode.encoder is not None:
        pixels = X.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        X, _ = encode([ImageArray(np.ascontiguousarray(image)) for image in pixels])
    return {"X": X, "y": y, "train_idx": np.arange(n_train), "test_idx": np.arange(n_train, len(y))}


class _PlainUnpickler(pickle.Unpickler):
    """Reads the arrays of CIFAR's batches and refuses every other class: a pickle can run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
        }:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise ValueError(f"contains {module}.{name}, which no CIFAR10 batch does")


def _cifar_batch(path: Path) -> tuple[Array, Array]:
    try:
        with path.open("rb") as file:
            batch = _PlainUnpickler(file, encoding="bytes").load()
        return np.asarray(batch[b"data"], np.uint8), np.asarray(batch[b"labels"], np.int64)
    except (ValueError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path.name} is not a batch of the Python version of CIFAR10: {error}") from error


def _pets(root: Path, encode: Encode) -> Arrays:
    """Rows in the order of trainval.txt and test.txt; the class is the second column, from 1."""
    lists = [_one(root, f"{part}.txt", KNOWN["pets"].hint).read_text().split("\n") for part in ("trainval", "test")]
    entries = [[line.split() for line in lines if line and not line.startswith("#")] for lines in lists]
    folder = _one(root, "images", KNOWN["pets"].hint)
    rows = [*entries[0], *entries[1]]
    paths = [folder / f"{row[0]}.jpg" for row in rows]
    features, kept = encode.files(paths)
    labels = np.array([int(rows[number][1]) - 1 for number in kept])
    train = kept < len(entries[0])
    idx = {"train_idx": np.flatnonzero(train), "test_idx": np.flatnonzero(~train)}
    return {"X": features, "y": labels, "name": _names(paths, kept, folder), **idx}


def _cub200(root: Path, encode: Encode) -> Arrays:
    folder = _one(root, "images.txt", KNOWN["cub200"].hint).parent
    tables = [np.loadtxt(folder / name, dtype=str, ndmin=2)[:, 1] for name in
              ("images.txt", "image_class_labels.txt", "train_test_split.txt")]  # fmt: skip
    paths = [folder / "images" / name for name in tables[0]]
    features, kept = encode.files(paths)
    train = tables[2][kept] == "1"
    idx = {"train_idx": np.flatnonzero(train), "test_idx": np.flatnonzero(~train)}
    return {"X": features, "y": tables[1][kept].astype(np.int64) - 1, "name": tables[0][kept], **idx}


# Table 1. Its 9,146 images of Caltech101 and 30,607 of Caltech256 count the background and the clutter class as well,
# which are left out here, as they are no classes: the numbers below are without them.
KNOWN = {
    "letters": Source(_letters, "UCI's letter-recognition.data", 20_000, 26, 16),
    "yaleb": Source(_yaleb, "YaleB_32x32.mat, or CroppedYale with its folders of .pgm", 2414, 38, 1024),
    "caltech101": Source(
        _class_folders("101_ObjectCategories", frozenset({"BACKGROUND_Google"})),
        "caltech-101.zip or 101_ObjectCategories.tar.gz", 8677, 101,
    ),
    "caltech256": Source(
        _class_folders("256_ObjectCategories", frozenset({"257.clutter"})), "256_ObjectCategories.tar", 29_780, 256
    ),
    "cifar10": Source(_cifar10, "cifar-10-python.tar.gz", 60_000, 10),
    "pets": Source(_pets, "images.tar.gz and annotations.tar.gz", 7349, 37),
    "cub200": Source(_cub200, "CUB_200_2011.tgz", 11_788, 200),
}  # fmt: skip
