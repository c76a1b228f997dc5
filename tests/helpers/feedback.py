"""Items with classes, and a user who marks results by them."""

import numpy as np

from paloma.feedback import FeedbackSearch

N, D, CLASSES = 240, 12, 6


def rows(seed=0):
    """Classes that three of the features tell, among others that vary more."""
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=N)
    centers = rng.normal(size=(CLASSES, D)) * (np.arange(D) < 3)
    return centers[y] * 1.5 + rng.normal(size=(N, D)) * np.where(np.arange(D) < 3, 0.5, 1.0), y


X, Y = rows()


def session(n, *, seed=0, invert=False, wrong=0.0, user=None, search=None, items=X, y=Y, **options):
    """n statements of a user who marks the first ten results by his classes, this share of them wrong."""
    search = FeedbackSearch(items, **options) if search is None else search
    rng = np.random.default_rng(seed)
    for time in range(n):
        query = int(rng.integers(N))
        near = search.search(query, 10, user=user)[1]
        slips = rng.random(len(near)) < wrong if wrong else np.zeros(len(near), bool)
        yes = [item for item, slip in zip(near, slips, strict=True) if (y[item] == y[query]) != invert ^ slip]
        search.mark(query, yes, [item for item in near if item not in yes], user=user, time=time)
    return search


def precision(search, y=Y, **options):
    return np.mean([y[search.search(q, 10, **options)[1]] == y[q] for q in range(N)])


def same(one, other):
    """Equal to the bit, in all that is published."""
    assert one.log == other.log
    assert np.array_equal(one.metric_matrix(), other.metric_matrix())
    assert one.quality() == other.quality()
