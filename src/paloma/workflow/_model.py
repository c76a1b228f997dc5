"""A model taken apart and put together: transformers, and behind them a learner or a classifier that keeps rows."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline

from ..estimators import learner_of
from ..neighbors import MetricIndex, MetricKNeighborsClassifier

Path = str | os.PathLike[str]


def split(model: Any) -> tuple[list[Any], Any]:
    """The fitted transformers of a model, and what they stand in front of."""
    if isinstance(model, MetricIndex):
        model = model.metric
    return (list(model)[:-1], model[-1]) if isinstance(model, Pipeline) else ([], model)


def assembled(steps: list[Any], last: Any) -> Any:
    return make_pipeline(*steps, last) if steps else last


def metric_of(model: Any) -> Any:
    """The model without the rows it keeps."""
    (steps, last), learner = split(model), learner_of(model)
    if last is learner:
        return model
    metric = assembled(steps, learner)
    if hasattr(model, "columns_"):
        metric.columns_ = model.columns_
    return metric


def classifier_over(learner: Any, rows: Any, y: Any, n_neighbors: int | None) -> MetricKNeighborsClassifier:
    settings: dict[str, Any] = {} if n_neighbors is None else {"n_neighbors": n_neighbors}
    return MetricKNeighborsClassifier(learner, **settings).fit(rows, y)


def transformed(steps: list[Any], X: Any) -> Any:
    for step in steps:
        X = step.transform(X)
    return X


def prepared(steps: list[Any], batch: Any) -> dict[str, Any]:
    """A batch as arguments of the learner, with its rows, or its triplets of points, preprocessed."""
    given = dict(batch) if isinstance(batch, Mapping) else dict(zip(("X", "y"), batch, strict=True))
    if given["X"] is not None:
        given["X"] = transformed(steps, given["X"])
    elif steps:
        points = np.asarray(given["triplets"])
        rows = transformed(steps, points.reshape(-1, points.shape[-1]))
        given["triplets"] = rows.reshape(*points.shape[:2], -1)
    return given
