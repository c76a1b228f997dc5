"""SLMOML: its iterates against the literal twin, always positive definite; one step by itself in test_logdet_step."""

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers import inside
from helpers.streams import N_CLASSES, fixed_stream, streams
from paloma import ODML, SLMOML
from paloma._spaces.logdet import blocks as _logdet
from twins.logdet import careful_run, run

STREAM = fixed_stream()
LAMS, STEPS, BLOCKS = (0.0, 0.4, 1.0), ("pa1", "pa2"), (1, 2, 64, "auto")
FREE = -1
LIMITS = [(np.float64, 1e4), (np.float32, 1.0)]  # of C, as documented


def learner(**params):
    """Plain iterates: no scale, one pass."""
    return SLMOML(**{"scale": None, "n_epochs": 1, **params})


def assert_close(actual, expected, tolerance=1e-10):
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def assert_same_iterates(model, expected, tolerance=1e-10):
    assert_close(model.shared_, expected.U, tolerance)
    assert model.n_triplets_ == len(expected.tau)
    for k, label in enumerate(model.classes_):
        assert_close(model.local_[k], expected.L[label], tolerance)


def matrices_of(model):
    return [model.shared_, *model.local_]


def smallest(model):
    return min(np.linalg.eigvalsh(M.astype(float))[0] for M in matrices_of(model))


@cache
def expected_on_the_fixed_stream(lam, step, C):
    return run(STREAM.X, STREAM.triplets, STREAM.classes, lam, 1 - lam, C, step, n_classes=N_CLASSES)


# --- the iterates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("C", [0.05, 5.0])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("lam", LAMS)
def test_the_iterates_are_the_sequential_ones(lam, step, C, block):
    model = learner(lam=lam, C=C, step=step, block_size=block).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    expected = expected_on_the_fixed_stream(lam, step, C)
    assert_same_iterates(model, expected)
    # one triplet of the stream has a gap of 4e-15, where rounding decides whether a step of 2e-17 is taken
    assert np.sum(expected.tau > 1e-12) <= model.n_updates_ <= np.sum(expected.tau > 0)
    assert model.loss_ == pytest.approx(np.maximum(expected.e, 0).mean())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    stream=streams(max_triplets=20),
    lam=st.sampled_from(LAMS),
    step=st.sampled_from(STEPS),
    block=st.sampled_from(BLOCKS),
    cap=st.sampled_from([0.01, 0.2, 1.0, 20.0]),
    margin=st.sampled_from([0.5, 1.0, 3.0]),
    weighted=st.booleans(),
    labeled=st.booleans(),
)
def test_any_stream(stream, lam, step, block, cap, margin, weighted, labeled):
    weights = np.resize([1.0, 0.25, 0.0, 3.0], len(stream.triplets)) if weighted else None
    model = learner(lam=lam, C=cap, step=step, margin=margin, block_size=block)
    model.fit(stream.X, stream.y if labeled else None, triplets=stream.triplets, triplet_weight=weights)
    classes = stream.classes if labeled else stream.class_free
    problem = (stream.X, stream.triplets, classes, lam, 1 - lam, cap, step, margin, weights)
    assert_same_iterates(model, run(*problem, n_classes=N_CLASSES))


@settings(max_examples=20, deadline=None)
@given(
    cuts=st.lists(st.integers(0, len(STREAM.triplets)), max_size=6),
    lam=st.sampled_from(LAMS),
    block=st.sampled_from(BLOCKS),
)
def test_any_split_gives_the_same_model(cuts, lam, block):
    model = learner(lam=lam, C=5.0, block_size=block)
    for part in np.split(STREAM.triplets, sorted(cuts)):
        model.partial_fit(STREAM.X, STREAM.y, triplets=part)
    assert_same_iterates(model, expected_on_the_fixed_stream(lam, "pa1", 5.0))


@pytest.mark.parametrize("by_products", [False, True])
def test_the_benchmarks_twins_are_the_literal_one(by_products):
    careful = careful_run(STREAM.X, STREAM.triplets, 0.3, by_products=by_products)
    literal = run(STREAM.X, STREAM.triplets, STREAM.class_free, 1.0, 0.0, 0.3)
    assert_close(careful.U, literal.U)
    assert_close(careful.tau[literal.tau > 0], literal.tau[literal.tau > 0])


def rows_of(kind, d, rng):
    """Rows whose pairs are independent; dependent, since few rows or few directions make all pairs; or copies."""
    if kind == "few rows":
        return np.tile(rng.normal(size=(9, d)), (3, 1)) / np.sqrt(2 * d)
    if kind == "low rank":
        return rng.normal(size=(300, 7)) @ rng.normal(size=(7, d)) / np.sqrt(14 * d)
    return rng.normal(size=(300, d)) / np.sqrt(2 * d)


