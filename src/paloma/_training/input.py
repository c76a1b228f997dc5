"""Rows, labels, triplets, pairs and weights of one call, all checked against each other."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _validation as check
from .._core.locality import Labels
from .._typing import Array
from .model import Model
from .settings import Settings

# So many classes of numbers, with fewer than three rows each, may be measurements.
MANY_CLASSES = 50


@dataclass
class Checked:
    """Input that passed every check.

    labels : all classes, those that the model knew first. codes : of the rows, None if they came without labels.
    given : what is compared, as triplets: those given, or each pair with its candidate twice.
    near : the first two of each are said to be near: the triplets given, or the similar pairs.
    pairs, targets : pairs, and their +1 and -1; None without pairs. grouped : codes say who spoke of a row.
    """

    X: Any
    labels: Labels
    codes: Any
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
    learner: Any, settings: Settings, model: Model | None, X: Any, y: Any, triplets: Any, pairs: Any, targets: Any,
    weight: Any, groups: Any, classes: Any = None,
) -> Checked:  # fmt: skip
    """Check the arguments of `fit` and `partial_fit`; without a model, this call fixes the number of features."""
    who, points = settings.who, X is None
    if triplets is not None and pairs is not None:
        raise ValueError(f"{who}: pass either triplets or pairs in one call, not both.")
    given, width = (triplets, 3) if pairs is None else (pairs, 2)
    if groups is not None:
        _check_groups(settings, y, given is None)
    if pairs is not None:
        settings.space.refuse(who, "pairs")
    if points:
        if given is None:
            raise ValueError(f"{who} needs X, or triplets as points (n, 3, d), or pairs as points (n, 2, d).")
        X, given = check.check_points(learner, given, width)
        y = None if y is None else _classes_of_points(who, y, given)
    X = check.check_rows(learner, X, reset=model is None, named=not points)
    if y is not None:
        y = check.check_labels(learner, y, X.shape[0])
        check.check_marker(learner, settings.unlabeled, y)
    elif given is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None. Pass labels, triplets, or pairs.")
    if given is not None:
        given = check.check_numbers(learner, given, width, X.shape[0])
        weight = check.check_weight(learner, weight, len(given))
    elif weight is not None:
        raise ValueError(f"{who}: triplet_weight requires triplets or pairs; rows have no weights.")
    if pairs is not None:
        targets = check.check_targets(learner, targets, len(given))
    elif targets is not None:
        raise ValueError(f"{who}: pair_targets requires pairs.")
    check.check_magnitude(who, X, 1.0)
    if given is None and not settings.space.pairwise:
        check.check_not_tiny(who, X)
    if groups is not None:
        groups = check.check_labels(learner, groups, len(given), "triplets or pairs")
        check.check_marker(learner, settings.unlabeled, groups)
        X, y, given = by_group(X, given, groups)
    if model is not None:
        model.space.check_rows(who, X)
    if classes is not None:
        classes = check.check_labels(learner, classes, np.size(classes), "classes")
    labels = Labels() if model is None else model.labels
    for each in (classes, y):
        labels = labels if each is None else labels.extended(each, settings.unlabeled)
    codes = None if y is None else labels.codes(y, settings.unlabeled)
    if pairs is None:
        return Checked(X, labels, codes, given, given, None, None, weight, groups is not None)
    near = given[targets > 0]
    return Checked(X, labels, codes, given[:, [0, 1, 1]], near, given, targets, weight, groups is not None)


def checked_whole(learner: Any, settings: Settings, *given: Any) -> Checked:
    """The same for `fit`, to which no more will come: labels of which no two are equal are refused.

    A warning says if hardly any are, or if they look like measurements.
    """
    data = checked(learner, settings, None, *given)
    if data.pairs is not None and settings.early_stopping:
        raise ValueError(f"{settings.who}: early_stopping holds out triplets and does not support pairs.")
    if data.given is not None:
        return data
    who, sizes = settings.who, np.bincount(data.codes[data.codes >= 0])
    if len(sizes) < 2:
        raise ValueError(
            f"{who} learns from rows of at least 2 classes, got {len(sizes)} class{'' if len(sizes) == 1 else 'es'}. "
            "Without labels, pass triplets, or use paloma.feedback."
        )
    n, n_alone = int(sizes.sum()), int((sizes == 1).sum())
    advice = "If y is a measurement, not a class, bin it first (pandas.qcut, KBinsDiscretizer), or pass triplets."
    if n_alone == n:
        raise ValueError(
            f"{who}: no two of the {n} labeled rows have the same label, so there is nothing to learn from. {advice}"
        )
    measured = data.labels.labels.dtype.kind in "iuf" and len(sizes) >= MANY_CLASSES and n < 3 * len(sizes)
    if 2 * n_alone > n or measured:
        which = f"{n_alone:,} of which are alone and teach nothing" if n_alone else "fewer than three each"
        warnings.warn(f"{who}: y has {len(sizes):,} classes for {n:,} labeled rows, {which}. {advice}", stacklevel=5)
    return data


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
