"""The oracles of the theory (section 19): facts that hold whatever way the code is written."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from axes import DENSE, GLOBAL, LAMS, LOCAL, MEASURES, RULES, STEP_PARAMS, learner, weights_of
from helpers.streams import N_CLASSES, fixed_stream
from twins.stacked import gradient, project, read_out, run
from twins.steps import step_size

STREAM = fixed_stream(seed=5, d=5, n_triplets=60)
APART, TOGETHER = (0, 1), (2, 2)  # classes of the positive and the negative: i != j, i == j


def one_triplet(i, j, seed=0, d=5):
    """Three rows, the positive of class i, the negative of class j; a fourth, so that two classes exist."""
    X = np.random.default_rng(seed).normal(size=(4, d)) * 0.8
    return X, np.array([3, i, j, 4]), np.array([[0, 1, 2]])


def start(y, d=5):
    """The (U, {label: L}) that learning starts from."""
    return np.eye(d), {c: np.eye(d) for c in y}


def constraint(name, lam, X, y, triplet, U, L, margin=1.0):
    """margin + <Theta, Psi> of one triplet; L: a matrix for each label."""
    shared, local = gradient(DENSE[name], *X[triplet], *y[triplet[1:]], *weights_of(name, lam))
    return margin + np.sum(U * shared) + sum(np.sum(L[c] * part) for c, part in local.items())


def state(model, d=5):
    """(U, {label: L}); a global learner has no local part, so the identity stands for it."""
    if type(model).__name__ in GLOBAL.values():
        return np.array(model.shared_), {c: np.eye(d) for c in model.classes_}
    return np.array(model.shared_), {c: np.array(model.local_[k]) for k, c in enumerate(model.classes_)}


def close(actual, expected, tolerance=1e-10):
    return np.abs(np.asarray(actual) - expected).max() <= tolerance * max(1.0, np.abs(expected).max())


# --- 1: the uncapped step lands on the constraint ------------------------------------------------------


@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("classes", [APART, TOGETHER])
@pytest.mark.parametrize("name", DENSE)
def test_an_uncapped_step_meets_its_constraint(name, classes, lam):
    X, y, triplets = one_triplet(*classes)
    X[[1, 2]] = X[[2, 1]] if constraint(name, lam, X, y, triplets[0], *start(y)) <= 0 else X[[1, 2]]
    before = constraint(name, lam, X, y, triplets[0], *start(y))
    model = learner(name, lam=lam, step="pa").fit(X, y, triplets=triplets)
    assert before > 0.1
    assert abs(constraint(name, lam, X, y, triplets[0], *state(model))) < 1e-12


# --- 2: one step is the minimizer of its problem -------------------------------------------------------


def solve(shared, local, U, L, C, step):
    """Problems (1), (6), (9), (15) without the cone, by a general convex solver."""
    new = cp.Variable(U.shape)
    news = {c: cp.Variable(U.shape) for c in local}
    loss = 1 + cp.sum(cp.multiply(new, shared))
    moved = cp.sum_squares(new - U)
    for c, part in local.items():
        loss += cp.sum(cp.multiply(news[c], part))
        moved += cp.sum_squares(news[c] - L[c])
    penalty = cp.pos(loss) if step == "pa1" else cp.square(cp.pos(loss))
    cp.Problem(cp.Minimize(moved / 2 + C * penalty)).solve(solver=cp.CLARABEL)
    return new.value, {c: v.value for c, v in news.items()}


@pytest.mark.parametrize("step", ["pa1", "pa2"])
@pytest.mark.parametrize("C", [0.01, 50.0])
@pytest.mark.parametrize("classes", [APART, TOGETHER])
@pytest.mark.parametrize("name", DENSE)
def test_one_step_is_the_minimizer(name, classes, C, step):
    lam, labels = 0.3, np.arange(N_CLASSES)
    model = learner(name, lam=lam, C=C, step=step).fit(STREAM.X, STREAM.y, triplets=STREAM.triplets[:3])
    U, L = state(model)
    rng = np.random.default_rng(1)
    for _ in range(100):  # a triplet that is violated now
        X, y = rng.normal(size=(4, 5)), np.array([3, *classes, 1])
        if constraint(name, lam, X, y, np.array([0, 1, 2]), U, L) > 0.5:
            break
    shared, local = gradient(DENSE[name], *X[:3], *classes, *weights_of(name, lam))
    best_U, best_L = solve(shared, local, U, L, C, step)
    after_U, after_L = state(model.partial_fit(X, y, triplets=np.array([[0, 1, 2]]), classes=labels))
    assert not close(after_U, U, 1e-4)
    assert close(after_U, best_U, 1e-5)
    if name in LOCAL.values():
        assert all(close(after_L[c], best_L[c], 1e-5) for c in best_L)
        assert all(np.array_equal(after_L[c], L[c]) for c in labels if c not in best_L)


# --- the step rules against a one-dimensional minimizer (section 1) -------------------------------------


def least(function, upper):
    """The least value of a convex function on [0, upper]."""
    inner = minimize_scalar(function, bounds=(0, upper), method="bounded", options={"xatol": 1e-13})
    return min(inner.fun, function(0.0), function(upper))


def loss_of(rule, z, start):
    """The loss that the rule is the proximal step of; `start` is l before the step (rescaled: its weight)."""
    hinge = np.maximum(0.0, 1.0 - z)
    if rule == "pa2":
        return hinge**2
    if rule == "smooth":
        gamma = 0.5
        return np.where(hinge < gamma, hinge**2 / (2 * gamma), hinge - gamma / 2)
    if rule == "logistic":
        return np.logaddexp(0.0, -z)
    if rule == "ramp":
        return hinge if start < 2.0 else 0.0 * hinge
    if rule == "rescaled":
        eta = 0.5
        return eta / (1 - np.exp(-eta)) * np.exp(-eta * start) * hinge
    return hinge


@pytest.mark.parametrize("C", [0.02, 0.5, 4.0])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "pa"])
def test_step_sizes_minimize_the_proximal_objective(rule, C):
    """min over tau of tau^2 N / 2 + C loss(z + tau N); the same tau moves an estimator."""
    X, y, triplets = one_triplet(*APART)
    a, b = X[0] - X[1], X[0] - X[2]
    psi = np.outer(a, a) - np.outer(b, b)
    N, seen = np.sum(psi**2), 0
    for shift in (-2.0, -0.5, 0.2, 0.9, 1.6, 3.0):
        init = np.eye(5) - (1 - shift + np.trace(psi)) / N * psi  # so that 1 + <init, psi> = shift
        z = 1.0 - shift
        tau = step_size(rule, shift, N, C)

        def objective(t, z=z, shift=shift):
            return t**2 * N / 2 + C * loss_of(rule, z + t * N, max(0.0, shift))

        assert objective(tau) <= least(objective, 2 * C + 1 / N) + 1e-13
        model = learner("ODML", C=C, step=rule, init=init).fit(X, y, triplets=triplets)
        assert close(model.shared_, init - tau * psi, 1e-9)
        assert model.n_updates_ == (tau > 0)
        seen += tau > 0
    assert seen >= 3


@pytest.mark.parametrize(
    ("rule", "params"),
    [("smooth", {"gamma": 2.0}), ("ramp", {"level": 0.8}), ("rescaled", {"eta": 1.5}),
     ("rescaled", {"eta": 1.5, "beta": 0.7})],
)  # fmt: skip
def test_step_params_reach_the_rule(rule, params):
    problem = ("distance", STREAM.X, STREAM.triplets, STREAM.classes, 0.5, 0.5, 0.4)
    expected = run(*problem, step=rule, step_params=params)
    default = run(*problem, step=rule)
    model = learner("LODML", C=0.4, step=rule, step_params=params)
    model.fit(STREAM.X, STREAM.y, triplets=STREAM.triplets)
    assert close(model.shared_, expected.U)
    assert not close(default.U, expected.U, 1e-4)


# --- 3, 4, 5, 12: exact relations between problems ------------------------------------------------------


def options(rule):
    return {"step": rule, "step_params": STEP_PARAMS.get(rule)}


def fitted(name, rule="pa1", X=STREAM.X, **params):
    return learner(name, **options(rule), **params).fit(X, STREAM.y, triplets=STREAM.triplets)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("measure", MEASURES)
def test_lam_one_is_the_global_learner(measure, rule):
    local, whole = fitted(LOCAL[measure], rule, lam=1.0, C=0.2), fitted(GLOBAL[measure], rule, C=0.2)
    assert close(local.shared_, whole.shared_, 1e-12)
    assert all(np.array_equal(L, np.eye(5)) for L in local.local_)
    assert not np.allclose(local.shared_, np.eye(5))


@pytest.mark.parametrize("lam", [0.0, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", LOCAL.values())
def test_the_shared_part_is_the_sum_of_the_local_ones(name, rule, lam):
    model = fitted(name, rule, lam=lam, C=0.2)
    change = sum(L - np.eye(5) for L in model.local_)
    assert np.abs(change).max() > 1e-3
    assert close(model.shared_ - np.eye(5), lam / (1 - lam) * change)


@pytest.mark.parametrize("g", [0.5, 3.0])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", LOCAL.values())
def test_only_the_ratio_and_the_scaled_C_matter(name, rule, g):
    """(lam, mu, C) -> (g lam, g mu, C / g^2) with M_0 = I held gives the same M_c."""
    lam, mu, C = 0.3, 0.7, 0.2
    model = fitted(name, rule, lam=lam, C=C)
    other = run(DENSE[name], STREAM.X, STREAM.triplets, STREAM.classes, g * lam, g * mu, C / g**2,
                **options(rule), U0=np.eye(5) / g)  # fmt: skip
    for k in range(N_CLASSES):
        M = lam * model.shared_ + mu * model.local_[k]
        assert close(g * lam * other.U + g * mu * other.L[k], M)
        assert close(model.metric_matrix(model.classes_[k]), M)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", DENSE)
def test_scaling_the_features(name, rule):
    """x -> g x, C -> C / g^4, Theta_0 -> Theta_0 / g^2 gives Theta / g^2."""
    g, C = 3.0, 0.2
    plain = fitted(name, rule, C=C)
    scaled = fitted(name, rule, g * STREAM.X, C=C / g**4, init=np.eye(5) / g**2)
    assert close(g**2 * scaled.shared_, plain.shared_)
    assert all(close(g**2 * A, B) for A, B in zip(scaled.local_, plain.local_, strict=True))


# --- 8, 9: what a metric says about pairs ---------------------------------------------------------------


@pytest.mark.parametrize("scale", [None, "auto"])
@pytest.mark.parametrize("name", DENSE)
def test_translation(name, scale):
    """Distances do not change when data and queries move together; similarities do."""
    X, moved = STREAM.X, STREAM.X + 2.0
    here = fitted(name, C=0.2, scale=scale).pairwise_score(X[:20], X, STREAM.y)
    there = fitted(name, X=moved, C=0.2, scale=scale).pairwise_score(moved[:20], moved, STREAM.y)
    assert close(there, here, 1e-6) == (DENSE[name] == "distance")


@pytest.mark.parametrize("scale", [None, "auto"])
@pytest.mark.parametrize("psd", ["never", "end"])
@pytest.mark.parametrize("name", DENSE)
def test_vectors_for_inner_product_search(name, psd, scale):
    """query . item is minus the squared local distance, or the similarity; the item's class chooses M."""
    X, y = STREAM.X, STREAM.y
    model = fitted(name, C=1.0, psd=psd, scale=scale)
    Q = np.random.default_rng(0).normal(size=(7, 5))
    products = model.query_vectors(Q) @ model.item_vectors(X, y).T
    direct = np.empty((len(Q), len(X)))
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        M = model.metric_matrix(None if name in GLOBAL.values() else label)
        distance = DENSE[name] == "distance"
        direct[:, t] = -np.sum((Q - x) @ M * (Q - x), axis=1) if distance else Q @ M @ x
    assert close(products, direct, 1e-9)
    scores = model.pairwise_score(Q, X, y)  # for distances the signed root
    assert close(scores * np.abs(scores) if distance else scores, direct, 1e-9)


