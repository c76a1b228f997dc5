"""Exhaustive nearest neighbors by tiles of one matrix product and a partial top-k, memory bounded by the tile.

A squared distance splits into d(q, x) = a_c(q) - 2 q^T (M_c x) + x^T M_c x (theory 11): the middle term is one product
over all items, whatever their class; the first is a table over classes, the last a constant of the item.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._compiled.scratch import Scratch
from .._compiled.topk import Queries, Tile, merge_columns, merge_local, merge_shared
from .._progress import progress
from .._threads import in_turn
from .._typing import Array

Factors = tuple[Any, ...]
QUERY_TILE, ITEM_TILE = 1024, 1024
# Few queries take more items at a time: the calls would cost more than the products.
LARGE_TILE = 1 << 16
# So many tiles take long enough to say so.
MANY_TILES = 200
# Candidates beyond k that are looked at directly; more of them only for queries where rounding could matter.
SPARE = (4, 64, 512)
# Numbers that forming values directly may gather at a time, for the rows of both sides.
GATHERED = 1 << 23


@dataclass
class Items:
    """The item side of a search: value(q, i) = alpha q.x_i + table(q)[classes_i] + constants_i, small is near.

    `rows(slice)` gives the factors of a tile of items, `sides(Q)` those of queries (their products add up to q.x), and
    `table(Q)` the (n_queries, n_classes) table, of one column if it does not depend on the class.
    """

    n: int
    rows: Callable[[slice], Factors]
    alpha: float
    table: Callable[[Any], Array]
    classes: Array
    constants: Array
    sides: Callable[[Any], Factors] = lambda rows: (rows,)

    def tile(self, sides: Factors, part: slice, scratch: Scratch) -> Array:
        """q.x of queries, given by their factors, and a tile of items."""
        return product_of(sides, self.rows(part), scratch)


def product_of(queries: Factors, items: Factors, scratch: Scratch) -> Array:
    """Sum of the products of matching factors, dense or CSR, as a dense tile."""
    total: Any = None
    for k, (q, x) in enumerate(zip(queries, items, strict=True)):
        if sp.issparse(q) or sp.issparse(x):
            product = q @ x.T
            product = product.toarray() if sp.issparse(product) else np.asarray(product)
        else:
            product = scratch.take(f"product {k}", (len(q), len(x)), x.dtype)
            if len(q) == 1:
                np.dot(x, q[0], out=product[0])
            else:
                np.matmul(q, x.T, out=product)
        total = product if total is None else np.add(total, product, out=total)
    return total


def nearest(
    queries: Callable[[slice], Any],
    n_queries: int,
    items: Items,
    k: int,
    *,
    own: Array | None = None,
    query_classes: Array | None = None,
    others: bool = False,
) -> tuple[Array, Array]:
    """The k nearest items of each query, values and numbers; inf and -1 if fewer qualify.

    own : item that is the query itself, never returned (-1: none).
    others : only items of a class other than the query's.
    """
    best = np.full((n_queries, k), np.inf)
    ids = np.full((n_queries, k), -1, np.int64)
    own = np.full(n_queries, -1, np.int64) if own is None else own
    query_classes = np.zeros(n_queries, np.int32) if query_classes is None else query_classes
    scratch, size = Scratch(), ITEM_TILE * max(1, min(QUERY_TILE // max(n_queries, 1), LARGE_TILE // ITEM_TILE))
    for a in range(0, n_queries, QUERY_TILE):
        part = slice(a, min(a + QUERY_TILE, n_queries))
        rows = queries(part)
        table = items.table(rows).astype(np.float64, copy=False)
        merge = merge_local if table.shape[1] > 1 else merge_shared
        factors = items.sides(rows)
        for start in range(0, items.n, size):
            stop = min(start + size, items.n)
            scores = items.tile(factors, slice(start, stop), scratch)
            tile = Tile(scores, items.alpha, start, items.classes[start:stop], items.constants[start:stop])
            merge(tile, Queries(table, own[part], query_classes[part]), others, best[part], ids[part])
    return best, ids


def mutual_nearest(items: Items, k: int) -> Array:
    """Numbers of the k nearest items of another class for each item itself, -1 where fewer qualify.

    For a symmetric value, alpha q.x + constants of both: each tile of products serves its rows and its columns.
    """
    best, ids = np.full((items.n, k), np.inf), np.full((items.n, k), -1, np.int64)
    tiles = [slice(a, min(a + ITEM_TILE, items.n)) for a in range(0, items.n, ITEM_TILE)]
    scratch, none = Scratch(), np.full(ITEM_TILE, -1, np.int64)

    def about(part: slice, scores: Array) -> tuple[Tile, Queries]:
        """Items of a tile as what is found, and as those that ask."""
        classes, constants = items.classes[part], items.constants[part]
        tile = Tile(scores, items.alpha, part.start, classes, constants)
        return tile, Queries(constants[:, None], none[: len(classes)], classes)

    title, total = f"comparing {items.n:,} rows with each other", len(tiles) * (len(tiles) + 1) // 2
    with progress(title, total, False if total > MANY_TILES else None) as advance:
        for number, queries in enumerate(tiles):
            rows = items.rows(queries)
            for others in tiles[number:]:
                scores = product_of(rows, items.rows(others), scratch)
                (found, asking), (more, asked) = about(queries, scores), about(others, scores)
                merge_shared(more, asking, True, best[queries], ids[queries])
                if others is not queries:
                    merge_columns(found, asked, best[others], ids[others])
            advance(len(tiles) - number)
    return ids


def certified(
    Q: Any,
    k: int,
    n: int,
    rough: Callable[[Array, int], tuple[Array, Array, Array]],
    direct: Callable[[Any, Array], Array],
    each: Callable[..., list[Array]] = in_turn,
) -> tuple[Array, Array]:
    """The k nearest of n items from rough values: those of candidates beyond k are formed again directly.

    `rough(numbers of queries, reach)` gives values, items and a bound on the values' error for each query;
    `direct(rows, items)` exact values, of parts of the queries in turn, or as `each` has it. If rounding could have
    kept a nearer item out, more candidates are taken.
    """
    values, ids = np.empty((Q.shape[0], k)), np.empty((Q.shape[0], k), np.int64)
    unsure = np.arange(Q.shape[0])
    for reach in sorted({min(k + spare, n) for spare in SPARE}):
        estimates, found, error = rough(unsure, reach)
        values[unsure], ids[unsure] = best_of(Q[unsure], found, k, direct, each)
        unsure = unsure[~(estimates[:, -1] - error > values[unsure, -1])]
        if not len(unsure):
            break
    return values, ids


def best_of(
    Q: Any, ids: Array, k: int, direct: Callable[[Any, Array], Array], each: Callable[..., list[Array]] = in_turn
) -> tuple[Array, Array]:
    """The k best of each query's candidates by their direct values; of equal ones the lower number comes first."""
    size = max(1, min(QUERY_TILE, GATHERED // (ids.shape[1] * Q.shape[1])))
    tiles = [slice(a, a + size) for a in range(0, Q.shape[0], size)]
    values = np.concatenate(each(lambda part: direct(Q[part], ids[part]), tiles))
    order = np.lexsort((ids, values), axis=1)[:, :k]
    return np.take_along_axis(values, order, 1), np.take_along_axis(ids, order, 1)
