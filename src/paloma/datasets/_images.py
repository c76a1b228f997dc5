"""Images read safely: named errors for damaged files, no decompression bombs, always RGB of one size."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .._optional import optional
from .._typing import Array

__all__ = ["ImageError", "find_images", "read_image"]


SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp"}
MAX_PIXELS = 64_000_000


class ImageError(ValueError):
    """A file that is not a readable image, or one too large to be decoded."""


def find_images(folder: Path) -> list[Path]:
    """Image files below a folder, hidden ones left out, sorted by their path."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder of images.")
    found = [path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()]
    visible = [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    return sorted(visible, key=lambda path: path.relative_to(folder).as_posix())


def read_image(path: Path, size: tuple[int, int] | None = None, *, gray: bool = False) -> Array:
    """Pixels as uint8, (height, width, 3), or (height, width) if `gray`; resized to (height, width) `size`.

    The size in the header is checked before anything is decoded: more than 64 million pixels are refused.
    """
    image = optional("PIL.Image", "images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own limit; ours is checked below
            with image.open(path) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise ImageError(f"{path}: {opened.width} x {opened.height} pixels exceed the limit of "
                                     f"{MAX_PIXELS:,}.")  # fmt: skip
                return resized(opened.convert("L" if gray else "RGB"), size)
    except ImageError:
        raise
    except Exception as error:  # Pillow raises nearly anything on damaged files
        raise ImageError(f"{path} is not a readable image: {type(error).__name__}: {error}") from error


def resized(pixels: Any, size: tuple[int, int] | None) -> Array:
    """An image, of Pillow or an array, as an array of (height, width) `size`."""
    image = optional("PIL.Image", "images")
    if isinstance(pixels, np.ndarray):
        pixels = image.fromarray(pixels)
    if size is not None and size != (pixels.height, pixels.width):
        pixels = pixels.resize((size[1], size[0]), image.Resampling.BICUBIC)
    return np.asarray(pixels, np.uint8)
