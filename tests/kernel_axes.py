"""What the tests of kernel learners share: streams, Gram matrices, and estimators without scale."""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

import paloma
from axes import fixed_stream
from reference_kernel import normalized, polynomial, rbf

STREAM = fixed_stream(n_triplets=110, n_families=8)
X, Y, T = STREAM
GAMMA, C = 0.3, 0.3
GRAMS = {"rbf": rbf(X, GAMMA), "poly": normalized(polynomial(X, GAMMA, 2))}
KERNELS = {"rbf": ("rbf", {"gamma": GAMMA}), "poly": ("poly", {"gamma": GAMMA, "degree": 2})}
IRIS, LABELS = load_iris(return_X_y=True)
IRIS = scale(IRIS) + 1e-3 * np.random.default_rng(0).normal(size=IRIS.shape)


def oks(kernel="rbf", **params):
    function, kernel_params = KERNELS.get(kernel, (kernel, None))
    plain = {"scale": None, "n_epochs": 1, "C": C, "normalize": kernel == "poly"}
    return paloma.OKS(kernel=function, kernel_params=kernel_params, **{**plain, **params})


def omks(names=("rbf", "poly"), **params):
    plain = {"scale": None, "n_epochs": 1, "C": C, "normalize": True}
    return paloma.OMKS(kernels=[KERNELS[name] for name in names], **{**plain, **params})


def assert_close(actual, expected, tolerance=1e-10):
    assert np.shape(actual) == np.shape(expected)
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def squares(scores, measure):
    """The measure itself: `pairwise_score` of a distance is minus its signed root."""
    return -np.sign(scores) * scores**2 if measure == "distance" else scores
