"""Rows, labels, triplets, pairs and weights of one call, all checked against each other."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _validation as check
from .._core.space import Space
from .._typing import Array
from .settings import Settings


@dataclass
class Checked:
    """Input that passed every check.

    given : what is compared, as triplets: those given, or each pair with its candidate twice.
    near : the first two of each are said to be near: the triplets given, or the similar pairs.
    pairs, targets : pairs, and their +1 and -1; None without pairs. grouped : y says who spoke of a row.
    """

    X: Any
    y: Array | None
    given: Array | None
    near: Array | None
    pairs: Array | None
    targets: Any
    weight: Array | None
    grouped: bool = False

    def statements(self, part: slice) -> tuple[Array, Array]:
        """Some of the triplets or pairs as (row, row) and whether they are said to be alike, +1, or not, -1."""
        if self.pairs is not None:
            return self.pairs[part], self.targets[part]
        given: Any = self.given
        given, signs = given[part], np.repeat([1, -1], len(given[part]))
        return np.concatenate([given[:, :2], given[:, ::2]]), signs


def checked(
    learner: Any, settings: Settings, space: Space | None, X: Any, y: Any, triplets: Any, pairs: Any, targets: Any,
    weight: Any, groups: Any = None,
) -> Checked:  # fmt: skip
    """Check the arguments of `fit` and `partial_fit`; without a space, this call fixes the number of features."""
    who, reset = settings.who, space is None
    if groups is not None:
        _check_groups(settings, y, triplets is None and pairs is None)
    if triplets is not None and pairs is not None:
        raise ValueError(f"{who}: pass either triplets or pairs in one call, not both.")
    if pairs is not None:
        settings.space.refuse(who, "pairs")
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
        raise ValueError(f"{who} requires y to be passed, but the target y is None. Pass labels, triplets, or pairs.")
    if y is not None:
        y = check.check_labels(learner, y, X.shape[0])
        check.check_marker(learner, settings.unlabeled, y)
    if triplets is not None:
        triplets = check.check_triplets(learner, triplets, X.shape[0])
    if pairs is not None:
        pairs = check.check_pairs(learner, pairs, X.shape[0])
        targets = check.check_targets(learner, targets, len(pairs))
    elif targets is not None:
        raise ValueError(f"{who}: pair_targets requires pairs.")
    given = triplets if pairs is None else pairs
    if given is not None:
        weight = check.check_weight(learner, weight, len(given))
    elif weight is not None:
        raise ValueError(f"{who}: triplet_weight requires triplets or pairs; rows have no weights.")
    if settings.scaling.word is None or X.dtype == np.float64 or given is None:
        check.check_magnitude(who, X, 1.0)
    if given is None and not settings.space.pairwise:
        check.check_not_tiny(who, X)
    if groups is not None:
        groups = check.check_labels(learner, groups, len(given), "triplets or pairs")
        check.check_marker(learner, settings.unlabeled, groups)
        X, y, given = by_group(X, given, groups)
    if space is not None:
        space.check_rows(who, X)
    if pairs is None or given is None:
        return Checked(X, y, given, given, None, None, weight, groups is not None)
    return Checked(X, y, given[:, [0, 1, 1]], given[targets > 0], given, targets, weight, groups is not None)


def _check_groups(settings: Settings, y: Any, rows_alone: bool) -> None:
    """Refuse groups where something else decides the metric of a pair."""
    who = settings.who
    if rows_alone:
        raise ValueError(f"{who}: groups say who gave each triplet or pair; rows have none. Pass triplets or pairs.")
    if y is not None:
        raise ValueError(f"{who}: pass either y or groups: a metric belongs to a class or to a group, not to both.")
    if settings.regions is not None or not settings.space.linear or not settings.choice.locality.is_local:
        raise ValueError(f"{who}: groups need a learner with lam < 1 and without regions or kernels, such as LODML.")


def by_group(X: Any, given: Array, groups: Array) -> tuple[Any, Array, Array]:
    """Rows as each group sees them, the group of each, and what is given in their numbers (theory 24).

    Both sides of a triplet belong to the group that gave it, so its group is the class of all its rows, and a row that
    several groups speak of counts as one row for each of them.
    """
    names, codes = np.unique(groups, return_inverse=True)
    seen, numbers = np.unique(given * len(names) + codes[:, None], return_inverse=True)
    rows, owner = np.divmod(seen, len(names)) if len(names) else (seen, seen)
    return X[rows], names[owner], numbers.reshape(given.shape)


def _classes_of_points(who: str, y: Any, numbers: Array) -> Array:
    """A class for each point of triplets or pairs, one after another as the points are."""
    labels = np.asarray(y)
    if labels.size != numbers.size:
        raise ValueError(
            f"{who}: with points, y must have shape {numbers.shape}, one class per point; got shape {labels.shape}."
        )
    return labels.reshape(-1)
