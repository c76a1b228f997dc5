"""What several compiled loops take, in groups: tuples with names, which numba compiles and caches as single arrays."""

from typing import Any, NamedTuple


class Rule(NamedTuple):
    """A step rule: its code in `paloma._compiled.steps`, and its two constants; None if it has none."""

    code: int
    first: float | None = None
    second: float | None = None


class ClassKernel(NamedTuple):
    """Weights of M_c = lam U + mu L_c, and their squares: T = lam2 + mu2 [c = c']."""

    lam: float
    mu: float
    lam2: float
    mu2: float


class Triplets(NamedTuple):
    """Triplets in order: three rows or two pairs each, margins and C; (n_d, n_+, n_-) if the loop does not form it."""

    members: Any
    margins: Any
    C: Any
    norms: Any = None


class Rows(NamedTuple):
    """Points: the rows of X times a factor of X's own type; and what `working` gave, if the loop asks for it."""

    X: Any
    factor: Any
    work: Any = None


class Pairs(NamedTuple):
    """Pairs of a block: Gram matrices whose elementwise product is <phi_r, phi_s>, class codes, and values."""

    left: Any
    right: Any
    classes: Any
    values: Any


class Theta(NamedTuple):
    """U, the stack of L, and the slots (below zero: none) of both candidates of each triplet, or of each pair."""

    shared: Any
    stack: Any
    slots: Any


class Out(NamedTuple):
    """What learning fills: step and margin - z (before the step) of each triplet, and the net step of each pair."""

    tau: Any
    gaps: Any
    weight: Any = None
