"""OKS and OMKS: exact in blocks, equal to the dense learners where theory says so, budgets, several kernels."""

import pickle
from functools import cache

import numpy as np
import pytest
from sklearn.utils import check_random_state

import paloma
from axes import BLOCKS, GAMMA, GRAMS, LAMS, MEASURES, RULES, STEP_PARAMS, STREAM, C, T, X, Y, oks, omks, tuples
from helpers.data import IRIS, LABELS
from helpers.streams import N_CLASSES
from same import assert_close, squares
from twins.kernel import all_values, rbf
from twins.kernel import run as kernel_run
from twins.stacked import run as dense_run


def assert_like_twin(model, run, grams, measure, lam, init=1.0):
    expected = all_values(measure, grams, run, Y, lam, 1.0 - lam, init)
    assert_close(squares(model.pairwise_score(X[::5], X, Y), measure), expected)
    assert model.loss_ == pytest.approx(run.loss / len(run.tau), rel=1e-10)
    sure = np.sum((run.tau > 1e-12).any(axis=1))
    perhaps = np.sum(((run.tau > 0) | (np.abs(run.e) < 1e-12)).any(axis=1))  # a loss that is zero up to rounding
    assert sure <= model.n_updates_ <= perhaps


@cache
def twin(measure, lam, rule, kernel):
    params = {"step": rule, "step_params": STEP_PARAMS.get(rule), "n_classes": N_CLASSES}
    return kernel_run([GRAMS[kernel]], T, STREAM.classes, lam, 1.0 - lam, C, measure, **params)


# --- exact in blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("measure", "lam", "rule", "block"), tuples(MEASURES, LAMS, RULES, BLOCKS))
def test_blocks_are_the_sequential_twin(measure, lam, rule, block):
    """With all kernel values kept, or (half of the rules) computed again for each block."""
    params = {"step": rule, "step_params": STEP_PARAMS.get(rule), "cache_size": 1000 * (RULES.index(rule) % 2)}
    model = oks(lam=lam, measure=measure, block_size=block, **params).fit(X, Y, triplets=T)
    assert_like_twin(model, twin(measure, lam, rule, "rbf"), [GRAMS["rbf"]], measure, lam)


@pytest.mark.parametrize("lam", [0.4, 1.0])
@pytest.mark.parametrize("measure", MEASURES)
def test_normalized_kernels_margins_weights_and_starts(measure, lam):
    weights = np.resize([1.0, 0.25, 0.0, 3.0], len(T))
    model = oks("poly", lam=lam, measure=measure, init="zero", margin=0.7)
    model.fit(X, Y, triplets=T, triplet_weight=weights)
    more = {"margin": 0.7, "weights": weights, "init": 0.0}
    expected = kernel_run([GRAMS["poly"]], T, STREAM.classes, lam, 1 - lam, C, measure, **more)
    assert_like_twin(model, expected, [GRAMS["poly"]], measure, lam, init=0.0)


@pytest.mark.parametrize("block", [7, "auto"])
def test_candidates_without_a_class(block):
    y = np.where(np.arange(len(Y)) % 3 == 1, -1, Y)
    model = oks(lam=0.4, unlabeled=-1, block_size=block).fit(X, y, triplets=T)
    expected = kernel_run([GRAMS["rbf"]], T, y[T[:, 1:]], 0.4, 0.6, C)
    assert_like_twin(model, expected, [GRAMS["rbf"]], "similarity", 0.4)
    free = oks(lam=0.4, block_size=block).fit(X, triplets=T)
    expected = kernel_run([GRAMS["rbf"]], T, STREAM.class_free, 0.4, 0.6, C)
    K, A = GRAMS["rbf"], expected.A[0].sum(axis=0)
    assert_close(free.pairwise_score(X, X), K + 0.4 * K @ A @ K)
    assert len(free.local_) == 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("name", "measure"), [("OASIS", "similarity"), ("ODML", "distance")])
def test_a_linear_kernel_is_the_global_learner(name, measure, rule):
    params = {"C": C, "step": rule, "step_params": STEP_PARAMS.get(rule), "scale": None, "n_epochs": 1}
    dense = getattr(paloma, name)(psd="never", **params).fit(X, Y, triplets=T)
    model = paloma.OKS(kernel="linear", measure=measure, **params).fit(X, Y, triplets=T)
    assert_close(squares(model.pairwise_score(X, X), measure), squares(dense.pairwise_score(X, X), measure))
    support = model.support_
    start = np.eye(X.shape[1])
    assert_close(start + support.T @ model.shared_ @ support, dense.shared_)


