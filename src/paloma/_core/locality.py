"""The locality axis: which part of the model a class shares (theory Fact 1).

Localizing a learner means multiplying its pair kernel by the class kernel T[c, c'] = lam^2 + mu^2 [c = c'].
Compiled loops take both weights and one code per pair; a code below zero has no local part, T = lam^2 against
everything.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._compiled.groups import ClassKernel
from .._validation import check_real

# Codes below zero name no class. Of a row that is learned from: it has none.
FREE = -1
# Of a candidate: its class was never updated, M = lam U + mu start; or the shared part by itself is meant, M = U.
UNSEEN, SHARED = -1, -2


@dataclass(frozen=True)
class Locality:
    """Weights of the shared and of the class part; mu = 0 is the global learner, which knows no classes."""

    lam: float
    mu: float
    is_local: bool
    kernel: ClassKernel  # T as compiled loops take it

    @classmethod
    def shared(cls) -> "Locality":
        """One metric for all: T = 1."""
        return cls.per_class(1.0)

    @classmethod
    def per_class(cls, lam: float) -> "Locality":
        """M_c = lam U + (1 - lam) L_c, eq. (7) and (13)."""
        check_real("lam", lam, 0.0, 1.0)
        lam, mu = float(lam), 1.0 - float(lam)
        return cls(lam, mu, mu != 0.0, ClassKernel(lam, mu, lam * lam, mu * mu))


class Labels:
    """Class labels and their codes. Codes are given in the order of arrival, so that they never change."""

    def __init__(self, labels: NDArray[Any] | None = None) -> None:
        self.labels: NDArray[Any] = np.empty(0) if labels is None else labels
        self.order = np.argsort(self.labels, kind="stable")
        self.sorted = self.labels[self.order]

    def __len__(self) -> int:
        return len(self.labels)

    def extended(self, y: NDArray[Any], unlabeled: Any = None) -> "Labels":
        """These labels and the new ones of y, which get the next codes in sorted order; see `labeled`."""
        y = labeled(y, unlabeled)
        self._same_kind(y)
        new = np.setdiff1d(y, self.labels) if len(self) else np.unique(y)
        if not len(new):
            return self
        return Labels(np.concatenate([self.labels, new]) if len(self) else new)

    def _same_kind(self, y: NDArray[Any]) -> None:
        """Refuse labels that, joined to the others, would be mistaken for each other, or make classes of their own."""
        if not len(y) or not len(self):
            return
        kinds = [{"U": "words", "S": "bytes"}.get(labels.dtype.kind, "numbers") for labels in (self.labels, y)]
        if kinds[0] != kinds[1]:
            raise TypeError(f"The classes so far are {kinds[0]}, got labels that are {kinds[1]}; convert y first.")
        if kinds[0] == "numbers":
            common = np.result_type(self.labels, y)
            for labels in (self.labels, y):
                if labels.dtype.kind in "iu" and common.kind == "f" and np.abs(labels.astype(float)).max() > 2.0**53:
                    raise TypeError(
                        f"Labels of type {y.dtype} and classes of type {self.labels.dtype} have no common type that "
                        "holds them all exactly; convert y first."
                    )

    def codes(self, y: NDArray[Any], unlabeled: Any = None) -> NDArray[np.int32]:
        """Code of each label; FREE where the label is unknown, or `unlabeled`."""
        if not len(self) or not len(y):
            return np.full(len(y), FREE, np.int32)
        self._same_kind(y)
        place = np.minimum(np.searchsorted(self.sorted, y), len(self.sorted) - 1)
        known = self.sorted[place] == y
        if unlabeled is not None:
            known &= y != unlabeled
        return np.where(known, self.order[place], FREE).astype(np.int32)


def labeled(y: NDArray[Any], unlabeled: Any) -> NDArray[Any]:
    """The labels but for `unlabeled`, which marks rows without one; None: there is no such label."""
    return y if unlabeled is None else y[y != unlabeled]
