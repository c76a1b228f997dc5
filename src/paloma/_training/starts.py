"""Which start rows are given, judged before anything is learned: labeled rows classify each other (theory 21).

The whitener takes half of what full whitening would take, so that a start depends on the units of the features. Pixels
and embeddings have one unit, which says which features matter; lengths in mm and weights in kg have units that say
nothing. Neither is known, so two starts are made for a few rows, one with the features as given and one with each
divided by its standard deviation.

And directions in which rows of one class differ much may be just those that tell classes apart. Where whitening does
harm, learning starts from it, and the guard knows nothing nearer to plain rows. So few rows judge a whitener that
others made, against none, as those of the guard judge a metric.
"""

from collections.abc import Callable

import numpy as np

from .._reading.whiteners import Whitener, whitened
from .._rows import evenly_spaced, squared_norms
from .._typing import Array
from .guard import MAX_ROWS, drawn, scores, strength
from .whitening import POWER

# Rows that judge units, evenly spaced, and rows among which they find neighbors.
MAX_JUDGES, MAX_AMONG = 300, 500
# Standard deviations of features within this factor of each other are taken as equal; a feature whose deviation is
# less than so small a share of its largest value is constant up to rounding.
ALIKE, ROUNDING = 1.5, 1e-6
START = np.array([(0.0, 0.0), (1.0, 1.0)])

Whitening = Callable[[Array, Array], Whitener | None]


def units_of(X: Array) -> Array | None:
    """Standard deviations of the features, 1 for constant ones; None if all are about the same."""
    rows = np.asarray(X, np.float64)
    units = rows.std(axis=0)
    varies = units > ROUNDING * np.abs(rows).max(axis=0, initial=0.0)
    if not varies.any() or units[varies].max() <= ALIKE * units[varies].min():
        return None
    return np.where(varies, units, 1.0)


def better_units(X: Array, codes: Array, whitener: Whitening) -> Array | None:
    """(d,) what to divide features by, or None: as they are. `whitener` makes W from rows and their class codes."""
    known = np.flatnonzero(codes >= 0)
    chosen = evenly_spaced(known, MAX_AMONG)
    rows, codes = X[chosen], codes[chosen]
    units = units_of(rows)
    if units is None or len(np.unique(codes)) < 2:
        return None
    judges = evenly_spaced(np.arange(len(chosen)), MAX_JUDGES)
    both = rows, (rows / units).astype(X.dtype)
    one, other = (whitened(each - each.mean(axis=0), whitener(each, codes)) for each in both)
    as_given, divided = _scores_of_two(one, other, codes, judges)
    return units if divided.mean() > as_given.mean() else None


def better_power(X: Array, codes: Array, whitener: Whitening) -> float:
    """The exponent for `whitener`, which makes W from rows and their class codes: all of POWER, half of it, or 0.

    Many rows, and fewer rows than features, take all of it without a judge.
    """
    known = np.flatnonzero(codes >= 0)
    if not X.shape[1] < len(known) < MAX_ROWS:
        return POWER
    X, codes = X[known] - X[known].mean(axis=0), codes[known]
    parts = drawn(codes, np.random.default_rng(0))
    if parts is None:
        return POWER
    chosen, part, _ = parts
    found = []
    for number in (0, 1):
        taught, judges = chosen[part == number], chosen[part != number]
        found.append(_scores_of_two(X, whitened(X, whitener(X[taught], codes[taught])), codes, judges))
    return POWER * strength(np.concatenate(found, axis=1), START)[0]


def _scores_of_two(one: Array, other: Array, codes: Array, judges: Array) -> Array:
    """Scores of some rows among all, seen in two ways, (2, n_judges)."""
    tables = [_values(X, judges) for X in (one, one, other)]
    return scores(np.stack(tables), codes, codes[judges], START, is_distance=True)


def _values(X: Array, judges: Array) -> Array:
    """Squared distances of some rows to all, infinite to themselves."""
    norms = squared_norms(X)
    values = norms[judges, None] + norms - 2.0 * (X[judges] @ X.T)
    values[np.arange(len(judges)), judges] = np.inf
    return np.asarray(values)
