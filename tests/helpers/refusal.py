"""A refused call changes nothing: neither what the model says nor what it learns from later rows."""

import copy

import numpy as np
import pytest

from same import public

RNG = np.random.default_rng(9)
LATER_X, LATER_Y = RNG.normal(size=(12, 4)), np.arange(12) % 3


def snapshot(model):
    return copy.deepcopy(public(model))


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_equal(one[name], other[name], err_msg=name)


def assert_refused(model, call, error, match):
    """`call(model)` raises, names what is wrong, changes nothing, and learning goes on as if it never was.

    The model has four features and the classes 0, 1, 2.
    """
    untouched, before = copy.deepcopy(model), snapshot(model)
    with pytest.raises(error, match=match):
        call(model)
    model.set_params(**untouched.get_params(deep=False))
    assert_equal(snapshot(model), before)
    for later in (model, untouched):  # memory and random state decide which triplets these rows form
        later.partial_fit(LATER_X, LATER_Y)
    assert model.n_triplets_ > before["n_triplets_"]
    assert_equal(snapshot(model), snapshot(untouched))