@pytest.mark.parametrize("C", [0.05, 5.0])
@pytest.mark.parametrize("kind", ["independent", "few rows", "low rank"])
@pytest.mark.parametrize("block", [5, 60, "auto", "direct"])
def test_blocks_are_as_stable_as_single_steps(kind, C, block, monkeypatch):
    """Up to 2 B = d, whatever the pairs of a block have in common (theory 10)."""
    rng = np.random.default_rng(3)
    X = rows_of(kind, 120, rng)
    triplets = rng.integers(0, len(X), (400, 3))
    monkeypatch.setattr(_logdet, "DIRECT_DIMENSION", 1000 if block == "direct" else 10)
    model = learner(C=C, block_size="auto" if block == "direct" else block).fit(X, triplets=triplets)
    expected = careful_run(X, triplets, C)
    assert np.sum(expected.tau > 0) > 50
    assert_close(model.shared_, expected.U)


@pytest.mark.parametrize("kind", ["independent", "few rows", "low rank"])
@pytest.mark.parametrize("lam", [0.0, 0.4])
@pytest.mark.parametrize("step", STEPS)
def test_local_blocks_are_local_steps(lam, step, kind, monkeypatch):
    rng = np.random.default_rng(4)
    X, y = rows_of(kind, 60, rng), rng.integers(0, 3, 300)
    triplets, y = rng.integers(0, len(X), (200, 3)), y[: len(X)]
    monkeypatch.setattr(_logdet, "DIRECT_DIMENSION", 1000)
    direct = learner(lam=lam, C=2.0, step=step).fit(X, y, triplets=triplets)
    for block in (1, 30):
        blocked = learner(lam=lam, C=2.0, step=step, block_size=block).fit(X, y, triplets=triplets)
        for A, B in zip(matrices_of(blocked), matrices_of(direct), strict=True):
            assert_close(A, B)


# --- positive definite ----------------------------------------------------------------------------------


def random_steps(n, C, lam, step, dtype, block="auto", d=12):
    rng = np.random.default_rng(0)
    X, y = rng.standard_t(3, size=(400, d)) / np.sqrt(d), rng.integers(0, 3, 400)
    model = learner(C=C, lam=lam, step=step, block_size=block)
    return model.fit(X.astype(dtype), y, triplets=rng.integers(0, 400, (n, 3)))


