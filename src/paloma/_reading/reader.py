"""Reader: what a fitted learner knows, as numbers. Nothing here changes a model.

Two kinds of values: those of the measure (squared distances, or similarities), and those of a search (small is near:
squared distances, or minus similarities). `Measure.near` turns one into the other, `score` and `visible` make numbers
for people out of the first and the second.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import _validation as check
from .._core.locality import SHARED, UNSEEN, Labels, labeled
from .._core.measure import Measure
from .._core.regions import Regions
from .._rows import contents, stacked
from .._search.voting import majority
from .._typing import Array
from .vectors import Balance, augmented_items, augmented_queries, extra_columns

# Neighbors that vote when a learner scores itself.
N_VOTERS = 3


@dataclass(frozen=True, eq=False)
class Reader:
    """A fitted learner, ready to be read; made when needed, in no time, and never kept in a model.

    owner : the estimator, which checks the names and number of features of rows, and whose name errors begin with.
    readout : gives the metric in the units of X; called once, when a value is first asked for.
    refuse_huge : refuses rows so large that their values would overflow.
    unlabeled : the label that marks rows without one; None: there is no such label.
    memory : gives the rows that the learner remembers of its stream, and their class codes.
    training : rows and class codes, if those are the only candidates (a precomputed kernel); else None.
    """

    owner: Any
    measure: Measure
    labels: Labels
    regions: Regions | None
    unlabeled: Any
    dtype: Any
    memory: Callable[[Any], tuple[Any, Array]]
    readout: Callable[[], Any]
    refuse_huge: Callable[[Any], None]
    training: tuple[Array, Array | None] | None = None

    @property
    def who(self) -> str:
        return check.name_of(self.owner)

    @property
    def n_features(self) -> int:
        return int(self.owner.n_features_in_)

    @cached_property
    def metric(self) -> Any:
        """The read-out of the model, see `paloma._core.space.Metric`."""
        return self.readout()

    @property
    def order(self) -> Array:
        """Codes of all classes in the order of their labels; or the numbers of all regions."""
        order = self.labels.order if self.regions is None else np.arange(self.regions.n_regions)
        return order.astype(np.int32)

    # -- input -----------------------------------------------------------------------------------------------

    def rows(self, X: Any, *, named: bool = True) -> Any:
        """Checked rows, in the learner's precision; `named`: their feature names must be those of `fit`."""
        rows = check.check_rows(self.owner, X, reset=False, named=named, dtype=self.dtype)
        if check.is_huge(rows):
            self.refuse_huge(rows)
        return rows

    def codes(self, y: Any, n: int, what: str = "rows of X") -> Array:
        """Codes of candidates' labels: UNSEEN for a class never seen, SHARED without labels."""
        if y is None:
            return np.full(n, SHARED, np.int32)
        labels = check.check_labels(self.owner, y, n, what)
        codes = self.labels.codes(labels)
        if self.unlabeled is not None:
            codes = np.where(labels == self.unlabeled, SHARED, codes).astype(np.int32)
        return codes

    def places(self, rows: Any, codes: Array) -> Array:
        """What decides the metric of rows: the codes of their classes; or where they lie, whatever their class."""
        return codes if self.regions is None else self.regions.places(rows)

    def candidates(self, rows: Any, y: Any, what: str = "rows of X") -> Array:
        """The same, from labels; with regions y is not looked at."""
        if self.regions is not None:
            return self.regions.places(rows)
        return self.codes(y, rows.shape[0], what)

    def labeled(self, y: Array) -> Array:
        """The labels that are none of `unlabeled`."""
        return labeled(y, self.unlabeled)

    def remembered(self) -> tuple[Any, Array]:
        """The rows that the learner remembers of its stream, and their class codes."""
        return self.memory(np.empty((0, self.n_features), self.dtype))

    # -- values ----------------------------------------------------------------------------------------------

    def values(self, left: Any, right: Any, codes: Array) -> Array:
        """Squared distances, or similarities, of pairs of rows; float64."""
        if self.metric.of_differences:
            left = right = left - right
        return self.metric.values(left, right, codes)

    def pair_values(self, pairs: Any, y: Any, X: Any) -> Array:
        """Values of pairs: points (n, 2, d), or row numbers (n, 2) of X; y are the classes of the second ones."""
        if X is not None:
            rows = self.rows(X)
            array = check.check_numbers(self.owner, pairs, 2, rows.shape[0])
            left, right = rows[array[:, 0]], rows[array[:, 1]]
        else:
            expected = "pairs must be points (n, 2, d), or row numbers (n, 2) with X="
            array = check.as_array(self.owner, pairs, expected)
            if array.ndim != 3 or array.shape[1] != 2:
                raise ValueError(f"{self.who}: {expected}; got shape {array.shape}.")
            flat = self.rows(array.reshape(-1, array.shape[2]), named=False)
            left, right = flat[0::2], flat[1::2]
        return self.values(left, right, self.candidates(right, y, "pairs"))

    def scores(self, values: Array) -> Array:
        """Larger is more similar. Sums are taken in float64; scores leave in the precision of the rows."""
        return self.measure.score(values).astype(self.dtype, copy=False)

    def distances(self, values: Array) -> Array:
        """Roots of squared distances, in the precision of the rows."""
        return self.measure.root(values).astype(self.dtype, copy=False)

    def items(self, rows: Any, codes: Array) -> Any:
        """Items ready to be searched."""
        return self.metric.items(rows, codes)

    def nearest(self, queries: Any, rows: Any, codes: Array, k: int) -> tuple[Array, Array]:
        """Values and numbers of the k nearest of these rows; a single query need not have all of them prepared."""
        one = queries.shape[0] == 1 and codes.ndim == 1 and not (sp.issparse(queries) or sp.issparse(rows))
        if one and self.metric.bounded:
            values, numbers = self.metric.nearest(rows - queries, codes, k)
            return values[None], numbers[None]
        return self.items(rows, codes).search(queries, k)

    def pairwise_scores(self, queries: Any, rows: Any, codes: Array) -> Array:
        """(n_queries, n_rows) scores."""
        return self.scores(self.measure.near(self.items(rows, codes).all_values(queries)))

    def ranked_right(self, rows: Any, triplets: Array, codes: Array) -> float:
        """Fraction of triplets whose positive scores more than the negative; codes (n, 2) of the two."""
        anchors = rows[triplets[:, 0]]
        positive, negative = (
            self.measure.score(self.values(anchors, rows[triplets[:, k]], codes[:, k - 1])) for k in (1, 2)
        )
        return float((positive > negative).mean()) if len(triplets) else 0.0

    def accuracy(self, rows: Any, y: Any) -> float:
        """Accuracy of 3-NN among the rows that the learner remembers, or if only training rows are candidates, among
        those; a row that is one of them is not its own neighbor. Rows of classes never met vote for each other."""
        labels = check.check_labels(self.owner, y, rows.shape[0])
        if self.training is not None:
            return self._accuracy_among(*self.training, rows, labels)
        kept, codes = self.remembered()
        if len(codes) < 2:
            raise ValueError(
                f"{self.who}.score: the learner remembers {len(codes)} labeled rows that could vote, because it "
                "learned without labels or on shards. Use leave_one_out_score(X, y), triplet_score, or "
                "MetricKNeighborsClassifier(learner).fit(X, y)."
            )
        rows, numbers = check.of_kind(rows, sp.issparse(kept)), {row: i for i, row in enumerate(contents(kept))}
        own = np.array([numbers.get(row, -1) for row in contents(rows)], np.int64)
        wanted = self.codes(labels, len(labels))
        places, new = self.places(kept, codes), np.flatnonzero(wanted == UNSEEN)
        if len(new):
            places = np.concatenate([places, self.places(rows[new], wanted[new])])
            own[new] = len(codes) + np.arange(len(new))
            wanted[new] = len(self.labels) + np.unique(labels[new], return_inverse=True)[1]
            kept, codes = stacked([kept, rows[new]]), np.concatenate([codes, wanted[new]])
        _, ids = self.items(kept, places).search(rows, min(N_VOTERS, len(codes) - 1), own=own)
        return float((majority(codes[ids]) == wanted).mean())

    def leave_one_out(self, rows: Any, y: Any) -> float:
        """Accuracy of leave-one-out 3-NN among these rows; or, if only training rows are candidates, among those."""
        labels = check.check_labels(self.owner, y, rows.shape[0])
        if self.training is not None:
            return self._accuracy_among(*self.training, rows, labels)
        n = rows.shape[0]
        if n < 2:
            raise ValueError(f"{self.who}.leave_one_out_score needs at least 2 rows, got {n}.")
        items = self.items(rows, self.candidates(rows, labels))
        numbers = np.unique(labels, return_inverse=True)[1]
        _, ids = items.search(rows, min(N_VOTERS, n - 1), own=np.arange(n))
        return float((majority(numbers[ids]) == numbers).mean())

    def _accuracy_among(self, training: Array, codes: Array | None, rows: Array, labels: Array) -> float:
        if codes is None:
            raise ValueError(f"{self.who} was fitted without y: its training rows have no classes to vote with.")
        known = np.flatnonzero(codes >= 0)
        place = np.full(len(codes), -1)
        place[known] = np.arange(len(known))
        numbers = self.metric.numbers(rows)
        own = np.where(numbers >= 0, place[numbers], -1)
        _, ids = self.items(training[known], codes[known]).search(rows, min(N_VOTERS, len(known) - 1), own=own)
        return float((majority(codes[known][ids]) == self.codes(labels, len(labels))).mean())

    # -- matrices and search vectors: not for kernels ----------------------------------------------------------

    @property
    def is_explicit(self) -> bool:
        """Whether the metric is made of matrices in the units of X, so that there are search vectors."""
        return hasattr(self.metric, "matrix")

    def explicit(self, what: str) -> Any:
        """The metric; refused if it is that of a kernel."""
        if not self.is_explicit:
            raise TypeError(
                f"{self.who} has no {what}: it learns in the feature space of a kernel, where rows need not be finite "
                "vectors. Use pair_score, pairwise_score or MetricKNeighborsClassifier; or learn LOSL on an explicit "
                f"map, which has {what}: make_pipeline(Nystroem(), LOSL())."
            )
        return self.metric

    def matrix(self, label: Any = None) -> Array:
        """M_c in the units of X; for None the shared U by itself. With regions the label is the number of a region."""
        metric = self.explicit("metric matrices")
        if label is None:
            code = SHARED
        elif self.regions is not None:
            check.check_count("the number of a region", label, 0)
            code = int(label)
        else:
            code = int(self.codes(np.array([label]), 1, "label")[0])
        return metric.matrix(int(metric.resolve(np.array([code], np.int32))[0])).copy()

    def query_vectors(self, rows: Any) -> Array:
        """Vectors whose inner product with `item_vectors` is minus the squared distance, or the similarity."""
        return augmented_queries(self.explicit("search vectors"), rows, self.order)

    def item_vectors(self, rows: Any, codes: Array) -> Array:
        """Vectors of items for any exhaustive inner-product search."""
        return augmented_items(self.explicit("search vectors"), rows, codes, self.order)

    def balance(self, vectors: Array) -> Balance:
        """The balance that these item vectors fix, for graph indexes."""
        return Balance.of(vectors, extra_columns(self.metric, len(self.order)))
