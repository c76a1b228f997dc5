"""Search under the metrics of very many classes, where the forms q^T M_c q would cost more than all products.

One matrix R bounds them all from below, M_c - s_c R is p.s.d. (theory 11), so q^T M_c q >= s_c q^T R q. With a few
forms known, the k-th smallest value so far leaves out the classes whose bounds are above it.
"""

from math import ceil
from typing import Protocol

import numpy as np

from .._compiled.scratch import Scratch
from .._compiled.topk import Grouped, Queries, class_minima, merge_classes
from .._threads import in_threads
from .._typing import Array
from .tiles import QUERY_TILE, Items, product_of

# Products that a thread keeps at a time, of some queries with all items.
KEPT = 1 << 23
# Classes whose forms are found first: enough that they hold so many times k items, and at least so many.
ENOUGH, FEWEST = 2, 4
# With fewer features, or fewer times as many classes as are found first, all forms cost little.
NARROW, MANY = 48, 4


class Floored(Protocol):
    """Metrics M_c with a common bound from below."""

    def floor(self, Q: Array, codes: Array) -> tuple[Array, Array]:
        """q^T R q of each query, and for each code the share s_c of R that is a bound."""
        ...

    def some_forms(self, Q: Array, codes: Array, wanted: Array) -> Array:
        """q^T M_c q where it is wanted, (n_queries, n_codes); elsewhere infinite."""
        ...


def found_first(items: Items, n_classes: int, k: int) -> int:
    """How many classes' forms are found before bounds are looked at."""
    return max(FEWEST, -(-ENOUGH * k * n_classes // max(items.n, 1)))


def pays(items: Items, n_classes: int, d: int, n_queries: int, k: int) -> bool:
    """Whether forms of all classes would cost more than products and bounds do."""
    many = d >= NARROW and n_classes >= MANY * found_first(items, n_classes, k)
    return many and n_queries >= 2 * d and items.n <= 2 * n_classes * d


def nearest(rows: Array, items: Items, k: int, own: Array, metric: Floored, codes: Array) -> tuple[Array, Array, Array]:
    """The k nearest items of each query, values and numbers, and the largest form that was looked at.

    codes : those of the items' classes, as the metric knows them.
    """
    n, first = len(rows), found_first(items, len(codes), k)
    best, ids, largest = np.full((n, k), np.inf), np.full((n, k), -1, np.int64), np.empty(n)
    nobody = np.zeros(n, np.int32)
    numbers = np.argsort(items.classes, kind="stable")
    edges = np.searchsorted(items.classes[numbers], np.arange(len(codes) + 1))
    factors, constants = tuple(factor[numbers] for factor in items.rows(slice(0, items.n))), items.constants[numbers]
    reference, shares = metric.floor(rows, codes)

    def find(part: slice) -> None:
        queries, below = rows[part], reference[part, None]
        scores = product_of(items.sides(queries), factors, Scratch())
        grouped, minima = Grouped(scores, items.alpha, numbers, constants, edges), np.empty((len(queries), len(codes)))
        class_minima(grouped, minima)
        wanted = np.zeros(minima.shape, bool)
        np.put_along_axis(wanted, np.argpartition(minima, first - 1, axis=1)[:, :first], True, axis=1)
        largest[part] = reference[part]
        for _ in range(2):
            table = metric.some_forms(queries, codes, wanted)
            merge_classes(grouped, Queries(table, own[part], nobody[part]), minima, best[part], ids[part])
            largest[part] = np.maximum(largest[part], np.where(wanted, table, 0.0).max(axis=1))
            wanted = ~wanted & (below * shares + minima <= best[part, -1:])

    size = ceil(n / max(2, ceil(n / np.clip(KEPT // items.n, 1, QUERY_TILE))))
    in_threads(find, [slice(a, min(a + size, n)) for a in range(0, n, size)])
    return best, ids, largest
