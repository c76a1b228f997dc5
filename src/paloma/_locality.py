"""The locality axis: which part of the model a class shares (spec.md Fact 1).

Localising a learner is multiplying its pair kernel by the class kernel T[c, c'] = lam^2 + mu^2 [c = c'].
Kernels take (lam, mu) and one code a pair; a code below zero has no local part, T = lam^2 against everything.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FREE = -1


@dataclass(frozen=True)
class Locality:
    """Weights of the shared and of the class part; mu = 0 is the global learner, which knows no classes."""

    lam: float
    mu: float

    @classmethod
    def shared(cls) -> "Locality":
        """One metric for all: T = 1."""
        return cls(1.0, 0.0)

    @classmethod
    def per_class(cls, lam: float) -> "Locality":
        """M_c = lam U + (1 - lam) L_c, eq. (7) and (13)."""
        return cls(float(lam), 1.0 - float(lam))

    @property
    def is_local(self) -> bool:
        return self.mu != 0.0


class Labels:
    """Class labels and their codes. Codes are given in the order of arrival, so that they never change."""

    def __init__(self, labels: NDArray[Any] | None = None) -> None:
        self.labels: NDArray[Any] = np.empty(0) if labels is None else labels
        self._sort()

    def _sort(self) -> None:
        self.order = np.argsort(self.labels, kind="stable")
        self.sorted = self.labels[self.order]

    def __len__(self) -> int:
        return len(self.labels)

    def extended(self, y: NDArray[Any]) -> "Labels":
        """These labels and the new ones of y, which get the next codes in sorted order."""
        self._same_kind(y)
        new = np.setdiff1d(y, self.labels) if len(self.labels) else np.unique(y)
        if not len(new):
            return self
        return Labels(np.concatenate([self.labels, new]) if len(self.labels) else new)

    def _same_kind(self, y: NDArray[Any]) -> None:
        """Refuse words among numbers and numbers among words: they would make classes of their own."""
        if len(y) and len(self.labels) and (y.dtype.kind in "US") != (self.labels.dtype.kind in "US"):
            kinds = ["words" if a.dtype.kind in "US" else "numbers" for a in (self.labels, y)]
            raise TypeError(f"The classes so far are {kinds[0]}, got labels that are {kinds[1]}; convert y first.")

    def codes(self, y: NDArray[Any]) -> NDArray[np.int32]:
        """Code of each label; FREE where the label is unknown."""
        if not len(self.labels) or not len(y):
            return np.full(len(y), FREE, np.int32)
        self._same_kind(y)
        place = np.minimum(np.searchsorted(self.sorted, y), len(self.sorted) - 1)
        return np.where(self.sorted[place] == y, self.order[place], FREE).astype(np.int32)
