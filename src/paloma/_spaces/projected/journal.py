"""The journal of a projection: the original rows that steps touched, and the net steps of pairs of them (theory 9).

Replaying it on any points whose inner products agree with the rows' gives the matrices there.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..._rows import stacked
from ..._typing import Array, Rows
from ..pairs import Pairs


class Journal:
    """Rows, and the one list of steps on pairs of them.

    ids : number of each row in the whole data if it is known, else -1.
    """

    def __init__(self) -> None:
        self._parts: list[Rows] = []
        self.ids = np.empty(0, np.int64)
        self.pairs = Pairs.none()
        self._source: Any = None

    @property
    def rows(self) -> Rows:
        """All of them in one array, or None; what several passes entered is put together once, when it is asked for."""
        if len(self._parts) > 1:
            self._parts = [stacked(self._parts)]
        return self._parts[0] if self._parts else None

    @rows.setter
    def rows(self, rows: Rows) -> None:
        self._parts = [] if rows is None else [rows]

    def __len__(self) -> int:
        return len(self.pairs)

    def add(self, X: Rows, triplets: Array, codes: Array, tau: Array, mean_tau: Array) -> None:
        """Enter the steps of a pass over triplets of X; rows that no step touched are not kept."""
        active = np.flatnonzero(tau)
        if not len(active):
            return
        places = self._places(X, triplets[active])
        steps, means = (np.stack([t[active], -t[active]], axis=1).reshape(1, -1) for t in (tau, mean_tau))
        new = Pairs(codes[active].ravel(), np.repeat(places[:, 0], 2), places[:, 1:].ravel(), steps, means)
        self.pairs = self.pairs.with_more(new)

    def _places(self, X: Rows, triplets: Array) -> Array:
        """Where the rows of X are kept; those that are not yet are appended. X itself is known again over epochs."""
        if self._source is None or self._source[0] is not X:
            self.open(X, np.full(X.shape[0], -1, np.int64))
        _, place, ids = self._source
        touched = np.unique(triplets)
        new = touched[place[touched] < 0]
        if len(new):
            place[new] = len(self.ids) + np.arange(len(new))
            self._parts.append(X[new])
            self.ids = np.concatenate([self.ids, ids[new]])
        return place[triplets]

    def open(self, X: Rows, ids: Array) -> None:
        """Rows of X that will be entered have these numbers in the whole data (-1: unknown); each is kept once."""
        place = np.full(X.shape[0], -1, np.int64)
        if len(self.ids):
            order = np.argsort(self.ids, kind="stable")
            held = order[np.minimum(np.searchsorted(self.ids, ids, sorter=order), len(order) - 1)]
            place = np.where((ids >= 0) & (self.ids[held] == ids), held, -1)
        self._source = (X, place, ids)

    def close(self) -> None:
        """Forget the rows' source: nothing outside the journal is held on to."""
        self._source = None

    def drop(self, new_codes: Array) -> None:
        """Give class codes their new numbers; pairs of a code without one become class-free."""
        self.pairs = self.pairs.recoded(new_codes)

    @classmethod
    def joined(cls, journals: list["Journal"], weights: Array) -> "Journal":
        """The steps of all journals, each times its weight; a row with a number is kept once."""
        out = cls()
        kept = [(journal, weight) for journal, weight in zip(journals, weights, strict=True) if len(journal)]
        if not kept:
            return out
        ids = np.concatenate([journal.ids for journal, _ in kept])
        first, place = _once(ids)
        out.rows, out.ids = stacked([journal.rows for journal, _ in kept])[first], ids[first]
        begins = np.cumsum([0, *(len(journal.ids) for journal, _ in kept)])
        parts = [
            journal.pairs.times(weight).kept(np.arange(len(journal)), place[begin : begin + len(journal.ids)])
            for (journal, weight), begin in zip(kept, begins, strict=False)
        ]
        out.pairs = Pairs.none().with_more(*parts)
        return out

    def over_rows(self, weights: Array, symmetric: bool) -> sp.csr_matrix:
        """S with X^T S X = sum of weight phi over the pairs: a signed graph Laplacian for distances (theory 9)."""
        n, a, c = int(self.rows.shape[0]), self.pairs.anchors, self.pairs.candidates
        cross = sp.coo_matrix((weights, (a, c)), (n, n)).tocsr()
        if not symmetric:
            return cross
        diagonal = np.bincount(a, weights, n) + np.bincount(c, weights, n)
        return sp.diags(diagonal.astype(weights.dtype), format="csr") - cross - cross.T


def _once(ids: Array) -> tuple[Array, Array]:
    """Positions of the first row of each number, and of each row without one; where every row is found among them."""
    keys = np.where(ids >= 0, ids, -1 - np.arange(len(ids)))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return first[order], place[inverse]
