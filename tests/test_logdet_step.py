"""One LogDet step of SLMOML: what it adds to the inverse, its duality gap, its minimizer (theory 8 and 19.10)."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from helpers import inside
from helpers.streams import fixed_stream
from paloma import SLMOML
from twins.logdet import closed_step, psi

STEPS, APART, TOGETHER, FREE = ("pa1", "pa2"), (0, 1), (2, 2), -1


def learner(**params):
    """Plain iterates: no scale, one pass."""
    return SLMOML(**{"scale": None, "n_epochs": 1, **params})


def violated(seed, classes, d=4):
    """Three rows whose triplet is violated under a random start, labels, and the start."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(d, d))
    init = factor @ factor.T + 0.2 * np.eye(d)
    X = rng.normal(size=(3, d))
    a, b = X[0] - X[1], X[0] - X[2]
    X[[1, 2]] = X[[2, 1]] if a @ init @ a < b @ init @ b else X[[1, 2]]
    return X, np.array([3, *classes]), init


def blocks_of(model, X, classes, lam):
    """(M_0 is init for all) the matrix after the step and A, for each place that the triplet touches."""
    after = {None: model.shared_, **dict(zip(model.classes_, model.local_, strict=True))}
    return [(after[place], A) for place, A in psi(X, [0, 1, 2], *classes, lam, 1 - lam).items()]


def divergence(M, N):
    ratio = np.linalg.solve(N, M)
    return np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(M)


CASES = [(lam, classes) for lam in (1.0, 0.6, 0.0) for classes in (APART, TOGETHER, (FREE, FREE), (FREE, 1))]
CASES = [(lam, classes) for lam, classes in CASES if lam or FREE not in classes]


@pytest.mark.parametrize("margin", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("C", [0.02, 3.0])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("lam", "classes"), CASES)
def test_one_step_adds_to_the_inverse_and_closes_the_duality_gap(lam, classes, step, C, margin):
    for seed in range(5):
        X, y, init = violated(seed, classes)
        model = learner(lam=lam, C=C, step=step, margin=margin, init=init, unlabeled=FREE)
        model.fit(X, y, triplets=[[0, 1, 2]])
        moved = blocks_of(model, X, classes, lam)
        changes = [(np.linalg.inv(M) - np.linalg.inv(init), A) for M, A in moved]
        tau = np.sum(changes[0][0] * changes[0][1]) / np.sum(changes[0][1] ** 2)
        assert tau > 0
        for change, A in changes:  # M^-1 = M_t^-1 + tau A with one tau
            np.testing.assert_allclose(change, tau * A, atol=1e-8 * np.abs(change).max())

        def dual(t, moved=moved, init=init):
            ratios = [np.eye(4) + t * init @ A for _, A in moved]
            if any(np.linalg.eigvals(ratio).real.min() <= 0 for ratio in ratios):
                return -1e9 * (1 + t)  # outside the cone
            value = margin * t + sum(np.linalg.slogdet(ratio)[1] for ratio in ratios)
            return value - (t * t / (4 * C) if step == "pa2" else 0.0)

        slack = max(0.0, margin + sum(np.sum(M * A) for M, A in moved))
        primal = sum(divergence(M, init) for M, _ in moved) + C * (slack if step == "pa1" else slack**2)
        assert dual(tau) == pytest.approx(primal, abs=1e-9)
        upper = C if step == "pa1" else 4 * tau
        best = minimize_scalar(lambda t, dual=dual: -dual(t), bounds=(0, upper), method="bounded")
        assert dual(tau) >= -best.fun - 1e-9
        assert all(np.linalg.eigvalsh(M)[0] > 0 for M, _ in moved)


