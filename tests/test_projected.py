"""Dual random projection: index replay, recovery, folding, exact coordinates, sparse rows (theory 9)."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

import paloma
from helpers import inside
from helpers.streams import fixed_stream
from paloma._core.locality import SHARED, UNSEEN
from paloma._spaces.projected import Projected, journal
from paloma._spaces.projected import projection as projected
from paloma._spaces.projected.replayed import ReplayedMetric
from paloma._spaces.projected.space import FEWEST_JUDGED
from paloma._training import guard
from paloma.estimators import reader_of
from paloma.preprocessing import UnitRows
from twins import neighbors

PAIRS = [("LODML", "L2ODML"), ("LOSL", "L2OSL")]
DIGITS, Y = load_digits(return_X_y=True)
DIGITS, Y = UnitRows().fit_transform(DIGITS[:500]), Y[:500]


def low_rank_rows(n=300, d=120, rank=12, noise=1e-3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    latent = rng.normal(size=(n, rank)) + 0.5 * rng.normal(size=(4, rank))[y]
    return latent @ rng.normal(size=(rank, d)) / np.sqrt(d) + noise * rng.normal(size=(n, d)), y


def relative(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize(("dense", "name"), PAIRS)
def test_a_square_orthogonal_projection_is_the_dense_learner(dense, name, average, monkeypatch):
    d = DIGITS.shape[1]
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0]
    monkeypatch.setattr(projected, "random_projection", lambda *_: turn)
    monkeypatch.setattr(inside.projected_module, "spanning", lambda *_: None)
    monkeypatch.setattr(projected.Projection, "deflate", lambda *_: None)
    triplets = paloma.triplets.targets_impostors(DIGITS, Y, random_state=0)
    full = getattr(paloma, dense)(C=0.01, average=average, random_state=0, scale="scalar").fit(
        DIGITS, Y, triplets=triplets
    )
    model = getattr(paloma, name)(C=0.01, average=average, random_state=0, scale="scalar", n_components=d - 1)
    model.set_params(max_journal=None).fit(DIGITS, Y, triplets=triplets)
    assert model.n_updates_ == full.n_updates_ > 100
    assert relative(model.shared_, full.shared_) < 1e-12
    assert relative(model.local_, full.local_) < 1e-12
    assert relative(model.metric_matrix(3), full.metric_matrix(3)) < 1e-10


@pytest.mark.parametrize("kind", ["gaussian", "sparse"])
def test_projections_of_similarities_keep_what_rows_have_in_common(kind):
    """Half of R spans the strongest directions, the rest is off them, and R R^T is the identity on average."""
    rng = np.random.default_rng(0)
    rows = 5.0 + rng.normal(size=(400, 60))  # most of a row's length is common to all
    states = [projected.Projection(60, 20, rows.dtype, False, kind, seed) for seed in range(400)]
    errors = []
    for deflated in (False, True):
        for state in states if deflated else ():
            state.deflate(rows)
        seen = states[0].project(rows)
        errors.append(np.abs(seen @ seen.T - rows @ rows.T).mean())
    assert errors[1] < errors[0] / 5
    for state in states[:3]:
        strong, rest = state.map[:, :10], state.map[:, 10:]
        assert np.allclose(strong.T @ strong, np.eye(10))
        assert np.abs(strong.T @ rest).max() < 1e-12
    assert np.abs(np.mean([state.map @ state.map.T for state in states], axis=0) - np.eye(60)).max() < 0.15


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_projections_of_distances_keep_the_strongest_directions(form):
    """They are exact, the rest is off them, R R^T is the identity on average, and differences err less."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 60)) * 0.8 ** np.arange(60) + (3.0 if form is np.asarray else 0.0)
    kept = [projected.Projection(60, 20, rows.dtype, True, "gaussian", seed) for seed in range(400)]
    plain = [state.map for state in kept]
    for state in kept:
        state.deflate(form(rows))
    gaps = rows[:200] - rows[200:]
    errors = [
        np.mean([((gaps @ R) @ (gaps @ R).T - gaps @ gaps.T) ** 2 for R in maps])
        for maps in (plain[:20], [state.map for state in kept[:20]])
    ]
    assert errors[1] < errors[0] / 4
    about_mean = rows - rows.mean(axis=0)
    best = np.linalg.svd(about_mean, compute_uv=False)[:9]  # the mean may be one direction more
    for state in kept[:3]:
        strong, rest = state.map[:, :10], state.map[:, 10:]
        assert np.allclose(strong.T @ strong, np.eye(10))
        assert np.abs(strong.T @ rest).max() < 1e-12
        assert ((about_mean @ strong) ** 2).sum() > 0.98 * (best**2).sum()
    assert np.abs(np.mean([state.map @ state.map.T for state in kept], axis=0) - np.eye(60)).max() < 0.15


