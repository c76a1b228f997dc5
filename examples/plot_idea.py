"""
The idea in one picture
=======================

Three classes, each long in another direction. No single metric fits all of them; one metric per class does. The
ellipses are what each metric calls equally far from the center of a class.
"""

import matplotlib.pyplot as plt
import numpy as np

from paloma import LODML, ODML, MetricKNeighborsClassifier
from paloma.neighbors import euclidean_accuracy

rng = np.random.default_rng(0)
centers = np.array([[0.0, 0.0], [1.4, 0.5], [0.4, 1.6]])
angles = np.deg2rad([0.0, 60.0, 120.0])


def draw(n):
    """n rows of each class: a cloud eight times as long as it is wide."""
    rows, labels = [], []
    for label, (center, angle) in enumerate(zip(centers, angles, strict=True)):
        along = np.array([np.cos(angle), np.sin(angle)])
        across = np.array([-along[1], along[0]])
        rows.append(center + rng.normal(size=(n, 1)) * 1.2 * along + rng.normal(size=(n, 1)) * 0.15 * across)
        labels.append(np.full(n, label))
    return np.vstack(rows), np.concatenate(labels)


X, y = draw(150)
X_test, y_test = draw(1000)

# %%
# Learn one metric for all (ODML), and one per class on top of a shared one (LODML), from the labels alone.

shared = ODML(random_state=0).fit(X, y)
local = LODML(lam=0.2, random_state=0).fit(X, y)


def ellipse(M, center, size):
    """Points at the same distance from the center under M."""
    circle = np.stack([np.cos(t := np.linspace(0, 2 * np.pi, 100)), np.sin(t)])
    values, vectors = np.linalg.eigh(M)
    shape = (vectors / np.sqrt(np.maximum(values, 1e-3 * values.max()))) @ circle
    return center[:, None] + size * shape / np.sqrt(np.prod(np.ptp(shape, axis=1)))


figure, axes = plt.subplots(1, 3, figsize=(11, 4), sharex=True, sharey=True, layout="constrained")
metrics = [
    ("Euclid", lambda c: np.eye(2)),
    ("one metric (ODML)", lambda c: shared.metric_matrix()),
    ("one per class (LODML)", lambda c: local.metric_matrix(c)),
]
for ax, (title, metric) in zip(axes, metrics, strict=True):
    for c in range(3):
        ax.plot(*X[y == c].T, ".", markersize=3, color=f"C{c}")
        ax.plot(*ellipse(metric(c), centers[c], 1.2), color=f"C{c}", linewidth=2)
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])

# %%
# What it is worth: accuracy of three neighbors on rows that were not learned.

print(f"Euclid  {euclidean_accuracy(X_test, y_test, items=X, item_labels=y):.3f}")
for metric in (shared, local):
    print(f"{type(metric).__name__:<7} {MetricKNeighborsClassifier(metric).fit(X, y).score(X_test, y_test):.3f}")
