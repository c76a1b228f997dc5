"""The one list of net steps: what was learned, in index space (theory 4 and 9).

A step tau on a triplet adds tau to the pair (p, p+) and -tau to (p, p-), and every matrix is its start less a weighted
sum of pair features. So the net step of each distinct pair says all that was learned, whatever the points are: rows of
features (`projected`), or points of a kernel's support (`kernel`), where each kernel has its own steps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.fields import Field, Schema, ascending
from .._typing import Array


@dataclass
class Pairs:
    """Distinct (class code, anchor, candidate), sorted; and m lists of their net steps, last and averaged, (m, n)."""

    codes: Array
    anchors: Array
    candidates: Array
    steps: Array
    means: Array

    @classmethod
    def none(cls, m: int = 1) -> "Pairs":
        """No pairs yet, for m lists of steps."""
        return cls(np.empty(0, np.int32), *np.empty((2, 0), np.int64), *np.zeros((2, m, 0)))

    def __len__(self) -> int:
        return len(self.codes)

    def of_class(self, code: int) -> slice:
        """Where the pairs of a class stand."""
        return slice(*np.searchsorted(self.codes, [code, code + 1]))

    def listed(self, codes: Array, anchors: Array, candidates: Array, n: int) -> tuple["Pairs", Array]:
        """With these pairs of n points as well, their steps 0 as yet; and the place of each of them."""
        parts = ((self.codes, codes), (self.anchors, anchors), (self.candidates, candidates))
        every = [np.concatenate([a.astype(np.int64), b]) for a, b in parts]
        _, first, inverse = np.unique(_keys(every[0], every[1], every[2], n), return_index=True, return_inverse=True)
        steps, means = np.zeros((2, len(self.steps), len(first)))
        steps[:, inverse[: len(self)]], means[:, inverse[: len(self)]] = self.steps, self.means
        out = Pairs(every[0][first].astype(np.int32), every[1][first], every[2][first], steps, means)
        return out, inverse[len(self) :]

    def with_more(self, *others: "Pairs") -> "Pairs":
        """These pairs and all others; the steps of pairs that occur more than once are added up."""
        every = (self, *others)
        codes, anchors, candidates = (
            np.concatenate([getattr(pairs, name) for pairs in every]) for name in ("codes", "anchors", "candidates")
        )
        steps, means = (np.hstack([getattr(pairs, name) for pairs in every]) for name in ("steps", "means"))
        if not len(codes):
            return self
        keys = _keys(codes, anchors, candidates, 1 + int(max(anchors.max(), candidates.max())))
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        sums = (np.add.reduceat(each[:, order], starts, axis=1) for each in (steps, means))
        first = order[starts]
        return Pairs(codes[first].astype(np.int32), anchors[first], candidates[first], *sums)

    def times(self, weight: float) -> "Pairs":
        """The same pairs, every step times a weight."""
        return Pairs(self.codes, self.anchors, self.candidates, weight * self.steps, weight * self.means)

    def kept(self, rows: Array, place: Array) -> "Pairs":
        """These rows of the list, their points renumbered: point i is now place[i]."""
        return Pairs(
            self.codes[rows], place[self.anchors[rows]], place[self.candidates[rows]],
            self.steps[:, rows], self.means[:, rows],
        )  # fmt: skip

    def recoded(self, new_codes: Array) -> "Pairs":
        """Class codes with their new numbers; pairs of a code without one become class-free: U keeps what it has."""
        codes = self.codes.copy()
        codes[codes >= 0] = new_codes[codes[codes >= 0]]
        return Pairs(codes, self.anchors, self.candidates, self.steps, self.means).with_more()

    def averaged(self, blend: float) -> Array:
        """(m, n) net steps: the averaged ones moved toward the last ones, which blend = 1 is."""
        return self.means + blend * (self.steps - self.means)

    def saved(self) -> dict[str, Any]:
        """What a model file holds of them, by `pairs_schema`."""
        return dict(vars(self))


def _keys(codes: Array, anchors: Array, candidates: Array, n: int) -> Array:
    """One number for each pair of n points and its class code, in the order of the list."""
    return ((codes.astype(np.int64) + 1) * n + anchors) * n + candidates


def pairs_schema(m: int) -> Schema:
    """The state of j pairs of n points, with m lists of steps; c are the class codes there are."""
    return Schema(
        Field("codes", "i4", "j", -1, below="c"),
        Field("anchors", "i8", "j", 0, below="n"),
        Field("candidates", "i8", "j", 0, below="n"),
        Field("steps", "f8", f"{m} j", any_order=True),
        Field("means", "f8", f"{m} j", any_order=True),
        rule=_in_order,
    )


def _in_order(state: dict[str, Any]) -> str | None:
    in_order = ascending(state["codes"], state["anchors"], state["candidates"])
    return None if in_order else "pairs must be in order, each once"
