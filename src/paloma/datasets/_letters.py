"""The bundled UCI Letter Recognition data; letters.md next to it says where it comes from."""

from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

FEATURE_NAMES = [
    "x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar",
    "y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx",
]  # fmt: skip
LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
N_TRAIN = 16_000


def load_letters(return_X_y: bool = False) -> Any:
    """Load UCI Letter Recognition: 20,000 rows, 16 integer features from 0 to 15, 26 classes.

    Parameters
    ----------
    return_X_y : bool
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    letters : Bunch
        ``data`` (float64), ``target`` ("A" to "Z"), ``feature_names``, ``target_names``, ``DESCR``, and the
        customary split: ``train_idx`` (the first 16,000 rows) and ``test_idx`` (the others).

    Examples
    --------
    >>> X, y = load_letters(return_X_y=True)
    >>> X.shape, float(X.mean().round(3)), "".join(y[:5])
    ((20000, 16), 5.925, 'TIDNG')
    """
    folder = files("paloma.datasets")
    with folder.joinpath("letters.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        data, target = arrays["X"].astype(np.float64), LETTERS[arrays["y"]]
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        feature_names=list(FEATURE_NAMES),
        target_names=LETTERS.copy(),
        train_idx=np.arange(N_TRAIN),
        test_idx=np.arange(N_TRAIN, len(data)),
        DESCR=folder.joinpath("letters.md").read_text(encoding="utf-8"),
    )
