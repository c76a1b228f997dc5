"""Search among items that no single worker holds: each chunk is searched separately, and the results are merged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._search.voting import majority
from .._training.partitions import merged
from .._typing import Array
from ..estimators import bare_learner, measure_of, reader_of
from ._runner import later, reduced, runner
from ._shards import read, shards_of


class PartitionedIndex:
    """Items in many chunks, each searched under the metric of its own class; exact.

    Parameters
    ----------
    metric : fitted learner
    X : Dask array or dataframe, path of a .npy file, a memory map, Parquet; see `paloma.distributed.fit`
    y : classes of the items, of the same kind; None: items without a class, which the shared part scores
        Rows that the metric treats as unlabeled are not items.
    client : dask.distributed.Client, optional
        None uses the current client if there is one, otherwise this process.
    keep : bool
        Keep the items and their images under the metric in the workers' memory, twice the size of X, so that repeated
        searches read and map them only once. Otherwise each search reads them again and holds one chunk per worker.
    shard_rows : int
        Rows per chunk if X is a .npy file.

    Examples
    --------
    >>> import dask.array as da
    >>> from paloma import LODML
    >>> from paloma.distributed import PartitionedIndex
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> metric = LODML(random_state=0).fit(X[:900], y[:900])
    >>> index = PartitionedIndex(metric, da.from_array(X[:900], chunks=(300, 64)), y[:900])
    >>> distances, numbers = index.search(X[900:], k=3)
    >>> numbers.shape
    (897, 3)
    >>> print(f"{(index.predict(X[900:]) == y[900:]).mean():.2f}")
    0.96
    """

    def __init__(
        self, metric: Any, X: Any, y: Any = None, *, client: Any = None, keep: bool = False, shard_rows: int = 65_536
    ) -> None:
        learner = bare_learner(metric)
        check_is_fitted(learner)
        check.check_count("shard_rows", shard_rows)
        self._learner, self._runner = learner, runner(client)
        shards = shards_of(X, y, shard_rows, labeled=False)
        self._metric = self._runner.place(learner)
        tasks = [later(_about, self._metric, pair, k) for k, pair in enumerate(shards)]
        about = self._runner.fetch(self._runner.run(tasks))
        self.n_items = sum(n for _, n, _ in about)
        self.classes_ = np.unique(np.concatenate([classes for *_, classes in about])) if y is not None else None
        firsts = np.cumsum([0, *(n for n, *_ in about)]).tolist()
        filled = [k for k, (_, n, _) in enumerate(about) if n]
        self._firsts = [firsts[k] for k in filled]
        items = [later(_items, self._metric, shards[k], k) for k in filled]
        self._items = self._runner.run(items) if keep else items

    def search(self, Q: ArrayLike, k: int) -> tuple[Array, Array]:
        """The k nearest items of each query: distances (for a similarity learner: scores), and row numbers of X."""
        values, numbers, _ = self._search(Q, k)
        return measure_of(self._learner).visible(values), numbers

    def predict(self, Q: ArrayLike, n_neighbors: int = 3) -> Array:
        """Class of each query by the vote of its nearest items; a tie goes to the nearest of the tied items."""
        if self.classes_ is None:
            raise ValueError("The items have no classes: pass y in order to predict.")
        return self.classes_[majority(self._search(Q, n_neighbors)[2])]

    def _search(self, Q: ArrayLike, k: int) -> tuple[Array, Array, Array]:
        check.check_count("k", k)
        if k > self.n_items:
            raise ValueError(f"k={k} is more than the {self.n_items} items of the index.")
        queries = self._runner.place(reader_of(self._learner).rows(Q))
        parts = [
            later(_search_one, items, first, self.classes_, queries, k)
            for items, first in zip(self._items, self._firsts, strict=True)
        ]
        return self._runner.fetch(self._runner.run([reduced(lambda found: later(merged, found, k), parts)]))[0]


def _about(learner: Any, pair: Any, number: int) -> tuple[int, int, Array]:
    """How many rows and items a chunk has, and the items' classes."""
    rows = read(learner, pair, number)
    labels = rows.y if pair[1] is None else reader_of(learner).labeled(rows.y)
    return rows.X.shape[0], len(labels), np.unique(labels)


def _items(learner: Any, pair: Any, number: int) -> tuple[Any, Array, Array]:
    """A chunk of items under the metric, their labels, and where they are in the chunk."""
    reader = reader_of(learner)
    rows = read(learner, pair, number, reader.dtype)
    X, y, places = rows.X, rows.y, np.arange(rows.X.shape[0])
    labeled = pair[1] is not None
    if labeled and reader.unlabeled is not None:
        places = np.flatnonzero(y != reader.unlabeled)
        X, y = X[places], y[places]
    return reader.items(X, reader.candidates(X, y if labeled else None)), y, places


def _search_one(held: Any, first: int, classes: Array | None, Q: Any, k: int) -> tuple[Array, Array, Array]:
    """The nearest items of one chunk: values, numbers in the whole data, numbers of their classes."""
    items, labels, places = held
    values, found = items.search(Q, min(k, items.X.shape[0]))
    numbers = np.zeros(len(labels), np.int64) if classes is None else np.searchsorted(classes, labels)
    return values, first + places[found], numbers[found]
