"""Regions instead of classes: hard and soft learning against twins, scoring and search without labels."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import paloma
from axes import BLOCKS, LOCAL, MEASURES, learner
from helpers import inside
from helpers.streams import fixed_stream
from twins.regions import run_soft, run_soft_pairs, soft_shares
from twins.stacked import run

STREAM = fixed_stream(n_families=8)
X, T = STREAM.X, STREAM.triplets
C, LAM = 0.3, 0.4
CLUSTERS = KMeans(4, n_init=1, random_state=0).fit(X)
RULES = {"pa1": None, "logistic": None, "ramp": {"level": 1.7}}


def relative(found, expected):
    return np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()


def made(measure, name=None, **options):
    return learner(name or LOCAL[measure], C=C, lam=LAM, **{"regions": CLUSTERS, **options})


@pytest.mark.parametrize("regions", [CLUSTERS, CLUSTERS.predict], ids=["clusterer", "function"])
@pytest.mark.parametrize("kind", ["dense", "projected", "sparse"])
@pytest.mark.parametrize("measure", MEASURES)
def test_given_regions_are_classes_of_rows(measure, kind, regions):
    name = LOCAL[measure].replace("L", "L2", 1) if kind == "projected" else LOCAL[measure]
    rows = sp.csr_matrix(X) if (kind, measure) == ("sparse", "similarity") else X
    model = made(measure, name, regions=regions, **({"n_components": 6} if kind == "projected" else {}))
    model.fit(rows, triplets=T)
    expected = run(measure, X, T, CLUSTERS.labels_[T[:, 1:]], LAM, 1 - LAM, C, n_classes=4)
    assert relative(model.shared_, expected.U) < 1e-10
    assert relative(model.local_, expected.L) < 1e-10


@pytest.mark.parametrize("forget", [0.0, 0.03])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("measure", MEASURES)
def test_soft_regions_equal_the_twin(measure, rule, block, forget):
    options = {"step": rule, "step_params": RULES[rule], "forget": forget}
    model = made(measure, soft_regions=True, block_size=block, **options)
    for a, b in ((0, 40), (40, 41), (41, 150)):
        model.partial_fit(X, triplets=T[a:b])
    spread = inside.regions(model).spread
    nearest = ((X[:, None] - CLUSTERS.cluster_centers_) ** 2).sum(axis=2).min(axis=1)
    assert spread == pytest.approx(nearest.mean())  # the rows are the same in every call
    shares = soft_shares(X, CLUSTERS.cluster_centers_)
    assert (np.count_nonzero(shares, axis=1) > 1).mean() > 0.3
    U, L = run_soft(measure, X, T, shares, LAM, 1 - LAM, C, **options)
    assert relative(model.shared_, U) < 1e-10
    assert relative(model.local_, L) < 1e-10


@pytest.mark.parametrize("psd", ["never", "end"])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("measure", MEASURES)
def test_scores_and_search_need_no_labels(measure, soft, psd):
    """M(x) by the candidate's place: pair scores, matrices, neighbors and the single inner product agree."""
    model = made(measure, soft_regions=soft, psd=psd).fit(X, triplets=T)
    Q = X[:7] + 0.1
    shares = inside.regions(model).places(X)
    if not soft:
        shares = np.eye(4)[shares]
    M = np.tensordot(shares, [model.metric_matrix(r) for r in range(4)], 1)
    if measure == "distance":
        delta = Q[:, None] - X
        values = np.einsum("qxi,xij,qxj->qx", delta, M, delta)
        expected = -np.sign(values) * np.sqrt(np.abs(values))
    else:
        values = expected = np.einsum("qi,xij,xj->qx", Q, M, X)
    np.testing.assert_allclose(model.pairwise_score(Q, X), expected, rtol=1e-7, atol=1e-7)
    pairs = np.stack([Q[:, None] + 0 * X, 0 * Q[:, None] + X], axis=2).reshape(-1, 2, 6)
    np.testing.assert_allclose(model.pair_score(pairs), expected.ravel(), rtol=1e-9, atol=1e-9)
    products = model.query_vectors(Q) @ model.item_vectors(X).T
    np.testing.assert_allclose(products, -values if measure == "distance" else values, rtol=1e-8, atol=1e-8)
    knn = paloma.MetricKNeighborsClassifier(model, n_neighbors=4).fit(X, STREAM.y)
    order = np.argsort(-expected, axis=1, kind="stable")[:, :4]
    found = knn.kneighbors(Q)[1]
    np.testing.assert_allclose(
        np.take_along_axis(expected, found, 1), np.take_along_axis(expected, order, 1), rtol=1e-7, atol=1e-7
    )
    near, far = (model.pair_score(X[T[:, [0, k]]]) for k in (1, 2))
    assert model.triplet_score(X, T) == pytest.approx(np.mean(near > far))


