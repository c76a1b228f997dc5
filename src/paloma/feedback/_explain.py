"""Why two rows are near: a squared distance as a sum over features, or over directions that feedback changed."""

from dataclasses import dataclass

import numpy as np

from .._typing import Array


@dataclass(frozen=True, eq=False)
class Explanation:
    """One squared distance with and without feedback; two random rows have 1 on average under both.

    Attributes
    ----------
    now, before : the squared distance as it is published, and without feedback.
    features, features_before : (d,) shares of the features; they sum to `now` and `before`. One may be negative, if
        features are correlated in the metric.
    weights : (r,) what feedback multiplies squared differences by, along each of the directions that it changed most.
    directions : (r, d), of length 1.
    along : (r,) share of each of them in `now`.
    """

    now: float
    before: float
    features: Array
    features_before: Array
    weights: Array
    directions: Array
    along: Array

    def top(self, n: int = 5) -> list[tuple[int, float, float]]:
        """(feature, share now, share before) of the features whose share changed most."""
        change = np.abs(self.features - self.features_before)
        order = np.argsort(-change, kind="stable")[:n]
        return [(int(k), float(self.features[k]), float(self.features_before[k])) for k in order]

    def __str__(self) -> str:
        lines = [f"squared distance {self.now:.4f}, without feedback {self.before:.4f}"]
        lines += [f"  feature {k}: {now:+.4f}, without feedback {old:+.4f}" for k, now, old in self.top()]
        return "\n".join(lines)


def explained(difference: Array, metric: Array, start: Array, n_directions: int) -> Explanation:
    """The quadratic forms of a difference under both metrics, taken apart."""
    ratio, vectors = np.linalg.eigh(metric)
    values = ratio / start[0, 0]  # the metric without feedback is a multiple of the identity
    strongest = np.argsort(-np.abs(np.log(np.maximum(values, 1e-12))), kind="stable")[:n_directions]
    features, before = difference * (metric @ difference), difference * (start @ difference)
    along = ratio[strongest] * (vectors[:, strongest].T @ difference) ** 2
    return Explanation(
        float(features.sum()), float(before.sum()), features, before,
        values[strongest], vectors[:, strongest].T.copy(), along,
    )  # fmt: skip