@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize(("name", "measure"), [("LOSL", "similarity"), ("LODML", "distance")])
def test_a_linear_kernel_with_classes_is_the_local_learner(name, measure, lam):
    params = {"C": C, "lam": lam, "scale": None, "n_epochs": 1}
    dense = getattr(paloma, name)(psd="never", **params).fit(X, Y, triplets=T)
    model = paloma.OKS(kernel="linear", measure=measure, **params).fit(X, Y, triplets=T)
    for y in (Y, None, Y + 2):  # classes, the shared part, classes never seen
        assert_close(squares(model.pairwise_score(X, X, y), measure), squares(dense.pairwise_score(X, X, y), measure))
    pairs = np.stack([X, X[::-1]], axis=1)
    assert_close(squares(model.pair_score(pairs, Y[::-1]), measure), squares(dense.pair_score(pairs, Y[::-1]), measure))
    assert model.triplet_score(X, T, Y) == dense.triplet_score(X, T, Y)
    support = model.support_
    for k in range(N_CLASSES):
        assert_close(np.eye(X.shape[1]) + support.T @ model.local_[k] @ support, dense.local_[k])


def test_step_sizes_are_those_of_oasis():
    """Triplets without a common row: each step size stands by itself in the coefficients."""
    rng = np.random.default_rng(0)
    rows, triplets = rng.normal(size=(90, 5)), np.arange(90).reshape(30, 3)
    model = paloma.OKS(kernel="linear", scale=None, n_epochs=1, C=0.05).fit(rows, triplets=triplets)
    tau = dense_run("similarity", rows, triplets, np.full((30, 2), -1), 1.0, 0.0, 0.05).tau
    assert 0 < np.count_nonzero(tau) < 30
    place = {row.tobytes(): k for k, row in enumerate(model.support_)}
    for (p, q, n), t in zip(triplets, tau, strict=True):
        if t:
            p, q, n = (place[rows[k].tobytes()] for k in (p, q, n))
            assert model.shared_[p, q] == pytest.approx(t, rel=1e-10)
            assert model.shared_[p, n] == pytest.approx(-t, rel=1e-10)


def test_scaled_a_linear_kernel_is_still_oasis():
    dense = paloma.OASIS(C=1e-3, n_epochs=1).fit(X, Y, triplets=T)
    model = paloma.OKS(kernel="linear", C=1e-3, n_epochs=1).fit(X, Y, triplets=T)
    assert_close(model.pairwise_score(X, X), dense.pairwise_score(X, X), 1e-9)


# --- going on -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [None, 12])
@pytest.mark.parametrize("when_full", ["keep", "forget"])
@pytest.mark.parametrize("cuts", [(1,), (64,), (10, 11, 90)])
def test_partial_fit_continues_exactly(cuts, when_full, budget):
    params = {"lam": 0.5, "budget": budget, "when_full": when_full}
    whole, parts, apart = (oks(**params) for _ in range(3))
    whole.fit(X, Y, triplets=T)
    for part in np.split(T, cuts):
        parts.partial_fit(X, Y, triplets=part)
        rows, numbers = np.unique(part, return_inverse=True)
        apart.partial_fit(X[rows], Y[rows], triplets=numbers.reshape(part.shape))
    for model in (parts, apart):
        assert_close(model.pairwise_score(X, X, Y), whole.pairwise_score(X, X, Y))
        assert len(model.support_) == len(whole.support_)
        assert model.n_updates_ == whole.n_updates_


def test_points_instead_of_rows_are_recognized():
    model = oks().fit(None, triplets=X[T])
    expected = oks().fit(X, triplets=T)
    assert_close(model.pairwise_score(X, X), expected.pairwise_score(X, X))
    assert len(model.support_) == len(expected.support_) == len(np.unique(model.support_, axis=0))


@pytest.mark.parametrize("kind", ["oks", "omks"])
def test_pickle_goes_on_exactly(kind):
    sampled = omks(combination="stochastic", random_state=0)
    model = oks(budget=15, when_full="forget", lam=0.5) if kind == "oks" else sampled
    model.partial_fit(X, Y, triplets=T[:50])
    copy = pickle.loads(pickle.dumps(model))
    for each in (model, copy):
        each.partial_fit(X, Y, triplets=T[50:])
    np.testing.assert_array_equal(copy.shared_, model.shared_)
    np.testing.assert_array_equal(copy.local_, model.local_)


