"""One weight per feature: against its twin, a convex solver, full matrices at the boundary, and at 100,000 features."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import paloma
from axes import LAMS, RULES, STEP_PARAMS, tuples
from helpers.streams import N_CLASSES, fixed_stream
from paloma import DiagonalODML, MetricIndex, MetricKNeighborsClassifier
from paloma import _mixing as mixing
from paloma.estimators import model_of, settings_of, widen, with_model
from same import assert_close
from twins.diagonal import matrices, psi, run

X, Y, T = fixed_stream()
C, LAM = 0.05, 0.4
PLAIN = {"scale": None, "n_epochs": 1, "psd": "never", "C": C}


def assert_twin(model, expected):
    shared, local = matrices(expected)
    assert_close(model.shared_, shared)
    for k in range(len(model.local_)):
        assert_close(model.local_[k], local[k])


def twin(lam=LAM, classes=None, **options):
    return run(X, T, Y[T[:, 1:]] if classes is None else classes, lam, 1.0 - lam, C, n_classes=N_CLASSES, **options)


# -- the iterates: test_axes compares rules, policies, localities and blocks -------------------------------------------


@pytest.mark.parametrize(("lam", "rule", "forget"), tuples(LAMS, RULES, (0.0, 0.03, 0.9)))
def test_forgetting_and_weights(lam, rule, forget):
    options = {"step": rule, "step_params": STEP_PARAMS.get(rule), "forget": forget}
    weights = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 2.0], len(T))
    model = DiagonalODML(lam=lam, **PLAIN, **options).fit(X, Y, triplets=T, triplet_weight=weights)
    expected = twin(lam, weights=weights, **options)
    assert (expected.tau > 0).sum() > 10
    assert_twin(model, expected)
    assert model.loss_ == pytest.approx(np.maximum(expected.e, 0.0).mean(), rel=1e-10)


def test_labels_in_some_calls_only():
    labeled = (np.arange(len(T)) // 7) % 3 != 1
    model = DiagonalODML(lam=LAM, forget=0.02, **PLAIN).partial_fit(X, Y, triplets=T[:0])
    for a in range(0, len(T), 7):
        model.partial_fit(X, Y if labeled[a] else None, triplets=T[a : a + 7])
    assert_twin(model, twin(classes=np.where(labeled[:, None], Y[T[:, 1:]], -1), forget=0.02))


def test_one_feature_is_a_full_matrix():
    """Then the diagonal is all there is, and C is that of LODML."""
    for psd in ("never", "step", "exact", 7):
        options = PLAIN | {"psd": psd, "lam": LAM}
        full, diagonal = (k(**options).fit(X[:, :1], Y, triplets=T) for k in (paloma.LODML, DiagonalODML))
        assert 20 < full.n_updates_ == diagonal.n_updates_
        assert_close(diagonal.local_, full.local_, 1e-7)
        assert_close(diagonal.shared_, full.shared_, 1e-7)


def test_degenerate_triplets_take_no_step():
    """p+ = p-; and a = -b in each feature up to its sign, which full matrices do tell apart."""
    rows = np.array([[1.0, 2.0], [1.5, 1.0], [0.5, 1.0], [1.5, 1.0]])
    model = DiagonalODML(scale=None, step="pa").fit(rows, triplets=[[0, 1, 3], [0, 1, 2], [0, 2, 1]])
    assert model.n_updates_ == 0
    np.testing.assert_array_equal(model.shared_, np.eye(2))


@pytest.mark.parametrize("classes", [(0, 1), (1, 1)])
@pytest.mark.parametrize("cap", [0.3, 50.0])
@pytest.mark.parametrize("psd", ["never", "exact"])
def test_one_step_is_the_minimizer(psd, cap, classes):
    """Min |Theta - Theta_t|^2 / 2 + C d loss, inside the cone if psd is exact, where some weights end at 0."""
    rng, moved = np.random.default_rng(1), 0
    model = DiagonalODML(lam=LAM, psd=psd, scale=None, C=C).fit(X, Y, triplets=T[:40])
    for _ in range(10):
        rows, y = 1.5 * rng.normal(size=(4, 6)), np.array([3, *classes, 2])
        before = [np.diag(M) for M in (model.shared_, *model.local_)]
        shared, local = psi(*rows[:3], *classes, LAM, 1.0 - LAM)
        new = [cp.Variable(6) for _ in before]
        value = new[0] @ shared + sum(new[c + 1] @ part for c, part in local.items())
        distance = sum(cp.sum_squares(a - b) for a, b in zip(new, before, strict=True)) / 2
        cone = [v >= 0 for v in new] if psd == "exact" else []
        problem = cp.Problem(cp.Minimize(distance + cap * 6 * cp.pos(1 + value)), cone)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        count = model.n_updates_
        model.set_params(C=cap).partial_fit(rows, y, triplets=[[0, 1, 2]])
        moved += model.n_updates_ - count
        after = [np.diag(M) for M in (model.shared_, *model.local_)]
        assert np.abs(np.array(after) - [v.value for v in new]).max() < 1e-5 * np.abs(after).max()
    assert moved > 2
    if psd == "exact":
        assert min(map(np.min, after)) == 0.0


def test_pairs():
    rng = np.random.default_rng(2)
    pairs, targets = rng.integers(0, len(X), (80, 2)), rng.choice([-1, 1], 80)
    model = DiagonalODML(lam=LAM, pair_threshold=3.0, **PLAIN).fit(X, Y, pairs=pairs, pair_targets=targets)
    shared, local = np.ones(6), np.ones((N_CLASSES, 6))
    for (p, q), s in zip(pairs, targets, strict=True):
        phi, c = (X[p] - X[q]) ** 2, Y[q]
        gap = 1.0 + s * ((LAM * shared + (1 - LAM) * local[c]) @ phi - 3.0)
        norm = (LAM**2 + (1 - LAM) ** 2) * (phi @ phi)
        tau = min(6 * C, max(gap, 0.0) / norm) if norm else 0.0
        shared -= tau * s * LAM * phi
        local[c] -= tau * s * (1 - LAM) * phi
    assert_close(model.shared_, np.diag(shared))
    assert_close(model.local_, np.array([np.diag(row) for row in local]))


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("project", ["components", "effective"])
@pytest.mark.parametrize("psd", ["never", "end"])
def test_reading_is_that_of_the_matrices(psd, project):
    model = DiagonalODML(lam=LAM, C=0.5, psd=psd, project=project, average=False, random_state=0, guard=False).fit(X, Y)
    factor = model.scale_**-2
    U, L = model.shared_, model.local_
    clip = (lambda M: np.maximum(M, 0.0)) if psd == "end" else (lambda M: M)
    inner, outer = (clip, lambda M: M) if project == "components" else (lambda M: M, clip)
    assert min(U.min(), L.min()) < 0
    expected = {k: factor * outer(LAM * inner(U) + (1 - LAM) * inner(L[k])) for k in range(N_CLASSES)}
    expected |= {None: factor * outer(inner(U)), 99: LAM * factor * outer(inner(U)) + (1 - LAM) * factor * np.eye(6)}
    for label, M in expected.items():
        np.testing.assert_allclose(model.metric_matrix(label), M, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(model.feature_weights_, np.diag(expected[None]), rtol=1e-12, atol=1e-14)
    labels = np.where(np.arange(len(X)) % 5, Y, 99)
    delta = X[:9, None] - X[None]
    direct = np.array([[v @ expected[c] @ v for v, c in zip(row, labels, strict=True)] for row in delta])
    scores = model.pairwise_score(X[:9], X, labels)
    np.testing.assert_allclose(-np.sign(scores) * scores**2, direct, rtol=1e-9, atol=1e-12)
    products = model.query_vectors(X[:9]) @ model.item_vectors(X, labels).T
    np.testing.assert_allclose(-products, direct, rtol=1e-7, atol=1e-10)


def test_averages_are_read_out():
    triplets = np.random.default_rng(0).integers(0, len(X), (2048, 3))
    model = DiagonalODML(lam=LAM, average=True, **PLAIN).fit(X, Y, triplets=triplets)
    one, two = (
        matrices(run(X, part, Y[part[:, 1:]], LAM, 1 - LAM, C, n_classes=N_CLASSES))
        for part in (triplets[:1024], triplets)
    )
    for k in range(N_CLASSES):  # the first has weight 1, the second 4 / 5
        expected = [LAM * U + (1 - LAM) * L[k] for U, L in (one, two)]
        assert_close(model.metric_matrix(k), 0.2 * expected[0] + 0.8 * expected[1])


# -- what may happen to it ---------------------------------------------------------------------------------------------


def test_classes_come_and_go():
    model = DiagonalODML(lam=LAM, random_state=0)
    for a in range(0, len(X), 30):
        model.partial_fit(X[a : a + 30], Y[a : a + 30])
    before = model.local_
    model.forget_classes([1])
    np.testing.assert_array_equal(model.local_, before[[0, 2, 3]])
    model.partial_fit(X, Y)
    assert model.classes_.tolist() == [0, 1, 2, 3]


def test_new_features():
    """They were 0 so far: learning goes on as if they had been there."""
    wide = np.hstack([X, np.zeros((len(X), 2))])
    later = wide + 0.3 * np.random.default_rng(0).normal(size=wide.shape) * (np.arange(8) > 5)
    model, whole = (DiagonalODML(lam=LAM, average=True, **(PLAIN | {"C": c})) for c in (C, C * 6 / 8))
    model.fit(X, Y, triplets=np.tile(T, (8, 1)))
    whole.fit(wide, Y, triplets=np.tile(T, (8, 1)))
    widen(model, 8)
    for each in (model, whole.set_params(C=C)):
        each.partial_fit(later, Y, triplets=np.tile(T, (6, 1)))
    assert_close(model.shared_, whole.shared_)
    assert_close(model.metric_matrix(2), whole.metric_matrix(2))
    with pytest.raises(ValueError, match="fixed number of features; LODML"):
        widen(paloma.L2ODML().fit(X, Y), 8)


def test_shards_are_averaged():
    model = DiagonalODML(lam=LAM, psd=50, random_state=0).fit(X, Y)
    settings, codes = settings_of(model), Y.astype(np.int32)
    parts, near = np.array_split(np.arange(len(X)), 3), settings.mining.near
    shards = [
        mixing.learn_shard(settings, model_of(model), X, codes, np.arange(len(X)), near(X, codes, rows), rng)
        for rows, rng in zip(parts, map(np.random.default_rng, range(3)), strict=True)
    ]
    after = with_model(model, mixing.join(model_of(model), mixing.mix(shards), settings.choice))
    each = [with_model(model, shard.model) for shard in shards]
    weights = np.array([shard.tally.updates for shard in shards]) / sum(shard.tally.updates for shard in shards)
    assert_close(after.shared_, np.maximum(np.tensordot(weights, [m.shared_ for m in each], 1), 0.0))
    assert_close(after.local_, np.maximum(np.tensordot(weights, [m.local_ for m in each], 1), 0.0))


@pytest.mark.parametrize(
    ("params", "rows", "error", "message"),
    [
        ({"regions": 3, "soft_regions": True}, X, ValueError, "DiagonalODML .* only supports soft_regions=False"),
        ({"init": np.eye(6)}, X, ValueError, "DiagonalODML only supports init='identity'.*columns of X"),
        ({"init": "zero"}, X, ValueError, "init must be"),
        ({}, sp.csr_matrix(X), TypeError, "DiagonalODML does not take sparse input"),
    ],
)
def test_what_it_refuses(params, rows, error, message):
    with pytest.raises(error, match=message):
        DiagonalODML(**params).fit(rows, Y)


# -- many features -----------------------------------------------------------------------------------------------------


def test_100_000_features():
    rng, y, d = np.random.default_rng(0), np.arange(90) % 3, 100_000
    rows = rng.normal(size=(90, d)).astype(np.float32)
    rows[:, :200] += 1.5 * rng.normal(size=(3, 200))[y]
    model = DiagonalODML(lam=0.5, random_state=0, reservoir_size=8).fit(rows[:60], y[:60])
    assert model.feature_weights_.dtype == np.float32
    assert np.median(np.argsort(np.argsort(-model.feature_weights_))[:200]) < 500
    assert MetricKNeighborsClassifier(model).fit(rows[:60], y[:60]).score(rows[60:], y[60:]) > 0.95
    values = model.pairwise_score(rows[60:], rows[:60], y[:60]) ** 2
    pairs = np.stack([rows[60:70], rows[:10]], axis=1)
    np.testing.assert_allclose(model.pair_distance(pairs, y[:10]) ** 2, values[np.arange(10), np.arange(10)], rtol=1e-3)
    products = model.query_vectors(rows[60:]).astype(float) @ model.item_vectors(rows[:60], y[:60]).T.astype(float)
    np.testing.assert_allclose(-products, values, rtol=1e-3, atol=1e-3 * values.max())
    index = MetricIndex(model)
    index.add(rows[:60], y[:60])
    assert (y[index.search(rows[60:], 1)[1][:, 0]] == y[60:]).mean() > 0.95
    Z = model.transform(rows[:2])
    assert np.linalg.norm(Z[0] - Z[1]) == pytest.approx(model.pair_distance(rows[None, :2])[0], rel=1e-3)
    model.partial_fit(rows[60:], y[60:])
    for ask in ("shared_", "local_", "components_"):
        with pytest.raises(ValueError, match="100000 x 100000 metric matrix is too large"):
            getattr(model, ask)
    with pytest.raises(ValueError, match="too large to build; feature_weights_ is its diagonal"):
        model.metric_matrix(0)
