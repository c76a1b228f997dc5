"""Streams of triplets with duplicates of every kind.

Coordinates are multiples of 2**-20, so that sums and differences of points are exact: a mirrored triplet has
a == -b bit for bit, and its norm must come out as exactly zero if the theory says zero.
"""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

N_CLASSES = 4


class Stream(NamedTuple):
    X: np.ndarray
    y: np.ndarray  # codes 0 .. N_CLASSES - 1, every one present
    triplets: np.ndarray

    @property
    def classes(self):
        return self.y[self.triplets[:, 1:]]

    @property
    def class_free(self):
        return np.full((len(self.triplets), 2), -1)


def on_grid(A):
    return np.round(np.asarray(A) * 2.0**20) / 2.0**20


class Rows:
    """Rows in families: copies of a point x in each class, and the mirrored pair x + v, x - v twice."""

    def __init__(self, seed, d, n_families, spread=0.7):
        rng = np.random.default_rng(seed)
        X, y = [np.zeros(d)], [0]  # row 0 is the origin: no similarity step has p = 0
        self.copies, self.mirrors = [], []
        for _ in range(n_families):
            x, v = on_grid(rng.normal(size=(2, d)) * spread)
            first = len(X)
            self.copies.append(list(range(first, first + N_CLASSES)))
            X += [x] * N_CLASSES
            y += range(N_CLASSES)
            self.mirrors.append([first + N_CLASSES + k for k in range(4)])
            one, other = rng.permutation(N_CLASSES)[:2]
            X += [x + v, x - v, x + v, x - v]
            y += [one, other, one, one]
        self.X, self.y = np.array(X), np.array(y)

    def triplet(self, kind, rng, earlier):
        """One triplet of the kind; copies of a point may carry any label, so i == j and i != j both occur."""
        n = len(self.X)
        f, g = rng.integers(len(self.copies), size=2)
        if kind == "repeated" and earlier:
            return earlier[rng.integers(len(earlier))]
        if kind == "p=p+":
            return (*rng.choice(self.copies[f], 2), rng.integers(n))
        if kind == "p=p-":
            p, neg = rng.choice(self.copies[f], 2)
            return p, rng.integers(n), neg
        if kind == "p+=p-":
            return (rng.integers(n), *rng.choice(self.copies[f], 2))
        if kind == "all equal":
            return tuple(rng.choice(self.copies[f], 3))
        if kind == "a=-b":
            pair = rng.permutation(self.mirrors[f][:2] if rng.random() < 0.5 else self.mirrors[f][2:])
            return (rng.choice(self.copies[f]), *pair)
        if kind == "p=0":
            return (0, *rng.integers(n, size=2))
        if kind == "i=j":
            return (rng.integers(n), self.copies[f][0], self.copies[g][0])
        return tuple(rng.integers(n, size=3))


KINDS = ("plain", "i=j", "p=p+", "p=p-", "p+=p-", "all equal", "a=-b", "p=0", "repeated")


def fixed_stream(seed=0, d=6, n_triplets=150, n_families=12):
    """Every kind in turn, half of the triplets plain."""
    rows, rng, triplets = Rows(seed, d, n_families), np.random.default_rng(seed + 1), []
    for t in range(n_triplets):
        triplets.append(rows.triplet(KINDS[(t // 2) % len(KINDS)] if t % 2 else "plain", rng, triplets))
    return Stream(rows.X, rows.y, np.array(triplets, dtype=np.intp))


@st.composite
def streams(draw, min_triplets=1, max_triplets=80):
    """Hypothesis chooses size, dimension and the kind of each triplet; a drawn seed the coordinates."""
    seed = draw(st.integers(0, 2**16))
    rows = Rows(seed, draw(st.integers(2, 9)), draw(st.integers(2, 8)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=min_triplets, max_size=max_triplets))
    rng, triplets = np.random.default_rng(seed + 1), []
    for kind in kinds:
        triplets.append(rows.triplet(kind, rng, triplets))
    return Stream(rows.X, rows.y, np.array(triplets, dtype=np.intp))
