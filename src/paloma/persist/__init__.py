"""Model files: one file per model, without pickle on any path.

`save` writes a safetensors file whose metadata hold the model as strict JSON and whose last 32 bytes are the SHA-256 of
everything before them; `load` verifies that before it reads anything else. What a file holds of an object is an
explicit schema (`paloma._core.fields`): that of a space is beside the space, all others are here, in `_model`,
`_learners`, `_clusters`, `_steps`, `_index` and `_objects`. `_flat` turns states into JSON and arrays, `_plain`
parameters, `_container` both into bytes.
"""

import os
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..exceptions import ModelFileError
from ..feedback import FeedbackSearch, FeedbackState
from . import _container
from ._about import environment, summary
from ._flat import Reader, Writer
from ._lock import locked
from ._objects import read_object, write_object
from ._registry import register

__all__ = ["environment", "load", "locked", "register", "save"]

register(FeedbackSearch)
register(FeedbackState)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted learner, classifier, index or pipeline, so that `load` goes on from there to the bit.

    A pipeline may hold scikit-learn's own scalers, normalizers, PCA and TruncatedSVD in front of a learner. The file is
    written under a temporary name, synced and renamed: a crash leaves the old file or the new one.

    Parameters
    ----------
    model : fitted estimator or index
    path : file name, e.g. ``"letters.paloma"``

    Raises
    ------
    ModelFileError
        The model holds something that cannot be saved, e.g. a callable kernel; nothing is written.

    Examples
    --------
    >>> import os, tempfile
    >>> from paloma import LODML, load, save
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> path = os.path.join(tempfile.mkdtemp(), "iris.paloma")
    >>> save(LODML(random_state=0).fit(X, y), path)
    >>> print(f"{load(path).score(X, y):.2f}")
    0.96
    """
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    writer = Writer()
    node = write_object(writer, model, type(model).__name__)
    header = {"summary": summary(model), "environment": environment(), "model": node}
    _container.write(Path(path), header, writer.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save` wrote.

    Nothing in the file is executed, and nothing is read before its SHA-256 is verified. The digest tells damage, not
    origin: whoever can write the file can make another valid one.

    Raises
    ------
    ModelFileError
        The file is damaged, was not written by paloma, or needs another version of it.

    Examples
    --------
    >>> from paloma import load
    >>> load(__file__)
    Traceback (most recent call last):
        ...
    paloma.exceptions.ModelFileError: ...__init__.py was not written by paloma.save.
    """
    path = Path(path)
    header, arrays, size = _container.read(path)
    try:
        reader, node = Reader(arrays, size), header["model"]
        model = read_object(reader, node, str(node["class"]) if isinstance(node, dict) else "the model")
        reader.finish()
    except ImportError:
        raise
    except ModelFileError as error:
        raise ModelFileError(f"{path} holds no valid model: {error}.") from None
    except Exception as error:  # whatever a file that makes no sense leads to
        raise ModelFileError(f"{path} holds no valid model: {type(error).__name__}: {error}"[:500]) from None
    return model
