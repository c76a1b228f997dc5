"""MetricIndex against the direct definition: every learner, classes known, in shares or absent; ids, threads, state."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.frozen import FrozenEstimator

from helpers.index import CLASSES, LEARNERS, MORE, SHARES, Y_MORE, Q, X, Y, agrees, fitted, is_distance, literal
from paloma import L2ODML, LODML, LOSL, OASIS, MetricIndex, load, save


@pytest.mark.parametrize("y", CLASSES.values(), ids=CLASSES.keys())
@pytest.mark.parametrize("kind", LEARNERS)
def test_exact_equals_the_definition_on_every_learner(kind, y):
    metric = fitted(kind, **({} if kind in (LODML, LOSL) else {"C": kind().C}))
    index = MetricIndex(metric)
    np.testing.assert_array_equal(index.add(X, y), np.arange(60))
    for k in (1, 7, 60):
        agrees(index.search(Q, k), metric, X, y, k)


@pytest.mark.parametrize("kind", [LODML, LOSL, OASIS])
def test_mixed_classes_added_bit_by_bit_and_removed(kind):
    metric, index = fitted(kind), MetricIndex(fitted(kind))
    for part in np.array_split(np.arange(60), 7):
        index.add(X[part], SHARES[part])
    index.add(MORE[:20], Y_MORE[:20])
    index.add(MORE[20:])
    gone = {0, 3, 59, 60, 79, 80, 99}
    index.remove(gone)
    kept = np.array([k for k in range(100) if k not in gone])
    np.testing.assert_array_equal(index.ids, kept)
    none = metric.pairwise_score(Q, MORE[20:])
    rows = {"shares": literal(metric, Q, X, SHARES)[1], "known": literal(metric, Q, MORE[:20], Y_MORE[:20])[1]}
    free = -np.sign(none) * none**2 if is_distance(metric) else -none
    values = np.hstack([rows["shares"], rows["known"], free])[:, kept]
    expected = kept[np.argsort(values, axis=1, kind="stable")[:, :9]]
    np.testing.assert_array_equal(index.search(Q, 9)[1], expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_follows_the_metric_and_the_origin_does_not_matter(dtype):
    rows, queries = (X + 1000).astype(dtype), (Q + 1000).astype(dtype)
    metric = LODML(random_state=0, C=0.3).fit(rows, Y)
    for y in (Y, SHARES):
        index = MetricIndex(metric)
        index.add(rows, y)
        found = index.search(queries, 5)[0]
        expected = np.sort(literal(metric, queries.astype(float), rows.astype(float), y)[0], axis=1)[:, :5]
        np.testing.assert_allclose(found, expected, rtol=5e-3 if dtype == np.float32 else 1e-6)


@pytest.mark.parametrize("kind", [LOSL, L2ODML])
def test_sparse_rows(kind):
    metric = kind(random_state=0).fit(X, Y)
    dense, sparse = MetricIndex(metric), MetricIndex(metric)
    for index, form in ((dense, np.asarray), (sparse, sp.csr_matrix)):
        index.add(form(X), Y)
        index.add(form(MORE))
        index.remove([5])
    np.testing.assert_array_equal(sparse.search(sp.csr_matrix(Q), 5)[1], dense.search(Q, 5)[1])
    np.testing.assert_array_equal(sparse.search(Q, 5)[1], dense.search(sp.csr_matrix(Q), 5)[1])


# --- what is published ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LODML, LOSL, L2ODML])
def test_learning_changes_nothing_until_refresh(kind):
    metric = fitted(kind, C=kind().C)
    index = MetricIndex(metric)
    index.add(X, SHARES)
    before = index.search(Q, 5)
    assert index.updates_behind == index.staleness() == 0
    metric.partial_fit(MORE, Y_MORE)
    metric.partial_fit(MORE[:5], ["violet"] * 4 + ["blue"])
    for each in range(2):
        np.testing.assert_array_equal(index.search(Q, 5)[each], before[each])
    assert index.updates_behind > 0
    old, new = index.search(X, 10)[1], index.search(X, 10, rerank="live")[1]
    overlap = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(old.tolist(), new.tolist(), strict=True)])
    assert index.staleness() == pytest.approx(1 - overlap)
    assert overlap < 1
    shares = np.column_stack([SHARES, np.zeros(60)])  # violet comes last
    agrees(index.search(Q, 5, rerank="live", n_candidates=60), metric, X, shares, 5)
    assert index.refresh() is index
    agrees(index.search(Q, 5), metric, X, shares, 5)
    assert index.updates_behind == index.staleness() == 0


def test_new_items_join_the_published_metric():
    metric = fitted()
    old = pickle.loads(pickle.dumps(metric))
    index = MetricIndex(metric)
    index.add(X, Y)
    metric.partial_fit(MORE, Y_MORE)
    index.add(MORE, Y_MORE)
    rows, y = np.concatenate([X, MORE]), np.concatenate([Y, Y_MORE])
    agrees(index.search(Q, 6), old, rows, y, 6)
    index.remove(index.ids)
    index.add(rows, y)  # into an empty index: publishes
    agrees(index.search(Q, 6), metric, rows, y, 6, ids=np.arange(100, 200))


def test_two_stages_rank_the_candidates_by_the_live_metric():
    metric = fitted(C=0.01)
    index = MetricIndex(metric)
    index.add(X, Y)
    published = index.search(Q, 60)[1]
    metric.partial_fit(MORE, Y_MORE)
    distances, ids = index.search(Q, 4, rerank="live", n_candidates=9)
    live = literal(metric, Q, X, Y)[0]
    for row, candidates, found, shown in zip(live, published[:, :9], ids, distances, strict=True):
        expected = candidates[np.argsort(row[candidates], kind="stable")][:4]
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_allclose(shown, row[expected], rtol=1e-9)
    assert index.staleness() > 0


@pytest.mark.parametrize("kind", [LODML, LOSL])
def test_candidates_of_one_query_are_those_of_many(kind):
    """One query is looked up in bytes; neither rows far out nor features of other scales may spoil that."""
    rng = np.random.default_rng(0)
    rows = rng.standard_t(2, size=(3000, 24)) * 10.0 ** rng.uniform(-3, 3, 24)
    rows[rng.random(rows.shape) < 0.2] = 0.0
    labels = rng.integers(0, 5, 3000)
    index = MetricIndex(kind(random_state=0).fit(rows[:500], labels[:500]))
    index.add(rows[:2000], labels[:2000])
    for more in (None, rows[2000:]):
        if more is not None:
            index.remove(np.arange(0, 500, 3))
            index.add(1e3 * more, labels[2000:])
        both = index.search(rows[:200], 30, rerank="live")[1]
        each = np.concatenate([index.search(rows[i : i + 1], 30, rerank="live")[1] for i in range(200)])
        found = [len(np.intersect1d(*pair)) / 30 for pair in zip(both, each, strict=True)]
        assert np.mean(found) > 0.99
        assert min(found) > 0.9


def test_a_metric_set_otherwise_is_noticed_by_refresh_alone():
    metric = fitted(psd="end")
    index = MetricIndex(FrozenEstimator(metric))
    index.add(X, Y)
    before = index.search(Q, 3)[0]
    metric.set_params(average=False, psd="never")
    np.testing.assert_array_equal(index.search(Q, 3)[0], before)
    assert not np.allclose(index.refresh().search(Q, 3)[0], before)


def test_rank_and_labels():
    metric, index = fitted(), MetricIndex(fitted())
    index.add(X, SHARES, ids=np.arange(60) + 100)
    order = np.argsort(literal(metric, Q, X, SHARES)[1], axis=1, kind="stable")
    np.testing.assert_array_equal(index.rank(Q), order + 100)
    index.add(MORE[:2])
    index.add(MORE[2:3], ["violet"])
    np.testing.assert_array_equal(index.labels_of([[100, 160], [162, 101]]), [[Y[0], None], ["violet", "green"]])


# --- ids --------------------------------------------------------------------------------------------------


def test_default_ids_are_never_used_again():
    index = MetricIndex(fitted())
    assert index.add(X[:3], Y[:3]).tolist() == [0, 1, 2]
    index.remove(2)
    assert index.add(X[2:4], Y[2:4]).tolist() == [3, 4]
    assert index.add(X[4:5], Y[4:5], ids=[40]).tolist() == [40]
    assert index.add(X[5:6], Y[5:6]).tolist() == [41]
    index.remove([0, 0, 1, 3, 4, 40, 41])
    assert len(index) == 0
    assert index.add(X[:1]).tolist() == [42]
    assert 42 in index
    assert 0 not in index
    assert None not in index
    assert pickle.loads(pickle.dumps(index)).add(X[:1]).tolist() == [43]


def test_ids_of_ones_own():
    index = MetricIndex(fitted())
    names = np.array([f"picture {k}" for k in range(60)])
    index.add(X, Y, ids=names)
    np.testing.assert_array_equal(index.search(X, 1)[1][:, 0], names)
    index.remove({"picture 3", "picture 50"})
    assert "picture 3" not in index
    index.add(X[3:4], Y[3:4], ids=["picture 3"])  # removed, hence free again
    assert index.search(X[3:4], 1)[1][0, 0] == "picture 3"
    with pytest.raises(ValueError, match="need explicit ids"):
        index.add(X[:1], Y[:1])
    with pytest.raises(TypeError, match="the same type"):
        index.add(X[:1], Y[:1], ids=[7])


def test_an_index_that_grew_answers_as_its_copy_from_a_file(tmp_path):
    """To the last digit, also if so many values are asked for that all items are whitened first."""
    metric = LODML(scale="full", random_state=0).fit(X, Y)
    index = MetricIndex(metric)
    assert metric.whitener_ is not None
    for part in np.array_split(np.arange(60), 3):
        index.add(X[part] + part.mean(), Y[part])  # the middle of the items wanders
    save(index, tmp_path / "index.paloma")
    for one, two in zip(index.search(Q, 50), load(tmp_path / "index.paloma").search(Q, 50), strict=True):
        np.testing.assert_array_equal(one, two)


def test_equal_items_come_in_the_order_in_which_they_were_added():
    for y in (Y, SHARES):
        index = MetricIndex(fitted())
        index.add(X, y, ids=np.arange(60)[::-1])
        index.add(X, y, ids=np.arange(100, 160))
        ids = index.search(X, 2)[1]
        np.testing.assert_array_equal(ids, np.column_stack([np.arange(60)[::-1], np.arange(100, 160)]))


def test_rows_are_copied():
    rows, index = X.copy(), MetricIndex(fitted())
    index.add(rows, Y)
    before = index.search(Q, 5)[0]
    rows[:] = 0.0
    np.testing.assert_array_equal(index.search(Q, 5)[0], before)


# --- bad input --------------------------------------------------------------------------------------------

NEW = MORE[:2]
REFUSED = {
    "duplicate ids": (lambda i: i.add(NEW, ids=[70, 70]), ValueError, "duplicates: 70"),
    "known ids": (lambda i: i.add(NEW, ids=[70, 59]), ValueError, "already in the index: 59"),
    "wrong number of ids": (lambda i: i.add(NEW, ids=[70]), ValueError, "one entry for each of the 2 rows"),
    "fractional ids": (lambda i: i.add(NEW, ids=[70.0, 71.0]), TypeError, "integers or strings"),
    "unknown ids": (lambda i: i.remove([3, 99, 98]), ValueError, "not in the index: 98, 99"),
    "ids of another kind": (lambda i: i.remove(["a"]), ValueError, "not in the index: 'a'"),
    "other dimension of items": (lambda i: i.add(MORE[:, :4]), ValueError, "4 features"),
    "other dimension of queries": (lambda i: i.search(Q[:, :4], 2), ValueError, "4 features"),
    "one-dimensional query": (lambda i: i.search(Q[0], 2), ValueError, "2D array"),
    "nan items": (lambda i: i.add([[np.nan] * 5]), ValueError, "NaN"),
    "no items": (lambda i: i.add(np.empty((0, 5))), ValueError, "0 sample"),
    "nan queries": (lambda i: i.search([[np.nan] * 5], 2), ValueError, "NaN"),
    "huge items": (lambda i: i.add(1e200 * NEW), ValueError, "too large"),
    "huge queries": (lambda i: i.search(1e200 * Q, 2), ValueError, "too large"),
    "huge feedback": (lambda i: i.feedback(1e200 * Q[0], nearer=0, farther=1), ValueError, "too large"),
    "ids of two lengths": (lambda i: i.add(NEW, ids=[[70], [71, 72]]), ValueError, "ids must be .* different lengths"),
    "labels of another length": (lambda i: i.add(NEW, ["blue"]), ValueError, "1 labels for 2 rows"),
    "labels of another kind": (lambda i: i.add(NEW, [1, 2]), TypeError, "words"),
    "shares of other classes": (lambda i: i.add(NEW, np.full((2, 3), 1 / 3)), ValueError, r"\(2, 4\)"),
    "shares that do not sum to 1": (lambda i: i.add(NEW, np.full((2, 4), 0.3)), ValueError, "sum to 1"),
    "negative shares": (lambda i: i.add(NEW, [[2, -1, 0, 0]] * 2), ValueError, "nonnegative"),
    "k above the number of items": (lambda i: i.search(Q, 61), ValueError, "k=61 is more than the 60 items"),
    "k of 0": (lambda i: i.search(Q, 0), ValueError, "k must be an integer of at least 1"),
    "unknown word": (lambda i: i.search(Q, 2, rerank="fresh"), ValueError, "'published', 'live'"),
    "too few candidates": (lambda i: i.search(Q, 5, rerank="live", n_candidates=4), ValueError, "at least 5"),
    "no database": (lambda i: i.connect("host=a"), ValueError, "no database"),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_calls_change_nothing(call, error, message):
    index = MetricIndex(fitted())
    index.add(X, Y)
    before, state = index.search(Q, 5), index.__paloma_state__()
    with pytest.raises(error, match=message):
        call(index)
    now = index.__paloma_state__()
    assert all(now[name] is state[name] for name in ("X", "ids", "shares", "labels", "metric", "center"))
    assert now["next_id"] == state["next_id"] == 60
    np.testing.assert_array_equal(index.search(Q, 5)[1], before[1])


def test_empty_indexes_and_unfitted_metrics():
    index = MetricIndex(fitted())
    with pytest.raises(ValueError, match="empty: add items"):
        index.search(Q, 1)
    assert index.refresh().updates_behind == len(index) == 0
    unfitted = MetricIndex(LODML())
    with pytest.raises(ValueError, match="empty: add items"):
        unfitted.refresh().search(Q, 1)
    with pytest.raises(TypeError, match="must be a paloma learner, got str"):
        MetricIndex("LODML")
    with pytest.raises(ValueError, match="'exact', 'faiss-flat'"):
        MetricIndex(LODML(), backend="annoy")
    with pytest.raises(TypeError, match="takes no options, got ef_search"):
        MetricIndex(LODML(), ef_search=5)
    metric = fitted()
    index = MetricIndex(metric)
    index.add(X, Y)
    metric.fit(np.hstack([X, X]), Y)
    with pytest.raises(ValueError, match="now has 10 features"):
        index.refresh()
    assert index.search(Q, 2)[1].shape == (25, 2)


@pytest.mark.parametrize("keywords", [{"ids": [0, 0]}, {"y": ["a"]}, {"payload": [object()] * 2}])
def test_refused_first_items_leave_an_unfitted_metric_unfitted(keywords):
    metric = LODML(random_state=0)
    index = MetricIndex(metric)
    with pytest.raises((TypeError, ValueError)):
        index.add(X[:2], **keywords)
    assert not hasattr(metric, "n_features_in_")
    assert index.add(X[:, :3]).tolist() == list(range(60))


def test_no_ids_name_no_vectors():
    index = MetricIndex(fitted())
    index.add(X, Y)
    assert index.vectors_of([]).shape == (0, 5)


def test_default_ids_end_before_they_overflow():
    index = MetricIndex(fitted())
    index.add(X[:1], Y[:1], ids=[2**63 - 1])
    with pytest.raises(ValueError, match="no default ids are left"):
        index.add(X[1:2], Y[1:2])
    index.add(X[1:2], Y[1:2], ids=[0])
    assert index.ids.dtype == np.int64
    assert index.ids.tolist() == [2**63 - 1, 0]


@pytest.mark.parametrize("ids", [[1, "a"], ("a", 1), {1, "a"}, np.array([1, "a"], object)])
def test_ids_of_two_kinds_are_refused(ids):
    index = MetricIndex(fitted())
    with pytest.raises(TypeError, match="all be integers or all be strings"):
        index.add(X[:2], Y[:2], ids=ids)
    assert len(index) == 0
