"""Forgetting: decay in the dual view equals explicit decay of every matrix before each triplet's step."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import paloma
from axes import BLOCKS, DENSE, GLOBAL, LAMS, LOCAL, MEASURES, RULES, STEP_PARAMS, learner, tuples, weights_of
from helpers import inside
from helpers.streams import N_CLASSES, fixed_stream
from paloma._spaces.dense.decay import horizon
from twins.logdet import run as run_logdet
from twins.stacked import run

STREAM = fixed_stream()
C = 0.3


def twin(name, lam=0.5, classes=None, **options):
    lam, mu = weights_of(name, lam)
    classes = STREAM.classes if classes is None else classes
    return run(DENSE[name], STREAM.X, STREAM.triplets, classes, lam, mu, C, n_classes=N_CLASSES, **options)


def relative(found, expected):
    return np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()


def assert_same(model, expected, tolerance=1e-10):
    assert relative(model.shared_, expected.U) <= tolerance
    for k, label in enumerate(model.classes_[: len(model.local_)]):
        assert relative(model.local_[k], expected.L[label]) <= tolerance


@pytest.mark.parametrize(("measure", "lam", "rule", "block"), tuples(MEASURES, LAMS, RULES, BLOCKS))
def test_equals_explicit_decay(measure, lam, rule, block):
    options = {"step": rule, "step_params": STEP_PARAMS.get(rule), "forget": 0.03}
    for name in (LOCAL[measure], GLOBAL[measure]):
        expected = twin(name, lam, **options)
        model = learner(name, lam=lam, C=C, block_size=block, **options)
        assert_same(model.fit(STREAM.X, STREAM.y, triplets=STREAM.triplets), expected)
        assert model.loss_ == pytest.approx(np.maximum(expected.e, 0.0).mean(), rel=1e-10)


@pytest.mark.parametrize("forget", [1e-6, 0.2, 0.9, 0.999])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", DENSE)
def test_any_share_of_forgetting(name, block, forget):
    """Far beyond the length after which a block must end."""
    assert forget < 0.1 or horizon(forget) < len(STREAM.triplets)
    model = learner(name, C=C, block_size=block, forget=forget)
    assert_same(model.fit(STREAM.X, STREAM.y, triplets=STREAM.triplets), twin(name, forget=forget))


@pytest.mark.parametrize(
    ("measure", "kind"),
    [(m, k) for m in MEASURES for k in ("dense", "sparse", "projected") if (m, k) != ("distance", "sparse")],
)
@pytest.mark.parametrize("size", [1, 3, 50])
def test_any_split_into_calls(measure, size, kind):
    """Some calls with labels and some without, and a copy out of a pickle half-way."""
    y, T = STREAM.y, STREAM.triplets
    labeled = (np.arange(len(T)) // size) % 3 != 1
    expected = twin(LOCAL[measure], classes=np.where(labeled[:, None], y[T[:, 1:]], -1), forget=0.02)
    rows = sp.csr_matrix(STREAM.X) if kind == "sparse" else STREAM.X
    name = LOCAL[measure].replace("L", "L2", 1) if kind == "projected" else LOCAL[measure]
    model = learner(name, C=C, forget=0.02, **({"n_components": rows.shape[1]} if kind == "projected" else {}))
    model.partial_fit(rows, y, triplets=T[:0])
    for a in range(0, len(T), size):
        if a == 75:
            model = pickle.loads(pickle.dumps(model))
        model.partial_fit(rows, y if labeled[a] else None, triplets=T[a : a + size])
    assert_same(model, expected)


@pytest.mark.parametrize("measure", MEASURES)
def test_from_a_given_start(measure):
    start = np.diag(np.arange(1.0, 7.0)) + 0.1
    model = learner(LOCAL[measure], C=C, forget=0.05, init=start)
    model.fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    assert_same(model, twin(LOCAL[measure], U0=start, forget=0.05))
    for _ in range(60):
        model.partial_fit(STREAM.X, STREAM.y, triplets=[[1, 1, 1]] * 10)
    assert relative(model.shared_, start) < 1e-10
    assert relative(model.local_[2], start) < 1e-10


@pytest.mark.parametrize("max_journal", [None, 100])
@pytest.mark.parametrize(("dense", "name"), [("LODML", "L2ODML"), ("LOSL", "L2OSL")])
def test_averages_in_the_journal_fade_as_the_dense_ones(dense, name, max_journal):
    rng = np.random.default_rng(0)
    X, y, T = rng.normal(size=(60, 8)), rng.integers(0, 3, 60), rng.integers(0, 60, (5000, 3))
    models = [
        getattr(paloma, kind)(C=0.01, forget=1e-3, average=True, scale="scalar", guard=False, random_state=0, **more)
        for kind, more in ((dense, {}), (name, {"n_components": 8, "max_journal": max_journal}))
    ]
    for a, b in ((0, 700), (700, 3500), (3500, 3600), (3600, 5000)):
        for model in models:
            model.partial_fit(X, y, triplets=T[a:b])
        assert relative(models[1].shared_, models[0].shared_) < 1e-9
        for label in (None, 0, 2):
            assert relative(models[1].metric_matrix(label), models[0].metric_matrix(label)) < 1e-9


def test_an_average_reaches_back_no_farther_than_forgetting():
    model = learner("LODML", forget=1e-3, average=True).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    for _ in range(30):
        model.partial_fit(STREAM.X, STREAM.y, triplets=[[1, 1, 1]] * 1024)
    assert relative(model.metric_matrix(), np.eye(6)) < 1e-6


def test_float32_stays_float32():
    model = learner("LODML", C=C, forget=0.5).fit(STREAM.X.astype(np.float32), STREAM.y, triplets=STREAM.triplets)
    assert model.shared_.dtype == model.local_.dtype == np.float32
    assert_same(model, twin("LODML", forget=0.5), 1e-4)


@pytest.mark.parametrize("psd", ["step", "exact", 10])
def test_projection_inside_the_loop_is_refused(psd):
    with pytest.raises(ValueError, match=r"forget=0.1 requires psd='never' or 'end'"):
        paloma.LODML(forget=0.1, psd=psd).fit(STREAM.X, STREAM.y)


@pytest.mark.parametrize("forget", [-0.1, 1.0, "a", np.nan])
def test_bad_shares_are_refused(forget):
    with pytest.raises(ValueError, match="forget must be a number"):
        paloma.LODML(forget=forget).fit(STREAM.X, STREAM.y)


# --- LogDet: the inverses decay ---------------------------------------------------------------------------


def logdet(**options):
    return paloma.SLMOML(**{"scale": None, "n_epochs": 1, **options})


def logdet_twin(classes, lam, step="pa1", **options):
    return run_logdet(STREAM.X, STREAM.triplets, classes, lam, 1 - lam, C, step, n_classes=N_CLASSES, **options)


@pytest.mark.parametrize("forget", [1e-6, 0.03, 0.9])
@pytest.mark.parametrize("step", ["pa1", "pa2"])
@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
def test_logdet_equals_explicit_decay_of_the_inverses(lam, step, forget):
    start = np.diag(np.linspace(0.5, 2.0, STREAM.X.shape[1]))
    expected = logdet_twin(STREAM.classes, lam, step, U0=start, forget=forget)
    model = logdet(lam=lam, C=C, step=step, forget=forget, init=start)
    assert_same(model.fit(STREAM.X, STREAM.y, triplets=STREAM.triplets), expected)
    assert model.n_updates_ == np.sum(expected.tau > 0)
    assert model.loss_ == pytest.approx(np.maximum(expected.e, 0).mean())


@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(0, len(STREAM.triplets)), max_size=6), labeled=st.booleans())
def test_logdet_forgets_alike_in_any_calls(cuts, labeled):
    y, classes = (STREAM.y, STREAM.classes) if labeled else (None, STREAM.class_free)
    model = logdet(lam=0.4, C=C, forget=0.02)
    for part in np.split(STREAM.triplets, sorted(cuts)):
        model.partial_fit(STREAM.X, y, triplets=part)
    assert_same(model, logdet_twin(classes, 0.4, forget=0.02))


def test_logdet_forgets_what_is_not_repeated():
    """A step on one class, then triplets of others without a step: its matrix is back at the start."""
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 9.1], [40.0, 0.0]])
    y = np.array([0, 0, 1, 2, 2, 3])
    model = logdet(lam=0.5, C=1.0, forget=0.1).partial_fit(X, y, triplets=[[0, 1, 2]])
    assert np.abs(model.local_[0] - np.eye(2)).max() > 0.01
    model.partial_fit(X, y, triplets=[[3, 4, 5]] * 300)
    assert model.n_updates_ == 1
    assert relative(model.local_[0], np.eye(2)) < 1e-10
    assert inside.state(model).n_slots == 2  # classes without a step have no matrix


@pytest.mark.parametrize(("dtype", "cap"), [(np.float64, 1e4), (np.float32, 1.0)])
def test_logdet_stays_positive_definite(dtype, cap):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)).astype(dtype), rng.integers(0, 3, 200)
    model = logdet(lam=0.5, C=cap, forget=1e-3).fit(X, y, triplets=rng.integers(0, 200, (20_000, 3)))
    assert min(np.linalg.eigvalsh(M.astype(float))[0] for M in (model.shared_, *model.local_)) > 0
