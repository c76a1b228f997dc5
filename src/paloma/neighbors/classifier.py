"""k nearest neighbors under local metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._core.locality import SHARED, Labels
from .._core.measure import Measure
from .._search.voting import RULES, majority, vote_shares, vote_weights
from .._threads import jobs
from .._typing import Array
from ..estimators import (
    LODML,
    as_arrays,
    bare_learner,
    changed_since,
    converted,
    following,
    is_learner,
    parted,
    reader_of,
    reading,
    refuse_elsewhere,
    settings_of,
    settle,
)  # fmt: skip
from ..estimators.base import Learner
from .voters import GROWTH, Voters, judged_count


@dataclass
class Placed:
    """The rows that vote under the metric as it was after so many updates: what a read looks at, published at once.

    judged : weights and number of rows by which "auto" was judged, and what they found; None: not yet.
    """

    items: Any
    measure: Measure
    updates: int
    judged: Any


class MetricKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Vote of the nearest rows, each under the metric of its own class.

    Exact: tiles of one matrix product, whatever the number of classes, and the distances of the neighbors found are
    then recomputed directly.

    Parameters
    ----------
    metric : learner, optional
        None is ``LODML(random_state=0)``. A fitted learner is used as it is, including inside a FrozenEstimator, unless
        its parameters were changed since it learned; an unfitted or changed one is cloned and fitted on the rows passed
        to `fit`.
    n_neighbors : int or "auto"
        Number of neighbors that vote. "auto": at most 1,000 of the rows that vote are classified by the others, under
        the metric before it learned, and of 10, 14, 20, 28, 40 and 56 neighbors, but no more than a class has rows in
        the mean, the number is taken by which their true classes do best against the strongest other (the least, if no
        other is clearly better): noisy labels ask for more neighbors than clean ones. `n_neighbors_` is what was taken.
        A tie goes to the class of the nearest of the tied neighbors. May be changed at any time; `neighbor_scores`
        compares several numbers without learning again.
    weights : {"soft", "uniform", "distance"}
        What a neighbor's vote counts. "soft": exp(-d_r^2 / (d_k^2 / 4)), d_k the distance of the last neighbor; for
        similarities d^2 is what a neighbor's lacks to that of the query with itself. "uniform": the same for all
        (``n_neighbors=3, weights="uniform"`` is the paper's vote). "distance": 1 / d_r, for distances only.
    streamed_rows : int
        How many rows of each class that come by `partial_fit` are kept to vote: a uniform sample of them, or the last
        ones if the metric remembers by a window. Rows of `fit` always stay.
    n_jobs : int or None
        At most how many threads large matrix products take, -1: as many as there are CPUs; None: as many as this
        process may use (docs/speed.md). Not kept in model files.
    device : None, "auto", or a device as torch spells it
        Where a metric that is fitted here learns, and searches; a fitted one must be there. None: as the metric says.
        Not kept in model files.

    Examples
    --------
    >>> from paloma import LODML, MetricKNeighborsClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(X[::2], y[::2])
    >>> print(f"{model.score(X[1::2], y[1::2]):.2f}")
    0.96
    """

    _placed: Any  # a Placed; None: not yet
    _judged: Any  # what the rows that are placed next take over of `Placed.judged`

    def __init__(
        self,
        metric: Any = None,
        *,
        n_neighbors: int | str = "auto",
        weights: str = "soft",
        streamed_rows: int = 1000,
        n_jobs: int | None = None,
        device: Any = None,
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.streamed_rows = streamed_rows
        self.n_jobs = n_jobs
        self.device = device

    # -- learning ----------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the metric, unless it is already fitted, and keep the rows as candidates.

        sample_weight : (n,) factors of the rows' votes; a row of weight 0 does not vote. The metric learns from all
            rows alike.
        """
        with jobs(self.n_jobs), check.unchanged_on_error(self):
            self._check_parameters()
            settle(self, X)
            rows, labels, votes = self._checked(X, y, sample_weight, reset=True)
            self._check_enough(rows.shape[0], f"n_samples = {rows.shape[0]} rows of X")
            self.metric_ = self._fitted_metric(X, labels)
            learner = bare_learner(self.metric_)
            rows = self._as_learned(learner, rows)
            numbers, labels = self._voters(learner, rows, labels)
            if votes is not None:
                voting = votes[numbers] > 0
                if not voting.any():
                    raise ValueError(f"{check.name_of(self)}: every sample_weight is zero, so no row can vote.")
                numbers, labels = numbers[voting], labels[voting]
                self._check_enough(len(numbers), f"{len(numbers)} rows of X with a vote")
            whole = len(numbers) == rows.shape[0]
            self.classes_, codes = np.unique(labels, return_inverse=True)
            self._kept = Voters(
                rows if whole else rows[numbers], codes, None if whole else numbers,
                None if votes is None else votes[numbers], rows.shape[0], rows.shape[0],
            )  # fmt: skip
            self._judged = None
            self._place()
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from more rows in one pass, and let them vote: a new class is predicted from then on.

        The metric continues to learn, also one that was passed fitted; inside a FrozenEstimator it stays as it is.
        Of each class at most `streamed_rows` rows are kept beside those of `fit`.

        classes : labels of future rows, which `classes_` and `predict_proba` then have from the start.
        sample_weight : as in `fit`.
        """
        fresh = not hasattr(self, "metric_")
        with check.unchanged_on_error(self):
            self._check_parameters()
            if fresh:
                settle(self, X)
            rows, labels, votes = self._checked(X, y, sample_weight, reset=fresh)
            (classes,) = as_arrays(check.name_of(self), classes)
            classes = None if classes is None else check.check_labels(self, classes, np.size(classes), "classes")
            known = Labels() if fresh else Labels(self.classes_)
            for more in (classes, labels):
                known = known if more is None else known.extended(more)
            if fresh:
                self._judged = None
                metric = self._wanted()
                self.metric_ = metric if bare_learner(metric).__sklearn_is_fitted__() else clone(metric)
            learner = bare_learner(self.metric_)
            if learner.__sklearn_is_fitted__():
                self._as_learned(learner, rows)
            if not isinstance(self.metric_, FrozenEstimator):
                learner.partial_fit(X, labels, classes=classes)
            rows = self._as_learned(learner, rows)
            voting = np.ones(len(labels), bool) if learner.unlabeled is None else labels != learner.unlabeled
            if votes is not None:
                voting &= votes > 0
            took, self.classes_ = np.flatnonzero(voting), reader_of(learner).labeled(known.sorted)
            later = Voters(
                rows[took], np.searchsorted(self.classes_, labels[took]), took, None if votes is None else votes[took],
                0, len(labels),
            )  # fmt: skip
            earlier = later.none() if fresh else self._kept
            earlier = replace(earlier, numbers=np.searchsorted(self.classes_, known.labels[earlier.numbers]))
            self._kept = earlier.joined(later, self.streamed_rows, settings_of(learner).window)
            self._placed = None
        return self

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, Array, Array | None]:
        if y is None:
            raise ValueError(f"{check.name_of(self)} requires y to be passed, but the target y is None.")
        X, y, sample_weight = as_arrays(check.name_of(self), X, y, sample_weight)
        rows = check.check_rows(self, X, reset=reset)
        labels = check.check_labels(self, y, rows.shape[0])
        if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
            raise ValueError("Unknown label type: continuous. Maybe you are trying to fit a classifier on a "
                             "regression target with continuous values.")  # fmt: skip
        return rows, labels, check.check_weight(self, sample_weight, rows.shape[0], "sample_weight", "rows of X")

    def _as_learned(self, learner: Learner, rows: Any) -> Any:
        """Rows in the precision of the metric, which must have as many features."""
        reader = reader_of(learner)
        if rows.shape[1] != reader.n_features:
            raise ValueError(f"X has {rows.shape[1]} features, but the metric was fitted with {reader.n_features}.")
        return rows.astype(reader.dtype, copy=False)

    def _check_parameters(self) -> None:
        check_n_neighbors(self.n_neighbors)
        check.check_word("weights", self.weights, RULES)
        check.check_count("streamed_rows", self.streamed_rows)
        check.check_jobs(self.n_jobs)

    def _check_enough(self, n: int, what: str) -> None:
        if not isinstance(self.n_neighbors, str) and n < self.n_neighbors:
            raise ValueError(f"n_neighbors={self.n_neighbors} is more than the {what}.")

    def _voters(self, learner: Learner, rows: Any, labels: Array) -> tuple[Array, Array]:
        """Numbers and labels of rows that may vote: those with a label, and unless semi="none" those that labeled rows
        agree on."""
        if learner.unlabeled is None or not (labels == learner.unlabeled).any():
            return np.arange(len(labels)), labels
        if settings_of(learner).semi.votes:
            labels = learner.transduce(rows, labels)
        numbers = np.flatnonzero(labels != learner.unlabeled)
        self._check_enough(len(numbers), f"{len(numbers)} labeled rows of X")
        return numbers, labels[numbers]

    def _wanted(self) -> Any:
        """The metric, a new one on the device that is asked for."""
        metric = LODML(random_state=0) if self.metric is None else self.metric
        learner = bare_learner(metric)
        if self.device is not None and learner is metric and not learner.__sklearn_is_fitted__():
            return clone(metric).set_params(device=self.device)
        refuse_elsewhere(check.name_of(self), learner, self.device)
        return metric

    def _fitted_metric(self, X: ArrayLike, y: Array) -> Any:
        metric = self._wanted()
        learner = bare_learner(metric)
        changed = changed_since(learner) if learner.__sklearn_is_fitted__() else []
        if changed and isinstance(metric, FrozenEstimator):
            raise ValueError(
                f"{check.name_of(self)}: {changed[0]} of the frozen metric was changed since it learned. Fit the "
                "metric again, or set it back."
            )
        return clone(metric).fit(X, y) if changed or not learner.__sklearn_is_fitted__() else metric

    # -- the rows that vote ------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Put the rows under the metrics of their classes, as they are now."""
        learner, rows = bare_learner(self.metric_), self._kept.rows
        with reading(learner):
            reader = reader_of(learner)
            items = reader.items(rows, reader.candidates(rows, self.classes_[self._kept.numbers]))
            placed = Placed(items, reader.measure, learner.n_updates_, self._judged)
        if self.n_neighbors == "auto":
            self._judge(placed)
        self._placed, self._judged = placed, placed.judged

    def _judge(self, placed: Placed) -> int:
        """What "auto" stands for; found anew if other weights are asked for, or once there are far more rows."""
        n, found = len(self._kept), placed.judged
        if found is None or found[0] != self.weights or not n / GROWTH < found[1] <= n:
            count = judged_count(placed.items, self._kept, self.weights, placed.measure.is_distance)
            placed.judged = found = (self.weights, n, count)
        return found[2]

    @property
    def n_neighbors_(self) -> int:
        """The number of neighbors that vote: `n_neighbors`, or what "auto" found; all rows if there are fewer."""
        check_is_fitted(self)
        return self._count(self._shown) if len(self._kept) else 0

    def _count(self, placed: Placed) -> int:
        wanted = self._judge(placed) if self.n_neighbors == "auto" else int(self.n_neighbors)
        return min(wanted, len(self._kept))

    @property
    def _shown(self) -> Placed:
        """The rows under the metrics of their classes; those of a stream are put there when they are first searched."""
        if not len(self._kept):
            raise ValueError(f"{check.name_of(self)}: no row with a label has come yet, so none can vote.")
        placed = self._placed
        if placed is None:
            self._place()
            placed = self._placed
        return placed

    @property
    @following
    def rows_(self) -> Any:
        """The rows that vote."""
        check_is_fitted(self)
        return self._kept.rows

    @property
    @following
    def labels_(self) -> Array:
        """Their labels."""
        check_is_fitted(self)
        return self.classes_[self._kept.numbers]

    @property
    @following
    def row_numbers_(self) -> Array:
        """Their ascending row numbers, as `kneighbors` returns them: counted over the X of `fit` and then of every
        `partial_fit`. Rows without a label, and rows that were not kept, are missing."""
        check_is_fitted(self)
        return self._kept.places

    @property
    def n_streamed_(self) -> int:
        """How many of them came by `partial_fit`."""
        check_is_fitted(self)
        return self._kept.n_streamed

    @property
    def updates_behind(self) -> int:
        """Number of updates of the metric since the rows were put under it; `refresh` makes it 0."""
        check_is_fitted(self)
        placed = self._placed
        return 0 if placed is None else max(0, int(bare_learner(self.metric_).n_updates_ - placed.updates))

    def refresh(self) -> Self:
        """Map the rows again under the current metric, after it has learned more."""
        check_is_fitted(self)
        self._judged = None
        self._place()
        return self

    def __sklearn_array_api_convert__(self, converter: Any) -> Self:
        return cast(Self, converted(self, converter))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.array_api_support, learner = True, parted(self.metric)[1]
        if is_learner(learner):
            taken = get_tags(learner).input_tags
            tags.input_tags.sparse, tags.input_tags.pairwise = taken.sparse, taken.pairwise
        return tags

    # -- asking ------------------------------------------------------------------------------------------------------

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
        n, placed = len(self._kept) - (X is None), self._shown
        k: Any = n_neighbors
        if k is None:
            k = min(self._count(placed), max(n, 1)) if self.n_neighbors == "auto" else self.n_neighbors
        check.check_count("n_neighbors", k)
        if k > n:
            raise ValueError(f"n_neighbors={k} is more than the {n} {'other ' * (X is None)}rows that vote.")
        if X is None:
            with jobs(self.n_jobs):
                values, ids = placed.items.search(placed.items.X, k, own=np.arange(n + 1))
        else:
            with jobs(self.n_jobs):
                values, ids = placed.items.search(self._queries(placed, X), k)
        if self._kept.row_numbers is not None:
            ids = self._kept.row_numbers[ids]
        if not return_distance:
            return ids
        return placed.measure.visible(values), ids

    @following
    def predict(self, X: ArrayLike) -> Array:
        """Class of each query by the vote of its neighbors."""
        check_is_fitted(self)
        return self._predicted(X)

    @following
    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on these rows."""
        from sklearn.metrics import accuracy_score  # takes a while, and only this needs it

        return float(accuracy_score(y, self._predicted(X), sample_weight=sample_weight))

    def _predicted(self, X: ArrayLike) -> Array:
        return self.classes_[majority(*self._votes(X))]

    def _queries(self, placed: Placed, X: ArrayLike) -> Any:
        rows = check.check_rows(self, X, reset=False, dtype=placed.items.X.dtype)
        if check.is_huge(rows):
            reader_of(bare_learner(self.metric_)).refuse_huge(rows)
        return rows

    def _votes(self, X: ArrayLike) -> tuple[Array, Array]:
        """Class numbers of the neighbors, and the weights of their votes."""
        self._check_parameters()
        placed = self._shown
        values, ids, own = self._asked(placed, X, self._count(placed))
        return self._kept.numbers[ids], self._weighted(placed, values, ids, own)

    def _asked(self, placed: Placed, X: ArrayLike, k: int) -> tuple[Array, Array, Array | None]:
        """Values and numbers of the neighbors, and the value of each query with itself if the vote asks for it."""
        with jobs(self.n_jobs):
            rows = self._queries(placed, X)
            own = placed.items.own_values(rows, SHARED) if self.weights == "soft" else None
            return *placed.items.search(rows, k), own

    def _weighted(self, placed: Placed, values: Array, ids: Array, own: Array | None) -> Array:
        weights = vote_weights(self.weights, values, placed.measure.is_distance, own)
        return weights if self._kept.weights is None else weights * self._kept.weights[ids]

    @following
    def predict_proba(self, X: ArrayLike) -> Array:
        """Share of each class in the vote; the predicted class stands out by 1e-9 if votes are tied."""
        check_is_fitted(self)
        numbers, weights = self._votes(X)
        return vote_shares(numbers, np.arange(len(self.classes_)), weights)

    @following
    def neighbor_scores(
        self, X: ArrayLike, y: ArrayLike, n_neighbors: Iterable[int] = (1, 3, 5, 10, 20)
    ) -> dict[int, float]:
        """Accuracy on these rows with each number of neighbors, from one search; nothing is learned again.

        Choose by rows that neither the metric nor the classifier was fitted on, then
        ``set_params(n_neighbors=...)``, which needs no `fit`.

        Examples
        --------
        >>> from paloma import LODML, MetricKNeighborsClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(X[::2], y[::2])
        >>> {k: round(accuracy, 2) for k, accuracy in model.neighbor_scores(X[1::2], y[1::2], (1, 3)).items()}
        {1: 0.96, 3: 0.96}
        """
        check_is_fitted(self)
        self._check_parameters()
        wanted = list(n_neighbors)
        for k in wanted:
            check.check_between("n_neighbors", k, 1, len(self._kept))
        placed = self._shown
        values, ids, own = self._asked(placed, X, max(wanted))
        labels, scores = check.check_labels(self, y, len(ids)), {}
        for k in wanted:
            weights = self._weighted(placed, values[:, :k], ids[:, :k], own)
            numbers = majority(self._kept.numbers[ids[:, :k]], weights)
            scores[k] = float((self.classes_[numbers] == labels).mean())
        return scores


def kept_rows(classifier: MetricKNeighborsClassifier) -> dict[str, Any] | None:
    """What a fitted classifier holds beside its metric; None if that has changed since the rows were put under it."""
    placed = classifier._placed
    if placed is not None and placed.items.metric is not reader_of(bare_learner(classifier.metric_)).metric:
        return None
    kept = {field.name: getattr(classifier._kept, field.name) for field in fields(Voters)}
    return {"classes": classifier.classes_, **kept}


def judged_of(classifier: MetricKNeighborsClassifier) -> list[int] | None:
    """The number of rows that judged how many neighbors vote, and what they found; None if nobody asked."""
    if classifier.n_neighbors != "auto" or not len(classifier._kept):
        return None
    placed = classifier._shown
    classifier._judge(placed)
    return list(placed.judged[1:])


def check_n_neighbors(n_neighbors: Any) -> None:
    """A number of neighbors, or "auto"."""
    if not isinstance(n_neighbors, str):
        check.check_count("n_neighbors", n_neighbors)
    elif n_neighbors != "auto":
        raise ValueError(f"n_neighbors must be 'auto' or an integer of at least 1, got {n_neighbors!r}.")


def put_rows(classifier: MetricKNeighborsClassifier, metric: Any, kept: dict[str, Any], judged: Any = None) -> None:
    """Fit a classifier with what `kept_rows` and `judged_of` gave, and this fitted metric."""
    kept = dict(kept)
    if kept["row_numbers"] is None and isinstance(kept["rows"], np.ndarray):
        kept["rows"] = check.read_only(kept["rows"])
    classifier.metric_, classifier.classes_ = metric, kept.pop("classes")
    for name in ("n_fitted", "n_seen"):
        kept[name] = len(kept["numbers"]) if kept[name] is None else kept[name]
    classifier._kept = Voters(**kept)
    classifier._judged = None if judged is None else (classifier.weights, *judged)
    classifier._place()