def test_averages_are_those_of_the_iterates():
    """Averaged read-out: means of the index matrices are means of scores."""
    rng = np.random.default_rng(1)
    triplets = rng.integers(0, len(X), (2100, 3))
    averaged, dense = (
        kind.fit(X, Y, triplets=triplets)
        for kind in (
            paloma.OKS(kernel="linear", lam=0.5, C=0.01, average=True, n_epochs=1),
            paloma.LOSL(lam=0.5, C=0.01, average=True, n_epochs=1),
        )
    )
    assert_close(averaged.pairwise_score(X, X, Y), dense.pairwise_score(X, X, Y), 1e-9)


# --- the budget ---------------------------------------------------------------------------------------------

DISTINCT = np.unique(X, axis=0)
PLAIN = np.random.default_rng(5).integers(0, len(DISTINCT), (80, 3))
PLAIN_Y = np.arange(len(DISTINCT)) % N_CLASSES


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("when_full", ["keep", "forget"])
@pytest.mark.parametrize("budget", [3, 10, 21])
def test_a_budget_is_the_twins(budget, when_full, block):
    model = oks(lam=0.4, budget=budget, when_full=when_full, block_size=block).fit(DISTINCT, PLAIN_Y, triplets=PLAIN)
    K = rbf(DISTINCT, GAMMA)
    run = kernel_run([K], PLAIN, PLAIN_Y[PLAIN[:, 1:]], 0.4, 0.6, C, budget=budget, when_full=when_full)
    np.testing.assert_array_equal(np.unique(model.support_, axis=0), DISTINCT[run.support])
    form = K + K @ (0.4 * run.A[0].sum(axis=0)) @ K / 1.0
    assert_close(model.pairwise_score(DISTINCT, DISTINCT), form)


@pytest.mark.parametrize("when_full", ["keep", "forget"])
@pytest.mark.parametrize("budget", [3, 8])
@pytest.mark.parametrize("make", [oks, omks])
def test_a_budget_is_never_exceeded(make, budget, when_full):
    model = make(budget=budget, when_full=when_full)
    for triplet in T:
        model.partial_fit(X, Y, triplets=triplet[None])
        assert len(model.support_) <= budget
    assert model.shared_.shape[-1] <= budget
    rows = oks(budget=budget, when_full=when_full, random_state=0)
    for a in range(5):
        rows.partial_fit(IRIS[a::5], LABELS[a::5])
        assert len(rows.support_) <= budget


# --- several kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("combination", ["deterministic", "uniform"])
@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_one_kernel_is_oks(name, combination):
    many = omks([name], lam=0.4, combination=combination).fit(X, Y, triplets=T)
    one = oks(name, lam=0.4, normalize=True).fit(X, Y, triplets=T)
    np.testing.assert_array_equal(many.pairwise_score(X, X, Y), one.pairwise_score(X, X, Y))
    np.testing.assert_array_equal(many.shared_[0], one.shared_)
    assert many.weights_ == [1.0]
    assert many.loss_ == one.loss_


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("combination", ["deterministic", "stochastic", "uniform"])
@pytest.mark.parametrize("measure", MEASURES)
def test_several_kernels_are_the_twin(measure, combination, block):
    params = {"combination": combination, "beta": 0.9, "delta": 0.1, "measure": measure, "lam": 0.4}
    model = omks(**params, block_size=block, random_state=3).fit(X, Y, triplets=T)
    seed = check_random_state(3).randint(np.iinfo(np.int32).max)
    draws = np.random.default_rng(seed).random((len(T), 2)) if combination == "stochastic" else None
    grams = list(GRAMS.values())
    beta = 1.0 if combination == "uniform" else 0.9
    run = kernel_run(grams, T, STREAM.classes, 0.4, 0.6, C, measure, beta=beta, draws=draws, delta=0.1)
    assert run.mistakes.any(axis=0).all()
    assert_close(model.weights_, run.theta[-1], 1e-9)
    rounds, weights = model.weights_path_
    assert_close(weights, run.theta[rounds], 1e-9)
    assert_like_twin(model, run, grams, measure, 0.4)


