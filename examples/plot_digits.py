"""
Neighbors before and after
==========================

What search finds for the same queries by the plain distance and under the learned one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from paloma import LODML, MetricKNeighborsClassifier, plot
from paloma.neighbors import euclidean_accuracy

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = X[:400], X[400:], y[:400], y[400:]
metric = LODML(random_state=0).fit(X, y)
model = MetricKNeighborsClassifier(metric).fit(X, y)
vote = {"n_neighbors": 10, "weights": "soft"}  # as MetricKNeighborsClassifier votes by default
print(f"Euclid {euclidean_accuracy(X_test, y_test, items=X, item_labels=y, **vote):.3f}")
print(f"LODML  {model.score(X_test, y_test):.3f}")

# %%
# Queries whose nearest row is of the wrong class by the plain distance, and of the right one under the metric.

nearest = ((X_test[:, None] - X[None]) ** 2).sum(axis=2).argmin(axis=1)
mended = np.flatnonzero((y[nearest] != y_test) & (y[model.kneighbors(X_test)[1][:, 0]] == y_test))
figure = plt.figure(figsize=(8, 6.5), layout="constrained")
plot.neighbors(metric, X_test[mended[:3]], X, y, shape=(8, 8), n_neighbors=7, figure=figure)

# %%
# Few directions count more than the others:

ax = plot.spectra(metric, n_classes=3, ax=plt.figure(figsize=(6, 4), layout="constrained").subplots())
