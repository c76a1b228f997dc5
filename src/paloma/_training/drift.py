"""Per-class drift signals: the loss of triplets before their own step, now and in the long run."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from .._compiled.drift import enter
from .._typing import Array

# "Now" is an exponentially weighted mean over about this many triplets of the class: a hundred anchors of thirty each.
RECENT = 3000
KEEP = 1.0 - 1.0 / RECENT


@dataclass
class Drift:
    """One row per class code: triplets, those ranked right, sum of losses; recent losses, their weight; quiet triplets.

    Every triplet counts as it was met, before its own step, so the sums do not depend on how a stream is cut into
    calls. Quiet triplets are those that an anchor from labels did not form, having no more impostors within the margin:
    their loss is 0, and a class that loses its margin shows in more triplets before it shows in larger losses.
    """

    sums: Array = field(default_factory=partial(np.zeros, (0, 6)))

    def add(self, codes: Array, gaps: Array, margin: float, quiet: Array | None = None) -> None:
        """Enter triplets in order: class codes of their positives, margin - z before each step; quiet triplets per
        class."""
        quiet = np.zeros(0) if quiet is None else quiet
        n = max(len(self.sums), len(quiet), int(codes.max(initial=-1)) + 1)
        self.sums = np.concatenate([self.sums, np.zeros((n - len(self.sums), 6))])
        fades = KEEP ** np.append(quiet, np.zeros(n - len(quiet)))
        self.sums[:, 3:5] *= fades[:, None]
        self.sums[:, 4] += (1.0 - fades) * RECENT
        self.sums[: len(quiet), 5] += quiet
        enter(self.sums, codes, gaps, margin, KEEP)

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
