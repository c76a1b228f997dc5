"""What every learner promises, at every point of the product of the axes."""

import os
import pickle
from functools import partial

import numpy as np
import pytest

import axes
import paloma
from axes import T, X, Y
from helpers.files import round_trip
from helpers.refusal import assert_refused
from same import assert_close, assert_same, squares
from twins.points import expected

STEADY = ("pa", "pa1", "pa2", "smooth", "logistic")  # rules without a jump, which float32 might take or miss
FEW = {"rule": ("pa1", "logistic"), "block": (7, "auto")}
MINED = {"n_targets": 1, "n_impostors": 2}


@pytest.fixture(scope="module", autouse=True)
def without_waiting_for_the_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


def satisfiable(case):
    """No exact step without a bound: some triplets of the stream ask for what no p.s.d. matrix can give."""
    return (case.psd, case.rule) != ("exact", "pa")


def has_twin(case):
    """Policies inside the loop act on what a projected learner projects, not on what it recovers."""
    return satisfiable(case) and (case.space != "projected" or case.psd in ("never", "end"))


def fitted(case, **params):
    return case.make(**params).fit(case.rows(X), Y, triplets=T)


def values(case, model):
    rows = case.rows(X)
    return squares(model.pairwise_score(rows[::5], rows, Y), case.measure)


def test_the_table_has_every_learner():
    exported = {name for name in paloma.__all__ if hasattr(getattr(paloma, name), "pair_score")}
    assert set(axes.TABLE) == exported
    for name, row in axes.TABLE.items():
        kind = getattr(paloma, name)
        assert ("regions" in kind().get_params()) == ("regions" in row.localities)
        assert ("csr" in row.kinds) == kind().__sklearn_tags__().input_tags.sparse


@pytest.mark.parametrize("case", axes.product(each_learner=True, dtype=("float64",), where=has_twin))
def test_the_iterates_are_those_of_the_twin(case):
    model, twin, tolerance = fitted(case), expected(case), 1e-7 if case.psd == "exact" else 1e-10
    assert model.n_triplets_ == len(T)
    assert 0 < model.n_updates_ <= len(T)
    if twin.values is not None:
        assert_close(values(case, model), twin.values, tolerance)
    else:
        assert_close(model.shared_, twin.shared, tolerance)
        for k in range(len(model.local_)):
            assert_close(model.local_[k], twin.local[k], tolerance)
    if twin.weights is not None:
        assert_close(model.weights_, twin.weights, tolerance)


@pytest.mark.parametrize("case", axes.product(dtype=("float32",), rule=STEADY, where=satisfiable))
def test_float32_stays_float32(case):
    model, double = fitted(case), fitted(case._replace(dtype="float64"))
    found = values(case, model)
    assert found.dtype == np.float32
    near = 0.2 if case.space == "low rank" else 2e-3  # a round near its gate may open or not, and a factor then turns
    assert_close(found, values(case._replace(dtype="float64"), double), near)
    if case.space not in ("kernel", "kernels"):
        arrays = model.shared_, model.local_, model.metric_matrix(1), model.query_vectors(case.rows(X[:3]))
        assert [array.dtype for array in arrays] == [np.float32] * 4


@pytest.mark.parametrize("case", axes.product(dtype=("float64",), where=satisfiable, **FEW))
def test_pieces_are_the_whole(case):
    """Given triplets may come in calls of one, of many and of none, and to a learner out of a pickle."""
    whole, model = fitted(case), case.make()
    for part in np.split(T, [1, 64, 64]):
        model = pickle.loads(pickle.dumps(model)).partial_fit(case.rows(X), Y, triplets=part)
    assert_close(values(case, model), values(case, whole), 1e-7 if case.psd == "exact" else 1e-9)
    assert model.n_triplets_ == whole.n_triplets_
    assert abs(model.n_updates_ - whole.n_updates_) <= 1  # a loss that is zero up to rounding may count or not


@pytest.mark.parametrize("case", axes.product(where=satisfiable, **FEW))
def test_files_and_seeds(case):
    """Same seed, same bits; and out of a file learning goes on bit for bit, from rows, triplets and points."""
    one, two = (case.make(random_state=3, scale="auto", **MINED).fit(case.rows(X), Y) for _ in range(2))
    assert one.n_triplets_ > 50
    assert_same(one, two)
    copy = round_trip(one)
    for each in (one, copy):
        each.partial_fit(case.rows(X[::-1]), Y)
        each.partial_fit(case.rows(X), triplets=T[:20], triplet_weight=np.resize([1.0, 0.0, 2.5], 20))
        each.partial_fit(None, triplets=X[T[20:40]].astype(case.dtype))
    assert_same(one, copy)


SPOILED = {
    "nan": (np.nan, "(?i)nan"),
    "infinity": (np.inf, "(?i)inf"),
    "overflow": (1e200, "(?i)large|overflow|inf"),
}


@pytest.mark.parametrize("case", axes.product(where=satisfiable, **FEW))
def test_refused_rows_change_nothing(case):
    rng = np.random.default_rng(8)
    rows, labels, triplets = rng.normal(size=(24, 4)), np.arange(24) % 3, rng.integers(24, size=(20, 3))
    model = make_for_four_columns(case).fit(case.rows(rows), labels)
    for value, match in SPOILED.values():
        bad = rows.copy()
        bad[-1, -1] = value
        with np.errstate(over="ignore"):
            bad = case.rows(bad)
        for given in ({}, {"triplets": triplets}):
            assert_refused(model, partial(type(model).partial_fit, X=bad, y=labels, **given), ValueError, match)


def make_for_four_columns(case):
    """The point with groups, start and regions that rows of four columns have."""
    names = case.options.keys() & {"groups", "init", "n_components", "regions"}
    return case.make(random_state=0, scale="auto", **MINED, **{name: FOUR_COLUMNS[name] for name in names})


FOUR_COLUMNS = {"groups": [[0, 1], [2, 3]], "init": "identity", "n_components": 4, "regions": 2}
