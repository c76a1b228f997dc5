"""Learning from pairs: the step against a solver, the stream against the twin, errors."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import paloma
from axes import BLOCKS, DENSE, GLOBAL, LOCAL, MEASURES, RULES, STEP_PARAMS, learner, tuples, weights_of
from helpers.streams import N_CLASSES, fixed_stream
from twins.pairs import pair_value_and_feature, run_pairs

STREAM = fixed_stream()
X, Y = STREAM.X, STREAM.y
RNG = np.random.default_rng(5)
PAIRS = RNG.integers(0, len(X), (120, 2))
PAIRS[::17, 1] = PAIRS[::17, 0]  # a row with itself: no step for a distance
TARGETS = RNG.choice([-1, 1], 120)
C, B = 0.3, 2.5


def twin(name, lam=0.5, classes=None, **options):
    lam, mu = weights_of(name, lam)
    classes = Y[PAIRS[:, 1]] if classes is None else classes
    return run_pairs(DENSE[name], X, PAIRS, TARGETS, classes, lam, mu, C, B, n_classes=N_CLASSES, **options)


def assert_same(model, expected, tolerance=1e-10):
    U, L = expected
    assert np.abs(model.shared_ - U).max() <= tolerance * np.abs(U).max()
    for k, label in enumerate(model.classes_[: len(model.local_)]):
        assert np.abs(model.local_[k] - L[label]).max() <= tolerance * np.abs(L[label]).max()


@pytest.mark.parametrize(("name", "rule", "block"), tuples(DENSE, RULES, BLOCKS))
def test_equals_the_twin(name, rule, block):
    options = {"step": rule, "step_params": STEP_PARAMS.get(rule)}
    model = learner(name, C=C, block_size=block, pair_threshold=B, **options)
    model.fit(X, Y, pairs=PAIRS, pair_targets=TARGETS)
    assert_same(model, twin(name, **options))


@pytest.mark.parametrize("kind", ["points", "class-free", "calls", "sparse", "projected", "forgetting"])
@pytest.mark.parametrize("measure", MEASURES)
def test_other_ways_to_give_them(measure, kind):
    free = kind in ("points", "class-free")
    name, options = LOCAL[measure], {"forget": 0.02} if kind == "forgetting" else {}
    expected = twin(name, classes=np.full(len(PAIRS), -1) if free else None, **options)
    if kind == "projected":
        name, options = name.replace("L", "L2", 1), {"n_components": X.shape[1]}
    rows = sp.csr_matrix(X) if kind == "sparse" and measure == "similarity" else X
    model = learner(name, C=C, pair_threshold=B, **options)
    if kind == "points":
        model.partial_fit(None, pairs=X[PAIRS], pair_targets=TARGETS)
    elif kind == "class-free":
        model.partial_fit(X, pairs=PAIRS, pair_targets=TARGETS)
    else:
        for a in range(0, len(PAIRS), 7):
            model.partial_fit(rows, Y, pairs=PAIRS[a : a + 7], pair_targets=TARGETS[a : a + 7])
    assert_same(model, expected)


@pytest.mark.parametrize("target", [-1, 1])
@pytest.mark.parametrize("cap", [0.01, 10.0])
@pytest.mark.parametrize("lam", [0.3, 1.0])
@pytest.mark.parametrize("measure", MEASURES)
def test_one_step_is_the_minimizer(measure, lam, cap, target):
    """min 1/2 |U - U_t|^2 + 1/2 |L - L_t|^2 + C xi with 1 + s sigma (value - b) <= xi, by a solver."""
    rows, d = np.random.default_rng(1).normal(size=(8, 5)), 5
    name = LOCAL[measure] if lam < 1 else GLOBAL[measure]
    model = learner(name, C=cap, lam=lam)
    model.partial_fit(rows, [0, 0, 1, 1, 0, 0, 1, 1], triplets=[[0, 1, 2], [3, 2, 5]])
    U0, L0 = model.shared_, model.local_[1] if lam < 1 else np.eye(d)
    sigma, phi = pair_value_and_feature(measure, rows[4], rows[6])
    b, before = float(np.sum((lam * U0 + (1 - lam) * L0) * phi)) + 0.1, model.n_updates_
    model.set_params(pair_threshold=b)  # near the value, so that both targets ask for a step
    model.partial_fit(rows, [0, 0, 1, 1, 0, 0, 1, 1], pairs=[[4, 6]], pair_targets=[target])
    U, L, xi = cp.Variable((d, d)), cp.Variable((d, d)), cp.Variable(nonneg=True)
    value = lam * cp.sum(cp.multiply(U, phi)) + (1 - lam) * cp.sum(cp.multiply(L, phi))
    distance = cp.sum_squares(U - U0) / 2 + cp.sum_squares(L - L0) / 2
    problem = cp.Problem(cp.Minimize(distance + cap * xi), [1 + target * sigma * (value - b) <= xi])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assert np.abs(model.shared_ - U.value).max() < 1e-6
    if lam < 1:
        assert np.abs(model.local_[1] - L.value).max() < 1e-6
    assert model.n_updates_ == before + 1


@pytest.mark.parametrize("labeled", [True, False])
@pytest.mark.parametrize("name", [*DENSE, "L2ODML", "L2OSL"])
def test_pairs_tell_classes_apart(name, labeled):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    rows = np.hstack([2 * rng.normal(size=(3, 4))[y] + rng.normal(size=(300, 4)), 3 * rng.normal(size=(300, 6))])
    pairs, new = rng.integers(0, 200, (4000, 2)), rng.integers(200, 300, (1000, 2))
    targets, new_targets = (np.where(y[p[:, 0]] == y[p[:, 1]], 1, -1) for p in (pairs, new))
    parameters = {"random_state": 0} | ({"C": 1e-3} if name in ("OASIS", "LOSL", "L2OSL") else {})
    model = getattr(paloma, name)(**parameters)
    model.fit(rows[:200], y[:200] if labeled else None, pairs=pairs, pair_targets=targets)
    found = model.predict_pairs(new, y[new[:, 1]] if labeled else None, X=rows)
    right = [np.mean(found[new_targets == s] == s) for s in (-1, 1)]
    assert np.mean(right) > 0.65  # .58 for a distance, .59 for a similarity before learning


@pytest.mark.parametrize("target", [1, -1])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_pair_counts_for_the_class_of_its_second_row(measure, target):
    first, second = (int(np.flatnonzero(label == Y)[-1]) for label in (0, 1))
    model = learner(LOCAL[measure], C=1e-9, margin=50.0, pair_threshold=B)
    model.partial_fit(X, Y, pairs=[[first, second]] * 3, pair_targets=[target] * 3)
    np.testing.assert_array_equal(np.isfinite(model.long_run_loss_), model.classes_ == 1)
    sign, feature = pair_value_and_feature(measure, X[first], X[second])
    assert model.long_run_loss_[1] == pytest.approx(50.0 + target * sign * (np.trace(feature) - B), rel=1e-6)


def test_the_first_pairs_fix_the_threshold():
    model = paloma.LODML(margin=0.1, scale="scalar").partial_fit(X, Y, pairs=PAIRS, pair_targets=TARGETS)
    before = model.threshold_
    values = ((X[PAIRS[:, 0]] - X[PAIRS[:, 1]]) ** 2).sum(axis=1) / model.scale_**2
    assert before == pytest.approx((values[TARGETS > 0].mean() + values[TARGETS < 0].mean()) / 2)
    model.partial_fit(3 * X, Y, pairs=PAIRS, pair_targets=TARGETS)
    assert model.threshold_ == before
    for scale in ("scalar", "full"):
        given = paloma.LODML(margin=0.1, init=3 * np.eye(6), scale=scale)
        given.partial_fit(X, Y, pairs=PAIRS, pair_targets=TARGETS)
        assert given.threshold_ == pytest.approx(3 * before * model.scale_**2)
    with pytest.raises(AttributeError, match="once pairs have been learned"):
        _ = paloma.LODML().fit(X, Y).threshold_


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pairs": [[0, 1]]}, r"pair_targets must be \+1 .* got none"),
        ({"pairs": [[0, 1]], "pair_targets": [0]}, "got other values"),
        ({"pairs": [[0, 1]], "pair_targets": [1, 1]}, r"got shape \(2,\)"),
        ({"pairs": [[0, 900]], "pair_targets": [1]}, "got row 900"),
        ({"pairs": [[0.5, 1]], "pair_targets": [1]}, "row numbers"),
        ({"pairs": [[0, 1]], "pair_targets": [1], "triplets": [[0, 1, 2]]}, "not both"),
        ({"pair_targets": [1]}, "pair_targets requires pairs"),
        ({"pairs": [[0, 1]], "pair_targets": [1], "triplet_weight": [-1.0]}, "not negative"),
    ],
)
def test_refused_before_anything_changes(arguments, message):
    model = paloma.LODML(random_state=0).fit(X, Y)
    before = model.shared_
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, Y, **arguments)
    assert np.array_equal(model.shared_, before)
    with pytest.raises(ValueError, match="early_stopping"):
        paloma.LODML(early_stopping=True).fit(X, Y, pairs=PAIRS, pair_targets=TARGETS)
