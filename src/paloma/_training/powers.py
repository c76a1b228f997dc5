"""How much a whitener takes: labeled rows judge the one that others make, against none (theory 21).

Directions in which rows of one class differ much may be just those that tell classes apart. Where whitening does harm,
learning starts from it, and the guard knows nothing nearer to plain rows. So rows that did not make a whitener judge it
before anything is learned, as those of the guard judge a metric.
"""

import numpy as np

from .._reading.whitened import whitened
from .._rows import squared_norms
from .._typing import Array
from .guard import MAX_ROWS, drawn, scores, strength
from .units import START, Whitening
from .whitening import POWER


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
    found = [_judged(X, codes, chosen[part == number], chosen[part != number], whitener) for number in (0, 1)]
    return POWER * strength(np.concatenate(found, axis=1), START)[0]


def _judged(X: Array, codes: Array, taught: Array, judges: Array, whitener: Whitening) -> Array:
    """Scores of some rows among all, plain and whitened by what others teach, (2, n_judges)."""
    plain, mapped = (_values(each, judges) for each in (X, whitened(X, whitener(X[taught], codes[taught]))))
    return scores(np.stack([plain, plain, mapped]), codes, codes[judges], START, is_distance=True)


def _values(X: Array, judges: Array) -> Array:
    """Squared distances of some rows to all, infinite to themselves."""
    norms = squared_norms(X)
    values = norms[judges, None] + norms - 2.0 * (X[judges] @ X.T)
    values[np.arange(len(judges)), judges] = np.inf
    return np.asarray(values)
