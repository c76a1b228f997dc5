"""The iterates are the sequential ones: every measure x locality x rule x block size against the twin."""

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axes import BLOCKS, DENSE, GLOBAL, LAMS, LOCAL, MEASURES, RULES, STEP_PARAMS, learner, tuples, weights_of
from helpers.streams import N_CLASSES, fixed_stream, streams
from twins.careful import careful_run
from twins.stacked import run

STREAM = fixed_stream()
FREE = -1
C = 0.3


def twin(name, stream, lam=0.5, C=C, classes=None, **more):
    """The reference run that corresponds to the learner of that name."""
    classes = stream.classes if classes is None else classes
    lam, mu = weights_of(name, lam)
    return run(DENSE[name], stream.X, stream.triplets, classes, lam, mu, C, n_classes=N_CLASSES, **more)


def assert_close(actual, expected, tolerance=1e-10):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def assert_same_iterates(model, expected, tolerance=1e-10):
    assert_close(model.shared_, expected.U, tolerance)
    assert model.n_triplets_ == len(expected.tau)
    if type(model).__name__ in LOCAL.values():
        for k in range(len(model.classes_)):
            assert_close(model.local_[k], expected.L[model.classes_[k]], tolerance)


@cache
def expected_on_the_fixed_stream(name, lam, rule):
    return twin(name, STREAM, lam, step=rule, step_params=STEP_PARAMS.get(rule))


def check_on_the_fixed_stream(name, lam, rule, block):
    model = learner(name, lam=lam, C=C, step=rule, step_params=STEP_PARAMS.get(rule), block_size=block)
    model.fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    assert list(model.classes_) == list(range(N_CLASSES))
    expected = expected_on_the_fixed_stream(name, lam, rule)
    assert_same_iterates(model, expected)
    surely, perhaps = np.sum(expected.tau > 1e-12), np.sum((expected.tau > 0) | (np.abs(expected.e) < 1e-12))
    assert surely <= model.n_updates_ <= perhaps  # a loss that is zero up to rounding may count or not


@pytest.mark.parametrize(("measure", "lam", "rule", "block"), tuples(MEASURES, LAMS, RULES, BLOCKS))
def test_local_learners(measure, lam, rule, block):
    check_on_the_fixed_stream(LOCAL[measure], lam, rule, block)


@pytest.mark.parametrize(("measure", "rule", "block"), tuples(MEASURES, RULES, BLOCKS))
def test_global_learners(measure, rule, block):
    check_on_the_fixed_stream(GLOBAL[measure], 1.0, rule, block)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("measure", MEASURES)
def test_the_two_twins_agree(measure, lam, rule):
    """The benchmark's opponent learns the same thing as the literal twin."""
    problem = (measure, STREAM.X, STREAM.triplets, STREAM.classes, lam, 1 - lam, C)
    options = {"step": rule, "step_params": STEP_PARAMS.get(rule)}
    literal, careful = run(*problem, **options), careful_run(*problem, **options)
    assert_close(careful.U, literal.U)
    assert_close(careful.L, literal.L)
    assert_close(careful.tau, literal.tau)


@pytest.mark.parametrize("name", DENSE)
@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    stream=streams(),
    lam=st.sampled_from(LAMS),
    rule=st.sampled_from(RULES),
    block=st.sampled_from(BLOCKS),
    cap=st.sampled_from([0.01, 0.2, 1.0, 20.0]),
    margin=st.sampled_from([0.5, 1.0, 2.0]),
    weighted=st.booleans(),
    labeled=st.booleans(),
)
def test_any_stream(name, stream, lam, rule, block, cap, margin, weighted, labeled):
    weights = np.resize([1.0, 0.25, 0.0, 3.0, 1.5], len(stream.triplets)) if weighted else None
    options = {"step": rule, "step_params": STEP_PARAMS.get(rule), "margin": margin}
    model = learner(name, lam=lam, C=cap, block_size=block, **options)
    model.fit(stream.X, stream.y if labeled else None, triplets=stream.triplets, triplet_weight=weights)
    classes = stream.classes if labeled else stream.class_free
    assert_same_iterates(model, twin(name, stream, lam, cap, classes, weights=weights, **options))


@pytest.mark.parametrize("cuts", [(1,), (64,), (10, 11, 90)])
@pytest.mark.parametrize("name", DENSE)
def test_partial_fit_continues_exactly(name, cuts):
    model = learner(name, C=C, block_size=64)
    for part in np.split(STREAM.triplets, cuts):
        model.partial_fit(STREAM.X, STREAM.y, triplets=part)
    assert_same_iterates(model, twin(name, STREAM))


@pytest.mark.parametrize("name", DENSE)
def test_partial_fit_meets_new_classes_and_new_rows(name):
    """Each part brings only the rows it needs; a class that was never seen starts at the identity."""
    model = learner(name, C=C)
    for part in np.split(STREAM.triplets, [2, 5, 60]):
        rows, numbers = np.unique(part, return_inverse=True)
        model.partial_fit(STREAM.X[rows], STREAM.y[rows], triplets=numbers.reshape(part.shape))
    assert_same_iterates(model, twin(name, STREAM))


def test_partial_fit_knows_the_announced_classes():
    model = learner("LODML", C=C).partial_fit(
        STREAM.X[:9], STREAM.y[:9], triplets=np.array([[1, 2, 7]]), classes=[0, 1, 2, 3, 9]
    )
    assert list(model.classes_) == [0, 1, 2, 3, 9]
    assert np.array_equal(model.local_[4], np.eye(STREAM.X.shape[1]))


