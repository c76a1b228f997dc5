"""
Learning as rows arrive
=======================

Letters in batches of 200, each predicted before it is learned. One pass, no row is kept but a small reservoir and the
rows that vote.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from paloma import LODML, MetricKNeighborsClassifier
from paloma.datasets import load_letters
from paloma.neighbors import euclidean_accuracy

X, y = load_letters(return_X_y=True)
X, y = StandardScaler().fit_transform(X[:4000]), y[:4000]
metric = LODML(random_state=0)
vote = {"n_neighbors": 10, "weights": "soft"}  # as MetricKNeighborsClassifier votes by default
learned, plain, seen = [], [], []
for start in range(0, len(X), 200):
    batch = slice(start, start + 200)
    if start:
        model = MetricKNeighborsClassifier(metric).fit(X[:start], y[:start])
        learned.append(model.score(X[batch], y[batch]))
        plain.append(euclidean_accuracy(X[batch], y[batch], items=X[:start], item_labels=y[:start], **vote))
        seen.append(start)
    metric.partial_fit(X[batch], y[batch])

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(seen, plain, label="Euclid")
ax.plot(seen, learned, label="LODML, one pass")
ax.set(xlabel="rows seen", ylabel="accuracy on the next 200 rows")
ax.legend()
print(f"mean of all batches: Euclid {np.mean(plain):.3f}, LODML {np.mean(learned):.3f}")