@pytest.mark.parametrize("margin", [1.0, 2.5])
@pytest.mark.parametrize("C", [0.05, 2.0])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("lam", "classes"), [(1.0, APART), (0.6, APART), (0.6, TOGETHER)])
def test_one_step_is_the_minimizer(lam, classes, step, C, margin):
    """min sum D(M, M_t) + C xi, or C xi^2, by a general convex solver."""
    X, y, init = violated(1, classes)
    X *= 0.5
    model = learner(lam=lam, C=C, step=step, margin=margin, init=init).fit(X, y, triplets=[[0, 1, 2]])
    moved = blocks_of(model, X, classes, lam)
    news, inverse = [cp.Variable(init.shape, PSD=True) for _ in moved], np.linalg.inv(init)
    slack = cp.pos(margin + sum(cp.sum(cp.multiply(new, A)) for new, (_, A) in zip(news, moved, strict=True)))
    apart = sum(cp.trace(new @ inverse) - cp.log_det(new) for new in news)
    problem = cp.Problem(cp.Minimize(apart + C * (slack if step == "pa1" else slack**2)))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    for new, (M, _) in zip(news, moved, strict=True):
        assert not np.allclose(M, init, atol=1e-2)
        np.testing.assert_allclose(M, new.value, atol=2e-4 * np.abs(M).max())
        new.value = M
    assert problem.objective.value <= problem.value + 1e-8


@settings(max_examples=300, deadline=None)
@example(rates=[0.0, 1.0, 2.2250738585072014e-308, 0.0], margin=1.0, C=1.0, squared=False)
@given(
    rates=st.lists(st.floats(0, 1e6) | st.just(0.0) | st.floats(1e-9, 1.0), min_size=4, max_size=4),
    margin=st.floats(0.01, 10),
    C=st.floats(1e-6, 1e4),
    squared=st.booleans(),
)
def test_step_sizes_solve_the_dual(rates, margin, C, squared):
    """g falls through 0 at tau, or is still positive at C; and every 1 - tau q stays positive."""
    p, q, r, s = rates
    gap = margin + p - q + r - s

    def g(tau):
        plus, minus = (sum(x / (1 + sign * tau * x) for x in xs) for sign, xs in ((1, (p, r)), (-1, (q, s))))
        return margin + plus - minus - (tau / (2 * C) if squared else 0.0)

    tau = inside.logdet_step(squared, gap, margin, rates, C)
    if gap <= 0:
        assert tau == 0
        return
    assert tau > 0
    assert tau * max(q, s) < 1
    if not squared and tau == C:
        assert g(C) >= -1e-9 * (margin + p + r)
        return
    assert squared or tau < C
    noise = 1e-14 * (margin + p + r + (q + s) / (1 - tau * max(q, s)))
    assert g(tau * (1 - 1e-9)) > -noise
    assert tau * (1 + 1e-9) * max(q, s) >= 1 or g(tau * (1 + 1e-9)) < noise
    if not squared and r == s == 0:
        assert tau == pytest.approx(closed_step(p - q, p * q, margin, C), rel=1e-6)


def test_a_margin_is_a_scale():
    """Margin m from M_0 with C is margin 1 from M_0 / m with m C, and M is m times that."""
    m, stream = 2.5, fixed_stream()
    wide = learner(C=0.2, margin=m).fit(stream.X, triplets=stream.triplets)
    scaled = learner(C=0.2 * m, init=np.eye(6) / m).fit(stream.X, triplets=stream.triplets)
    np.testing.assert_allclose(m * scaled.shared_, wide.shared_, atol=1e-12)


def test_class_free_triplets_move_the_shared_part_by_lam_tau():
    X, _, init = violated(2, APART)
    model = learner(lam=0.6, C=0.01, init=init).fit(X, triplets=[[0, 1, 2]])
    (A,) = psi(X, [0, 1, 2], FREE, FREE, 0.6, 0.4).values()
    np.testing.assert_allclose(np.linalg.inv(model.shared_), np.linalg.inv(init) + 0.01 * A, atol=1e-10)
    assert model.local_.shape == (0, 4, 4)


def test_one_distance_alone():
    """b = 0: tau = C and a^T M a falls to 1 / (1 / alpha + C); a = 0: b^T M b rises to the margin, if C allows."""
    X = np.array([[0.0, 0.0], [0.5, 0.0]])
    shrunk = learner(C=3.0).fit(X, triplets=[[0, 1, 0]]).shared_
    np.testing.assert_allclose(shrunk, np.diag([1 / (1 + 3.0 * 0.25), 1.0]))
    grown = learner(C=100.0).fit(X, triplets=[[0, 0, 1]]).shared_
    np.testing.assert_allclose(grown, np.diag([4.0, 1.0]))
