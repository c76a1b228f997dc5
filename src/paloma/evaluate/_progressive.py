"""Progressive validation: every batch is predicted before it is learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .. import _validation as check
from .._optional import optional
from .._progress import progress
from .._typing import Array
from ..estimators import is_learner, tallies_of
from ..neighbors.reservoir import shares

# What is shown over time: which counts, of which others.
_KINDS = {"accuracy": ("right", "rows"), "triplet_accuracy": ("ranked", "triplets"), "loss": ("loss", "triplets")}


@dataclass
class Progress:
    """Counts of a progressive validation, one row per batch and one column per class of `classes`.

    Attributes
    ----------
    rows, right : rows of the class in the batch, and how many of them were predicted right before being learned.
    triplets, ranked, loss : triplets of the class that the batch gave, how many were ranked right, and the sum of
        their losses, each before its own step.
    """

    classes: Array
    rows: Array
    right: Array
    triplets: Array
    ranked: Array
    loss: Array

    @property
    def seen(self) -> Array:
        """Rows seen after each batch."""
        return np.cumsum(self.rows.sum(axis=1))

    def over_time(self, what: str = "accuracy", *, window: int = 1, by_class: bool = False) -> Array:
        """Accuracy, triplet accuracy or mean loss over the last `window` batches, for all rows or (n, n_classes).

        what : "accuracy", "triplet_accuracy" or "loss". NaN where there was nothing to count.
        """
        check.check_word("what", what, tuple(_KINDS))
        check.check_count("window", window)
        total, count = (getattr(self, name).astype(float) for name in _KINDS[what])
        if not by_class:
            total, count = total.sum(axis=1), count.sum(axis=1)
        total, count = _rolling(total, window), _rolling(count, window)
        return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)

    def mean(self, what: str = "accuracy") -> float:
        """The same over the whole stream."""
        return float(self.over_time(what, window=len(self.rows))[-1])


def progressive(
    estimator: Any, X: ArrayLike | Iterable[Any], y: ArrayLike | None = None, *, batch_size: int = 20,
    n_neighbors: int = 3, verbose: int = 0,
) -> Progress:  # fmt: skip
    """Predict each batch of a stream, then learn it: how well a model performs while it learns.

    A learner predicts by the vote of the rows it remembers (`reservoir_size` per class), each under the metric of its
    class. Before the first row is learned, and for classes not seen yet, a prediction counts as wrong.

    Parameters
    ----------
    estimator : learner, or classifier with `partial_fit` and `predict`
        Learns the stream itself, starting from its current state; it is not cloned. A classifier has no triplets to
        count, and is told the classes of y at its first batch (if batches are given one by one, those of the first).
    X, y : rows and labels in their order; or X alone, an iterable of (rows, labels), one pair per batch.
    batch_size : rows that are predicted and then learned together.
    n_neighbors : rows that vote.
    verbose : above 0, a progress bar on stderr.

    Returns
    -------
    Progress
        Counts by batch and class; `over_time` gives accuracy, triplet accuracy and loss, `plot_progress` shows them.

    Examples
    --------
    >>> from paloma import LODML
    >>> from paloma.datasets import load_letters
    >>> from paloma.evaluate import progressive
    >>> X, y = load_letters(return_X_y=True)
    >>> result = progressive(LODML(random_state=0), X[:2000], y[:2000], batch_size=100)
    >>> accuracy = result.over_time("accuracy", window=5)
    >>> bool(accuracy[-1] > accuracy[4] + 0.1)
    True
    """
    if not hasattr(estimator, "partial_fit"):
        raise TypeError(f"estimator must have partial_fit, got {type(estimator).__name__}.")
    check.check_count("batch_size", batch_size)
    check.check_count("n_neighbors", n_neighbors)
    found: list[dict[Any, Array]] = []
    total, classes = (0, None) if y is None else (_num_samples(X), np.unique(y))
    with progress(check.name_of(estimator), total, verbose > 0 and total > 0) as advance:
        for rows, labels in _batches(X, y, batch_size):
            found.append(_test_then_train(estimator, rows, labels, n_neighbors, classes))
            advance(len(labels))
    classes = np.array(sorted({label for batch in found for label in batch}))
    counts = np.zeros((len(found), len(classes), 5))
    for batch, by_label in enumerate(found):
        for label, values in by_label.items():
            counts[batch, np.searchsorted(classes, label)] = values
    rows, right, triplets, ranked = (counts[..., k].astype(np.int64) for k in range(4))
    return Progress(classes, rows, right, triplets, ranked, counts[..., 4])


def plot_progress(
    result: Progress, what: str = "accuracy", *, window: int = 20, by_class: bool = False, label: str | None = None,
    ax: Any = None,
) -> Any:  # fmt: skip
    """Plot accuracy, triplet accuracy or loss over time, for all rows or one line per class; returns the axes.

    Needs matplotlib: ``pip install 'paloma[plot]'``.
    """
    values = result.over_time(what, window=window, by_class=by_class)
    if ax is None:
        ax = optional("matplotlib.pyplot", "plot").subplots()[1]
    ax.plot(result.seen, values, label=result.classes.tolist() if by_class else label)
    ax.set_xlabel("rows")
    ax.set_ylabel(what.replace("_", " "))
    return ax


def _batches(X: Any, y: Any, size: int) -> Iterator[tuple[Any, Array]]:
    if y is None:
        if hasattr(X, "shape"):
            raise TypeError("progressive: pass the labels y of these rows, or X as an iterable of (rows, labels).")
        for rows, labels in X:
            yield rows, np.asarray(labels)
        return
    labels = np.asarray(y)
    if len(labels) != _num_samples(X):
        raise ValueError(f"progressive: y has {len(labels)} labels for {_num_samples(X)} rows of X.")
    for a in range(0, len(labels), size):
        yield _safe_indexing(X, np.arange(a, min(a + size, len(labels)))), labels[a : a + size]


def _test_then_train(estimator: Any, X: Any, y: Array, k: int, classes: Array | None) -> dict[Any, Array]:
    """One batch: for each label, rows, rows right, triplets, triplets right, sum of losses."""
    predicted, before = _predicted(estimator, X, len(y), k), _sums(estimator)
    if is_learner(estimator):
        estimator.partial_fit(X, y)
    else:
        told = {} if hasattr(estimator, "classes_") else {"classes": np.unique(y) if classes is None else classes}
        estimator.partial_fit(X, y, **told)
    after, out = _sums(estimator), {}
    marked = getattr(estimator, "unlabeled", None)
    known = np.unique(y) if marked is None else np.setdiff1d(y, [marked])
    for label in [*known.tolist(), *(set(after) - set(known.tolist()))]:
        mine = y == label
        right = int(sum(p is not None and p == label for p in predicted[mine])) if mine.any() else 0
        gained = after.get(label, np.zeros(3)) - before.get(label, np.zeros(3))
        if mine.any() or gained[0]:
            out[label] = np.array([mine.sum(), right, *gained])
    return out


def _predicted(estimator: Any, X: Any, n: int, k: int) -> Array:
    """Predicted labels; None if nothing has been learned yet."""
    out = np.full(n, None, object)
    if not is_learner(estimator):
        return np.asarray(estimator.predict(X), object) if hasattr(estimator, "classes_") else out
    if estimator.__sklearn_is_fitted__():
        labels, votes = shares(estimator, X, k)
        if votes.any():
            out[:] = labels[votes.argmax(axis=1)].tolist()
    return out


def _sums(estimator: Any) -> dict[Any, Array]:
    """For each label, triplets, triplets ranked right and losses so far."""
    return tallies_of(estimator) if is_learner(estimator) and estimator.__sklearn_is_fitted__() else {}


def _rolling(values: Array, window: int) -> Array:
    """Sums over the last `window` rows."""
    total = np.cumsum(values, axis=0)
    total[window:] -= total[:-window].copy()
    return total