@pytest.mark.parametrize("combination", ["deterministic", "stochastic"])
def test_cutting_a_stream_changes_nothing(combination):
    whole, parts = (omks(combination=combination, lam=0.5, random_state=0) for _ in range(2))
    whole.partial_fit(X, Y, triplets=T)
    for part in np.split(T, [3, 40, 41]):
        parts.partial_fit(X, Y, triplets=part)
    assert_close(parts.pairwise_score(X, X, Y), whole.pairwise_score(X, X, Y))
    np.testing.assert_array_equal(parts.weights_, whole.weights_)


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.99])
def test_regret_of_a_simulated_stream(beta, monkeypatch):
    """Freund & Schapire (1997), theorem 2: sum theta z <= (ln m + ln(1/beta) min_r sum z_r) / (1 - beta)."""
    rng = np.random.default_rng(7)
    rows, labels = rng.normal(size=(300, 6)), np.arange(300) % 3
    rows += 1.5 * np.eye(6)[labels]
    triplets = paloma.triplets.random_triplets(labels, 1500, rng)
    played = []
    play = paloma._core.hedge.Hedge.play

    def recorded(self, mistakes, taking_part):
        played.append((mistakes * taking_part, play(self, mistakes, taking_part)))
        return played[-1][1]

    monkeypatch.setattr(paloma._core.hedge.Hedge, "play", recorded)
    kernels = ["linear", ("rbf", {"gamma": 0.05}), ("rbf", {"gamma": 5.0}), "poly"]
    model = paloma.OMKS(kernels=kernels, beta=beta, n_epochs=1, random_state=0).fit(rows, labels, triplets=triplets)
    mistakes, theta = (np.concatenate(column) for column in zip(*played, strict=True))
    assert mistakes.shape == theta.shape == (1500, 4)
    totals = mistakes.sum(axis=0)
    assert totals.min() > 50
    assert totals.max() > 1.1 * totals.min()
    assert (theta * mistakes).sum() <= (np.log(4) + np.log(1 / beta) * totals.min()) / (1 - beta)
    assert np.argmax(model.weights_) == np.argmin(totals)


def test_only_new_triplets_count_for_the_weights():
    one, four = (omks(n_epochs=n).fit(X, Y, triplets=T) for n in (1, 4))
    np.testing.assert_array_equal(four.weights_, one.weights_)
    assert four.n_triplets_ == 4 * one.n_triplets_
    assert one.weights_path_[0][-1] == four.weights_path_[0][-1] == len(T)


@pytest.mark.parametrize("seed", range(12))
def test_weights_of_kernels_do_not_depend_on_blocks_if_rows_are_at_distance_0(seed):
    """Under the cosine kernel, multiples of a row are at distance 0, and rounding must not say which is nearer."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(8, 4))
    rows, y = np.concatenate([rows, 2 * rows, 3 * rows, rng.normal(size=(6, 4))]), np.tile([0, 1], 15)
    triplets, weights = rng.integers(0, 30, (200, 3)), []
    for block in (1, 7, 50, "auto"):
        model = paloma.OMKS(measure="distance", kernels=["cosine", "rbf", "polynomial"], block_size=block, n_epochs=1)
        weights.append(model.fit(rows, y, triplets=triplets).weights_)
    for other in weights[1:]:
        np.testing.assert_allclose(other, weights[0], atol=1e-12)


@pytest.mark.parametrize("kind", [paloma.OKS, paloma.OMKS])
@pytest.mark.parametrize("measure", MEASURES)
def test_equal_rows_have_equal_values_whatever_the_batch(kind, measure):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(37, 7)).astype(np.float32)
    rows, queries = np.concatenate([rows, rows[:5], rows, rows]), rng.normal(size=(33, 7)).astype(np.float32)
    y = rng.integers(0, 3, len(rows))
    metric = kind(measure=measure, random_state=0, n_epochs=1).fit(rows, y)
    model = paloma.MetricKNeighborsClassifier(metric, n_neighbors=1).fit(rows, y)
    scores = metric.pairwise_score(queries, rows, y)
    np.testing.assert_array_equal(scores[:, :37], scores[:, -37:])
    alone = np.concatenate([model.predict(queries[k : k + 1]) for k in range(33)])
    np.testing.assert_array_equal(model.predict(queries), alone)
    values, found = model.kneighbors(queries, 100)
    assert all(len(set(row)) == 100 for row in found.tolist())
    np.testing.assert_array_equal(np.sort(values), values if measure == "distance" else values[:, ::-1])
    order = np.lexsort((np.arange(len(rows)) + np.zeros_like(scores), -scores), axis=1)
    np.testing.assert_array_equal(found[:, :5], order[:, :5])