def test_projections_of_distances_stay_random_where_all_directions_are_as_strong():
    rows = np.random.default_rng(0).normal(size=(400, 60)) + 5.0
    state = projected.Projection(60, 8, rows.dtype, True, "gaussian", 0)
    before = state.map.copy()
    state.deflate(rows)
    np.testing.assert_array_equal(state.map, before)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("rows", [np.zeros((7, 60)), np.full((1, 60), 1e150), np.full((3, 60), 1e-200)])
def test_few_or_odd_rows_project_as_well(rows, symmetric):
    state = projected.Projection(60, 20, rows.dtype, symmetric, "gaussian", 0)
    state.deflate(rows)
    assert state.map.shape == (60, 20)
    assert np.isfinite(state.map).all()


@pytest.mark.parametrize(("dense", "name"), PAIRS)
def test_index_replay_equals_dense_replay(dense, name, monkeypatch):
    """U = I - sigma lam sum tau (phi+ - phi-), L_c likewise, from the recorded step sizes (theory 9)."""
    taken = []
    add = journal.Journal.add
    monkeypatch.setattr(
        journal.Journal,
        "add",
        lambda self, X, t, c, tau, mean: (taken.append((t, c, tau)), add(self, X, t, c, tau, mean))[1],
    )
    X, triplets = DIGITS[:80], np.random.default_rng(0).integers(0, 80, (400, 3))
    model = getattr(paloma, name)(scale=None, n_components=20, n_epochs=2, lam=0.3, C=0.01).fit(
        X, Y[:80], triplets=triplets
    )
    distance, d = dense == "LODML", X.shape[1]
    U, L = np.eye(d), np.repeat(np.eye(d)[None], 10, axis=0)
    for t, codes, tau in taken:
        for (p, q, n), (i, j), step in zip(t, codes, tau, strict=True):
            plus = np.outer(X[p] - X[q], X[p] - X[q]) if distance else -np.outer(X[p], X[q])
            minus = np.outer(X[p] - X[n], X[p] - X[n]) if distance else -np.outer(X[p], X[n])
            U -= step * 0.3 * (plus - minus)
            L[i] -= step * 0.7 * plus
            L[j] += step * 0.7 * minus
    assert model.n_updates_ > 200
    assert relative(model.shared_, U) < 1e-12
    assert relative(model.local_, L) < 1e-12


@pytest.mark.parametrize("name", ["L2ODML", "L2OSL"])
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_recovered_metric_is_close_to_the_exact_one(name, noise):
    X, y = low_rank_rows(d=300, rank=60, noise=noise)
    recovered, exact = (
        getattr(paloma, name)(n_components=50, rank=rank, psd="never", random_state=0).fit(X, y) for rank in (80, 300)
    )
    for label in (None, 0, 3):
        assert relative(recovered.metric_matrix(label), exact.metric_matrix(label)) < 0.01


@pytest.mark.parametrize(("dense", "name"), PAIRS)
def test_rows_of_few_directions_are_learned_exactly(dense, name):
    X, y = low_rank_rows(noise=0.0)
    triplets = paloma.triplets.targets_impostors(X, y, random_state=0)
    full, model = (
        getattr(paloma, k)(C=0.01, random_state=0, scale="scalar").fit(X, y, triplets=triplets) for k in (dense, name)
    )
    assert model.exact_
    assert relative(model.shared_, full.shared_) < 1e-9
    outside = np.vstack([X[:3], np.random.default_rng(1).normal(size=(30, X.shape[1]))])
    more = np.random.default_rng(2).integers(0, 33, (50, 3))
    for each in (full, model):
        each.partial_fit(outside, triplets=more)
    assert relative(model.shared_, full.shared_) < 1e-9


