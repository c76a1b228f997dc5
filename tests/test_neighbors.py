"""Nearest neighbors under local metrics against the literal search; scores, votes and search vectors."""

import pickle

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

import paloma
from paloma import LODML, LOSL, OASIS, ODML, MetricKNeighborsClassifier
from paloma._rows import evenly_spaced
from paloma._search import pruning, voting
from paloma._search import tiles as _search
from paloma._search.voting import majority
from paloma._spaces.dense.metric import DenseMetric
from paloma.estimators import reader_of
from paloma.neighbors import voters
from twins import mining, neighbors

MEASURE = {ODML: "distance", LODML: "distance", OASIS: "similarity", LOSL: "similarity"}
LOCAL = [LODML, LOSL]
LABELS = np.array(["blue", "green", "red", "teal"])


def problem(n=60, d=5, seed=0, offset=0.0, dtype=float):
    rng = np.random.default_rng(seed)
    y = LABELS[rng.permutation(n) % len(LABELS)]
    X = rng.normal(size=(n, d)) + (y[:, None] == LABELS[:d]) @ np.eye(len(LABELS), d)
    return (X + offset).astype(dtype), y


X, Y = problem()
Q = problem(25, seed=1)[0]


def fitted(kind, X=X, y=Y, **parameters):
    """A metric that has moved well away from the identity."""
    metric = kind(random_state=0, C=0.3, n_epochs=2, **{"guard": False, **parameters}).fit(X, y)
    assert not np.allclose(metric.shared_, np.eye(X.shape[1]), atol=0.05)
    return metric


def matrices(metric):
    return {label: metric.metric_matrix(label).astype(float) for label in (*LABELS, None)}


def start(metric):
    """The matrices before learning, up to their scale."""
    W = np.eye(metric.n_features_in_) if metric.whitener_ is None else metric.whitener_
    return dict.fromkeys((*LABELS, None), W @ W.T)


def literal_values(metric, Q=Q, X=X, y=Y):
    """(n_queries, n_items): squared distances or similarities, in float64."""
    arrays = (A.astype(float) for A in (Q, X))
    return neighbors.local_values(MEASURE[type(metric)], matrices(metric), *arrays, y)


def signed_root(metric, values):
    """pair_score of the raw values."""
    return -np.sign(values) * np.sqrt(abs(values)) if MEASURE[type(metric)] == "distance" else values


@pytest.fixture(params=[(512, 2048), (4, 7), (1, 1)], ids=["one tile", "tiles", "tiles of one"])
def tiles(request, monkeypatch):
    monkeypatch.setattr(_search, "QUERY_TILE", request.param[0])
    monkeypatch.setattr(_search, "ITEM_TILE", request.param[1])


# --- search ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("k", [1, 3, 8, 60])
@pytest.mark.parametrize("psd", ["end", "never"])
@pytest.mark.parametrize("kind", MEASURE)
def test_neighbors_equal_the_literal_ones(kind, psd, k):
    metric = fitted(kind, psd=psd)
    model = MetricKNeighborsClassifier(metric, n_neighbors=k, weights="uniform").fit(X, Y)
    values, ids = neighbors.local_neighbors(MEASURE[kind], matrices(metric), Q, X, Y, k)
    found, rows = model.kneighbors(Q)
    np.testing.assert_array_equal(rows, ids)
    expected = np.sqrt(np.maximum(values, 0)) if MEASURE[kind] == "distance" else values
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.kneighbors(Q, return_distance=False), ids)
    predicted = neighbors.local_predict(MEASURE[kind], matrices(metric), Q, X, Y, k)
    np.testing.assert_array_equal(model.predict(Q), predicted)


