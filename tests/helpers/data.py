"""Iris without ties: it repeats rows, which would hide errors."""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

IRIS, LABELS = load_iris(return_X_y=True)
IRIS = scale(IRIS) + 1e-3 * np.random.default_rng(0).normal(size=IRIS.shape)
