"""A model taken apart and put together: transformers, and behind them a learner or a classifier that keeps rows."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline

from ..estimators import learner_of, parted
from ..neighbors import MetricIndex, MetricKNeighborsClassifier

Path = str | os.PathLike[str]


def split(model: Any) -> tuple[Any, Any]:
    """What prepares the rows of a model, or of an index, None if nothing does; and what it stands in front of."""
    return parted(model.metric if isinstance(model, MetricIndex) else model)


def assembled(steps: list[Any], last: Any) -> Any:
    """A learner or classifier behind transformers, if there are any."""
    return make_pipeline(*steps, last) if steps else last


def with_last(model: Any, last: Any) -> Any:
    """The model with something else behind its transformers, and the same columns."""
    front, _ = split(model)
    out = last if front is None else Pipeline([*front.steps, (type(last).__name__.lower(), last)])
    if hasattr(model, "columns_"):
        out.columns_ = model.columns_
    return out


def metric_of(model: Any) -> Any:
    """The model without the rows it keeps."""
    learner = learner_of(model)
    return model if split(model)[1] is learner else with_last(model, learner)


def classifier_over(learner: Any, rows: Any, y: Any, n_neighbors: int | None) -> MetricKNeighborsClassifier:
    settings: dict[str, Any] = {} if n_neighbors is None else {"n_neighbors": n_neighbors}
    return MetricKNeighborsClassifier(learner, **settings).fit(rows, y)


def transformed(front: Any, X: Any) -> Any:
    """Rows as the learner sees them."""
    return X if front is None else front.transform(X)


def prepared(front: Any, batch: Any) -> dict[str, Any]:
    """A batch as arguments of the learner, with its rows, or its triplets of points, preprocessed."""
    given = dict(batch) if isinstance(batch, Mapping) else dict(zip(("X", "y"), batch, strict=True))
    if given["X"] is not None:
        given["X"] = transformed(front, given["X"])
    elif front is not None:
        points = np.asarray(given["triplets"])
        rows = front.transform(points.reshape(-1, points.shape[-1]))
        given["triplets"] = rows.reshape(*points.shape[:2], -1)
    return given