@pytest.mark.parametrize("name", DENSE)
def test_two_epochs_are_two_passes_in_the_given_order(name):
    model = learner(name, C=C, n_epochs=2).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    twice = STREAM._replace(triplets=np.vstack([STREAM.triplets] * 2))
    assert_same_iterates(model, twin(name, twice))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", DENSE)
def test_points_instead_of_rows(name, block):
    """(n, 3, d) points without X are class-free triplets."""
    model = learner(name, C=C, block_size=block).fit(None, triplets=STREAM.X[STREAM.triplets])
    assert len(model.classes_) == 0
    assert_same_iterates(model, twin(name, STREAM, classes=STREAM.class_free))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", DENSE)
def test_class_free_triplets_move_only_the_shared_part(name, block):
    model = learner(name, C=C, block_size=block).fit(STREAM.X, triplets=STREAM.triplets)
    assert len(model.classes_) == 0
    assert len(model.local_) == 0
    assert_same_iterates(model, twin(name, STREAM, classes=STREAM.class_free))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", LOCAL.values())
def test_unlabeled_rows_are_class_free_candidates(name, block):
    """Labeled and unlabeled candidates, also in one triplet: T is lam^2 against the unlabeled."""
    y = np.where(np.arange(len(STREAM.y)) % 3 == 1, FREE, STREAM.y)
    model = learner(name, C=C, block_size=block, unlabeled=FREE).fit(STREAM.X, y, triplets=STREAM.triplets)
    assert list(model.classes_) == list(range(N_CLASSES))
    assert_same_iterates(model, twin(name, STREAM, classes=y[STREAM.triplets[:, 1:]]))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", DENSE)
def test_triplet_weights_multiply_C(name, rule):
    weights = np.random.default_rng(3).choice([0.0, 0.1, 1.0, 2.5], len(STREAM.triplets))
    options = {"step": rule, "step_params": STEP_PARAMS.get(rule)}
    model = learner(name, C=C, **options)
    model.fit(STREAM.X, STREAM.y, triplets=STREAM.triplets, triplet_weight=weights)
    assert_same_iterates(model, twin(name, STREAM, weights=weights, **options))
    once = learner(name, C=C * 2.5, **options).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    weighted = learner(name, C=C, **options)
    weighted.partial_fit(STREAM.X, STREAM.y, triplets=STREAM.triplets, triplet_weight=0 * weights + 2.5)
    assert_close(weighted.shared_, once.shared_)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("rule", ["pa1", "pa2", "logistic"])
@pytest.mark.parametrize("name", DENSE)
def test_float32_stays_float32(name, rule, block):
    model = learner(name, C=C, step=rule, block_size=block)
    model.fit(STREAM.X.astype(np.float32), STREAM.y, triplets=STREAM.triplets)
    assert model.shared_.dtype == np.float32
    assert all(L.dtype == np.float32 for L in model.local_)
    assert_same_iterates(model, expected_on_the_fixed_stream(name, weights_of(name, 0.5)[0], rule), 1e-3)


@pytest.mark.parametrize("name", DENSE)
def test_degenerate_triplets_take_no_step_however_large_C(name):
    """p+ = p- of one class, and all equal: N is exactly 0, though the loss is 1 (sec. 13)."""
    X = np.vstack([STREAM.X * 1e-3, STREAM.X + 1e3])
    rows = np.arange(len(X))
    triplets = np.concatenate([np.c_[rows[::-1], rows, rows], np.c_[rows, rows, rows]])
    model = learner(name, C=1e6).fit(X, np.tile(STREAM.y, 2), triplets=triplets)
    assert np.array_equal(model.shared_, np.eye(X.shape[1]))
    assert all(np.array_equal(L, np.eye(X.shape[1])) for L in model.local_)
    assert model.n_updates_ == 0
    assert model.n_triplets_ == len(triplets)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("measure", MEASURES)
def test_labels_may_be_words_in_any_order(measure, block):
    names = np.array(["pear", "apple", "fig", "date"])
    model = learner(LOCAL[measure], C=C, block_size=block)
    model.fit(STREAM.X, names[STREAM.y], triplets=STREAM.triplets)
    expected = twin(LOCAL[measure], STREAM)
    assert list(model.classes_) == sorted(names)
    for k, label in enumerate(model.classes_):
        assert_close(model.local_[k], expected.L[list(names).index(label)])


@pytest.mark.long
@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("d", [60, 130, 210])
def test_long_streams_by_the_automatic_path(name, d):
    """Dimensions where `block_size="auto"` takes the fused loop, and where it takes blocks of two rhythms."""
    rng = np.random.default_rng(d)
    X, y, triplets = rng.normal(size=(300, d)) / np.sqrt(d), rng.integers(0, 9, 300), rng.integers(0, 300, (6000, 3))
    lam = 0.4 if name in LOCAL.values() else 1.0
    model = learner(name, lam=lam, C=0.01, block_size="auto").fit(X, y, triplets=triplets)
    measure = "distance" if name.endswith("ODML") else "similarity"
    expected = careful_run(measure, X, triplets, y[triplets[:, 1:]], lam, 1.0 - lam, 0.01)
    assert (expected.tau > 0).mean() > 0.5
    assert_same_iterates(model, expected)
