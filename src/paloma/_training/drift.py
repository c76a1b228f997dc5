"""Per-class drift signals: the loss of triplets before their own step, now and in the long run."""

from dataclasses import dataclass, field

import numpy as np

from .._typing import Array

# "Now" is an exponentially weighted mean over about this many triplets of the class: a hundred anchors of thirty each.
RECENT = 3000
KEEP = 1.0 - 1.0 / RECENT
CHUNK = 1 << 16


def _none() -> Array:
    return np.zeros((0, 6))


@dataclass
class Drift:
    """One row per class code: triplets, those ranked right, sum of losses; recent losses, their weight; quiet triplets.

    Every triplet counts as it was met, before its own step, so the sums do not depend on how a stream is cut into
    calls. Quiet triplets are those that an anchor from labels did not form, having no more impostors within the margin:
    their loss is 0, and a class that loses its margin shows in more triplets before it shows in larger losses.
    """

    sums: Array = field(default_factory=_none)

    def add(self, codes: Array, gaps: Array, margin: float, quiet: Array | None = None) -> None:
        """Enter triplets in order: class codes of their positives, margin - z before each step; quiet triplets per
        class."""
        known = (codes >= 0) & np.isfinite(gaps)
        codes, gaps = codes[known], gaps[known]
        quiet = np.zeros(0) if quiet is None else quiet
        n = max(len(self.sums), len(quiet), int(codes.max(initial=-1)) + 1)
        self.sums = np.concatenate([self.sums, np.zeros((n - len(self.sums), 6))])
        fades = KEEP ** np.append(quiet, np.zeros(n - len(quiet)))
        self.sums[:, 3:5] *= fades[:, None]
        self.sums[:, 4] += (1.0 - fades) * RECENT
        self.sums[: len(quiet), 5] += quiet
        for a in range(0, len(codes), CHUNK):
            self._enter(codes[a : a + CHUNK], gaps[a : a + CHUNK], margin)

    def _enter(self, codes: Array, gaps: Array, margin: float) -> None:
        counts = np.bincount(codes, minlength=len(self.sums))
        met, ends = np.flatnonzero(counts), np.cumsum(counts)
        few = len(counts) <= 1 << 16
        order = np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")  # NumPy sorts 16 bits by counting
        losses, begin = np.maximum(gaps, 0.0)[order], (ends - counts)[met]
        following = np.repeat(ends, counts) - np.arange(1, len(codes) + 1)  # triplets of the same class
        fading = (KEEP ** np.arange(counts.max(initial=0)))[following]
        entered = np.zeros((len(met), 5))
        entered[:, 0] = counts[met]
        entered[:, 1] = np.bincount(codes[gaps < margin], minlength=len(counts))[met]
        for column, each in ((2, losses), (3, fading * losses), (4, fading)):
            entered[:, column] = np.add.reduceat(each, begin)
        self.sums[met, 3:5] *= (KEEP ** counts[met])[:, None]
        self.sums[met, :5] += entered

    def table(self, order: Array) -> Array:
        """The rows of these codes; zeros for classes that have none yet."""
        out = np.zeros((len(order), 6))
        known = order < len(self.sums)
        out[known] = self.sums[order[known]]
        return out

    def recent(self, order: Array) -> Array:
        """Mean loss now, of each class code; NaN without triplets."""
        table = self.table(order)
        return _ratio(table[:, 3], table[:, 4])

    def long_run(self, order: Array) -> Array:
        """Mean loss over everything learned, of each class code."""
        table = self.table(order)
        return _ratio(table[:, 2], table[:, 0] + table[:, 5])

    @classmethod
    def joined(cls, parts: list["Drift"]) -> "Drift":
        """All that several have seen: every column is a sum."""
        n = max(len(part.sums) for part in parts)
        return cls(sum((np.pad(part.sums, ((0, n - len(part.sums)), (0, 0))) for part in parts), np.zeros((n, 6))))

    def drop(self, new_codes: Array) -> None:
        """Give each class code the new one; -1 drops it."""
        old = np.flatnonzero(new_codes[: len(self.sums)] >= 0)
        sums = np.zeros((int(new_codes.max(initial=-1)) + 1, 6))
        sums[new_codes[old]] = self.sums[old]
        self.sums = sums


def _ratio(total: Array, count: Array) -> Array:
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
