"""Rows, labels, triplets, pairs and weights of one call, all checked against each other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _validation as check

Array = NDArray[Any]


@dataclass
class Checked:
    """Input that passed every check. With pairs, `targets` are their +1 and -1; else None."""

    X: Any
    y: Array | None
    triplets: Array | None
    pairs: Array | None
    targets: Array | None
    weight: Array | None

    @property
    def given(self) -> Array | None:
        """What is compared, as triplets: those given, or each pair with its candidate twice."""
        return self.triplets if self.pairs is None else self.pairs[:, [0, 1, 1]]


def checked(
    learner: Any, X: Any, y: Any, triplets: Any, pairs: Any, targets: Any, weight: Any, *, reset: bool
) -> Checked:
    """Check the arguments of `fit` and `partial_fit`; `reset`: this call fixes the number of features."""
    who = check.name_of(learner)
    if triplets is not None and pairs is not None:
        raise ValueError(f"{who}: give triplets or pairs, not both in one call.")
    if pairs is not None and not learner._linear:
        raise ValueError(f"{who} does not learn from pairs; give triplets.")
    points = X is None
    if points:
        if triplets is None and pairs is None:
            raise ValueError(f"{who} needs X, or triplets as points (n, 3, d), or pairs as points (n, 2, d).")
        if pairs is None:
            X, triplets = check.check_points(learner, triplets)
        else:
            X, pairs = check.check_points(learner, pairs, 2)
        y = None if y is None else _classes_of_points(who, y, triplets if pairs is None else pairs)
    X = check.check_rows(learner, X, reset=reset, named=not points)
    if y is None and triplets is None and pairs is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None. Give labels, triplets or pairs.")
    if y is not None:
        y = check.check_labels(learner, y, X.shape[0])
    if triplets is not None:
        triplets = check.check_triplets(learner, triplets, X.shape[0])
    if pairs is not None:
        pairs = check.check_pairs(learner, pairs, X.shape[0])
        targets = check.check_targets(learner, targets, len(pairs))
    elif targets is not None:
        raise ValueError(f"{who}: pair_targets go with pairs.")
    given = triplets if pairs is None else pairs
    if given is not None:
        weight = check.check_weight(learner, weight, len(given))
    elif weight is not None:
        raise ValueError(f"{who}: triplet_weight goes with triplets; rows have no weights.")
    learner._check_held(X.shape[1])
    if learner.scale is None or X.dtype == np.float64:
        check.check_magnitude(learner, X, 1.0)
    if not reset:
        learner._check_more_rows(X)
    return Checked(X, y, triplets, pairs, targets, weight)


def _classes_of_points(who: str, y: Any, numbers: Array) -> Array:
    """A class for each point of triplets or pairs, one after another as the points are."""
    labels = np.asarray(y)
    if labels.size != numbers.size:
        raise ValueError(f"{who}: for points y must hold the class of each, {numbers.shape}; got shape {labels.shape}.")
    return labels.reshape(-1)