def many_classes(rows_per_class, dtype=float, n_queries=120, d=48):
    """40 classes, a metric that knows them, and queries."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(40), rows_per_class))
    centers = rng.normal(size=(40, d))
    rows, queries = centers[y] + rng.normal(size=(len(y), d)), rng.normal(size=(n_queries, d))
    queries += centers[rng.integers(0, 40, n_queries)]
    train = np.repeat(np.arange(40), 6)
    metric = LODML(random_state=0, n_epochs=1).fit((centers[train] + rng.normal(size=(240, d))).astype(dtype), train)
    return metric, rows.astype(dtype), y, queries.astype(dtype)


@pytest.mark.parametrize("kept", [1 << 23, 1 << 12], ids=["one tile", "tiles"])
@pytest.mark.parametrize("rows_per_class", [1, 6])
def test_very_many_classes_are_bounded_and_their_neighbors_equal_the_literal_ones(monkeypatch, rows_per_class, kept):
    metric, rows, y, queries = many_classes(rows_per_class)
    monkeypatch.setattr(pruning, "KEPT", kept)
    asked, forms = [], DenseMetric.some_forms
    monkeypatch.setattr(DenseMetric, "some_forms", lambda *args: asked.append(args[3].mean()) or forms(*args))
    model = MetricKNeighborsClassifier(metric, n_neighbors=1, weights="uniform").fit(rows, y)
    found, ids = model.kneighbors(queries)
    assert asked
    assert np.sum(asked) / (len(asked) // 2) < 0.9
    by_class = {label: metric.metric_matrix(label) for label in range(40)}
    values, expected = neighbors.local_neighbors("distance", by_class, queries, rows, y, 1)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(found, np.sqrt(values), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_change_nothing(monkeypatch, dtype):
    metric, rows, y, queries = many_classes(6, dtype)
    model = MetricKNeighborsClassifier(metric, n_neighbors=3).fit(rows, y)
    bounded = model.kneighbors(queries), model.kneighbors(), model.predict_proba(queries)
    asked, pays = [], pruning.pays
    monkeypatch.setattr(pruning, "pays", lambda *args: asked.append(pays(*args)))
    plain = model.kneighbors(queries), model.kneighbors(), model.predict_proba(queries)
    assert all(asked)
    for one, other in zip((*bounded[0], *bounded[1], bounded[2]), (*plain[0], *plain[1], plain[2]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_floor_is_below_every_form():
    metric, _, _, queries = many_classes(6)
    inner = reader_of(metric).metric.inner
    reference, shares = inner.floor(queries, np.arange(40))
    assert ((shares > 0.0) & (shares < 1.0)).all()
    assert (reference[:, None] * shares <= inner.query_forms(queries, np.arange(40))).all()
    mean = np.mean([inner.matrix(code) for code in range(40)], axis=0)
    for code, share in enumerate(shares):
        least = np.linalg.eigvals(np.linalg.solve(mean, inner.matrix(code))).real.min()
        assert share <= least < share + 1 / 16
    assert not reader_of(fitted(LODML, psd="never")).metric.has_floor


@pytest.mark.parametrize("kind", MEASURE)
def test_another_number_of_neighbors(kind):
    metric = fitted(kind)
    model = MetricKNeighborsClassifier(metric, n_neighbors=3).fit(X, Y)
    found, rows = model.kneighbors(Q, n_neighbors=7)
    _, ids = neighbors.local_neighbors(MEASURE[kind], matrices(metric), Q, X, Y, 7)
    assert found.shape == (25, 7)
    np.testing.assert_array_equal(rows, ids)


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("kind", MEASURE)
def test_float32(kind):
    rows, queries = X.astype(np.float32), Q.astype(np.float32)
    metric = fitted(kind, rows)
    assert metric.shared_.dtype == np.float32
    model = MetricKNeighborsClassifier(metric, n_neighbors=5).fit(rows, Y)
    values, ids = neighbors.local_neighbors(
        MEASURE[kind], matrices(metric), queries.astype(float), rows.astype(float), Y, 5
    )
    found, numbers = model.kneighbors(queries)
    expected = np.sqrt(np.maximum(values, 0)) if MEASURE[kind] == "distance" else values
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert (numbers == ids).mean() > 0.98  # near ties may swap


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-8), (np.float32, 2e-3)])
@pytest.mark.parametrize("kind", [ODML, LODML])
def test_data_far_from_the_origin(kind, dtype, rtol):
    """The expansion of a squared distance would lose all digits at offset 1000 in float32."""
    rows, queries = problem(offset=1000, dtype=dtype)[0], problem(25, seed=1, offset=1000, dtype=dtype)[0]
    metric = fitted(kind, rows)
    model = MetricKNeighborsClassifier(metric, n_neighbors=5).fit(rows, Y)
    found, numbers = model.kneighbors(queries)
    values = np.maximum(literal_values(metric, queries, rows), 0)
    np.testing.assert_allclose(found, np.sqrt(np.take_along_axis(values, numbers, axis=1)), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found**2, np.sort(values, axis=1)[:, :5], rtol=5 * rtol, atol=5 * rtol)
    assert (np.diff(found, axis=1) >= 0).all()


@pytest.mark.parametrize("kind", [ODML, LODML])
def test_a_row_is_its_own_neighbor_at_distance_zero(kind):
    rows, y = problem(offset=1000, dtype=np.float32)
    model = MetricKNeighborsClassifier(fitted(kind, rows, y), n_neighbors=1).fit(rows, y)
    found, numbers = model.kneighbors(rows)
    np.testing.assert_array_equal(numbers[:, 0], np.arange(len(rows)))
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("kind", MEASURE)
def test_of_equal_rows_the_first_comes_first(kind):
    rows, y = np.concatenate([X, X]), np.concatenate([Y, Y])
    model = MetricKNeighborsClassifier(fitted(kind), n_neighbors=2).fit(rows, y)
    numbers = model.kneighbors(Q, return_distance=False)
    np.testing.assert_array_equal(numbers[:, 0] + len(X), numbers[:, 1])


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("kind", MEASURE)
def test_leave_one_out_score_of_a_learner(kind):
    metric = fitted(kind)
    values = literal_values(metric, X, X) * (1 if MEASURE[kind] == "distance" else -1)
    np.fill_diagonal(values, np.inf)
    votes = np.unique(Y, return_inverse=True)[1][np.argsort(values, axis=1, kind="stable")[:, :3]]
    assert metric.leave_one_out_score(X, Y) == pytest.approx(np.mean(np.unique(Y)[majority(votes)] == Y))


# --- votes and the metric of the classifier --------------------------------------------------------------


@pytest.mark.parametrize(
    ("votes", "winner"),
    [
        ([2, 0, 1], 2),
        ([0, 1, 1], 1),
        ([1, 0, 0, 1], 1),
        ([2, 1, 0, 0, 1], 1),
        ([3], 3),
        ([0, 2, 2, 1, 1, 0], 0),
    ],
)
def test_a_tie_goes_to_the_nearest_among_the_tied(votes, winner):
    assert majority(np.array([votes]))[0] == winner


def test_rows_vote_each_for_itself():
    rng = np.random.default_rng(0)
    codes, weights = rng.integers(0, 7, (60, 50)), rng.integers(1, 4, (60, 50)) / 4
    votes = (codes[:, :, None] == np.arange(7)).transpose(0, 2, 1) @ weights[:, :, None]
    first = [[np.argmax(row == c) if c in row else 99 for c in range(7)] for row in codes]
    wanted = np.lexsort((first, -votes[:, :, 0]), axis=1)[:, 0]
    np.testing.assert_array_equal(majority(codes, weights), wanted)


def test_tie_rule_of_predict_and_proba():
    line = np.array([[0.0], [1.0], [2.0], [10.0], [11.0]])
    y = np.array([7, 3, 5, 5, 3])
    metric = ODML(scale=None).fit(line, y, triplets=[[0, 0, 0]])
    model = MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(line, y)
    queries = [[-1.0], [1.9], [10.6]]
    np.testing.assert_array_equal(model.predict(queries), [7, 5, 5])
    proba = model.predict_proba(queries)
    np.testing.assert_allclose(proba, [[1 / 3] * 3, [1 / 3] * 3, [1 / 3, 2 / 3, 0]], atol=1e-6)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], [7, 5, 5])


@pytest.mark.parametrize("weights", ["soft", "uniform", "distance"])
@pytest.mark.parametrize("k", [1, 4, 10])
@pytest.mark.parametrize("kind", MEASURE)
def test_votes_equal_the_literal_ones(kind, k, weights):
    metric = fitted(kind)
    model = MetricKNeighborsClassifier(metric, n_neighbors=k, weights=weights).fit(X, Y)
    if MEASURE[kind] == "similarity" and weights == "distance":
        with pytest.raises(ValueError, match="requires a distance learner"):
            model.predict(Q)
        return
    expected = neighbors.local_shares(MEASURE[kind], matrices(metric), Q, X, Y, k, weights)
    np.testing.assert_allclose(model.predict_proba(Q), expected, atol=1e-8)
    np.testing.assert_array_equal(model.predict(Q), model.classes_[model.predict_proba(Q).argmax(axis=1)])


@pytest.mark.parametrize("weights", ["soft", "uniform"])
@pytest.mark.parametrize("kind", MEASURE)
def test_the_number_of_neighbors_is_the_one_by_which_rows_classify_each_other_best(kind, weights):
    metric = fitted(kind)
    model = MetricKNeighborsClassifier(metric, weights=weights).fit(X, Y)
    counts = [k for k in (3, 5, 7, 10, 14, 20, 28, 40, 56) if k >= {"uniform": 3, "soft": 10}[weights]]
    assert model.n_neighbors_ == neighbors.best_count(MEASURE[kind], start(metric), X, Y, weights, counts)
    same = MetricKNeighborsClassifier(metric, n_neighbors=model.n_neighbors_, weights=weights).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(Q), same.predict_proba(Q))
    assert model.set_params(n_neighbors=2).n_neighbors_ == 2


def test_noisy_labels_ask_for_more_neighbors():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(900, 3))
    clean = (rows[:, 0] > 0).astype(int)
    noisy = np.where(rng.random(900) < 0.3, 1 - clean, clean)
    counts = [MetricKNeighborsClassifier(ODML(random_state=0)).fit(rows, y).n_neighbors_ for y in (clean, noisy)]
    assert counts[0] <= 14
    assert counts[1] == 56


@pytest.mark.parametrize(("n", "n_classes", "most"), [(100, 2, 40), (100, 4, 20), (100, 20, 10), (400, 2, 56)])
def test_no_more_neighbors_than_classes_have_rows(n, n_classes, most):
    rows, y = np.random.default_rng(0).normal(size=(n, 3)), np.arange(n) % n_classes
    assert voting.counts_of("soft", y)[-1] == most
    assert MetricKNeighborsClassifier(ODML(random_state=0)).fit(rows, y).n_neighbors_ <= most
    assert voting.counts_of("uniform", np.zeros(15, int)) == [3, 5, 7, 10, 14]


def test_many_rows_judge_among_some_of_them(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(900, 3))
    y = np.where(rng.random(900) < 0.3, 1, 0) ^ (rows[:, 0] > 0)
    metric = ODML(random_state=0).fit(rows, y)
    monkeypatch.setattr(voters, "MAX_VOTERS", 300)
    some = MetricKNeighborsClassifier(metric).fit(rows, y)
    few = evenly_spaced(np.arange(900), 300)
    assert some.n_neighbors_ == MetricKNeighborsClassifier(metric).fit(rows[few], y[few]).n_neighbors_ > 10


def test_the_number_of_neighbors_follows_rows_and_weights():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(800, 3))
    y = np.where(rng.random(800) < 0.3, 1, 0) ^ (rows[:, 0] > 0)
    model = MetricKNeighborsClassifier(ODML(random_state=0)).partial_fit(rows[:12], y[:12])
    assert model.n_neighbors_ == 10
    model.partial_fit(rows[12:], y[12:])
    assert model.n_neighbors_ == 56
    assert model.set_params(weights="uniform").n_neighbors_ != 3
    assert model.fit(rows[:12], y[:12]).n_neighbors_ < 12


def test_equal_rows_and_few_rows():
    rows, y = np.zeros((4, 2)), np.array([0, 1, 1, 0])
    metric = ODML(scale=None).fit(rows, y, triplets=[[0, 0, 0]])
    for weights in ("soft", "distance"):
        model = MetricKNeighborsClassifier(metric, n_neighbors=4, weights=weights).fit(rows, y)
        np.testing.assert_allclose(model.predict_proba([[0.0, 0.0], [3.0, 4.0]]), 0.5, atol=1e-6)
        model = MetricKNeighborsClassifier(metric, weights=weights).fit(rows, y)
        assert model.kneighbors(return_distance=False).shape == (4, 3)
        assert not (model.kneighbors(return_distance=False) == np.arange(4)[:, None]).any()
    with pytest.raises(ValueError, match="n_neighbors=5 is more than"):
        MetricKNeighborsClassifier(metric, n_neighbors=5).fit(rows, y)
    with pytest.raises(ValueError, match="weights"):
        MetricKNeighborsClassifier(metric, weights="votes").fit(rows, y)


def test_metric_is_cloned_frozen_or_default():
    unfitted, ready = LODML(random_state=0), fitted(LODML)
    model = MetricKNeighborsClassifier(unfitted).fit(X, Y)
    assert not hasattr(unfitted, "classes_")
    assert model.metric_ is not unfitted
    assert MetricKNeighborsClassifier(ready).fit(X, Y).metric_ is ready
    frozen = MetricKNeighborsClassifier(FrozenEstimator(ready)).fit(X, Y)
    np.testing.assert_array_equal(frozen.predict(Q), MetricKNeighborsClassifier(ready).fit(X, Y).predict(Q))
    assert isinstance(MetricKNeighborsClassifier().fit(X, Y).metric_, LODML)


def test_a_metric_that_was_set_since_it_learned_learns_again_also_after_pickling():
    for changed in (fitted(LODML).set_params(C=1.0), fitted(LODML).set_params(C=1.0, n_jobs=1)):
        for metric in (changed, pickle.loads(pickle.dumps(changed))):
            assert MetricKNeighborsClassifier(metric).fit(X, Y).metric_ is not metric
            with pytest.raises(ValueError, match="C of the frozen metric was changed"):
                MetricKNeighborsClassifier(FrozenEstimator(metric)).fit(X, Y)
    learned = pickle.loads(pickle.dumps(fitted(LODML).set_params(n_jobs=1)))
    assert MetricKNeighborsClassifier(learned).fit(X, Y).metric_ is learned


# --- scores ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("psd", ["end", "never"])
@pytest.mark.parametrize("kind", MEASURE)
def test_pairwise_score_equals_pair_score(kind, psd):
    metric = fitted(kind, psd=psd)
    expected = signed_root(metric, literal_values(metric))
    np.testing.assert_allclose(metric.pairwise_score(Q, X, Y), expected, rtol=1e-9, atol=1e-9)
    pairs = np.stack([np.repeat(Q, len(X), axis=0), np.tile(X, (len(Q), 1))], axis=1)
    one_by_one = metric.pair_score(pairs, np.tile(Y, len(Q))).reshape(len(Q), len(X))
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(metric.pairwise_score(Q, X), metric.pair_score(pairs).reshape(len(Q), -1), atol=1e-9)


@pytest.mark.parametrize("kind", LOCAL)
def test_a_class_never_seen_has_the_start_as_its_local_part(kind):
    metric = fitted(kind, scale=None, lam=0.3)
    M = 0.3 * metric.metric_matrix() + 0.7 * np.eye(X.shape[1])
    np.testing.assert_allclose(metric.metric_matrix("violet"), M, rtol=1e-12)
    measure = MEASURE[kind]
    expected = signed_root(metric, neighbors.local_values(measure, {"violet": M}, Q, X, ["violet"] * len(X)))
    unseen = np.repeat("violet", len(X))
    np.testing.assert_allclose(metric.pairwise_score(Q, X, unseen), expected, rtol=1e-9)
    pairs = np.stack([Q, X[: len(Q)]], axis=1)
    np.testing.assert_allclose(metric.pair_score(pairs, unseen[: len(Q)]), np.diag(expected), rtol=1e-9)


@pytest.mark.parametrize("kind", LOCAL)
def test_candidates_of_a_class_never_seen(kind):
    """A fitted metric serves rows of classes that it never met."""
    metric = fitted(kind, scale=None)
    y = np.where(np.arange(len(X)) % 5 == 0, "violet", Y)
    known = {**matrices(metric), "violet": 0.5 * metric.metric_matrix() + 0.5 * np.eye(X.shape[1])}
    model = MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(X, y)
    np.testing.assert_array_equal(model.predict(Q), neighbors.local_predict(MEASURE[kind], known, Q, X, y, 3))


# --- search vectors --------------------------------------------------------------------------------------

ITEM_LABELS = {"seen": Y, "some unseen": np.where(np.arange(len(X)) % 4 == 0, "violet", Y), "none": None}


def raw_values(metric, y):
    """Squared distances, or similarities, back from the scores."""
    scores = metric.pairwise_score(Q, X, y)
    return -np.sign(scores) * scores**2 if MEASURE[type(metric)] == "distance" else scores


@pytest.mark.parametrize("y", ITEM_LABELS.values(), ids=ITEM_LABELS.keys())
@pytest.mark.parametrize("psd", ["end", "never"])
@pytest.mark.parametrize("kind", MEASURE)
def test_inner_products_of_search_vectors(kind, psd, y):
    metric = fitted(kind, psd=psd)
    products = metric.query_vectors(Q) @ metric.item_vectors(X, y).T
    sign = -1 if MEASURE[kind] == "distance" else 1
    np.testing.assert_allclose(sign * products, raw_values(metric, y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("y", ITEM_LABELS.values(), ids=ITEM_LABELS.keys())
@pytest.mark.parametrize("psd", ["end", "never"])
@pytest.mark.parametrize("kind", MEASURE)
def test_balanced_vectors_keep_the_order_under_l2(kind, psd, y):
    metric = fitted(kind, psd=psd)
    items = metric.item_vectors(X, y, for_graph=True)
    queries = metric.query_vectors(Q, for_graph=True)
    assert items.shape[1] == queries.shape[1]
    squared = mining.squared_distances(queries, items)
    direct = raw_values(metric, y) * (1 if MEASURE[kind] == "distance" else -1)
    np.testing.assert_array_equal(np.argsort(squared, axis=1), np.argsort(direct, axis=1))
    # All items have the same length, which is what turns inner products into distances.
    np.testing.assert_allclose(np.linalg.norm(items, axis=1), np.linalg.norm(items[0]), rtol=1e-9)


def test_balanced_columns_have_comparable_spread():
    """What makes graph indexes work: no extra column dominates the distances."""
    items = fitted(LODML).item_vectors(X, Y, for_graph=True)
    spread = items[:, : X.shape[1]].std(axis=0).mean()
    assert items[:, X.shape[1] : -1].std(axis=0).max() < 1.01 * spread


def test_balanced_queries_need_the_items_first():
    with pytest.raises(ValueError, match="Call item_vectors"):
        fitted(LODML).query_vectors(Q, for_graph=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tight_clusters_far_apart(dtype):
    """Rounding of the expanded distances must not choose the neighbors."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 600)
    rows = (rng.normal(size=(10, 10)) * 300)[y] + 0.1 * rng.normal(size=(600, 10))
    rows = rows.astype(dtype)
    direct = np.square(rows[:, None].astype(float) - rows[None].astype(float)).sum(axis=2)
    expected = np.argsort(direct, axis=1, kind="stable")[:, :3]
    metric = paloma.ODML(scale=None, C=1e-12).fit(rows, y, triplets=[[0, 1, 2]])
    found = paloma.MetricKNeighborsClassifier(metric).fit(rows, y).kneighbors(rows, 3, return_distance=False)
    assert (found == expected).mean() > 0.99
    np.fill_diagonal(direct, np.inf)
    direct[y[:, None] != y[None]] = np.inf
    nearest = np.sort(np.argsort(direct, axis=1, kind="stable")[:, :3], axis=1)
    triplets = paloma.triplets.targets_impostors(rows, y, impostor_margin=10.0, n_impostors=1)
    mined = np.sort(triplets[np.argsort(triplets[:, 0], kind="stable"), 1].reshape(600, 3), axis=1)
    assert (mined == nearest).mean() > 0.98


def test_a_device_is_checked():
    metric = fitted(LODML)
    with pytest.raises(ValueError, match="device must be None"):
        paloma.MetricKNeighborsClassifier(metric, device=3).fit(X, Y)
    with pytest.raises(ValueError, match="device must be None"):
        paloma.MetricIndex(metric, device=3)
    assert paloma.MetricKNeighborsClassifier(metric, device=None).fit(X, Y).metric_ is metric
