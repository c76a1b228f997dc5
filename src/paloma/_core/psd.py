"""The p.s.d. axis: when and how matrices are kept positive semidefinite (theory 3 and 6.2).

never   no projection                       end     at read-out only; the learning state stays raw
n       after every n triplets              step    after each step, by one eigenpair
exact   each step is the exact minimizer of the constrained problem, by its one-dimensional dual
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.optimize import brentq

from .._typing import Array


@dataclass(frozen=True)
class Psd:
    """A p.s.d. policy: `word` is never, end, every, step or exact; `every` counts triplets (0: not used)."""

    word: str
    every: int = 0

    @classmethod
    def parse(cls, policy: str | int, step: str) -> "Psd":
        """Check a policy's word against the step rule it is combined with."""
        if isinstance(policy, int | np.integer) and not isinstance(policy, bool):
            if policy < 1:
                raise ValueError(f"psd as a number of triplets must be at least 1, got {policy}.")
            return cls("every", int(policy))
        if policy not in ("never", "end", "step", "exact"):
            raise ValueError(f"psd must be 'never', 'end', 'step', 'exact' or a positive int, got {policy!r}.")
        if policy == "exact" and step not in ("pa", "pa1"):
            raise ValueError(f"psd='exact' is derived for step='pa' and 'pa1' only, got step={step!r}.")
        return cls(policy)

    @property
    def sequential(self) -> bool:
        """Whether each triplet needs an eigenproblem, which no block can do."""
        return self.word in ("step", "exact")


def project(matrix: Array) -> Array:
    """P_+: the nearest p.s.d. matrix of the symmetric part in Frobenius norm."""
    symmetric = (matrix + matrix.T) / 2
    try:
        cholesky(symmetric, lower=True, check_finite=False)
        return symmetric
    except LinAlgError:
        values, vectors = eigh(symmetric, subset_by_value=(-np.inf, 0.0), check_finite=False)
    if 2 * len(values) <= len(symmetric):
        return symmetric - (vectors * values) @ vectors.T
    values, vectors = eigh(symmetric, subset_by_value=(0.0, np.inf), check_finite=False)
    return (vectors * values) @ vectors.T


def smallest_pair(matrix: Array) -> tuple[float, Array]:
    """Smallest eigenvalue and its vector; at most one is negative after one step from a p.s.d. matrix (theory 3)."""
    values, vectors = eigh(matrix, subset_by_index=[0, 0], check_finite=False)
    return float(values[0]), vectors[:, 0]


def project_one(matrix: Array) -> None:
    """P_+ in place for a matrix with at most one negative eigenvalue: M - lambda_min v v^T."""
    value, vector = smallest_pair(matrix)
    if value < 0:
        matrix -= value * np.outer(vector, vector)


def exact_tau(blocks: list[tuple[Array, Array, Array]], margin: float, C: float) -> float:
    """tau* of theory 6.2: root of g(tau) = m + <P_+(Theta - tau Psi), Psi>, non-increasing, capped at C.

    Each block is (matrix, vectors, signs) with its part of Psi equal to sum_k signs_k v_k v_k^T.
    """

    def gap(tau: float) -> float:
        total = margin
        for matrix, vectors, signs in blocks:
            moved = matrix - tau * (vectors.T * signs) @ vectors
            total += signs @ ((vectors @ moved) * vectors).sum(axis=1)
            value, vector = smallest_pair(moved)
            if value < 0:
                total -= value * (signs @ (vectors @ vector) ** 2)
        return float(total)

    if gap(0.0) <= 0:
        return 0.0
    if np.isfinite(C):
        high = C
    else:
        high = 1.0
        while gap(high) > 0 and high < 1e12:
            high *= 4
    if gap(high) >= 0:
        return high
    return float(brentq(gap, 0.0, high, xtol=1e-15 * high, rtol=8.9e-16, maxiter=200))
