"""
C, lam, and the number of neighbors
===================================

What the parameters do, on half of scikit-learn's digits with noise, three splits each: the line is the mean, the band
the range.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from paloma import LODML, MetricKNeighborsClassifier

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
X = X[:900] + rng.normal(scale=6.0, size=(900, X.shape[1]))
y = y[:900]


def accuracies(n_neighbors=3, **params):
    """Held-out accuracy on three splits."""
    out = []
    for seed in range(3):
        parts = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
        metric = LODML(random_state=0, n_epochs=2, **params)
        model = MetricKNeighborsClassifier(metric, n_neighbors=n_neighbors).fit(parts[0], parts[2])
        out.append(model.score(parts[1], parts[3]))
    return out


curves = {
    "C": [0.0002, 0.002, 0.02, 0.2, 2.0],
    "lam": [0.0, 0.25, 0.5, 0.75, 1.0],
    "n_neighbors": [1, 3, 5, 9, 15],
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.5), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, curves.items(), strict=True):
    found = np.array([accuracies(**{name: value}) for value in values])
    ax.plot(values, found.mean(axis=1), marker="o")
    ax.fill_between(values, found.min(axis=1), found.max(axis=1), alpha=0.2)
    ax.set(xlabel=name, xscale="log" if name == "C" else "linear")
axes[0].set_ylabel("accuracy on held-out rows")

# %%
# Far too small a C learns too little in the passes that it is given; ten or a hundred times too large costs two or
# three points here, because single triplets, noise and all, then move the metric too far. lam between .25 and .75 is
# near the best; with few rows per class, closer to 1 is safer. More neighbors help where features are noisy.