@pytest.mark.parametrize("name", ["OASIS", "LOSL", "L2OSL", "L2ODML"])
def test_sparse_and_dense_rows_give_the_same_model(name):
    X = sp.random(200, 60, density=0.2, random_state=0, format="csr")
    y = np.random.default_rng(0).integers(0, 3, 200)
    kind = getattr(paloma, name)
    extra = {"n_components": 30} if name.startswith("L2") else {}
    if name == "L2ODML":
        extra["scale"] = "diagonal"  # "auto" lets labels judge the units of dense rows alone
    models = [
        kind(random_state=0, **extra).fit(rows[:150], y[:150]).partial_fit(rows[150:], y[150:])
        for rows in (X, X.toarray())
    ]
    assert models[0].n_updates_ == models[1].n_updates_ > 100
    assert relative(models[0].shared_, models[1].shared_) < 1e-10
    np.testing.assert_allclose(
        models[0].pairwise_score(X[:20], X, y), models[1].pairwise_score(X[:20].toarray(), X.toarray(), y), atol=1e-8
    )
    sparse, dense = (
        paloma.MetricKNeighborsClassifier(m, n_neighbors=5).fit(r, y)
        for m, r in zip(models, (X, X.toarray()), strict=True)
    )
    np.testing.assert_array_equal(sparse.kneighbors(X)[1], dense.kneighbors(X.toarray())[1])
    q, v = models[0].query_vectors(X[:9]), models[0].item_vectors(X, y)
    products = q @ v.T
    scores = models[0].pairwise_score(X[:9], X, y)
    expected = -np.sign(-scores) * scores**2 if name == "L2ODML" else scores
    np.testing.assert_allclose(products.toarray() if sp.issparse(products) else products, expected, atol=1e-8)


def test_sparse_similarities_equal_the_twin_on_degenerate_streams():
    X, labels, triplets = fixed_stream()
    for step in ("pa1", "pa2", "logistic"):
        dense, sparse = (
            paloma.LOSL(scale=None, psd="never", n_epochs=1, C=0.3, step=step).fit(rows, labels, triplets=triplets)
            for rows in (X, sp.csr_matrix(X))
        )
        assert relative(sparse.shared_, dense.shared_) < 1e-10
        assert relative(sparse.local_, dense.local_) < 1e-10


@pytest.mark.parametrize("name", ["L2ODML", "L2OSL"])
def test_folding_bounds_the_journal_and_costs_little(name):
    X, y = low_rank_rows(n=600)
    kind = getattr(paloma, name)
    whole = kind(n_components=40, rank=40, max_journal=None, random_state=0)
    folded = kind(n_components=40, rank=40, max_journal=500, random_state=0)
    for a in range(0, 600, 60):
        for model in (whole, folded):
            model.partial_fit(X[a : a + 60], y[a : a + 60])
    assert len(inside.state(folded).journal) <= 500 < len(inside.state(whole).journal)
    for label in (None, 2):
        assert relative(folded.metric_matrix(label), whole.metric_matrix(label)) < 0.02
    assert folded.score(X, y) == pytest.approx(whole.score(X, y), abs=0.01)


@pytest.mark.parametrize("projection", ["gaussian", "sparse"])
@pytest.mark.parametrize("name", ["L2ODML", "L2OSL"])
def test_seeded_and_picklable(name, projection):
    models = [
        getattr(paloma, name)(n_components=20, projection=projection, random_state=1).fit(DIGITS, Y) for _ in range(2)
    ]
    models.append(pickle.loads(pickle.dumps(models[0])))
    for model in models:
        model.partial_fit(DIGITS[:50] * 0.9, Y[:50])
    for model in models[1:]:
        np.testing.assert_array_equal(model.shared_, models[0].shared_)


def many_classes(n_classes=30, d=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), 6)
    centers = rng.normal(size=(n_classes, d))
    queries = centers[rng.integers(0, n_classes, 150)] + rng.normal(size=(150, d))
    return centers[y] + rng.normal(size=(len(y), d)), y, queries


@pytest.mark.parametrize("strength", [(1.0, 1.0), (0.7, 0.4), (0.5, 0.5)])
@pytest.mark.parametrize("C", [0.01, 1.0], ids=["few", "many"])
def test_many_classes_are_read_without_their_matrices(strength, C, monkeypatch):
    """Few eigenvalues are negative, or most are."""
    X, y, Q = many_classes()
    metric = paloma.L2ODML(C=C, rank=36, n_components=20, random_state=0).fit(X, y)
    codes, missing = np.arange(30, dtype=np.int32), np.array([SHARED, 3, UNSEEN, 8], np.int32)
    inside.whole(metric).strength = strength
    found = []
    for many in (0, np.inf):
        monkeypatch.setattr(inside.projected_module, "MANY", many)
        inside.whole(metric).metric = None
        read = reader_of(metric).metric.inner
        assert isinstance(read.inner, ReplayedMetric) == (many == 0)
        model = paloma.MetricKNeighborsClassifier(metric, n_neighbors=3).fit(X, y)
        found.append((
            *model.kneighbors(Q), *(read.query_forms(Q, some) for some in (codes, missing, codes[:1])),
            read.query_forms(Q[:1], codes), read.values(Q, Q, codes[np.arange(150) % 30]),
            read.values(Q, Q, missing[np.arange(150) % 4]),
            *(read.matrix(code) for code in (SHARED, UNSEEN, 0, 29)), model.predict_proba(Q),
        ))  # fmt: skip
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())
    by_class = {label: metric.metric_matrix(label) for label in range(30)}
    values, ids = neighbors.local_neighbors("distance", by_class, Q, X, y, 3)
    np.testing.assert_array_equal(found[0][1], ids)
    np.testing.assert_allclose(found[0][0], np.sqrt(np.maximum(values, 0.0)), rtol=1e-8)


