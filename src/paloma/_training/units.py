"""The units of the features: as given, or each divided by its standard deviation; labeled rows judge (theory 21).

The whitener takes half of what full whitening would take, so that a start depends on the units of the features. Pixels
and embeddings have one unit, which says which features matter; lengths in mm and weights in kg have units that say
nothing. Neither is known, so both starts are made for a few rows, which classify each other under each of them.
"""

from collections.abc import Callable

import numpy as np

from .._reading.whitened import whitened
from .._reading.whiteners import Whitener
from .._rows import evenly_spaced
from .._typing import Array
from .guard import scores

# Rows that judge, evenly spaced, and rows among which they find neighbors.
MAX_JUDGES, MAX_ROWS = 300, 500
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
    chosen = evenly_spaced(known, MAX_ROWS)
    rows, codes = X[chosen], codes[chosen]
    units = units_of(rows)
    if units is None or len(np.unique(codes)) < 2:
        return None
    judges = evenly_spaced(np.arange(len(chosen)), MAX_JUDGES)
    both = rows, (rows / units).astype(X.dtype)
    as_given, divided = (_start_values(each, codes, judges, whitener) for each in both)
    found = scores(np.stack([as_given, as_given, divided]), codes, codes[judges], START, is_distance=True)
    return units if found[1].mean() > found[0].mean() else None


def _start_values(
    rows: Array, codes: Array, judges: Array, whitener: Callable[[Array, Array], Whitener | None]
) -> Array:
    """Squared distances of some rows to all under the start, infinite to themselves."""
    W = whitener(rows, codes)
    inside = whitened(rows - rows.mean(axis=0), W)
    norms = (inside * inside).sum(axis=1)
    values = norms[judges, None] + norms - 2.0 * (inside[judges] @ inside.T)
    values[np.arange(len(judges)), judges] = np.inf
    return np.asarray(values)
