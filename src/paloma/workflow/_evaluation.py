"""From a model to figures: the vote of neighbors, retrieval, triplets; beside the Euclidean baseline."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..estimators import as_arrays, learner_of
from ..evaluate import retrieval as ranked
from ..neighbors import MetricKNeighborsClassifier, euclidean_accuracy
from ._model import classifier_over, prepared, split, transformed


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    triplets: ArrayLike | None = None,
    items: tuple[Any, ArrayLike] | None = None,
    n_neighbors: int | None = None,
    retrieval: bool = False,
) -> dict[str, float]:
    """Measure a model on labeled rows or on triplets, with the Euclidean baseline for the same rows.

    Parameters
    ----------
    model : model
    X, y : array-like (n, d), (n,)
        Rows that were not learned from, and their labels. X is None if `triplets` are points.
    triplets : array-like, optional
        Report the fraction ranked correctly, instead of the vote.
    items : (X, y), optional
        Labeled rows that vote or are ranked; by default those that the model keeps. If there are none, each row is
        classified by the others (leave-one-out).
    n_neighbors : int, optional
        Neighbors that vote (by default as in the model), or cutoff of the retrieval metrics (by default 10).
    retrieval : bool
        Rank the items for each row, and report mAP, precision, recall, hit rate and AP at `n_neighbors`.

    Returns
    -------
    dict
        Numbers by name.

    Examples
    --------
    >>> from paloma import LODML, train
    >>> from paloma.workflow import evaluate
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = train(LODML(random_state=0), X[::2], y[::2], n_neighbors=3)
    >>> {name: round(value, 2) for name, value in evaluate(model, X[1::2], y[1::2]).items()}
    {'rows': 89, 'neighbors': 3, 'accuracy': 0.96, 'euclid': 0.94}
    """
    learner, (front, last) = learner_of(model), split(model)
    if triplets is not None:
        given = prepared(front, {"X": X, "triplets": triplets})
        score = learner.triplet_score(given["X"], given["triplets"], y)
        return {"triplets": len(given["triplets"]), "triplet_score": float(score)}
    if y is None:
        raise ValueError("evaluate: expected labels y or triplets, got neither.")
    rows, voters = transformed(front, X), items
    if items is not None:
        voters = (transformed(front, items[0]), items[1])
    elif isinstance(last, MetricKNeighborsClassifier):
        voters = as_arrays("evaluate", last.rows_, last.labels_)
    if retrieval:
        return {"rows": np.shape(rows)[0], **_retrieval(learner, voters, rows, y, n_neighbors or 10)}
    if voters is None:
        if n_neighbors is not None:
            raise ValueError("evaluate: n_neighbors needs rows that vote. Pass items, or leave n_neighbors out.")
        accuracy, euclid = learner.leave_one_out_score(rows, y), euclidean_accuracy(rows, y)
        return {"rows": np.shape(rows)[0], "neighbors": 3, "leave_one_out_accuracy": accuracy, "euclid": euclid}
    _warn_of_own_neighbors(rows, voters[0])
    classifier = copy(last) if items is None else classifier_over(learner, *voters, n_neighbors)
    k = classifier.n_neighbors_ if n_neighbors is None else n_neighbors
    accuracy = classifier.set_params(n_neighbors=k).score(rows, y)
    euclid = euclidean_accuracy(
        rows, y, n_neighbors=k, weights=classifier.weights, items=voters[0], item_labels=voters[1]
    )
    return {"rows": np.shape(rows)[0], "neighbors": k, "accuracy": accuracy, "euclid": euclid}


def _warn_of_own_neighbors(rows: Any, voters: Any) -> None:
    """Whoever measures on the rows that vote finds each of them to be its own nearest neighbor."""
    if sp.issparse(rows) or sp.issparse(voters):
        return
    known = {row.tobytes() for row in np.asarray(voters, np.float64)}
    same = sum(row.tobytes() in known for row in np.asarray(rows, np.float64))
    if 2 * same > len(rows):
        warnings.warn(
            f"evaluate: {same:,} of {len(rows):,} rows are among those that vote, each its own nearest neighbor, so "
            "that the accuracy says nothing about new rows. Measure on rows that were not learned from.",
            stacklevel=3,
        )


def _retrieval(learner: Any, items: Any, rows: Any, y: Any, k: int) -> dict[str, float]:
    if items is None:
        raise ValueError("evaluate: the model keeps no rows to rank. Pass items=(X, y).")
    X, labels = items
    learned, plain = (ranked(metric, X, labels, rows, y, k=k) for metric in (learner, None))
    euclid = {f"euclid {name}": float(plain[name]) for name in ("mAP", f"precision@{k}")}
    return {"items": len(labels), **{name: float(value) for name, value in learned.items()}, **euclid}
