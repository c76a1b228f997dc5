"""What was learnt, in index space: the rows that steps touched and the net step of each pair of them (spec.md 9).

A step tau on a triplet adds tau to the pair (p, p+) and -tau to (p, p-), and every matrix is its start less a weighted
sum of pair features. So the journal is the sparse matrix S of each class, kept as a list of pairs; replaying it on any
points whose inner products agree with the rows' gives the matrices there.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[Any]


class Journal:
    """Rows, and for each distinct pair (anchor, candidate): class code, net step, net step of the averaged iterates."""

    def __init__(self) -> None:
        self.rows: Any = None
        self.ids = np.empty(0, np.int64)  # number of each row in the whole data where it is known, else -1
        self.anchors = np.empty(0, np.int64)
        self.candidates = np.empty(0, np.int64)
        self.codes = np.empty(0, np.int32)
        self.steps = np.empty(0)
        self.mean_steps = np.empty(0)
        self._source: Any = None

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, X: Any, triplets: Array, codes: Array, tau: Array, mean_tau: Array) -> None:
        """Enter the steps of a pass over triplets of X; rows that no step touched are not kept."""
        active = np.flatnonzero(tau)
        if not len(active):
            return
        triplets, codes, tau, mean_tau = triplets[active], codes[active], tau[active], mean_tau[active]
        places = self._places(X, triplets)
        self.anchors = np.concatenate([self.anchors, np.repeat(places[:, 0], 2)])
        self.candidates = np.concatenate([self.candidates, places[:, 1:].ravel()])
        self.codes = np.concatenate([self.codes, codes.ravel()])
        self.steps = np.concatenate([self.steps, np.stack([tau, -tau], axis=1).ravel()])
        self.mean_steps = np.concatenate([self.mean_steps, np.stack([mean_tau, -mean_tau], axis=1).ravel()])
        self._merge()

    def _places(self, X: Any, triplets: Array) -> Array:
        """Where the rows of X are kept; those that are not yet are appended. X itself is known again over epochs."""
        if self._source is None or self._source[0] is not X:
            self.open(X, np.full(X.shape[0], -1, np.int64))
        _, place, ids = self._source
        touched = np.unique(triplets)
        new = touched[place[touched] < 0]
        if len(new):
            rows, before = X[new], 0 if self.rows is None else self.rows.shape[0]
            place[new] = before + np.arange(len(new))
            self.rows = rows if self.rows is None else stacked([self.rows, rows])
            self.ids = np.concatenate([self.ids, ids[new]])
        return place[triplets]

    def open(self, X: Any, ids: Array) -> None:
        """Rows of X that will be entered have these numbers in the whole data (-1: unknown)."""
        self._source = (X, np.full(X.shape[0], -1, np.int64), ids)

    def close(self) -> None:
        """Forget the rows' source: nothing outside the journal is held on to."""
        self._source = None

    def drop(self, new_codes: Array) -> None:
        """Give class codes their new numbers; pairs of a code without one become class-free."""
        known = self.codes >= 0
        self.codes[known] = new_codes[self.codes[known]]
        if len(self):
            self._merge()

    def _merge(self) -> None:
        """Add up the steps of pairs that occur more than once; pairs are sorted by class."""
        width = int(self.rows.shape[0])
        order = np.lexsort((self.anchors * width + self.candidates, self.codes))
        keys = np.stack([self.codes[order], self.anchors[order], self.candidates[order]])
        starts = np.flatnonzero(np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
        self.codes, self.anchors, self.candidates = keys[0, starts].astype(np.int32), keys[1, starts], keys[2, starts]
        self.steps = np.add.reduceat(self.steps[order], starts)
        self.mean_steps = np.add.reduceat(self.mean_steps[order], starts)

    @classmethod
    def joined(cls, journals: list["Journal"], weights: Array) -> "Journal":
        """The steps of all journals, each times its weight; a row with a number is kept once."""
        out = cls()
        kept = [k for k, journal in enumerate(journals) if len(journal)]
        journals, weights = [journals[k] for k in kept], np.asarray(weights)[kept]
        if not journals:
            return out
        ids = np.concatenate([journal.ids for journal in journals])
        first, place = _once(ids)
        out.rows, out.ids = stacked([journal.rows for journal in journals])[first], ids[first]
        firsts = np.cumsum([0, *(len(journal.ids) for journal in journals)])
        for name in ("anchors", "candidates"):
            numbers = [first + getattr(journal, name) for first, journal in zip(firsts, journals, strict=False)]
            setattr(out, name, place[np.concatenate(numbers)])
        out.codes = np.concatenate([journal.codes for journal in journals])
        for name in ("steps", "mean_steps"):
            steps = [weight * getattr(journal, name) for weight, journal in zip(weights, journals, strict=True)]
            setattr(out, name, np.concatenate(steps))
        out._merge()
        return out

    def over_rows(self, weights: Array, symmetric: bool) -> sp.csr_matrix:
        """S with X^T S X = sum of weight phi over the pairs: a signed graph Laplacian for distances (spec 9)."""
        n, a, c = int(self.rows.shape[0]), self.anchors, self.candidates
        cross = sp.coo_matrix((weights, (a, c)), (n, n)).tocsr()
        if not symmetric:
            return cross
        diagonal = np.bincount(a, weights, n) + np.bincount(c, weights, n)
        return sp.diags(diagonal.astype(weights.dtype), format="csr") - cross - cross.T


def stacked(parts: list[Any]) -> Any:
    """Rows of all parts, dense or CSR."""
    return sp.vstack(parts, "csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _once(ids: Array) -> tuple[Array, Array]:
    """Positions of the first row of each number, and of each row without one; where every row is found among them."""
    keys = np.where(ids >= 0, ids, -1 - np.arange(len(ids)))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return first[order], place[inverse]