# --- 11 and the p.s.d. policies -------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [APART, TOGETHER])
@pytest.mark.parametrize("C", [0.05, 10.0])
@pytest.mark.parametrize("name", ["ODML", "LODML"])
def test_the_exact_step_closes_the_duality_gap(name, C, classes):
    """From the boundary of the cone: the primal value against the best of the one-dimensional dual."""
    moved = 0
    for seed in range(6):
        X, y, triplets = one_triplet(*classes, seed=seed)
        factor = np.random.default_rng(seed + 50).normal(size=(5, 2))
        init = factor @ factor.T
        shared, local = gradient("distance", *X[:3], *classes, *weights_of(name, 0.5))
        parts = [shared, *(local.values() if name == "LODML" else [])]
        U, L = state(learner(name, C=C, psd="exact", init=init).fit(X, y, triplets=triplets))
        news = [U, *([L[c] for c in local] if name == "LODML" else [])]

        def lagrangian(news, tau, parts=parts, init=init):
            pairs = list(zip(news, parts, strict=True))
            return sum(np.sum((new - init) ** 2) / 2 + tau * np.sum(new * part) for new, part in pairs) + tau

        def minus_dual(tau, parts=parts, init=init, lagrangian=lagrangian):
            return -lagrangian([project(init - tau * part) for part in parts], tau)

        primal = max(lagrangian(news, 0.0), lagrangian(news, C))  # C times the hinge
        assert abs(primal + least(minus_dual, C)) < 1e-8
        assert all(np.linalg.eigvalsh(new).min() > -1e-9 for new in news)
        moved += not np.allclose(U, init)
    assert moved >= 2


