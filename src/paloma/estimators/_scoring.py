"""Scores, matrices and search vectors of a fitted learner: everything that reads a model and never changes it."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._representation import SHARED, DenseMetric
from .._search import items_of, majority
from ._vectors import Balance, augmented_items, augmented_queries, extra_columns

Array = NDArray[Any]


class Scoring:
    """The reading half of the learner protocol; `paloma.estimators.base.Learner` is the learning half."""

    _model: Any
    _measure: ClassVar[Any]

    def _metric(self) -> DenseMetric:
        check_is_fitted(self)
        averaged = self.average is not False  # type: ignore[attr-defined]
        return self._model.readout(self._parts(), averaged, self.project)  # type: ignore[attr-defined]

    def _rows(self, X: Any, *, named: bool = True) -> Any:
        check_is_fitted(self)
        return check.check_queries(self, X, self._model.dtype, named=named)

    def _codes_of(self, y: Any, n: int, what: str) -> Array:
        """Codes of candidates' labels: a class never seen is UNSEEN, no labels at all SHARED."""
        if y is None:
            return np.full(n, SHARED, np.int32)
        labels = check.check_labels(self, y, n, what)
        codes = self._model.labels.codes(labels)
        if self.unlabeled is not None:  # type: ignore[attr-defined]
            codes = np.where(labels == self.unlabeled, SHARED, codes).astype(np.int32)  # type: ignore[attr-defined]
        return codes

    def _candidates(self, rows: Any, y: Any, what: str) -> Array:
        """What decides the metric of each candidate: the code of its class; or where it lies, whatever its label."""
        check_is_fitted(self)
        if self._model.regions is not None:
            return self._model.regions.places(rows)
        return self._codes_of(y, rows.shape[0], what)

    def _scores(self, values: Array) -> Array:
        """Larger is more similar: minus the signed root of a squared distance, or the bilinear value."""
        return -np.sign(values) * np.sqrt(np.abs(values)) if self._measure.symmetric else values

    def _as_learnt(self, values: Array) -> Array:
        """Sums are taken in float64; what leaves is in the precision of the rows: float32 stays float32."""
        return values.astype(self._model.dtype, copy=False)

    def _pair_values(self, pairs: Any, y: Any, X: Any) -> Array:
        check_is_fitted(self)
        array = np.asarray(pairs)
        if X is not None:
            rows = self._rows(X)
            if array.ndim != 2 or array.shape[1] != 2 or (array.size and array.dtype.kind not in "iu"):
                raise ValueError(f"pairs with X must be an int array (n, 2) of row numbers, got shape {array.shape}.")
            if array.size and not (array.min() >= 0 and array.max() < rows.shape[0]):
                raise ValueError(f"pairs must name rows 0 to {rows.shape[0] - 1} of X.")
            left, right = rows[array[:, 0]], rows[array[:, 1]]
        else:
            if array.ndim != 3 or array.shape[1] != 2:
                raise ValueError(f"pairs must be points (n, 2, d), or row numbers (n, 2) with X=; got {array.shape}.")
            flat = self._rows(array.reshape(-1, array.shape[2]), named=False)
            left, right = flat[0::2], flat[1::2]
        return self._values(left, right, self._candidates(right, y, "pairs"))

    def _values(self, left: Any, right: Any, codes: Array) -> Array:
        """Squared distances, or similarities, of pairs of rows."""
        metric = self._metric()
        if metric.of_differences:
            left = right = left - right
        return metric.values(left, right, codes)

    def pair_score(self, pairs: ArrayLike, y: ArrayLike | None = None, *, X: ArrayLike | None = None) -> Array:
        """Similarity of pairs, larger is more similar.

        Parameters
        ----------
        pairs : (n, 2, d) points (query, candidate), or (n, 2) row numbers of X.
        y : classes of the candidates; None uses the shared part by itself. Global learners ignore it.
        """
        return self._as_learnt(self._scores(self._pair_values(pairs, y, X)))

    def predict_pairs(self, pairs: ArrayLike, y: ArrayLike | None = None, *, X: ArrayLike | None = None) -> Array:
        """+1 for pairs on the similar side of `threshold_`, -1 for the others.

        Without y the value is lam times that of the shared part, as pairs without classes are learnt.
        """
        values = self._pair_values(pairs, y, X) * (self._locality().lam if y is None else 1.0)  # type: ignore[attr-defined]
        return np.where(self._measure.sign * (values - self.threshold_) < 0, 1, -1)

    @property
    def threshold_(self) -> float:
        """The squared distance, or similarity, under the learnt metric, that pairs are told apart by."""
        check_is_fitted(self)
        threshold = self._model.threshold if self.pair_threshold == "auto" else self.pair_threshold  # type: ignore[attr-defined]
        if threshold is None:
            raise AttributeError("threshold_ is known once pairs were learnt, or pair_threshold is given.")
        return float(threshold)

    def pairwise_score(self, Q: ArrayLike, X: ArrayLike, y: ArrayLike | None = None) -> Array:
        """(n_queries, n_items) matrix of `pair_score`; y are the classes of the items."""
        metric, rows = self._metric(), self._rows(X)
        values = items_of(metric, rows, self._candidates(rows, y, "rows of X")).all_values(self._rows(Q))
        return self._as_learnt(self._scores(values if self._measure.symmetric else -values))

    def metric_matrix(self, label: Any = None) -> Array:
        """M_c in the units of X after p.s.d. policy and averaging; for None the shared U by itself.

        With regions the label is the number of a region.
        """
        metric = self._metric()
        if label is None:
            code = SHARED
        elif self._model.regions is not None:
            code = int(label)
        else:
            code = int(self._codes_of(np.array([label]), 1, "label")[0])
        return metric.matrix(int(metric.resolve(np.array([code], np.int32))[0])).copy()

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy of leave-one-out 3-NN on these rows under the learnt metrics."""
        metric, rows = self._metric(), self._rows(X)
        labels = check.check_labels(self, y, rows.shape[0])
        if rows.shape[0] < 2:
            raise ValueError(f"{check.name_of(self)}.score needs at least 2 rows, got {rows.shape[0]}.")
        items = items_of(metric, rows, self._candidates(rows, labels, "rows of X"))
        numbers = np.unique(labels, return_inverse=True)[1]
        _, ids = items.search(rows, min(3, rows.shape[0] - 1), own=np.arange(rows.shape[0]))
        return float((majority(numbers[ids]) == numbers).mean())

    def triplet_score(self, X: ArrayLike | None, triplets: ArrayLike, y: ArrayLike | None = None) -> float:
        """Fraction of triplets ranked right (positive nearer than negative); a tie counts as wrong."""
        points = X is None
        if points:
            X, triplets = check.check_points(self, triplets)
        rows = self._rows(X, named=not points)
        array = check.check_triplets(self, triplets, rows.shape[0])
        codes = self._candidates(rows, None if y is None else np.ravel(y), "rows of X")
        return self._ranked_right(rows, array, codes[array[:, 1:]])

    def _ranked_right(self, rows: Any, triplets: Array, codes: Array) -> float:
        scores = [
            self._scores(self._values(rows[triplets[:, 0]], rows[triplets[:, k]], codes[:, k - 1])) for k in (1, 2)
        ]
        return float((scores[0] > scores[1]).mean()) if len(triplets) else 0.0

    def query_vectors(self, Q: ArrayLike, *, for_graph: bool = False) -> Array:
        """Vectors whose inner product with `item_vectors` is minus the squared distance, or the similarity.

        With for_graph=True the balanced L2 form that graph indexes need, as fixed by the last
        ``item_vectors(..., for_graph=True)``: a smaller Euclidean distance is a nearer item.
        """
        rows = self._rows(Q)
        vectors = augmented_queries(self._metric(), rows, self._vector_codes())
        if not for_graph:
            return vectors
        _refuse_sparse(vectors)
        if self._model.balance is None:
            raise ValueError("Call item_vectors(X, y, for_graph=True) first: the items fix the balance of the form.")
        return self._model.balance.queries(vectors)

    def item_vectors(self, X: ArrayLike, y: ArrayLike | None = None, *, for_graph: bool = False) -> Array:
        """Vectors of items for any exhaustive inner-product search (spec 11); d + n_classes + 3 wide for LODML.

        With for_graph=True the balanced form for graph and IVF indexes under L2, one more column.
        """
        rows = self._rows(X)
        vectors = self._item_vectors(rows, self._candidates(rows, y, "rows of X"))
        if not for_graph:
            return vectors
        _refuse_sparse(vectors)
        self._model.balance = self._balance(vectors)
        return self._model.balance.items(vectors)

    def _item_vectors(self, rows: Any, candidates: Array) -> Array:
        return augmented_items(self._metric(), rows, candidates, self._vector_codes())

    def _balance(self, vectors: Array) -> Balance:
        """The balance that these item vectors fix."""
        return Balance.of(vectors, extra_columns(self._metric(), len(self._vector_codes())))

    def _vector_codes(self) -> Array:
        return self._local_order().astype(np.int32)  # type: ignore[attr-defined]


def _refuse_sparse(vectors: Any) -> None:
    if sp.issparse(vectors):
        raise TypeError("for_graph=True needs dense rows: graph indexes walk dense vectors.")
