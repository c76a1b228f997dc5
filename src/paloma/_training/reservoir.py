"""The memory of a stream: a bounded sample of earlier rows of each class."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._typing import Array


@dataclass
class Reservoir:
    """A uniform sample of each class's rows seen so far, at most `size` per class (Vitter 1985, algorithm R).

    window : keep the last `size` rows of each class instead.
    rows : the rows kept, an array with room to grow or CSR; codes, places : class and place in the class's sample.
    """

    size: int
    window: bool = False
    rows: Any = None
    codes: Array = field(default_factory=lambda: np.empty(0, np.int32))
    places: Array = field(default_factory=lambda: np.empty(0, np.int64))
    seen: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, X: Any, codes: Array, rng: np.random.Generator) -> None:
        """Offer rows in order, those of a class; a full class replaces a row with probability size / seen."""
        if (codes < 0).any():
            X, codes = X[codes >= 0], codes[codes >= 0]
        if not len(codes):
            return
        if codes.max() >= len(self.seen):
            self.seen = np.concatenate([self.seen, np.zeros(codes.max() + 1 - len(self.seen), np.int64)])
        order = np.argsort(codes, kind="stable")
        ranked = codes[order]
        turn = self.seen[ranked] + np.arange(len(order)) - np.searchsorted(ranked, ranked) + 1
        if self.window:
            place = (turn - 1) % self.size
        else:
            place = np.where(turn <= self.size, turn - 1, rng.integers(0, turn))
        self.seen += np.bincount(codes, minlength=len(self.seen))
        taken = np.flatnonzero(place < self.size)
        self._put(X, order[taken], ranked[taken], place[taken])

    def _put(self, X: Any, numbers: Array, codes: Array, places: Array) -> None:
        """Rows into their places; of several rows for one place the last stays."""
        keys = codes * np.int64(self.size) + places
        last = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
        numbers, keys = numbers[last], keys[last]
        held = self.codes * np.int64(self.size) + self.places
        by_key = np.argsort(held)
        spot = np.minimum(np.searchsorted(held[by_key], keys), max(len(held) - 1, 0))
        known = held[by_key][spot] == keys if len(held) else np.zeros(len(keys), bool)
        replaced, n_old, n_new = by_key[spot[known]], len(held), int((~known).sum())
        if sp.issparse(X):
            source = np.arange(n_old + n_new)
            source[replaced] = n_old + np.flatnonzero(known)
            source[n_old:] = n_old + np.flatnonzero(~known)
            self.rows = (X[numbers] if self.rows is None else sp.vstack([self.rows, X[numbers]], "csr"))[source]
        elif not n_old:
            self.rows = X[numbers]
        else:
            if n_old + n_new > len(self.rows):
                rows = np.empty((n_old + n_new + n_old // 4, X.shape[1]), X.dtype)
                rows[:n_old] = self.rows[:n_old]
                self.rows = rows
            self.rows[replaced] = X[numbers[known]]
            self.rows[n_old : n_old + n_new] = X[numbers[~known]]
        self.codes = np.concatenate([self.codes, codes[last][~known]]).astype(np.int32)
        self.places = np.concatenate([self.places, places[last][~known]])

    def drop(self, new_codes: Array) -> None:
        """Give class codes their new numbers; rows of a code without one are let go."""
        kept = np.flatnonzero(new_codes[self.codes] >= 0) if len(self.codes) else np.empty(0, np.int64)
        if self.rows is not None:
            self.rows = self.rows[: len(self.codes)][kept]
        self.codes, self.places = new_codes[self.codes[kept]], self.places[kept]
        self.seen = self.seen[np.flatnonzero(new_codes[: len(self.seen)] >= 0)]

    def widen(self, d: int) -> None:
        """Rows get more features, 0 in all of them."""
        if self.rows is not None and sp.issparse(self.rows):
            self.rows.resize(self.rows.shape[0], d)
        elif self.rows is not None:
            self.rows = np.pad(self.rows, ((0, 0), (0, d - self.rows.shape[1])))

    def sample(self, like: Any) -> tuple[Any, Array]:
        """The rows kept and their class codes."""
        return (like[:0] if self.rows is None else self.rows[: len(self.codes)]), self.codes