@pytest.mark.parametrize("backend", ["exact", "faiss-flat"])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("measure", MEASURES)
def test_an_index_places_items_by_where_they_lie(measure, soft, backend):
    if backend != "exact":
        pytest.importorskip("faiss")
    rows = X + 3.0  # an index centers its items; regions are those of the rows as they are
    clusters = KMeans(4, n_init=1, random_state=0)
    model = made(measure, regions=clusters, soft_regions=soft).fit(rows, triplets=T)
    index = paloma.MetricIndex(model, backend=backend)
    index.add(rows[:20])
    index.add(rows[20:], STREAM.y[20:])
    for rerank in ("published", "live"):
        scores = model.pairwise_score(rows[:9], rows)
        _, ids = index.search(rows[:9], 4, rerank=rerank, n_candidates=len(rows))
        best = -np.sort(-scores, axis=1)[:, :4]
        np.testing.assert_allclose(np.take_along_axis(scores, ids, axis=1), best, atol=1e-6)
        model.partial_fit(rows, triplets=T[::-1])


@pytest.mark.parametrize("soft", [False, True])
def test_online_k_means_in_a_stream(soft):
    """One metric cannot serve two halves of the plane in which different features matter; two regions can."""
    rng = np.random.default_rng(0)
    side, label = rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    rows = rng.normal(size=(2000, 3))
    rows[:, 0] = 12 * side + 0.3 * rows[:, 0]
    rows[np.arange(2000), 1 + side] = 0.5 * rows[np.arange(2000), 1 + side] + 1.2 * label
    model = paloma.LODML(regions=2, soft_regions=soft, random_state=0)
    for a in range(0, 2000, 50):
        model.partial_fit(rows[a : a + 50], label[a : a + 50])
    assert len(model.local_) == 2
    assert list(model.classes_) == [0, 1]
    where = inside.regions(model).places(rows)
    where = where.argmax(axis=1) if soft else where
    left, right = (model.metric_matrix(int(np.round(where[side == s].mean()))) for s in (0, 1))
    assert left[1, 1] > left[2, 2]
    assert right[2, 2] > right[1, 1]
    again = pickle.loads(pickle.dumps(model)).partial_fit(rows[:50], label[:50])
    np.testing.assert_array_equal(again.shared_, model.partial_fit(rows[:50], label[:50]).shared_)
    assert model.forget_classes([1]).local_.shape == (2, 3, 3)


def test_rows_wait_until_there_are_regions():
    model = paloma.LODML(regions=10, random_state=0, scale=None)
    model.partial_fit(X[:6], triplets=[[1, 2, 5]])
    assert len(np.unique(inside.regions(model).places(X[:6]))) == 1
    assert inside.state(model).n_slots == 0
    model.partial_fit(X, triplets=T)
    assert inside.state(model).n_slots > 2


def test_mixtures_give_soft_shares():
    mixture = GaussianMixture(3, random_state=0, reg_covar=0.1)
    model = made("distance", regions=mixture, soft_regions=True).fit(X, triplets=T)
    expected = inside.regions(model).clusters.predict_proba(X)
    assert np.abs(inside.regions(model).places(X) - expected).max() < 0.15  # small shares are left out
    assert len(model.local_) == 3


def test_pairs_in_soft_regions():
    targets, shares = np.where(np.arange(len(T)) % 2, 1, -1), soft_shares(X, CLUSTERS.cluster_centers_)
    for measure in MEASURES:
        model = made(measure, soft_regions=True, pair_threshold=2.5).fit(X, pairs=T[:, :2], pair_targets=targets)
        U, L = run_soft_pairs(measure, X, T[:, :2], targets, shares, LAM, 1 - LAM, C, 2.5)
        assert model.n_updates_ > 10
        assert relative(model.shared_, U) < 1e-10
        assert relative(model.local_, L) < 1e-10


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"regions": 0}, "regions must be an integer"),
        ({"regions": "many"}, "regions must be an integer"),
        ({"soft_regions": True}, "needs regions"),
        ({"regions": 3, "soft_regions": True, "psd": "step"}, "psd other than"),
        ({"regions": lambda rows: rows[:, 0]}, "one nonnegative region number per row"),
    ],
)
def test_bad_regions_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        paloma.LODML(**parameters).fit(X, triplets=T)


@pytest.mark.parametrize("region", ["far", -1, 0.5])
def test_what_is_no_region_has_no_matrix(region):
    with pytest.raises(ValueError, match="number of a region must be an integer"):
        paloma.LODML(regions=3).fit(X, triplets=T).metric_matrix(region)


def test_soft_regions_where_they_cannot_be():
    with pytest.raises(ValueError, match="journal"):
        paloma.L2ODML(regions=3, soft_regions=True).fit(X, triplets=T)
    with pytest.raises(TypeError, match="dense rows"):
        paloma.LOSL(regions=CLUSTERS, soft_regions=True).fit(sp.csr_matrix(X), triplets=T)
    with pytest.raises(TypeError, match="predict_proba or cluster_centers_"):
        paloma.LODML(regions=CLUSTERS.predict, soft_regions=True).fit(X, triplets=T)
