"""Streams that go wrong: refused calls change nothing, and no model is useless without a word."""

import copy
import os
import pickle
import signal

import numpy as np
import pytest

import paloma
from helpers.files import round_trip
from helpers.refusal import assert_equal, assert_refused, snapshot
from paloma._compiled.scratch import Scratch
from paloma._spaces.dense import matrices
from paloma._spaces.dense.matrices import Matrices, PairRows
from paloma.exceptions import ModelFileError

RNG = np.random.default_rng(3)
Y = np.arange(60) % 3
X = RNG.normal(size=(60, 4)) + Y[:, None]


class Moody:
    """A region function that can be told to fail."""

    def __init__(self):
        self.bad = False

    def __call__(self, rows):
        return np.full(len(rows), -7 if self.bad else 0)


def test_a_call_refused_by_a_region_function_leaves_the_random_state():
    regions = Moody()
    model = paloma.LODML(random_state=0, regions=regions).fit(X, Y)
    untouched = copy.deepcopy(model)
    regions.bad = True
    with pytest.raises(ValueError, match="one nonnegative region number per row"):
        model.partial_fit(X + 1, Y)
    regions.bad = False
    np.testing.assert_array_equal(model.partial_fit(X, Y).shared_, untouched.partial_fit(X, Y).shared_)


@pytest.mark.parametrize("regions", [2, 50])
def test_a_refused_call_does_not_move_the_regions(regions):
    model = paloma.LODML(random_state=0, regions=regions, scale=None)
    model.partial_fit(X[:40], Y[:40])

    def refused(model):
        bad = copy.copy(model._model.space)
        bad.planned = None
        model._model.space, good = bad, model._model.space
        try:
            model.partial_fit(X + 3, Y)
        finally:
            model._model.space = good

    assert_refused(model, refused, TypeError, "not callable")


CHANGES = [
    ("LODML", {"regions": 2}),
    ("LODML", {"reservoir_size": 3}),
    ("LODML", {"memory": "window"}),
    ("LODML", {"scale": None}),
    ("ODML", {"init": np.diag([1.0, 2.0, 3.0, 4.0])}),
    ("OMDML", {"groups": [2, 2]}),
    ("OKS", {"kernel": "linear"}),
    ("OKS", {"kernel_params": {"gamma": 3.0}}),
    ("OKS", {"measure": "distance"}),
    ("OKS", {"budget": 5}),
    ("OMKS", {"kernels": ["linear", "rbf"]}),
    ("L2ODML", {"n_components": 2}),
]