@pytest.mark.parametrize("name", ["ODML", "LODML"])
def test_the_exact_step_is_pa1_where_the_cone_is_inactive(name):
    plain, exact = fitted(name, C=1e-3), fitted(name, C=1e-3, psd="exact")
    U, L = state(plain)
    assert all(np.linalg.eigvalsh(M).min() > 0.1 for M in (U, *L.values()))
    assert not np.allclose(U, np.eye(5), atol=1e-3)
    assert close(exact.shared_, U)
    assert all(close(A, B) for A, B in zip(exact.local_, plain.local_, strict=True))


@pytest.mark.parametrize("block", [1, 7, "auto"])
@pytest.mark.parametrize("psd", ["step", "exact", 1, 5, 17])
@pytest.mark.parametrize("name", ["ODML", "LODML"])
def test_projection_policies(name, psd, block):
    model = fitted(name, C=1.0, psd=psd, block_size=block)
    problem = ("distance", STREAM.X, STREAM.triplets, STREAM.classes, *weights_of(name, 0.5), 1.0)
    expected, raw = run(*problem, psd=psd), run(*problem)
    assert not close(raw.U, expected.U, 1e-3)  # the cone matters on this stream
    assert close(model.shared_, expected.U, 1e-8)
    if name == "LODML":
        assert all(close(model.local_[k], expected.L[k], 1e-8) for k in range(N_CLASSES))


@pytest.mark.parametrize("name", ["ODML", "LODML"])
def test_end_is_a_read_out(name):
    """The state of psd='end' is that of 'never'; what it answers with is projected, each component."""
    model, raw = fitted(name, C=1.0, psd="end"), fitted(name, C=1.0, psd="never")
    assert np.array_equal(model.shared_, raw.shared_)
    lam, mu = weights_of(name, 0.5)
    U, L = state(raw)
    assert min(np.linalg.eigvalsh(M).min() for M in (U, *L.values())) < -0.01
    U, L = read_out(U, np.array(list(L.values())))
    assert close(model.metric_matrix(), U)
    for k, label in enumerate(model.classes_):
        assert close(model.metric_matrix(label), lam * U + mu * L[k])
