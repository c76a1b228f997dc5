"""Data sets by name: built-in ones, and ``.npz`` files in a folder that the user names."""

import os
import zipfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from paloma.datasets._letters import load_letters

BUILT_IN = {"letters": load_letters, "digits": load_digits}


def load(name: str, data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        ``"letters"`` (bundled), ``"digits"`` (scikit-learn's), or a file in the folder ``data_home``: its
        stem, or the part of its stem before the first ``_`` (``"pets"`` finds ``pets_resnet.npz``).
    data_home : path, optional
        A folder of ``.npz`` files with arrays ``X`` (n, d) and ``y`` (n,); by default the folder that the
        environment variable ``PALOMA_DATA`` names.

    Returns
    -------
    dataset : Bunch
        ``data``, ``target``, and every other array of the file under its own name (``train_idx``,
        ``test_idx``, ``text``, ``name``). Features of 8 or 16 bits become float32; float32 and float64 stay.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.data.shape, len(set(digits.target.tolist()))
    ((1797, 64), 10)
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    return _read(_find(name, _folder(data_home)))


def _folder(data_home: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder to look in, None if the user named none."""
    home = data_home if data_home is not None else os.environ.get("PALOMA_DATA")
    if not home:
        return None
    folder = Path(home).expanduser()
    if not folder.is_dir():
        source = "data_home" if data_home is not None else "PALOMA_DATA"
        raise FileNotFoundError(f"{source} must name a folder of .npz files; {str(folder)!r} is not a folder.")
    return folder


def _find(name: str, folder: Path | None) -> Path:
    """Return the one file that ``name`` means: an exact stem, else a unique part before the first ``_``."""
    paths = sorted(folder.glob("*.npz")) if folder else []
    exact = [path for path in paths if path.stem == name]
    matches = exact or [path for path in paths if path.stem.partition("_")[0] == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        stems = ", ".join(path.stem for path in matches)
        raise ValueError(f"The data set name {name!r} is ambiguous; use one of: {stems}.")
    known = ", ".join([*BUILT_IN, *(path.stem for path in paths)])
    where = f"looked in {folder}" if folder else "set PALOMA_DATA or data_home to a folder of .npz files for more"
    raise ValueError(f"Unknown data set {name!r}; choose from: {known} ({where}).")


def _read(path: Path) -> Bunch:
    """Read one ``.npz`` file without ever unpickling."""
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not an .npz file of plain arrays: {error}") from error
    missing = [key for key in ("X", "y") if key not in arrays]
    if missing:
        raise ValueError(f"{path} must contain the arrays X and y; missing: {', '.join(missing)}.")
    X, y = arrays.pop("X"), arrays.pop("y")
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"{path} must contain X (n, d) and y (n,); got shapes {X.shape} and {y.shape}.")
    # Storage types are widened to the smallest of float32 and float64 that holds them exactly.
    return Bunch(data=X.astype(np.result_type(X.dtype, np.float32), copy=False), target=y, **arrays)
