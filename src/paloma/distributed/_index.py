"""Search among items that no worker holds whole: each chunk is searched by itself, the results are merged."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._partitions import merged
from .._search import items_of, majority
from ..estimators.base import Learner
from ._runner import later, reduced, runner
from ._shards import read, shards_of

Array = NDArray[Any]


class PartitionedIndex:
    """Items in many chunks, each searched under the metric of its own class; exact.

    Parameters
    ----------
    metric : fitted learner
    X : Dask array or dataframe, path of a .npy file, a memory map, Parquet; see `paloma.distributed.fit`
    y : classes of the items, of the same kind; None: items without a class, which the shared part scores
        Rows that the metric takes as unlabelled are no items.
    client : dask.distributed.Client, optional
        None is the current client if there is one, else this process.
    keep : bool
        Hold the items and their images under the metric in the workers' memory, twice the size of X, so that many
        searches read and map them once. Otherwise each search reads them anew and holds one chunk a worker.
    shard_rows : int
        Rows a chunk where X is a .npy file.

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
        learner = getattr(metric, "estimator", metric)
        if not isinstance(learner, Learner):
            raise TypeError(f"metric must be a fitted paloma learner, got {type(metric).__name__}.")
        check_is_fitted(learner)
        check.check_count("shard_rows", shard_rows)
        self._learner, self._runner = learner, runner(client)
        shards = shards_of(X, y, shard_rows, labelled=False)
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
        return (np.sqrt(np.maximum(values, 0.0)) if self._learner._measure.symmetric else -values), numbers

    def predict(self, Q: ArrayLike, n_neighbors: int = 3) -> Array:
        """Class of each query by the vote of its nearest items; a tie goes to the nearest among the tied."""
        if self.classes_ is None:
            raise ValueError("The items have no classes: give y to predict.")
        return self.classes_[majority(self._search(Q, n_neighbors)[2])]

    def _search(self, Q: ArrayLike, k: int) -> tuple[Array, Array, Array]:
        check.check_count("k", k)
        if k > self.n_items:
            raise ValueError(f"k={k} is more than the {self.n_items} items of the index.")
        queries = self._runner.place(self._learner._rows(Q))
        parts = [
            later(_search_one, items, first, self.classes_, queries, k)
            for items, first in zip(self._items, self._firsts, strict=True)
        ]
        return self._runner.fetch(self._runner.run([reduced(lambda found: later(merged, found, k), parts)]))[0]


def _about(learner: Any, pair: Any, number: int) -> tuple[int, int, Array]:
    """How many rows and items a chunk has, and the items' classes."""
    rows = read(learner, pair, number)
    labels = rows.y if pair[1] is None else learner._labelled(rows.y)
    return rows.X.shape[0], len(labels), np.unique(labels)


def _items(learner: Any, pair: Any, number: int) -> tuple[Any, Array, Array]:
    """A chunk of items under the metric, their labels, and where they are in the chunk."""
    rows = read(learner, pair, number, learner._model.dtype)
    X, y, places = rows.X, rows.y, np.arange(rows.X.shape[0])
    labelled = pair[1] is not None
    if labelled and learner.unlabeled is not None:
        places = np.flatnonzero(y != learner.unlabeled)
        X, y = X[places], y[places]
    candidates = learner._candidates(X, y if labelled else None, "rows of X")
    return items_of(learner._metric(), X, candidates), y, places


def _search_one(held: Any, first: int, classes: Array | None, Q: Any, k: int) -> tuple[Array, Array, Array]:
    """The nearest items of one chunk: values, numbers in the whole data, numbers of their classes."""
    items, labels, places = held
    values, found = items.search(Q, min(k, items.X.shape[0]))
    numbers = np.zeros(len(labels), np.int64) if classes is None else np.searchsorted(classes, labels)
    return values, first + places[found], numbers[found]