def test_many_classes_whose_metrics_are_zero_say_so(monkeypatch):
    X, y, _ = many_classes()
    metric = paloma.L2ODML(C=1.0, rank=36, n_components=20, random_state=0, guard=False).fit(X, y)
    space = inside.whole(metric).space
    space.state.journal.pairs.steps[:] = space.state.journal.pairs.means[:] = 10.0
    monkeypatch.setattr(inside.projected_module, "MANY", 0)
    with pytest.warns(RuntimeWarning, match="A learned metric is 0"):
        read = reader_of(metric).metric.inner.values(X[:1] - X[1:2], X[:1] - X[1:2], np.array([0], np.int32))
    assert read[0] >= 0.0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_the_guard_judges_in_few_directions_where_nothing_is_projected(form, monkeypatch):
    rng = np.random.default_rng(0)
    X, y, seen = form(rng.normal(size=(700, 300)) @ rng.normal(size=(300, 300))), np.arange(700) % 3, []
    taught = guard._taught

    def noted(*arguments):
        seen.append(taught(*arguments))
        return seen[-1]

    monkeypatch.setattr(guard, "_taught", noted)
    metric = paloma.L2ODML(random_state=0).fit(X, y)
    assert [half.space.state.d for half in seen] == [FEWEST_JUDGED, FEWEST_JUDGED]
    assert all(half.space.exact for half in seen)
    assert not metric.exact_
    assert inside.whole(metric).space.state.d == 300
    turned, rows = Projected().turned(X, 3), X.toarray() if sp.issparse(X) else X
    explained = np.linalg.svd(rows, compute_uv=False)[:FEWEST_JUDGED]
    assert (turned**2).sum() >= 0.9 * (explained**2).sum()
    assert [Projected().turned(X, n).shape[1] for n in (100, 1000)] == [150, 300]  # of 300, 256 would save little


def test_clear_refusals():
    wide = sp.csr_matrix((np.ones(60), (np.arange(60), np.arange(60))), (60, 100_000))
    y = np.arange(60) % 2
    with pytest.raises(TypeError, match=r"LODML does not take sparse input.*L2ODML"):
        paloma.LODML().fit(wide, y)
    with pytest.raises(ValueError, match="n_components=80 is more than the 65 features"):
        paloma.L2ODML(n_components=80).fit(DIGITS, Y)
    with pytest.raises(ValueError, match="only supports init='identity'"):
        paloma.L2ODML(init=np.eye(65)).fit(DIGITS, Y)
    model = paloma.L2ODML(random_state=0, n_components=20).fit(wide, y)
    with pytest.raises(ValueError, match="100000 x 100000 metric matrix is too large"):
        model.metric_matrix()
    for raw in ("shared_", "local_"):
        with pytest.raises(ValueError, match="100000 x 100000 metric matrix is too large"):
            getattr(model, raw)
    assert np.isfinite(model.pairwise_score(wide[:5], wide, y)).all()


@pytest.mark.parametrize("limit", [None, 300])
@pytest.mark.parametrize("kind", ["gaussian", "sparse"])
@pytest.mark.parametrize("name", ["L2ODML", "L2OSL"])
def test_averages_take_the_place_of_the_last_iterates(name, kind, limit):
    """In the journal, and in the matrices that learning goes on from, which see it through the map."""
    model = getattr(paloma, name)(C=0.1, n_components=20, projection=kind, max_journal=limit, psd="never")
    model.set_params(rank=DIGITS.shape[1], guard=False, scale="scalar", random_state=0).fit(DIGITS, Y)
    whole, means, last = inside.whole(model), model.metric_matrix(3), model.shared_
    whole.space.adopt(whole.counts.blend())
    whole.counts.n_means, whole.metric = 0, None
    assert relative(model.shared_, last) > 1e-3
    assert relative(model.metric_matrix(3), means) < 1e-10
    state = inside.state(model)
    seen = state.map.T @ (state.map.T @ (model.shared_ - np.eye(len(means))).T).T + np.eye(20)
    assert relative(state.inner.shared, seen) < 1e-10