@pytest.mark.parametrize(("name", "change"), CHANGES, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_what_a_model_is_built_from_cannot_change_in_mid_stream(name, change, how):
    model = getattr(getattr(paloma, name)(random_state=0), how)(X, Y)
    (parameter,) = change
    match = f"cannot continue with another {parameter}.* Call fit to begin again, or set it back"
    again = round_trip(model)
    for each in (model, again, copy.deepcopy(again), pickle.loads(pickle.dumps(model))):
        assert_refused(each, lambda model: model.set_params(**change).partial_fit(X, Y), ValueError, match)
    changed = copy.deepcopy(model).set_params(**change)
    with pytest.raises(ValueError, match=match):
        copy.deepcopy(changed).partial_fit(X, Y)
    with pytest.raises(ModelFileError, match=f"cannot be saved with another {parameter}.* Call fit to begin again"):
        round_trip(changed)
    model.set_params(**change).fit(X, Y).partial_fit(X, Y)


@pytest.mark.parametrize("name", ["LODML", "SLMOML", "DiagonalODML", "L2ODML"])
def test_forgetting_that_is_all_but_nothing(name):
    """1e-310 came out of a file, and left an OverflowError."""
    kind = getattr(paloma, name)
    given = {"random_state": 0, "memory": "window"}
    one, two = (kind(**given, forget=forget).fit(X, Y).partial_fit(X, Y) for forget in (0.0, 1e-310))
    np.testing.assert_allclose(two.shared_, one.shared_, atol=1e-8)


def test_parameters_of_a_step_may_change_in_mid_stream():
    model = paloma.LODML(random_state=0).fit(X, Y)
    model.set_params(C=0.3, lam=0.1, step="smooth", margin=2.0, psd="never").partial_fit(X, Y)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", ["LODML", "OASIS", "L2ODML", "SLMOML", "OKS", "OMDML"])
@pytest.mark.parametrize(("dtype", "factor", "match"), [
    (np.float32, 1e20, "too large"), (np.float64, 1e80, "too large"), (np.float64, 1e-200, "too small"),
    (np.float32, 1e-25, "too small"),
])  # fmt: skip
def test_rows_whose_squares_leave_the_precision_are_refused(name, method, dtype, factor, match):
    learner = getattr(paloma, name)(random_state=0)
    with pytest.raises(ValueError, match=f"{match}.*([Ss]cale the data|[Mm]ultiply the data)"):
        getattr(learner, method)((X * factor).astype(dtype), Y)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", ["LODML", "OASIS", "L2ODML", "SLMOML", "OKS", "OMDML", "DiagonalODML"])
@pytest.mark.parametrize("factor", [1e-200, 1e-80])
def test_triplets_of_rows_too_small_to_learn_from_are_refused(name, method, factor):
    """Their norms were 0, so that nothing was learned, in silence."""
    learner = getattr(paloma, name)(random_state=0)
    with pytest.raises(ValueError, match=r"too small.*Multiply the data"):
        getattr(learner, method)(X * factor, triplets=[[0, 1, 2], [3, 4, 5]])
    assert not vars(learner).keys() & {"_model", "n_features_in_"}


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", ["LODML", "OASIS", "L2ODML", "SLMOML", "OMDML", "DiagonalODML"])
def test_triplets_of_rows_whose_scale_leaves_the_precision_are_refused(name, method):
    """The scale was infinite, so that all rows became 0, in silence."""
    learner = getattr(paloma, name)(random_state=0)
    with pytest.raises(ValueError, match=r"too large.*Scale the data"):
        getattr(learner, method)((X * 1e20).astype(np.float32), triplets=[[0, 1, 2], [3, 4, 5]])
    assert not vars(learner).keys() & {"_model", "n_features_in_"}


@pytest.mark.parametrize("name", ["LODML", "OASIS", "L2ODML", "SLMOML", "OMDML", "DiagonalODML"])
def test_rows_of_the_smallest_units_are_learned(name):
    for rows in (X, np.hstack([X, X, X, X])):
        plain, tiny = (getattr(paloma, name)(random_state=0).fit(rows * unit, Y) for unit in (1.0, 2.0**-228))
        assert tiny.n_updates_ == plain.n_updates_ > 0
        np.testing.assert_allclose(tiny.shared_, plain.shared_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("d", [3, 17, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_matrices_are_updated_by_panels(d, dtype, monkeypatch):
    """At d of 16,000 and two threads OpenBLAS's syrk crashes; there, panels of general products do its work."""
    left, weight = RNG.normal(size=(25, d)).astype(dtype), RNG.normal(size=25)
    found = []
    for wide in (8192, 1):
        monkeypatch.setattr(matrices, "WIDE", wide)
        monkeypatch.setattr(matrices, "PANEL", 8)
        one = Matrices(np.eye(d, dtype=dtype), symmetric=True)
        one.move_shared(PairRows(left, left, Scratch()), weight)
        one.symmetrize()
        found.append(one.shared)
    expected = np.eye(d) - (left.T * weight) @ left
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    for shared in found:
        np.testing.assert_allclose(shared, expected, atol=tolerance)


def test_labels_without_signal_that_leave_no_metric_are_told():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    model = paloma.MetricKNeighborsClassifier(paloma.LODML(random_state=0, C=5.0, average=False, guard=False))
    with pytest.warns(RuntimeWarning, match="metric is 0.* smaller C"):
        model.fit(rows, y).predict(rows)


@pytest.mark.parametrize("name", ["ODML", "LODML", "L2ODML", "OMDML", "DiagonalODML", "OKS", "OMKS"])
def test_triplets_that_leave_no_metric_are_told_by_every_representation(name):
    """The positive is always farther: what is p.s.d. becomes 0, and distances under kernels become negative."""
    rows = np.arange(8.0)[:, None]
    triplets = np.array([[a, a + 3, a + 1] for a in range(5)])
    more = {"measure": "distance"} if name in ("OKS", "OMKS") else {}
    more |= {"kernel": "linear"} if name == "OKS" else {"kernels": ["linear"]} if name == "OMKS" else {}
    model = getattr(paloma, name)(random_state=0, C=50.0, average=False, **more).fit(rows, triplets=triplets)
    with pytest.warns(RuntimeWarning, match="metric is 0.* smaller C"):
        model.pairwise_score(rows[:2], rows)


def test_a_diagonal_metric_of_very_many_features_as_a_function():
    """`get_metric` wanted a dense matrix."""
    d = 10_001
    rows = RNG.normal(size=(12, d))
    model = paloma.DiagonalODML(random_state=0).fit(rows, np.arange(12) % 3)
    function = pickle.loads(pickle.dumps(model.get_metric()))
    assert function(rows[0], rows[1]) == pytest.approx(model.pair_distance(rows[None, :2])[0])
    assert function(rows[0], rows[1], squared=True) == pytest.approx(model.pair_distance(rows[None, :2])[0] ** 2)
    with pytest.raises(ValueError, match="too large to build; feature_weights_ is its diagonal"):
        model.components_  # noqa: B018


@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
def test_kernels_that_take_no_read_only_rows(kernel):
    rows = RNG.random((60, 4)) + Y[:, None]
    model = paloma.OKS(kernel=kernel, scale=None, random_state=0).fit(rows, Y)
    assert model.score(rows, Y) > 0.9


def test_a_journal_of_rows_that_are_zero():
    """Its span has no direction: compiled loops read beyond rows without coordinates."""
    rows = np.vstack([np.zeros((3, 300)), RNG.normal(size=(3, 300))])
    model = paloma.L2ODML(n_components=5, rank=2, scale=None).partial_fit(rows, triplets=[[0, 1, 2]])
    assert model.pair_distance(rows[None, 3:5])[0] == pytest.approx(np.linalg.norm(rows[3] - rows[4]))


# --- Ctrl-C -----------------------------------------------------------------------------------------------


def interrupted(monkeypatch, model, where, X, Y):
    """partial_fit during which Ctrl-C is pressed when `where` (an object and the name of its method) is called."""
    owner, name = where
    whole = getattr(owner, name)

    def pressed(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        out = whole(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGINT)
        return out

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, pressed)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X, Y)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("name", paloma.estimators.__all__)
@pytest.mark.parametrize("forget", [0.0, 0.01])
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_learning_takes_effect_when_the_rows_are_learned(name, forget, monkeypatch):
    kind, extra = getattr(paloma, name), {"forget": forget} if forget else {}
    if forget and name in ("OKS", "OMKS", "OMDML", "L2ODML", "L2OSL"):
        pytest.skip("does not forget")
    model = kind(random_state=0, **extra).fit(X[:30], Y[:30])
    whole = copy.deepcopy(model).partial_fit(X[30:], Y[30:])
    interrupted(monkeypatch, model, (type(model._model.space), "learn"), X[30:], Y[30:])
    assert_equal(snapshot(model), snapshot(whole))
    assert_equal(snapshot(model.partial_fit(X, Y)), snapshot(whole.partial_fit(X, Y)))


@pytest.mark.parametrize("name", paloma.estimators.__all__)
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_before_the_first_step_changes_nothing(name, monkeypatch):
    model = getattr(paloma, name)(random_state=0).fit(X[:30], Y[:30])
    before = copy.deepcopy(model)
    interrupted(monkeypatch, model, (type(model._settings().mining), "mine"), X[30:], Y[30:])
    assert_equal(snapshot(model), snapshot(before))
    assert_equal(snapshot(model.partial_fit(X, Y)), snapshot(before.partial_fit(X, Y)))


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_during_fit_leaves_the_model_before(monkeypatch):
    model = paloma.LODML(random_state=0).fit(X[:30], Y[:30])
    before = copy.deepcopy(model)
    with monkeypatch.context() as patch:
        patch.setattr(Matrices, "average", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            model.fit(np.repeat(X, 20, axis=0), np.repeat(Y, 20))
    assert_equal(snapshot(model), snapshot(before))
