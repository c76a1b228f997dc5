"""Items for the tests of indexes, and what a search must find by the definition."""

import inspect

import numpy as np

import paloma

EXPORTED = [getattr(paloma, name) for name in paloma.__all__ if inspect.isclass(getattr(paloma, name))]
LEARNERS = [kind for kind in EXPORTED if hasattr(kind, "pair_score")]
LABELS = np.array(["blue", "green", "red", "teal"])


def problem(n, seed, d=5):
    rng = np.random.default_rng(seed)
    y = LABELS[rng.permutation(n) % len(LABELS)]
    return rng.normal(size=(n, d)) + (y[:, None] == LABELS) @ np.eye(len(LABELS), d), y


X, Y = problem(60, 0)
Q = problem(25, 1)[0]
MORE, Y_MORE = problem(40, 2)
SHARES = np.random.default_rng(3).dirichlet(np.full(4, 0.3), len(X))
SHARES[::3] = (Y[::3, None] == LABELS).astype(float)
SHARES[1] = [0.0, 0.5, 0.0, 0.5]


def fitted(kind=paloma.LODML, **parameters):
    return kind(random_state=0, n_epochs=2, **{"C": 0.3, "guard": False, **parameters}).fit(X, Y)


def is_distance(metric):
    return hasattr(metric, "pair_distance") or getattr(metric, "measure", None) == "distance"


def raw(metric, Q, X, y):
    """(n_queries, n_items) squared distances or similarities, from pair_score alone."""
    pairs = np.stack([np.repeat(Q, len(X), axis=0), np.tile(X, (len(Q), 1))], axis=1)
    scores = metric.pair_score(pairs, None if y is None else np.tile(y, len(Q))).reshape(len(Q), len(X))
    return -np.sign(scores) * scores**2 if is_distance(metric) else scores


def literal(metric, Q, X, y):
    """Scores of all pairs by the definition: of shares the mean over classes."""
    if y is not None and np.ndim(y) == 2:
        values = sum(y[:, c] * raw(metric, Q, X, np.repeat(metric.classes_[c], len(X))) for c in range(y.shape[1]))
    else:
        values = raw(metric, Q, X, y)
    return (np.sqrt(np.maximum(values, 0.0)), values) if is_distance(metric) else (values, -values)


def agrees(found, metric, X, y, k, Q=Q, ids=None):
    """Distances as defined; ids identical unless values tie within 1e-9."""
    shown, values = literal(metric, Q, X, y)
    order = np.argsort(values, axis=1, kind="stable")[:, :k]
    names = np.arange(len(X)) if ids is None else ids
    np.testing.assert_allclose(found[0], np.take_along_axis(shown, order, 1), rtol=1e-7, atol=1e-7)
    place = np.argsort(names)[np.searchsorted(np.sort(names), found[1])]
    apart = np.take_along_axis(values, place, 1) - np.take_along_axis(values, order, 1)
    assert np.abs(apart[names[order] != found[1]]).max(initial=0.0) < 1e-9


CLASSES = {"known": Y, "shares": SHARES, "none": None, "some never seen": np.where(np.arange(60) % 5 == 0, "violet", Y)}
