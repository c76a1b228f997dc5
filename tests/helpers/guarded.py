"""Learners with a guard, and rows for them."""

import numpy as np
from sklearn.datasets import load_wine

from paloma import LODML, LOSL, OASIS, ODML, OKS, OMDML, OMKS, SLMOML, DiagonalODML

X, Y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
GUARDED = [ODML, LODML, SLMOML, OASIS, LOSL]
SUMS = {
    "OMDML": lambda **words: OMDML(groups=[slice(0, 5), slice(5, 13)], random_state=0, **words),
    "OKS": lambda **words: OKS(random_state=0, **words),
    "OKS, distance": lambda **words: OKS(measure="distance", random_state=0, **({"C": 1e-3} | words)),
    "OMKS": lambda **words: OMKS(kernels=["linear", "rbf"], normalize=True, random_state=0, **words),
    "DiagonalODML": lambda **words: DiagonalODML(random_state=0, **words),
}


def ring(n, seed=0, d=20):
    """A wide class around a narrow one."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, d)) * np.where(y == 0, 2.0, 1.0)[:, None] + 0.5 * y[:, None], y


def streamed(model, rows, y, size=40):
    for a in range(0, len(rows), size):
        model.partial_fit(rows[a : a + size], y[a : a + size])
    return model
