"""Pictures of what a learner has learned; needs the extra `plot` (matplotlib).

Each function draws into the axes it is given, or a new figure, and returns what it drew into: save it by
``axes.figure.savefig("picture.png")``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from . import _validation as check
from ._optional import optional
from ._typing import Array
from .estimators import bare_learner, measure_of, reader_of
from .estimators.base import Learner
from .neighbors import MetricKNeighborsClassifier, euclidean_accuracy

__all__ = ["feature_weights", "learning_curve", "neighbors", "spectra"]


def _axes(ax: Any, size: tuple[float, float] = (6.0, 4.0)) -> Any:
    if ax is not None:
        return ax
    return optional("matplotlib.figure", "plot").Figure(figsize=size, layout="constrained").subplots()


def _strongest(learner: Learner, n: int) -> list[Any]:
    """Labels of the classes whose metrics are farthest from the shared part."""
    reader = reader_of(learner)
    shared = reader.matrix()
    distances = [np.linalg.norm(reader.matrix(label) - shared) for label in learner.classes_]
    return [learner.classes_[k] for k in np.argsort(distances, kind="stable")[::-1][:n] if distances[k] > 0]


def spectra(metric: Any, *, n_classes: int = 5, ax: Any = None) -> Any:
    """Eigenvalues of the shared part and of the classes that differ most from it, largest first.

    A flat line is the plain distance; a steep one says that few directions count. Of a similarity, singular values.

    Parameters
    ----------
    metric : fitted learner, not of a kernel
    n_classes : how many classes to draw
    ax : matplotlib axes; None makes a figure

    Returns
    -------
    axes

    Examples
    --------
    >>> from paloma import LODML, plot
    >>> from sklearn.datasets import load_iris
    >>> ax = plot.spectra(LODML(random_state=0).fit(*load_iris(return_X_y=True)))
    >>> ax.lines[0].get_label()
    'shared'
    """
    learner = bare_learner(metric)
    symmetric, reader = measure_of(learner).is_distance, reader_of(learner)
    parts = {"shared": reader.matrix()} | {str(label): reader.matrix(label) for label in _strongest(learner, n_classes)}
    ax = _axes(ax)
    for name, matrix in parts.items():
        values = np.linalg.eigvalsh(matrix) if symmetric else np.linalg.svd(matrix, compute_uv=False)
        ax.plot(np.arange(1, len(values) + 1), np.sort(values)[::-1], marker=".", label=name)
    ax.set(xlabel="direction", ylabel="eigenvalue" if symmetric else "singular value", title="Spectra")
    ax.legend()
    return ax


def feature_weights(
    metric: Any, *, names: Sequence[str] | None = None, n_features: int = 20, n_classes: int = 20, ax: Any = None
) -> Any:
    """How much each feature counts for each class: the diagonals of the metrics, each relative to its mean.

    Parameters
    ----------
    metric : fitted learner, not of a kernel
    names : of the features; None: those of a data frame that the learner was fitted on, else x0, x1, ...
    n_features, n_classes : those with the largest weights, and those that differ most from the shared part
    ax : matplotlib axes; None makes a figure

    Examples
    --------
    >>> from paloma import LODML, plot
    >>> from sklearn.datasets import load_iris
    >>> data = load_iris()
    >>> metric = LODML(random_state=0).fit(data.data, data.target)
    >>> ax = plot.feature_weights(metric, names=data.feature_names)
    >>> ax.get_xticklabels()[0].get_text()
    'petal width (cm)'
    """
    learner = bare_learner(metric)
    d = learner.n_features_in_
    if names is None:
        names = getattr(learner, "feature_names_in_", [f"x{k}" for k in range(d)])
    if len(names) != d:
        raise ValueError(f"names must be those of the {d} features, got {len(names)}.")
    labels = [None, *_strongest(learner, n_classes)]
    weights = np.stack([np.diag(reader_of(learner).matrix(label)) for label in labels])
    weights = weights / np.maximum(np.abs(weights).mean(axis=1, keepdims=True), np.finfo(weights.dtype).tiny)
    heavy = np.argsort(-np.abs(weights).max(axis=0), kind="stable")[:n_features]
    ax = _axes(ax, (2.0 + 0.4 * len(heavy), 1.5 + 0.3 * len(labels)))
    image = ax.imshow(weights[:, heavy], aspect="auto", cmap="viridis")
    ax.set_xticks(range(len(heavy)), [names[k] for k in heavy], rotation=60, ha="right")
    ax.set_yticks(range(len(labels)), ["shared", *map(str, labels[1:])])
    ax.set_title("Weights of features, relative to their mean")
    ax.figure.colorbar(image, ax=ax)
    return ax


def neighbors(
    metric: Any, Q: ArrayLike, X: ArrayLike, y: ArrayLike, *, shape: tuple[int, ...], n_neighbors: int = 8,
    figure: Any = None,
) -> Any:  # fmt: skip
    """The nearest rows of a few queries before and after learning, as pictures.

    For each query two lines: its neighbors by the plain Euclidean distance, or inner product, and under the learned
    metric. The title of each picture is the label of its row.

    Parameters
    ----------
    metric : fitted learner
    Q : queries; X, y : rows to be found, and their labels
    shape : of a row as a picture, e.g. (8, 8), or (32, 32, 3) for colors
    figure : matplotlib figure to draw into; None makes one

    Returns
    -------
    figure

    Examples
    --------
    >>> from paloma import LODML, plot
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> metric = LODML(random_state=0, n_epochs=1).fit(X[:300], y[:300])
    >>> figure = plot.neighbors(metric, X[900:902], X[:300], y[:300], shape=(8, 8), n_neighbors=4)
    >>> len(figure.axes)
    20
    """
    learner = bare_learner(metric)
    reader = reader_of(learner)
    queries, rows = reader.rows(Q), reader.rows(X)
    labels = check.check_labels(learner, y, rows.shape[0])
    check.check_count("n_neighbors", n_neighbors)
    if int(np.prod(shape)) != rows.shape[1]:
        raise ValueError(f"shape {shape} has {int(np.prod(shape))} entries, but rows have {rows.shape[1]} features.")
    k = min(n_neighbors, len(rows))
    after = reader.items(rows, reader.candidates(rows, labels)).search(queries, k)[1]
    before = np.argsort(-_plain(queries, rows, measure_of(learner).is_distance), axis=1, kind="stable")[:, :k]
    if figure is None:
        size = (1.0 + 0.9 * (k + 1), 1.1 * 2 * len(queries) + 0.3)
        figure = optional("matplotlib.figure", "plot").Figure(figsize=size, layout="constrained")
    grid = figure.subplots(2 * len(queries), k + 1, squeeze=False)
    for number, query in enumerate(queries):
        for line, (when, ids) in enumerate((("before", before[number]), ("after", after[number]))):
            pictures = [(query, when), *((rows[i], str(labels[i])) for i in ids)]
            for ax, (row, title) in zip(grid[2 * number + line], pictures, strict=True):
                ax.imshow(row.reshape(shape), cmap="gray")
                ax.set_axis_off()
                ax.set_title(title, fontsize=9)
    return figure


def _plain(queries: Array, rows: Array, is_distance: bool) -> Array:
    products = queries @ rows.T
    return 2.0 * products - np.square(rows).sum(axis=1) if is_distance else products


def learning_curve(
    metric: Any, X: ArrayLike, y: ArrayLike, *, sizes: Sequence[int] | None = None, test_size: float = 0.3,
    n_neighbors: int = 10, weights: str = "soft", random_state: Any = 0, ax: Any = None,
) -> Any:  # fmt: skip
    """Accuracy on held-out rows by the number of rows that are learned, beside that of the plain distance.

    Both vote by the same rows. If the two curves meet, more rows of this kind will not help the metric.

    Parameters
    ----------
    metric : learner, fitted anew for each size
    sizes : numbers of rows to learn; None: six, each twice the one before
    test_size, random_state : how rows are held out
    n_neighbors, weights : how rows vote, as in `MetricKNeighborsClassifier`

    Examples
    --------
    >>> from paloma import LODML, plot
    >>> from sklearn.datasets import load_iris
    >>> ax = plot.learning_curve(LODML(random_state=0), *load_iris(return_X_y=True), sizes=[30, 60, 100])
    >>> [line.get_label() for line in ax.lines]
    ['Euclid', 'LODML']
    """
    learner = bare_learner(metric)
    rows, rows_test, labels, labels_test = train_test_split(
        np.asarray(X), np.asarray(y), test_size=test_size, stratify=y, random_state=random_state
    )
    n = len(rows)
    if sizes is None:
        sizes = sorted({max(n >> k, 2 * len(np.unique(labels))) for k in range(6)})
    if min(sizes) < 2 or max(sizes) > n:
        raise ValueError(f"sizes must be between 2 and the {n} rows that are not held out, got {list(sizes)}.")
    vote: Any = {"n_neighbors": n_neighbors, "weights": weights}
    plain, learned = [], []
    for size in sizes:
        items, item_labels = rows[:size], labels[:size]
        model = MetricKNeighborsClassifier(clone(learner), **vote).fit(items, item_labels)
        learned.append(model.score(rows_test, labels_test))
        plain.append(euclidean_accuracy(rows_test, labels_test, items=items, item_labels=item_labels, **vote))
    ax = _axes(ax)
    ax.plot(sizes, plain, marker="o", label="Euclid")
    ax.plot(sizes, learned, marker="o", label=check.name_of(learner))
    ax.set(xscale="log", xlabel="rows learned", ylabel=f"accuracy of {n_neighbors}-NN on held-out rows")
    ax.legend()
    return ax