@pytest.mark.parametrize(("dtype", "limit"), LIMITS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("lam", [0.5, 1.0])
@pytest.mark.parametrize("n", [5_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_positive_definite_up_to_the_documented_limit(n, lam, step, dtype, limit):
    for C in (0.01, 0.3, limit):
        model = random_steps(n, C, lam, step, dtype)
        assert model.n_updates_ > n / 10
        assert smallest(model) > 0


def test_the_limit_is_documented():
    assert f"up to C = {LIMITS[0][1]:,.0f}, or {LIMITS[1][1]:.0f} in float32" in SLMOML.__doc__


@pytest.mark.parametrize(("dtype", "limit"), LIMITS)
@pytest.mark.parametrize("n", [1_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_positive_definite_in_blocks(n, dtype, limit):
    model = random_steps(n, limit, 1.0, "pa1", dtype, block=20, d=40)
    assert model.n_updates_ > n / 10
    assert smallest(model) > 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_beyond_the_limit_matrices_stay_finite(dtype):
    """Where growth is beyond the precision of the products, a block is learned step by step."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(60, 40)) * np.geomspace(1, 1e-3, 40)).astype(dtype)
    for C in (1e6, 1e9):
        model = learner(C=C, block_size=20).fit(X, triplets=rng.integers(0, 60, (2000, 3)))
        assert np.isfinite(model.shared_).all()


@pytest.mark.parametrize("block", [2, "auto"])
@pytest.mark.parametrize("lam", LAMS)
def test_matrices_are_symmetric_to_the_last_bit(lam, block):
    model = learner(lam=lam, C=3.0, block_size=block).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    for M in matrices_of(model):
        np.testing.assert_array_equal(M, M.T)


@pytest.mark.parametrize("lam", [0.5, 1.0])
def test_read_outs_are_positive_definite(lam):
    X, y = np.tile(STREAM.X, (8, 1)), np.tile(STREAM.y, 8)
    model = SLMOML(lam=lam, C=1.0, random_state=0, average=True).fit(X, y, triplets=np.tile(STREAM.triplets, (20, 1)))
    assert inside.n_means(model) > 1
    for label in (None, *model.classes_):
        M = model.metric_matrix(label)
        assert np.linalg.eigvalsh(M)[0] > 0
        np.testing.assert_array_equal(model.set_params(psd="end").metric_matrix(label), M)
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), model.metric_matrix(), atol=1e-10)


# --- locality, weights, degenerate triplets ---------------------------------------------------------------


def test_lam_one_is_the_global_learner():
    model = learner(C=0.3).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    free = learner(C=0.3, lam=1.0).fit(STREAM.X, triplets=STREAM.triplets)
    np.testing.assert_array_equal(model.shared_, free.shared_)
    assert all(np.array_equal(L, np.eye(6)) for L in model.local_)
    assert not np.allclose(model.shared_, np.eye(6))


@pytest.mark.parametrize("block", BLOCKS)
def test_unlabeled_candidates_have_no_local_part(block):
    y = np.where(np.arange(len(STREAM.y)) % 3 == 1, FREE, STREAM.y)
    model = learner(lam=0.4, C=0.3, block_size=block, unlabeled=FREE).fit(STREAM.X, y, triplets=STREAM.triplets)
    expected = run(STREAM.X, STREAM.triplets, y[STREAM.triplets[:, 1:]], 0.4, 0.6, 0.3, n_classes=N_CLASSES)
    assert_same_iterates(model, expected)


@pytest.mark.parametrize("block", [1, "auto"])
@pytest.mark.parametrize("lam", LAMS)
def test_degenerate_triplets_take_no_step_however_large_C(lam, block):
    """p+ = p- of one class, a = -b, and all equal: A = 0 exactly, though the loss is 1 (theory 13)."""
    rows, mirror = np.arange(len(STREAM.X)), 2 * STREAM.X[0] - STREAM.X
    X, y = np.vstack([STREAM.X, mirror]), np.zeros(2 * len(rows))
    triplets = np.concatenate(
        [np.c_[rows[::-1], rows, rows], np.c_[rows, rows, rows], np.c_[0 * rows, rows, rows + len(rows)]]
    )
    model = learner(lam=lam, C=1e6, block_size=block).fit(X, y, triplets=triplets)
    assert model.n_updates_ == 0
    assert model.n_triplets_ == len(triplets)
    assert all(np.array_equal(M, np.eye(6)) for M in matrices_of(model))


def test_weights_multiply_C():
    weights = np.random.default_rng(3).choice([0.0, 0.1, 1.0, 2.5], len(STREAM.triplets))
    for lam in LAMS:
        model = learner(lam=lam, C=0.3).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets, triplet_weight=weights)
        problem = (STREAM.X, STREAM.triplets, STREAM.classes, lam, 1 - lam, 0.3)
        assert_same_iterates(model, run(*problem, weights=weights, n_classes=N_CLASSES))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("lam", LAMS)
def test_float32_stays_float32(lam, block):
    model = learner(lam=lam, C=0.05, block_size=block).fit(
        STREAM.X.astype(np.float32), STREAM.y, triplets=STREAM.triplets
    )
    assert all(M.dtype == np.float32 for M in matrices_of(model))
    assert_same_iterates(model, expected_on_the_fixed_stream(lam, "pa1", 0.05), 1e-4)


@pytest.mark.long
@pytest.mark.parametrize("d", [100, 300, 700])
def test_long_streams_by_the_automatic_path(d):
    rng = np.random.default_rng(d)
    X, triplets = rng.normal(size=(300, d)) / np.sqrt(d), rng.integers(0, 300, (3000, 3))
    expected = careful_run(X, triplets, 0.05)
    assert (expected.tau > 0).mean() > 0.3
    assert_close(learner(C=0.05).fit(X, triplets=triplets).shared_, expected.U)


# --- what it refuses, and that it learns ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "match"),
    [
        *(({"step": step}, "no derivation") for step in ("pa", "smooth", "logistic", "ramp", "rescaled")),
        ({"step": "leap"}, "step"),
        *(({"psd": psd}, "without projection") for psd in ("step", "exact", 5)),
        ({"C": np.inf}, "finite"),
        ({"init": np.diag([1.0, 1, 1, 1, 1, 0])}, "positive definite"),
        ({"init": np.diag([1.0, 1, 1, 1, 1, -1])}, "positive definite"),
    ],
)
def test_what_has_no_derivation_is_refused(params, match):
    model = learner(C=0.3).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    before = model.shared_
    with pytest.raises(ValueError, match=match):
        model.set_params(**params).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    np.testing.assert_array_equal(model.shared_, before)


@pytest.mark.parametrize("size", [1e10, 1e30, 1e60])
def test_rows_beyond_what_a_step_can_hold_are_refused(size):
    """Up to a norm of 1e70 other learners take them; here the inverse grows by C |a|^2, and M was NaN."""
    model = learner(C=1.0).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    before = model.shared_
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="too large"):
            method(STREAM.X * size, STREAM.y, triplets=STREAM.triplets)
        np.testing.assert_array_equal(model.shared_, before)
    scaled = SLMOML(random_state=0).partial_fit(STREAM.X[:1] * size, STREAM.y[:1])
    assert np.isfinite(scaled.partial_fit(STREAM.X * size, STREAM.y).shared_).all()


def test_it_starts_where_it_is_told():
    """init is in the units of X, whatever the scale."""
    init = np.diag([1.0, 2, 3, 4, 5, 6])
    model = SLMOML(init=init, C=1e-12, n_epochs=1).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    assert model.scale_ != 1
    np.testing.assert_allclose(model.metric_matrix(), init, atol=1e-8)


@pytest.mark.parametrize("lam", [0.5, 1.0])
def test_it_learns_as_well_as_the_others(lam):
    """A direction that tells the classes apart, hidden in noise."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = 3 * rng.normal(size=(400, 8))
    X[:, 0] = y + 0.3 * rng.normal(size=400)
    scores = [kind.fit(X[:200], y[:200]).score(X[200:], y[200:]) for kind in (ODML(random_state=0), SLMOML(lam=lam))]
    assert scores[1] > max(0.8, scores[0] - 0.05)
