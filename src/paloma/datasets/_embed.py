"""Features of a folder of images, in batches, resumable."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .._progress import progress
from .._typing import Array
from ._encoder import Encoder, OnnxEncoder
from ._images import ImageError, find_images, read_image, resized
from ._pretrained import IMAGES, pretrained

__all__ = ["Embedded", "embed"]

DEFAULT_SIZE = (224, 224)


@dataclass
class Embedded:
    """Features of images, the number of each among the paths asked for, and why others were left out."""

    features: Array
    numbers: Array
    skipped: list[str] = field(default_factory=list)


def embed(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    encoder: Encoder | str | os.PathLike[str] = IMAGES,
    size: tuple[int, int] | None = None,
    batch_size: int = 32,
    skip_errors: bool = False,
    verbose: int = 0,
) -> list[str]:
    """Embed every image under a folder and write an ``.npz`` file that `load` reads.

    The label of an image is the name of the folder that contains it. Finished batches are kept next to the output until
    it is complete: an interrupted call resumes where it stopped.

    Parameters
    ----------
    folder : a folder of images, usually one folder per class.
    output : the file to write: X (float16 or float32, as the encoder gives), y (names), name (paths below the folder).
    encoder : the name of an encoder for images (see `pretrained`), an ONNX model file, or a callable from
        (n, height, width, 3) uint8 to (n, d) features.
    size : (height, width) that images are resized to; by default what the model expects, 224 x 224 for a callable.
    batch_size : images read and encoded together.
    skip_errors : skip unreadable images and list them in the result; otherwise the first one raises an error.
    verbose : above 0, a progress bar on stderr.

    Returns
    -------
    What was wrong with each image that was skipped.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from PIL import Image
    >>> from paloma.datasets import embed, load
    >>> home = Path(tempfile.mkdtemp())
    >>> for name, value in (("dark", 20), ("light", 200)):
    ...     (home / "pictures" / name).mkdir(parents=True)
    ...     Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(home / "pictures" / name / "1.png")
    >>> embed(home / "pictures", home / "tiny.npz", encoder=lambda pixels: pixels.mean(axis=(1, 2)), size=(8, 8))
    []
    >>> tiny = load("tiny", data_home=home)
    >>> tiny.target.tolist(), tiny.data[:, 0].tolist()
    (['dark', 'light'], [20.0, 200.0])
    """
    root, target = Path(folder), Path(output)
    if target.suffix != ".npz" or not target.parent.is_dir():
        raise ValueError(f"The output must be an .npz file in an existing folder; got {str(target)!r}.")
    paths = find_images(root)
    if not paths:
        raise ValueError(f"There are no images under {root}.")
    images = [ImageFile(path) for path in paths]
    made = embed_images(images, target, encoder, size, batch_size=batch_size, skip_errors=skip_errors, verbose=verbose)
    kept = [paths[number] for number in made.numbers]
    labels = [path.parent.relative_to(root).as_posix() for path in kept]
    names = [path.relative_to(root).as_posix() for path in kept]
    save(target, X=made.features, y=np.array(labels), name=np.array(names))
    return made.skipped


class Image(Protocol):
    """Something to encode: its bytes tell whether it has been encoded before, its pixels are what is encoded."""

    def content(self) -> bytes: ...

    def pixels(self, size: tuple[int, int]) -> Array: ...


@dataclass(frozen=True)
class ImageFile:
    """An image in a file."""

    path: Path

    def content(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    def pixels(self, size: tuple[int, int]) -> Array:
        return read_image(self.path, size)


@dataclass(frozen=True)
class ImageArray:
    """An image (height, width, 3) in memory."""

    array: Array

    def content(self) -> bytes:
        return self.array.tobytes()

    def pixels(self, size: tuple[int, int]) -> Array:
        return resized(self.array, size)


def embed_images(
    images: Sequence[Image],
    target: Path,
    encoder: Encoder | str | os.PathLike[str],
    size: tuple[int, int] | None = None,
    *,
    batch_size: int = 32,
    skip_errors: bool = False,
    verbose: int = 0,
) -> Embedded:
    """Features of images; finished batches lie in a folder named after the target until `save` removes it."""
    model = _encoder_of(encoder, size)
    shape: tuple[int, int] = size if size is not None else getattr(model, "size", DEFAULT_SIZE)
    parts = _Parts(parts_folder(target), f"{_name(encoder)} {shape}")
    found = []
    with progress(f"{len(images):,} images", len(images), verbose > 0) as advance:
        for start in range(0, len(images), batch_size):
            batch = images[start : start + batch_size]
            key = parts.key(batch)
            if not key.exists():
                parts.put(key, _encode(model, batch, shape, skip_errors))
            part = parts.get(key)
            part.numbers += start
            found.append(part)
            advance(len(batch))
    full = [part.features for part in found if len(part.numbers)]
    if not full:
        raise ValueError("None of the images could be read.")
    numbers = np.concatenate([part.numbers for part in found])
    return Embedded(np.concatenate(full), numbers, [text for part in found for text in part.skipped])


def _encoder_of(encoder: Encoder | str | os.PathLike[str], size: tuple[int, int] | None) -> Encoder:
    if callable(encoder):
        return encoder
    return pretrained(IMAGES) if encoder == IMAGES else OnnxEncoder(encoder, size=size)


def _encode(model: Encoder, batch: Sequence[Image], shape: tuple[int, int], skip: bool) -> Embedded:
    """One batch; an unreadable image is an error unless it may be left out."""
    numbers, pixels, skipped = [], [], []
    for number, image in enumerate(batch):
        try:
            pixels.append(image.pixels(shape))
        except ImageError as error:
            if not skip:
                raise
            skipped.append(str(error))
        else:
            numbers.append(number)
    return Embedded(_features(model, pixels), np.array(numbers, np.int64), skipped)


def _features(model: Encoder, images: list[Array]) -> Array:
    if not images:
        return np.empty((0, 0), np.float32)
    features = np.asarray(model(np.stack(images)))
    if features.ndim != 2 or len(features) != len(images):
        raise ValueError(f"The encoder must return (n, d) features for n = {len(images)} images, got {features.shape}.")
    if not np.isfinite(features).all():
        raise ValueError("The encoder returned features that are not finite.")
    return features


def _name(encoder: Any) -> str:
    """What tells one encoder from another: its name, or the bytes of a model file; a callable's name alone."""
    if encoder == IMAGES:
        return IMAGES
    if callable(encoder):
        return f"{getattr(encoder, '__module__', '')}.{getattr(encoder, '__qualname__', type(encoder).__name__)}"
    with Path(encoder).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Parts:
    """Finished batches, one file each, named by what went into them: content of the images, encoder and size."""

    def __init__(self, folder: Path, settings: str) -> None:
        self.folder, self.settings = folder, settings
        folder.mkdir(exist_ok=True)

    def key(self, batch: Sequence[Image]) -> Path:
        digest = hashlib.sha256(self.settings.encode())
        for image in batch:
            digest.update(hashlib.sha256(image.content()).digest())
        return self.folder / f"{digest.hexdigest()[:32]}.npz"

    def put(self, key: Path, part: Embedded) -> None:
        skipped = np.array(part.skipped, dtype=np.str_)
        _write(key, {"features": part.features, "numbers": part.numbers, "skipped": skipped})

    def get(self, key: Path) -> Embedded:
        with np.load(key, allow_pickle=False) as file:
            return Embedded(file["features"], file["numbers"], [str(text) for text in file["skipped"]])


def parts_folder(target: Path) -> Path:
    """Where the finished batches of a target are kept."""
    return target.with_name(f".{target.stem}.parts")


def save(target: Path, **arrays: Array) -> None:
    """Write an .npz whole or not at all, and remove the finished batches of this target."""
    _write(target, arrays)
    shutil.rmtree(parts_folder(target), ignore_errors=True)


def _write(target: Path, arrays: dict[str, Any]) -> None:
    partial = target.with_name(f".{target.name}.partial")
    with partial.open("wb") as file:
        np.savez_compressed(file, **arrays)
    partial.replace(target)
