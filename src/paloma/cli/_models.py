"""What the commands know about models: learners by name, the columns of their tables, rows to search."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from .. import estimators
from ..estimators import learner_of, parted
from ..neighbors import MetricIndex
from ..preprocessing import FillMissing
from ..workflow import PREPROCESSING, keep_rows
from ._batches import Batch
from ._columns import Wanted, names_in
from ._formats import read_all
from ._labels import LabelType
from ._options import LABEL

_ID = re.compile(r"(^|[_ .-])(id|ids|index|key|number|no|uuid)$|^$|^unnamed|^(row|rowid|row_?n.*)$")
# As JSON and shells write them.
_WORDS = {"true": True, "false": False, "null": None}
PREPARE = ("auto", "none", *PREPROCESSING[1:])


def learner(name: str, settings: list[str] | None, seed: int) -> Any:
    """Create a learner from its name, in any case, and parameters written as name=value."""
    known = {each.lower(): getattr(estimators, each) for each in estimators.__all__}
    if name.lower() not in known:
        raise ValueError(f"Unknown learner {name!r}. Known learners: {', '.join(estimators.__all__)}.")
    kind = known[name.lower()]
    parameters = list(kind().get_params(deep=False))
    for setting in settings or ():
        key, equals, _ = setting.partition("=")
        if not equals or key not in parameters:
            raise ValueError(
                f"--set {setting}: expected name=value with a parameter of {kind.__name__}: {', '.join(parameters)}."
            )
    return kind(**{"random_state": seed, **parsed(settings)})


def parsed(settings: list[str] | None) -> dict[str, Any]:
    """Parse options written as name=value."""
    pairs = [setting.partition("=") for setting in settings or ()]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise ValueError(f"--set {wrong[0]}: expected name=value.")
    return {name: _value(text) for name, _, text in pairs}


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def preprocessing(word: str) -> str | None:
    """The option --prepare as `paloma.train` takes it."""
    if word not in PREPARE:
        raise ValueError(f"--prepare must be one of {', '.join(PREPARE)}, got {word!r}.")
    return None if word == "none" else word


def queried(model: Any) -> Wanted:
    """The columns of queries: their labels, if there are any, are not looked at, and may be missing."""
    return replace(wanted(model, None, False), read=False)


def wanted(model: Any, label: str | None, needed: bool, drop: str = "") -> Wanted:
    """The columns that a model, or the metric of an index, expects."""
    model = model.metric if isinstance(model, MetricIndex) else model
    known = getattr(model, "columns_", None) or {}
    features = known.get("features") or list(getattr(model, "feature_names_in_", ())) or None
    n_features = getattr(model, "n_features_in_", None)
    return Wanted(
        label or known.get("label") or LABEL, needed, features, names_in(drop), n_features,
        missing="keep" if hasattr(model, "steps") and isinstance(model[0], FillMissing) else "error",
        dense=not get_tags(learner_of(model)).input_tags.sparse,
    )  # fmt: skip


def tolerating(wanted: Wanted, missing: str, skip: int, fills: bool = True) -> Wanted:
    """The same with the options --missing and --skip-errors; a model that fills in goes on to do so."""
    words = ("error", "drop", "mean") if fills else ("error", "drop")
    if missing not in words:
        raise ValueError(f"--missing must be one of {', '.join(words)}, got {missing!r}.")
    if missing != "error":
        wanted.missing = "keep" if missing == "mean" else "drop"
    wanted.skip = skip
    return wanted


def label_type(model: Any, word: str = "auto") -> LabelType:
    """How to read labels: as the classes that the model knows."""
    return LabelType(word, getattr(learner_of(model), "classes_", None))


def read_items(model: Any, items: str) -> tuple[Any, Any]:
    """Labeled rows of a table."""
    batch = read_all(items, wanted(model, None, True))
    return batch.X, label_type(model).of(batch, items)


def searchable(model: Any, items: str | None, k: int | None) -> Any:
    """The model if it keeps rows, or a model that keeps the rows of `items` instead."""
    if items is not None:
        if isinstance(model, MetricIndex):
            raise ValueError("--items requires a model, but MODEL is an index, which has items of its own.")
        return keep_rows(model, *read_items(model, items), n_neighbors=k)
    if not keeps_rows(model):
        raise ValueError("The model contains no rows to search. Provide labeled rows with --items.")
    if k is not None:
        parted(model)[1].set_params(n_neighbors=k)
    return model


def keeps_rows(model: Any) -> bool:
    """Whether the model contains rows that vote and can be searched."""
    return hasattr(parted(model)[1], "kneighbors")


def columns(features: list[str] | None, label: str) -> dict[str, Any]:
    """Names of columns as models store them."""
    return {"features": features, "label": label}


def taken(batch: Batch, label: str, wanted: Wanted) -> Iterator[str]:
    """What of a table is learned from, in words; and columns that look like ids."""
    if batch.triplets:
        return
    names = batch.names or [str(k) for k in range(batch.X.shape[1])]
    shown = ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:3])}, ..., {', '.join(names[-2:])}"
    n_classes = 0 if batch.y is None else len(set(np.asarray(batch.y).tolist()))
    of = f"; {n_classes:,} class{'' if n_classes == 1 else 'es'} in {label!r}" if n_classes else ""
    yield f"{len(batch):,} rows, {len(names)} features ({shown}){of}"
    if left_out := wanted.told():
        yield left_out
    for k, name in enumerate(names if batch.names else ()):
        column = batch.X[:, k]
        if _ID.search(name.strip().lower()) and len(np.unique(column)) == len(batch) and (column % 1 == 0).all():
            yield f"  {name!r} is another whole number in every row: if it is an id, leave it out with --drop {name}"


def as_ids(texts: Any) -> Any:
    """Ids as a table holds them: whole numbers if all are written so, else strings."""
    if texts is None or np.asarray(texts).dtype.kind in "iu":
        return texts
    words = np.asarray(texts).astype(str)
    return words.astype(np.int64) if all(re.fullmatch(r"-?\d{1,18}", word) for word in words.tolist()) else words
