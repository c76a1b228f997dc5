"""k nearest neighbors under local metrics."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._search.voting import RULES, majority, vote_shares, vote_weights
from .._typing import Array
from ..estimators import LODML, bare_learner, following, is_learner, measure_of, parted, reader_of, reading, settings_of
from ..estimators.base import Learner


class MetricKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Vote of the nearest rows, each under the metric of its own class.

    Exact: tiles of one matrix product, whatever the number of classes, and the distances of the neighbors found are
    then recomputed directly.

    Parameters
    ----------
    metric : learner, optional
        None is ``LODML(random_state=0)``. A fitted learner is used as it is, including inside a FrozenEstimator; an
        unfitted one is cloned and fitted on the rows passed to `fit`.
    n_neighbors : int
        Number of neighbors that vote. A tie goes to the class of the nearest of the tied neighbors.
    weights : {"uniform", "soft", "distance"}
        What a neighbor's vote counts. "soft": for distances exp(-d_r^2 / (d_k^2 / 4)), d_k the distance of the last
        neighbor; for similarities 1 / r for the r-th of the first seven. "uniform": the same for all
        (``n_neighbors=3, weights="uniform"`` is the paper's vote). "distance": 1 / d_r, for distances only.

    Examples
    --------
    >>> from paloma import LODML, MetricKNeighborsClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(X[::2], y[::2])
    >>> print(f"{model.score(X[1::2], y[1::2]):.2f}")
    0.97
    """

    def __init__(self, metric: Any = None, *, n_neighbors: int = 3, weights: str = "uniform") -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.weights = weights

    @following
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the metric, unless it is already fitted, and keep the rows as candidates."""
        with check.unchanged_on_error(self):
            self._check_parameters()
            if y is None:
                raise ValueError(f"{check.name_of(self)} requires y to be passed, but the target y is None.")
            rows = check.check_rows(self, X, reset=True)
            labels = check.check_labels(self, y, rows.shape[0])
            if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
                raise ValueError("Unknown label type: continuous. Maybe you are trying to fit a classifier on a "
                                 "regression target with continuous values.")  # fmt: skip
            self._check_enough(rows.shape[0], f"n_samples = {rows.shape[0]} rows of X")
            self.metric_ = self._fitted_metric(X, labels)
            learner = bare_learner(self.metric_)
            reader = reader_of(learner)
            if rows.shape[1] != reader.n_features:
                raise ValueError(f"X has {rows.shape[1]} features, but the metric was fitted with {reader.n_features}.")
            rows = rows.astype(reader.dtype, copy=False)
            rows, labels = self._voters(learner, rows, labels)
            self.classes_, self._numbers = np.unique(labels, return_inverse=True)
            self._items = self._placed(rows, labels)
        return self

    def _check_parameters(self) -> None:
        check.check_count("n_neighbors", self.n_neighbors)
        check.check_word("weights", self.weights, RULES)

    def _check_enough(self, n: int, what: str) -> None:
        if n < self.n_neighbors:
            raise ValueError(f"n_neighbors={self.n_neighbors} is more than the {what}.")

    def _placed(self, rows: Any, labels: Array) -> Any:
        """Rows under the metrics of their classes, as they are now."""
        learner = bare_learner(self.metric_)
        with reading(learner):
            reader = reader_of(learner)
            return reader.items(rows, reader.candidates(rows, labels))

    @property
    def rows_(self) -> Any:
        """The rows that vote."""
        check_is_fitted(self)
        return self._items.X

    @property
    def labels_(self) -> Array:
        """Their labels."""
        check_is_fitted(self)
        return self.classes_[self._numbers]

    @property
    def row_numbers_(self) -> Array:
        """Their ascending row numbers in the X of `fit`, as `kneighbors` returns them: rows left without a label do
        not vote."""
        check_is_fitted(self)
        return np.arange(len(self._numbers)) if self._row_numbers is None else self._row_numbers

    def refresh(self) -> Self:
        """Map the rows again under the current metric, after it has learned more."""
        self._items = self._placed(self.rows_, self.labels_)
        return self

    def _voters(self, learner: Learner, rows: Any, labels: Array) -> tuple[Any, Array]:
        """Rows that may vote: those with a label, and unless semi="none" those that labeled rows agree on."""
        self._row_numbers = None
        if learner.unlabeled is None or not (labels == learner.unlabeled).any():
            return rows, labels
        if settings_of(learner).semi.votes:
            labels = learner.transduce(rows, labels)
        self._row_numbers = np.flatnonzero(labels != learner.unlabeled)
        self._check_enough(len(self._row_numbers), f"{len(self._row_numbers)} labeled rows of X")
        return rows[self._row_numbers], labels[self._row_numbers]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = parted(self.metric)[1]
        if is_learner(learner):
            taken = get_tags(learner).input_tags
            tags.input_tags.sparse, tags.input_tags.pairwise = taken.sparse, taken.pairwise
        return tags

    def _fitted_metric(self, X: ArrayLike, y: Array) -> Any:
        metric = LODML(random_state=0) if self.metric is None else self.metric
        return metric if bare_learner(metric).__sklearn_is_fitted__() else clone(metric).fit(X, y)

    @following
    def kneighbors(
        self, X: ArrayLike | None = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Array | tuple[Array, Array]:
        """Nearest rows of each query: distances (for a similarity learner: scores) and row numbers, nearest first.

        Numbers are those of the X of `fit`; ``labels_[np.searchsorted(row_numbers_, numbers)]`` are their labels.

        X : queries; None: the rows that vote, each without itself.
        n_neighbors : None is that of the classifier.
        """
        check_is_fitted(self)
        n = self._items.X.shape[0] - (X is None)
        k = n_neighbors
        if k is None:
            k = self.n_neighbors
        check.check_count("n_neighbors", k)
        if k > n:
            raise ValueError(f"n_neighbors={k} is more than the {n} rows the classifier was fitted on.")
        if X is None:
            values, ids = self._items.search(self._items.X, k, own=np.arange(n + 1))
        else:
            values, ids = self._search(X, k)
        if self._row_numbers is not None:
            ids = self._row_numbers[ids]
        if not return_distance:
            return ids
        return measure_of(bare_learner(self.metric_)).visible(values), ids

    @following
    def predict(self, X: ArrayLike) -> Array:
        """Class of each query by the vote of its neighbors."""
        check_is_fitted(self)
        return self.classes_[majority(*self._votes(X))]

    @following
    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on these rows."""
        return float(super().score(X, y, sample_weight))

    def _search(self, X: ArrayLike, k: int) -> tuple[Array, Array]:
        return self._items.search(check.check_queries(self, X, self._items.X.dtype), k)

    def _votes(self, X: ArrayLike) -> tuple[Array, Array]:
        """Class numbers of the neighbors, and the weights of their votes."""
        self._check_parameters()
        values, ids = self._search(X, min(self.n_neighbors, len(self._numbers)))
        is_distance = measure_of(bare_learner(self.metric_)).is_distance
        return self._numbers[ids], vote_weights(self.weights, values, is_distance)

    @following
    def predict_proba(self, X: ArrayLike) -> Array:
        """Share of each class in the vote; the predicted class stands out by 1e-9 if votes are tied."""
        check_is_fitted(self)
        numbers, weights = self._votes(X)
        return vote_shares(numbers, np.arange(len(self.classes_)), weights)


def kept_rows(classifier: MetricKNeighborsClassifier) -> dict[str, Any] | None:
    """What a fitted classifier holds beside its metric; None if that has changed since the rows were put under it."""
    if classifier._items.metric is not reader_of(bare_learner(classifier.metric_)).metric:
        return None
    names = ("classes", "numbers", "row_numbers", "rows")
    return dict(
        zip(names, (classifier.classes_, classifier._numbers, classifier._row_numbers, classifier.rows_), strict=True)
    )


def put_rows(classifier: MetricKNeighborsClassifier, metric: Any, kept: dict[str, Any]) -> None:
    """Fit a classifier with what `kept_rows` gave, and this fitted metric."""
    rows = kept["rows"]
    if kept["row_numbers"] is None and isinstance(rows, np.ndarray):
        rows = check.read_only(rows)
    classifier.metric_, classifier.classes_ = metric, kept["classes"]
    classifier._numbers, classifier._row_numbers = kept["numbers"], kept["row_numbers"]
    classifier._items = classifier._placed(rows, classifier.classes_[classifier._numbers])
