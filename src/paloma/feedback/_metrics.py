"""What statements taught, in single precision: U and one L per user; and a metric as the product of its factors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .._compiled.few import learn_few
from .._compiled.groups import Triplets
from .._core.choice import Choice
from .._core.cone import project
from .._core.loop import learn
from .._core.stream import Stream
from .._spaces.dense.space import DenseSpace
from .._spaces.dense.state import matrices_of
from .._typing import Array


@dataclass(frozen=True, eq=False)
class Metrics:
    """U, and L of each user whom a step has moved. No array is ever changed: states share those that did not move."""

    shared: Array
    own: Mapping[str, Array]

    @classmethod
    def start(cls, d: int) -> "Metrics":
        return cls(np.eye(d, dtype=np.float32), {})

    def taught(
        self, choice: Choice, differences: Array, sides: Array, weight: Array, users: Sequence[str], sizes: Array
    ) -> "Metrics":
        """Learn triplets in one call: each asks for one mapped difference to be shorter than another.

        sides : (n, 2) numbers of those differences. users, sizes : who speaks, "" for nobody, of so many of them.
        """
        names = sorted({user for user in users if user})
        known = [name for name in names if name in self.own]
        codes = {name: code for code, name in enumerate([*known, *(name for name in names if name not in self.own)])}
        stack = np.stack([self.own[name] for name in known]) if known else self.shared[None][:0]
        space = DenseSpace(matrices_of({
            "start": None, "shared": self.shared.copy(), "stack": stack, "slots": np.arange(len(known), dtype=np.int32),
            "pending": np.ones(len(known)), "mean_shared": None, "mean_stack": None,
        }, symmetric=True))  # fmt: skip
        rows = np.zeros((len(differences) + 1, differences.shape[1]), np.float32)  # all of them from the first one
        rows[1:] = differences
        triplets = np.zeros((len(sides), 3), np.int64)
        np.add(sides, 1, out=triplets[:, 1:])
        places = np.full(len(rows), -1, np.int32)
        places[1:] = np.repeat([codes.get(user, -1) for user in users], sizes)
        learn(choice, space, Stream(rows, triplets, places, weight=weight))
        learned = space.matrices
        moved = {name: learned.stack[learned.slot(code)] for name, code in codes.items() if learned.slot(code) >= 0}
        return Metrics(learned.shared, {**self.own, **{name: matrix.copy() for name, matrix in moved.items()}})

    def told(
        self, choice: Choice, root: Array, differences: Array, sides: Array, weight: Array, user: str
    ) -> "Metrics":
        """Learn the triplets of one statement: `taught`, to rounding, of differences times `root`."""
        own = self.shared[:0]
        if user:
            own = self.own[user] if user in self.own else np.eye(len(self.shared), dtype=np.float32)
        triplets = Triplets(sides, np.full(len(sides), choice.margin), choice.C * weight)
        kernel, rule = choice.locality.kernel, choice.step.rule
        shared, moved, updates = learn_few((self.shared, own), root, differences, triplets, kernel, rule)
        if not updates:
            return self
        return Metrics(shared, {**self.own, user: moved} if user else self.own)

    def inside(self, user: str | None, lam: float) -> Array:
        """M of mapped rows, P_+(lam U + (1 - lam) L_user); who was never heard has the start in place of L."""
        own = None if user is None else self.own.get(user)
        mu = np.float32(1.0 - lam)
        out = np.float32(lam) * self.shared
        if own is None:
            out[np.diag_indices(len(out))] += mu
        else:
            out += mu * own
        return project(out)


@dataclass(frozen=True, eq=False)
class Form:
    """M = outer core outer, times a factor; `outer` None: M = core. All are symmetric."""

    outer: Array | None
    core: Array
    factor: float = 1.0

    def image(self, row: Array) -> Array:
        """M times a row."""
        image = self.core @ (row if self.outer is None else self.outer @ row)
        return self.factor * (image if self.outer is None else self.outer @ image)

    def values(self, differences: Array) -> Array:
        """v^T M v of each row."""
        rows = differences if self.outer is None else differences @ self.outer
        return self.factor * np.einsum("ij,ij->i", rows @ self.core, rows)

    def matrix(self) -> Array:
        return self.factor * (self.core if self.outer is None else self.outer @ self.core @ self.outer)
