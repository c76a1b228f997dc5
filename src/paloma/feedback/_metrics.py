"""What statements taught, in single precision: U and one L per user; and a metric as the product of its factors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .._compiled.few import learn_few
from .._compiled.groups import Pairs, Triplets
from .._compiled.norms import side_norms
from .._compiled.scratch import Scratch
from .._compiled.sweep import sweep
from .._core.choice import Choice
from .._core.cone import lifted, project
from .._core.locality import FREE
from .._core.loop import Block, learn
from .._core.stream import Pass, Stream, answers, asked
from .._spaces.dense.blocks import auto_blocks
from .._spaces.dense.matrices import Matrices, PairRows, gram, segments_of
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
        learned = matrices_of({
            "start": None, "shared": self.shared.copy(), "stack": stack, "slots": np.arange(len(known), dtype=np.int32),
            "pending": np.ones(len(known)), "mean_shared": None, "mean_stack": None,
        }, symmetric=True)  # fmt: skip
        speakers = np.repeat(np.array([codes.get(user, FREE) for user in users], np.int32), sizes)
        learn(choice, _plan, learned, Stream(differences, sides, speakers, weight=weight), Pass())
        learned.symmetrize()
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

    def lifted(self, floor: float, users: Iterable[str]) -> "Metrics":
        """These metrics with U, and L of these users, lifted into the cone where they left it."""
        own = {user: lifted(self.own[user], floor) for user in users if user in self.own}
        return Metrics(lifted(self.shared, floor), {**self.own, **own})

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


def _plan(choice: Choice, matrices: Matrices, stream: Stream, block: int | str) -> tuple[Block, int]:
    """The rows of a stream are differences of pairs, and a triplet has two: blocks need not look for the pairs."""
    rows = auto_blocks(stream.X.shape[1], 1)[0]
    learn_block = partial(_learn_block, choice, matrices, stream, scratch=Scratch())
    return learn_block, max(1, rows * len(stream.triplets) // len(stream.X))


def _learn_block(
    choice: Choice, matrices: Matrices, stream: Stream, start: int, stop: int, scratch: Scratch
) -> tuple[float, int]:
    """One exact block: values and Gram matrix of the rows, a sweep, and one update of each matrix (theory 10)."""
    sides = stream.triplets[start:stop]
    first, last = sides.min(), sides.max() + 1
    rows, members = stream.X[first:last], sides - first
    codes: Array = stream.codes[first:last]  # type: ignore[index]
    if (codes[1:] < codes[:-1]).any():
        order = np.argsort(codes, kind="stable")  # the matrix of a speaker takes all of his rows at once
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        rows, codes, members = rows[order], codes[order], place[members]
    n = len(rows)
    lam, mu, kernel = choice.locality.lam, choice.locality.mu, choice.locality.kernel
    segments = segments_of(codes) if codes[-1] >= 0 else []
    pairs = PairRows(rows, rows, scratch)
    values = lam * matrices.shared_values(pairs)
    values += mu * matrices.local_values(pairs, segments)
    products = gram(rows, scratch.take("gram", (n, n), rows.dtype))
    told = asked(choice, stream, start, stop, members, side_norms(rows, members))
    known, weight = Pairs(products, products, codes, values), np.zeros(n)
    loss, updates = sweep(told, known, kernel, 1.0, choice.step.rule, answers(stream, start, stop, weight), None)
    if updates:
        matrices.move_shared(pairs, lam * weight)
        if segments:
            matrices.move_local(pairs, segments, mu * weight)
    return loss, updates


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
