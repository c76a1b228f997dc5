"""An index of items under local metrics: exact, approximate, or inside a database."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from .. import _validation as check
from .._core.locality import Labels
from .._rows import stacked
from .._threads import jobs, sharing
from .._typing import Array
from ..estimators import (
    Mark,
    at_start,
    following,
    is_learner,
    no_learner,
    obey,
    parted,
    reader_of,
    reading,
    refuse_elsewhere,
)
from ..estimators.base import Learner
from ._backends import chosen, options_of
from ._engines import Engine, Tiles
from ._pgvector import Superseded
from ._shelf import Shelf
from ._view import View

# Seconds that a search waits for a writer that has changed a database to publish what belongs to it.
PATIENCE = 1.0
# Items that the scale of a learner is taken from if feedback is the first thing it learns.
MOST_TYPICAL = 1000


@dataclass(frozen=True)
class Published:
    """What searches see: items under a metric that learns no more, and the engine over them."""

    learner: Learner
    view: View
    engine: Engine


class MetricIndex:
    """Items to be searched, each under the metric of its own class.

    d(q, x)^2 = (q - x)^T M_x (q - x), with M_x the metric of the item's class, a weighted mean of metrics for an item
    with class shares, and the shared part U for an item without a class; for a similarity learner, q^T M_x x. Searching
    under all these metrics is one inner-product search.

    Searches run under the metric as it was when the first items were added, or at the last `refresh`: if the metric
    keeps learning, nothing changes until the next `refresh`. Any number of threads may search while one adds, removes
    or refreshes: each search sees the index as it was when it began.

    Parameters
    ----------
    metric : learner
        Possibly inside a FrozenEstimator. It may continue to learn. One that is not fitted starts at its initial
        metric, the Euclidean one unless it has another `init`, and learns by `feedback` or by its own `partial_fit`.
        Or a fitted pipeline that ends in a learner: items and queries then pass through the current state of the
        preceding steps.
    backend : str
        ``"exact"`` (default): tiles of matrix products, every neighbor certified against rounding.
        ``"faiss-flat"``: the same result from faiss. ``"faiss-hnsw"``, ``"faiss-ivf"``: approximate, faster from about
        50,000 items on; `recall` measures how good. ``"pgvector"``: vectors in a PostgreSQL table.
    n_jobs : int or None
        At most how many threads large matrix products take, -1: as many as there are CPUs; None: as many as this
        process may use (docs/speed.md). Not kept in model files.
    device : None, "auto", or a device as torch spells it
        Where the metric must be, since searches go there. None: wherever it is. Not kept in model files.
    **options
        Of the backend. ``faiss-hnsw``: `n_links` (32; more is better and larger), `ef_construction` (40),
        `ef_search` (64; more is better and slower). ``faiss-ivf``: `n_lists` (2 sqrt(n)), `n_probes` (an eighth of
        them). ``pgvector``: `connection` (anything psycopg.connect takes, or a callable that returns connections, such
        as ``ConnectionPool.connection``; by default libpq's environment, PGHOST and so on), `table`
        (``"paloma_items"``, or a pair (schema, table)), `approximate` (False: exact by sequential scan; True: HNSW),
        `ef_search` (100), `replace` (False: an existing table is refused).

    Examples
    --------
    >>> from paloma import LODML, MetricIndex
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = LODML(random_state=0).fit(X[::2], y[::2])
    >>> index = MetricIndex(metric)
    >>> ids = index.add(X[::2], y[::2])
    >>> distances, ids = index.search(X[1:4:2], k=3)
    >>> ids.tolist()
    [[6, 17, 15], [15, 19, 1]]
    >>> _ = metric.partial_fit(X[1::2], y[1::2])
    >>> index.updates_behind > 0
    True
    >>> index.refresh().updates_behind
    0
    """

    def __init__(
        self, metric: Any, *, backend: str = "exact", n_jobs: int | None = None, device: Any = None, **options: Any
    ) -> None:
        check.check_jobs(n_jobs)
        self.n_jobs, self.device = n_jobs, device
        self._engine, self._settings = chosen(backend, options)
        self.metric, self.backend = metric, backend
        before, learner = parted(metric)
        if not is_learner(learner):
            raise TypeError(no_learner(metric))
        refuse_elsewhere("MetricIndex", learner, device)
        self._before, self._learner = deepcopy(before), learner
        self._published: Published | None = None
        self._empty = Shelf.empty()
        self._source: Mark | None = None
        self._writing = threading.RLock()

    def __repr__(self) -> str:
        return f"MetricIndex({self._learner!r}, backend={self.backend!r}) of {len(self):,} items"

    def __len__(self) -> int:
        return len(self._shelf)

    def __contains__(self, item: Any) -> bool:
        return bool(self._shelf.places(np.atleast_1d(np.asarray(item)))[0] >= 0)

    @property
    def ids(self) -> Array:
        """Ids of all items, in the order in which they were added."""
        return self._shelf.ids.copy()

    @property
    def _shelf(self) -> Shelf:
        return self._empty if self._published is None else self._published.view.shelf

    # -- writing ---------------------------------------------------------------------------------------------

    @following
    def add(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        payload: Iterable[Any] | None = None,
    ) -> Array:
        """Add items under the published metric; the first ones publish the current metric.

        Parameters
        ----------
        X : (n, d) rows; copied.
        y : (n,) classes; or (n, n_classes) shares of the metric's `classes_`, rows that sum to 1, for items whose class
            is uncertain; None: items without a class, which are scored by the shared part. A class that the metric has
            never seen is scored by lam U + mu I. Global learners ignore y.
        ids : (n,) integers or strings that are not in the index; by default the next integers, which are never reused,
            even if items are removed.
        payload : (n,) anything that JSON can hold, such as a title or a dict, to be had back by `payload_of`.

        Returns
        -------
        ids : (n,) ids of the new items. Adding copies all existing items: add many at a time.
        """
        with jobs(self.n_jobs), self._writing:
            held, rows = self._shelf, self._prepared(X)
            with reading(self._learner), check.unchanged_on_error(self._learner):
                if not self._learner.__sklearn_is_fitted__():
                    at_start(self._learner, rows)
                shelf = held.added(reader_of(self._learner), rows, y, ids, payload)
            if self._published is None:
                self._publish(shelf)
            else:
                self._revise(self._published, shelf, np.arange(len(held)))
            return shelf.ids[len(held) :].copy()

    def remove(self, ids: Any) -> Self:
        """Remove items; `ids` is treated as a set, and all of them must be in the index."""
        with self._writing:
            shelf = self._shelf
            gone = shelf.found(ids)
            kept = np.setdiff1d(np.arange(len(shelf)), gone)
            if self._published is not None and len(gone):
                if len(kept):
                    self._revise(self._published, shelf.taken(kept), kept)
                else:
                    self._clear(self._published)
        return self

    def refresh(self) -> Self:
        """Publish the current metric: all items are mapped again, and graphs are rebuilt."""
        with jobs(self.n_jobs), self._writing:
            if len(self):
                self._publish(self._shelf)
        return self

    def _publish(self, shelf: Shelf) -> None:
        with reading(self._learner):
            learner, source = deepcopy(self._learner), Mark.of(self._learner)
        view = View(reader_of(learner), shelf)
        self._published = Published(learner, view, self._engine.build(view, self._settings))
        self._source = source

    def _revise(self, published: Published, shelf: Shelf, kept: Array) -> None:
        view = published.view.revised(shelf)
        self._published = Published(published.learner, view, published.engine.revised(view, kept))

    def _clear(self, published: Published) -> None:
        """No items are left: the next ones publish the metric again."""
        published.engine.clear()
        self._empty = Shelf.empty(published.view.shelf.next_id)
        self._published = self._source = None

    # -- reading ---------------------------------------------------------------------------------------------

    @following
    def search(
        self, Q: ArrayLike, k: int, *, rerank: str = "published", n_candidates: int | None = None, group: Any = None
    ) -> tuple[Array, Array]:
        """The k nearest items of each query.

        Parameters
        ----------
        Q : (n_queries, d) rows. Queries have no class.
        k : int, at most the number of items.
        rerank : ``"published"``: the k nearest under the published metric. ``"live"``: candidates are found under the
            published metric and ranked exactly under the current one, so learning takes effect at once and nothing is
            rebuilt. A metric that learns in another thread is waited for.
        n_candidates : for ``rerank="live"`` and for `group`; by default 3 k, at least k + 20. Use more as the index
            grows stale, or as groups differ from each other.
        group : whose metric ranks, if the metric learned with `groups`: candidates are found as for everybody, and
            ranked exactly under the group's metric.

        Returns
        -------
        distances : (n_queries, k), nearest first; for a similarity learner scores, largest first.
        ids : (n_queries, k). Of equal distances the item that was added first comes first.
        """
        check.check_word("rerank", rerank, ("published", "live"))
        check.check_count("k", k)
        self._held(k)
        n = _candidates(k) if n_candidates is None else n_candidates
        check.check_count("n_candidates", n, k)
        wanted = None if rerank == "published" and group is None else n
        with jobs(self.n_jobs):
            return self._settled(self._prepared(Q), k, wanted, rerank == "live", group)

    def _prepared(self, X: Any) -> Any:
        """Rows as the learner sees them."""
        return X if self._before is None else self._before.transform(X)

    def _settled(
        self, Q: Any, k: int, n_candidates: int | None, live: bool = True, group: Any = None
    ) -> tuple[Array, Array]:
        """Search again if a database was changed in the meantime and what belongs to it is about to be published."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._found(Q, k, n_candidates, live, group)
            except Superseded:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _found(self, Q: Any, k: int, n_candidates: int | None, live: bool, group: Any) -> tuple[Array, Array]:
        """One attempt at what is published now; with candidates, ranked by the current metric, or that of a group."""
        if n_candidates is None:
            published = self._held(k)
            values, places = published.engine.search(published.view.queries(Q), k)
        else:
            with reading(self._learner):
                published = self._held(k)
                values, places = self._ranked(published, published.view.queries(Q), k, n_candidates, live, group)
        view = published.view
        return view.reader.measure.visible(values), view.shelf.ids[places]

    def _ranked(
        self, published: Published, Q: Any, k: int, n_candidates: int, live: bool, group: Any
    ) -> tuple[Array, Array]:
        """The k best of the published candidates under the current metric, or under that of a group."""
        view = published.view
        places = published.engine.candidates(Q, min(n_candidates, len(view.shelf)), k)
        ranking = View(reader_of(self._learner), view.shelf, view.center) if live else view
        with sharing(n_candidates, Q.shape[1], Q.shape[1]):
            return (ranking if group is None else ranking.of_group(group)).best_of(Q, places, k)

    def _held(self, k: int) -> Published:
        published = self._published
        if published is None:
            raise ValueError("The index is empty: add items before searching.")
        n = len(published.view.shelf)
        if k > n:
            raise ValueError(f"k={k} is more than the {n} items of the index.")
        return published

    def rank(self, Q: ArrayLike) -> Array:
        """Ids of all items, nearest first, for each query: exact, whatever the backend; for evaluation."""
        view = self._held(1).view
        return view.shelf.ids[Tiles.build(view).ranking(view.queries(self._prepared(Q)))]

    def labels_of(self, ids: ArrayLike) -> Array:
        """Class of each of these items (the largest share, if it has several), None if it has none; shaped like ids."""
        shelf, places, shape = self._places(ids)
        return shelf.labels_of(places).reshape(shape)

    def vectors_of(self, ids: ArrayLike) -> Any:
        """Rows of these items, (..., d), as the metric sees them: behind the preceding steps of a pipeline."""
        shelf, places, shape = self._places(ids)
        rows = shelf.X[places]
        return rows if sp.issparse(rows) else rows.reshape(*shape, rows.shape[1])

    def payload_of(self, ids: ArrayLike) -> Array:
        """What was added with these items, None where nothing was; an array of objects, shaped like ids."""
        shelf, places, shape = self._places(ids)
        return shelf.payload_of(places).reshape(shape)

    def _places(self, ids: ArrayLike) -> tuple[Shelf, Array, tuple[int, ...]]:
        given, shelf = np.asarray(ids), self._shelf
        shelf.found(given.ravel())
        return shelf, shelf.places(given.ravel()), given.shape

    # -- learning ------------------------------------------------------------------------------------------------------

    def feedback(self, query: Any, *, nearer: Any, farther: Any) -> bool:
        """Make the query nearer to one item than to another: the metric learns it, and the next search obeys.

        The smallest step that makes the statement true with a twentieth of the margin, then `refresh`: everything else
        moves as little as that allows. A statement that cannot be obeyed, such as one about two equal items, is
        refused, and nothing changes.

        Parameters
        ----------
        query, nearer, farther : id of an item, or a row (d,)
            A row, which passes through the preceding steps of a pipeline, has no class; an item with shares of several
            classes counts as one of its largest.

        Returns
        -------
        moved : False if it was so already, and nothing had to be learned.

        Examples
        --------
        >>> from paloma import LODML, MetricIndex
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> index = MetricIndex(LODML(random_state=0))
        >>> ids = index.add(X)
        >>> query = [6.0, 2.9, 4.8, 1.6]
        >>> index.search([query], k=2)[1].tolist()
        [[138, 63]]
        >>> index.feedback(query, nearer=63, farther=138)
        True
        >>> near = index.search([query], k=150)[1][0].tolist()
        >>> near.index(63) < near.index(138)
        True
        """
        with self._writing:
            if not len(self):
                raise ValueError("The index is empty: add items before giving feedback.")
            named = {"query": query, "nearer": nearer, "farther": farther}
            parts = [self._one(name, value) for name, value in named.items()]
            rows = stacked([row for row, _ in parts])
            shelf = self._shelf
            typical = shelf.X[: 4 * MOST_TYPICAL : 4] if len(shelf) > 4 * MOST_TYPICAL else shelf.X[:MOST_TYPICAL]
            moved = obey(self._learner, rows, [label for _, label in parts[1:]], typical)
            if moved or not self._fresh():
                self.refresh()
        return moved

    def _one(self, name: str, value: Any) -> tuple[Any, Any]:
        """An item by its id, or a row; as a row (1, d) and its class, None without one."""
        if np.ndim(value) == 0:
            return self.vectors_of([value]), self.labels_of([value])[0]
        if np.ndim(value) != 1:
            raise ValueError(
                f"MetricIndex.feedback: {name} must be the id of an item or a row (d,), got {value!r:.80}."
            )
        row = value.to_frame().T if hasattr(value, "to_frame") else np.asarray(value)[None]  # of a pandas table
        return self._held(1).view.queries(self._prepared(row)), None

    def recall(self, Q: ArrayLike, k: int = 10) -> float:
        """Fraction of the k nearest items under the published metric that `search` finds; 1 for exact backends."""
        check.check_count("k", k)
        published = self._held(k)
        rows = published.view.queries(self._prepared(Q))
        exact = Tiles.build(published.view).search(rows, k)[1]
        return _overlap(published.engine.search(rows, k)[1], exact)

    @property
    def updates_behind(self) -> int:
        """Number of updates of the metric since it was published."""
        if self._published is None or self._fresh():
            return 0
        return int(self._learner.n_updates_ - self._published.learner.n_updates_)

    def _fresh(self) -> bool:
        """Whether the metric has neither learned nor been set since it was published."""
        return self._source is not None and self._source == Mark.of(self._learner)

    def staleness(self, k: int = 10, n_queries: int = 200, random_state: int = 0) -> float:
        """Fraction of the k nearest items that the current metric would replace: 0 means up to date.

        Measured on random items of the index as queries, by the overlap of ``search(Q, k)`` with ``search(Q, k,
        rerank="live")``. If it is higher than you can accept, call `refresh`.
        """
        check.check_count("k", k)
        shelf = self._held(k).view.shelf
        rng = np.random.default_rng(random_state)
        Q = shelf.X[np.sort(rng.choice(len(shelf), min(n_queries, len(shelf)), replace=False))]
        return 1.0 - _overlap(self._settled(Q, k, _candidates(k))[1], self._settled(Q, k, None)[1])

    # -- as plain data ---------------------------------------------------------------------------------------

    def connect(self, connection: Any) -> Self:
        """Give an index with the pgvector backend its database: files and pickles hold no connection."""
        if self.backend != "pgvector":
            raise ValueError(f"backend {self.backend!r} has no database to connect to.")
        self._settings.connection = connection
        return self

    def __paloma_state__(self) -> dict[str, Any]:
        """Everything but graphs and tiles, which are built again, and the connection to a database."""
        with self._writing:
            shelf, published = self._shelf, self._published
            return {
                "metric": self.metric,
                "published": None if published is None or self._fresh() else published.learner,
                "backend": self.backend,
                "n_jobs": self.n_jobs,
                "device": self.device,
                "options": options_of(self._settings),
                "engine": {} if published is None else published.engine.memo(),
                "center": None if published is None else published.view.center,
                "X": shelf.X,
                "ids": shelf.ids,
                "shares": shelf.shares,
                "labels": shelf.labels.labels,
                "next_id": shelf.next_id,
                "payload": None if shelf.payload is None else shelf.payload.tolist(),
            }

    @classmethod
    def __paloma_restore__(cls, state: dict[str, Any]) -> Self:
        own = {"backend": state["backend"], "n_jobs": state.get("n_jobs"), "device": state.get("device")}
        index = cls(state["metric"], **own, **state["options"])
        payload = state.get("payload")
        shelf = Shelf(
            state["X"], state["ids"], state["shares"], Labels(state["labels"]), state["next_id"],
            None if payload is None else np.array(payload, object),
        ).checked()  # fmt: skip
        index._empty = Shelf.empty(shelf.next_id)
        if len(shelf):
            learner = deepcopy(index._learner if state["published"] is None else state["published"])
            view = View(reader_of(learner), shelf, state["center"])
            engine = index._engine.restored(view, index._settings, state["engine"])
            index._published = Published(learner, view, engine)
            index._source = Mark.of(index._learner) if state["published"] is None else None
        return index

    def __reduce__(self) -> tuple[Any, ...]:
        return MetricIndex.__paloma_restore__, (self.__paloma_state__(),)


@contextmanager
def still(index: MetricIndex) -> Iterator[None]:
    """A block in which neither the index nor its metric changes."""
    with index._writing, reading(index._learner):
        yield


def _candidates(k: int) -> int:
    return max(3 * k, k + 20)


def _overlap(found: Array, wanted: Array) -> float:
    """Mean share of `wanted`, row by row, that is among `found`."""
    return float((wanted[:, :, None] == found[:, None, :]).any(axis=2).mean())
