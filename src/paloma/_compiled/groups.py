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


class Csr(NamedTuple):
    """Points: the rows of a CSR matrix with sorted indices, times a factor."""

    data: Any
    indices: Any
    indptr: Any
    factor: float


class Columns(NamedTuple):
    """Points of modalities side by side: r has `numbers` of X from bounds[r] to bounds[r + 1], each times a factor."""

    X: Any
    numbers: Any
    bounds: Any
    factors: Any


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


class Spans(NamedTuple):
    """U and class matrices of different sizes: that of a slot is flat[begin : begin + size^2]; slots of each pair."""

    shared: Any
    flat: Any
    begin: Any
    size: Any
    slots: Any


class Rates(NamedTuple):
    """Rates at which a LogDet step shrinks and grows: p, q the shared matrix, r, s the class matrices (0: none)."""

    p: float
    q: float
    r: float
    s: float


class Gate(NamedTuple):
    """Hedge over modalities: a round is `opened` if sum_r theta_r f_r + width > tie; sums are mistakes so far."""

    width: float
    tie: float
    log_betas: Any
    sums: Any
    opened: Any


class Hedging(NamedTuple):
    """Hedge over kernels: sums of losses, log(beta) of each triplet, and what decides and records who takes part."""

    losses: Any
    log_betas: Any
    judging: bool
    delta: float
    draws: Any
    tie: float
    mistakes: Any
    taking_part: Any


class Budget(NamedTuple):
    """The rows of each triplet, which rows the support holds, its room for new ones, and whether a full one forgets."""

    rows: Any
    held: Any
    room: int
    forgetting: bool


class Out(NamedTuple):
    """What learning fills: step and margin - z (before the step) of each triplet, and the net step of each pair."""

    tau: Any
    gaps: Any
    weight: Any = None
