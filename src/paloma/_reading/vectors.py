"""Local-metric search as one inner-product search (theory 11).

-d(q, x) = 2 q^T M_c x - a_c(q) - x^T M_c x is the inner product of

    query  [q, a_1(q), ..., a_k(q), a_U(q), a_0(q), 1]     a_c(q) = q^T M_c q; U the shared part, 0 the start
    item   [2 M_c x, -onehot(c) or shares of U and start, -x^T M_c x].
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from .._core.locality import SHARED, UNSEEN
from .._core.space import ExplicitMetric
from .._typing import Array

# Spread of an extra column relative to that of the others, in the balanced form. At 1 graphs found .980 to .995 of ten
# neighbors on two real sets and a made one, at .3 .993 to .998 (width 64), at 3 less than half of some.
EXTRA = 0.3


def augmented_queries(metric: ExplicitMetric, Q: Array, codes: Array) -> Array:
    """Query side for the classes of `codes`, in this order; a similarity needs the queries alone."""
    sides = metric.query_side(Q)
    if not metric.symmetric:
        return _side_by_side(sides)
    shared = metric.query_forms(Q, np.array([SHARED]))
    forms = [shared]
    if metric.locality.is_local:
        start = shared if metric.unseen == 1.0 else metric.start_forms(Q)[:, None]  # no item has a share of it then
        forms = [metric.query_forms(Q, metric.resolve(codes)), shared, start]
    return _side_by_side((*sides, *forms, np.ones((Q.shape[0], 1))))


def augmented_items(metric: ExplicitMetric, X: Array, codes: Array, order: Array) -> Array:
    """Item side; `codes` of the items, `order` the classes as the queries list them."""
    mapped, constants = metric.images(X, codes)
    if not metric.symmetric:
        return _side_by_side(mapped)
    resolved = metric.resolve(codes)
    if not metric.locality.is_local:
        shares = np.ones((X.shape[0], 1))
    else:
        shares = np.zeros((X.shape[0], len(order) + 2))
        column = np.argsort(order)
        if codes.ndim == 2:
            shares[:, : codes.shape[1]] = codes
            resolved = np.full(X.shape[0], len(order))  # no class, nor shared, nor unseen
        known = np.flatnonzero((resolved >= 0) & (resolved < len(order)))
        shares[known, column[resolved[known]]] = 1.0
        shares[resolved == SHARED, -2] = 1.0
        shares[resolved == UNSEEN, -2:] = metric.unseen, 1.0 - metric.unseen
    return _side_by_side((*(2.0 * factor for factor in mapped), -shares, -constants[:, None]))


def extra_columns(metric: ExplicitMetric, n_classes: int) -> int:
    """How many columns stand behind those that hold M_c x: forms and the constant, for a distance."""
    if not metric.symmetric:
        return 0
    return n_classes + 3 if metric.locality.is_local else 2


def _side_by_side(blocks: tuple[Any, ...]) -> Any:
    """Columns of all blocks in the precision of the first; CSR if one of them is sparse."""
    if any(sp.issparse(block) for block in blocks):
        return sp.hstack(blocks, "csr", blocks[0].dtype)
    return np.hstack(blocks).astype(blocks[0].dtype)


@dataclass
class Balance:
    """The L2 form that graph and IVF indexes can walk: extra columns centered and scaled below the spread of the rest.

    The query takes the inverse factors; dropping a constant of the query does not change the order. A last column
    sqrt(Phi - |v|^2) turns inner products into Euclidean distances.
    """

    center: Array
    spread: Array
    phi: float

    @classmethod
    def of(cls, vectors: Array, n_extra: int) -> Self:
        """Fix center, spread and Phi from the items as they are published; the last `n_extra` columns are extra."""
        center, spread = np.zeros(vectors.shape[1]), np.ones(vectors.shape[1])
        d = vectors.shape[1] - n_extra
        if n_extra:
            extra = vectors[:, d:].astype(np.float64)
            deviation = extra.std(axis=0)
            typical = float(vectors[:, :d].std(axis=0, dtype=np.float64).mean()) or 1.0
            center[d:] = extra.mean(axis=0)
            spread[d:] = np.where(deviation > 0, deviation / (EXTRA * typical), 1.0)
        balanced = (vectors - center) / spread
        return cls(center, spread, float(np.square(balanced).sum(axis=1).max(initial=0.0)) * 1.05)

    def n_beyond(self, vectors: Array) -> int:
        """How many item vectors are longer than Phi allows."""
        return int((np.square((vectors - self.center) / self.spread).sum(axis=1) > self.phi).sum())

    def items(self, vectors: Array) -> Array:
        """Balanced item vectors; one longer than Phi allows is cut off at 0 in the last column."""
        balanced = (vectors - self.center) / self.spread
        rest = np.sqrt(np.maximum(self.phi - np.square(balanced).sum(axis=1), 0.0))
        return np.hstack([balanced, rest[:, None]]).astype(vectors.dtype)

    def queries(self, vectors: Array) -> Array:
        """Balanced query vectors."""
        if vectors.shape[1] != len(self.spread):
            raise ValueError(f"The balance is for vectors {len(self.spread)} wide, got {vectors.shape[1]}.")
        return np.hstack([vectors * self.spread, np.zeros((len(vectors), 1))]).astype(vectors.dtype)
