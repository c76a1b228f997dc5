"""faiss: exhaustive over search vectors; HNSW graphs and inverted lists over their balanced L2 form (theory 11).

A graph over the plain vectors fails, because the columns beyond the first d dominate their norms. All candidates are
looked at again directly, so that the values returned are exact whatever faiss found.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .. import _validation as check
from .._optional import optional
from .._reading import Balance
from .._typing import Array
from ._engines import InMemory, NoSettings, Tiles
from ._view import View, extent

# faiss crashes at a single link, and allocates for as many links and lists as it is asked for.
GRAPH_LIMITS = {"n_links": (2, 256), "ef_construction": (1, 10_000), "ef_search": (1, 100_000)}
MOST_LISTS = 1 << 20


@dataclass(frozen=True)
class GraphSettings:
    """HNSW: links of a node, width of the search while building, width of the search."""

    n_links: int = 32
    ef_construction: int = 40
    ef_search: int = 64

    def __post_init__(self) -> None:
        for name, (least, most) in GRAPH_LIMITS.items():
            check.check_between(name, getattr(self, name), least, most)


@dataclass(frozen=True)
class ListSettings:
    """Inverted lists: how many, and how many are searched; by default 2 sqrt(n), and an eighth of them, at least 8."""

    n_lists: int | None = None
    n_probes: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_lists", "n_probes"):
            if getattr(self, name) is not None:
                check.check_between(name, getattr(self, name), 1, MOST_LISTS)


class Flat(InMemory):
    """Exact: faiss's exhaustive inner products in float32, certified and looked at directly."""

    def __init__(self, view: View, index: Any, extent: float) -> None:
        self.view, self._index, self._extent = view, index, extent

    @classmethod
    def build(cls, view: View, settings: NoSettings) -> Self:
        vectors = _single(view.item_vectors())
        index = _faiss().IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        return cls(view, index, extent(vectors))

    def revised(self, view: View, kept: Array) -> "Flat":
        faiss, n = _faiss(), len(kept)
        old = faiss.rev_swig_ptr(self._index.get_xb(), self._index.ntotal * self._index.d)
        index = faiss.IndexFlatIP(self._index.d)
        index.add(np.ascontiguousarray(old.reshape(-1, self._index.d)[kept]))
        largest = self._extent
        if n < len(view.shelf):
            new = _single(view.item_vectors(n))
            index.add(new)
            largest = max(largest, extent(new))
        return Flat(view, index, largest)

    def search(self, Q: Any, k: int) -> tuple[Array, Array]:
        return self.view.certified(Q, k, self._rough, self._extent, np.float32)

    def _rough(self, queries: Array, reach: int) -> tuple[Array, Array]:
        products, places = self._index.search(_single(queries), reach)
        return -products.astype(np.float64), places

    def candidates(self, Q: Any, n: int, least: int) -> Array:
        return self._rough(self.view.query_vectors(Q), n)[1]


class Balanced(InMemory):
    """Approximate: an index of faiss over the balanced form; nodes of removed items stay in it, and are passed over.

    items : number on the shelf of each vector of the index, -1 once it is removed.
    """

    def __init__(self, view: View, settings: Any, index: Any, balance: Balance, items: Array) -> None:
        self.view, self.settings = view, settings
        self._index, self._balance, self._items = index, balance, items

    @classmethod
    def build(cls, view: View, settings: GraphSettings | ListSettings) -> Self:
        vectors = view.item_vectors()
        balance = view.reader.balance(vectors)
        balanced = _single(balance.items(vectors))
        if isinstance(settings, GraphSettings):
            index = _graph(balanced.shape[1], settings)
        else:
            index = _lists(balanced, settings)
        index.add(balanced)
        return cls(view, settings, index, balance, np.arange(len(vectors)))

    def revised(self, view: View, kept: Array) -> "Balanced":
        if 2 * len(kept) < len(self._items):
            return Balanced.build(view, self.settings)
        now = np.full(len(self.view.shelf) + 1, -1)
        now[kept] = np.arange(len(kept))
        index, items = self._index, now[self._items]
        if len(kept) < len(view.shelf):
            index = _faiss().clone_index(index)
            index.add(_single(self._balance.items(view.item_vectors(len(kept)))))
            items = np.concatenate([items, np.arange(len(kept), len(view.shelf))])
        return Balanced(view, self.settings, index, self._balance, items)

    def search(self, Q: Any, k: int) -> tuple[Array, Array]:
        """The k best of 2 k candidates."""
        return self.view.best_of(Q, self.candidates(Q, min(2 * k, len(self.view.shelf)), k), k)

    def candidates(self, Q: Any, n: int, least: int) -> Array:
        """If the index finds fewer than `least`, as after many removals, by an exhaustive search."""
        places = self._walk(Q, n)
        short = np.flatnonzero((places >= 0).sum(axis=1) < least)
        if len(short):
            places[short] = -1
            places[short, :least] = Tiles.build(self.view).search(Q[short], least)[1]
        return places

    def _walk(self, Q: Any, n: int) -> Array:
        faiss = _faiss()
        queries = _single(self._balance.queries(self.view.query_vectors(Q)))
        options: dict[str, Any] = {}
        if (self._items < 0).any():
            bits = np.packbits(self._items >= 0, bitorder="little")
            options["sel"] = faiss.IDSelectorBitmap(bits)
        if isinstance(self.settings, GraphSettings):
            options["efSearch"] = max(self.settings.ef_search, n)
            parameters = faiss.SearchParametersHNSW(**options)
        else:
            options["nprobe"] = self.settings.n_probes or max(8, self._index.nlist // 8)
            parameters = faiss.SearchParametersIVF(**options)
        found = self._index.search(queries, n, params=parameters)[1]
        return np.where(found >= 0, self._items[found], -1)


def _faiss() -> Any:
    return optional("faiss", "faiss")


def _single(vectors: Array) -> Array:
    with np.errstate(over="ignore"):
        out = np.ascontiguousarray(vectors, np.float32)
    if not np.isfinite(out).all():
        raise ValueError("The search vectors leave the range of float32. Scale the data, or use backend='exact'.")
    return out


def _graph(width: int, settings: GraphSettings) -> Any:
    index = _faiss().IndexHNSWFlat(width, settings.n_links)
    index.hnsw.efConstruction = settings.ef_construction
    return index


def _lists(vectors: Array, settings: ListSettings) -> Any:
    """Inverted lists, trained on the vectors; few enough that each has some."""
    faiss, n = _faiss(), len(vectors)
    n_lists = min(settings.n_lists or int(np.ceil(2 * np.sqrt(n))), max(1, n // 39))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(vectors.shape[1]), vectors.shape[1], n_lists)
    index.train(vectors)
    return index
