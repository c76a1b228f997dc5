"""
The idea in one picture
=======================

Four classes in stripes: on the left the stripes lie, on the right they stand. To tell classes apart, the height counts
on the left and the width on the right: no single metric fits both, one metric per class does. The ellipses are what
each metric calls equally far.
"""

import matplotlib.pyplot as plt
import numpy as np

from paloma import LODML, ODML, MetricKNeighborsClassifier
from paloma.neighbors import euclidean_accuracy

rng = np.random.default_rng(0)


def draw(n):
    """n rows; which of the six stripes of its half a row is in decides between two classes."""
    stripe, along = rng.integers(0, 6, n), rng.uniform(0.0, 6.0, n)
    across = stripe + rng.uniform(0.2, 0.8, n)
    right = rng.random(n) < 0.5
    X = np.where(right[:, None], np.column_stack([across + 7.0, along]), np.column_stack([along, across]))
    return X, stripe % 2 + 2 * right


X, y = draw(200)
X_test, y_test = draw(2000)

# %%
# Learn one metric for all (ODML), and one per class on top of a shared one (LODML), from the labels alone,
# with default parameters.

shared = ODML(random_state=0).fit(X, y)
local = LODML(random_state=0).fit(X, y)


def ellipse(M, center):
    """Points at the same distance from the center under M, of the same area for every M."""
    t = np.linspace(0, 2 * np.pi, 100)
    values, vectors = np.linalg.eigh(M)
    half_axes = 1.0 / np.sqrt(np.maximum(values, 0.02 * values.max()))
    half_axes *= 1.2 / np.sqrt(half_axes.prod())
    return np.array(center)[:, None] + (vectors * half_axes) @ np.stack([np.cos(t), np.sin(t)])


figure, axes = plt.subplots(1, 3, figsize=(12, 3), sharex=True, sharey=True, layout="constrained")
metrics = [
    ("Euclid", lambda c: np.eye(2)),
    ("one metric (ODML)", lambda c: shared.metric_matrix()),
    ("one per class (LODML)", lambda c: local.metric_matrix(c)),
]
for ax, (title, metric) in zip(axes, metrics, strict=True):
    for c in range(4):
        ax.plot(*X[y == c].T, ".", markersize=4, color=f"C{c}")
        ax.plot(*ellipse(metric(c), (3.0 + 7.0 * (c // 2), 1.8 + 2.4 * (c % 2))), color=f"C{c}", linewidth=2)
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])

# %%
# What it is worth: accuracy of nearest neighbors on rows that were not learned.

vote = {"n_neighbors": 10, "weights": "soft"}  # as MetricKNeighborsClassifier votes by default
print(f"Euclid  {euclidean_accuracy(X_test, y_test, items=X, item_labels=y, **vote):.3f}")
for metric in (shared, local):
    print(f"{type(metric).__name__:<7} {MetricKNeighborsClassifier(metric).fit(X, y).score(X_test, y_test):.3f}")
