"""faiss backends: flat equals exact; graphs and lists over the balanced form are near it, graphs over the plain not."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from helpers.index import CLASSES, LEARNERS, MORE, SHARES, Y_MORE, Q, X, Y, agrees, fitted
from paloma import L2ODML, L2OSL, LODML, LOSL, ODML, MetricIndex

faiss = pytest.importorskip("faiss")

WITH_VECTORS = [kind for kind in LEARNERS if "Kernel" not in "".join(base.__name__ for base in kind.__mro__)]


def index_of(metric, backend, X=X, y=Y, **options):
    index = MetricIndex(metric, backend=backend, **options)
    index.add(X, y)
    return index


@pytest.mark.parametrize("y", CLASSES.values(), ids=CLASSES.keys())
@pytest.mark.parametrize("kind", WITH_VECTORS)
def test_flat_equals_the_definition(kind, y):
    metric = fitted(kind, C=kind().C)
    index = index_of(metric, "faiss-flat", y=y)
    for k in (1, 7, 60):
        agrees(index.search(Q, k), metric, X, y, k)


@pytest.mark.parametrize("backend", ["faiss-flat", "faiss-hnsw", "faiss-ivf"])
@pytest.mark.parametrize("kind", [LODML, LOSL, L2ODML])
def test_adding_removing_and_refreshing(kind, backend):
    metric = fitted(kind, C=kind().C)
    exact, index = (index_of(metric, b, y=SHARES) for b in ("exact", backend))
    for each in (exact, index):
        each.add(MORE, Y_MORE)
        each.remove(range(0, 100, 3))
    np.testing.assert_array_equal(index.search(Q, 5)[1], exact.search(Q, 5)[1])
    for each in (exact, index):
        each.remove(set(each.ids) - set(range(50, 63)))  # most of a graph is gone: built again
    np.testing.assert_array_equal(index.search(Q, 8)[1], exact.search(Q, 8)[1])
    metric.partial_fit(MORE, Y_MORE)
    for each in (exact, index):
        each.refresh()
    np.testing.assert_array_equal(index.search(Q, 8)[1], exact.search(Q, 8)[1])


@pytest.mark.parametrize("backend", ["faiss-flat", "faiss-hnsw", "faiss-ivf"])
def test_sparse_rows_where_vectors_are_dense(backend):
    metric = LOSL(random_state=0).fit(sp.csr_matrix(X), Y)
    agrees(index_of(metric, backend, sp.csr_matrix(X)).search(sp.csr_matrix(Q), 5), metric, X, Y, 5)


def test_flat_is_certain_where_single_precision_is_not():
    """Tight clusters far apart: inner products in float32 cannot tell the items of a cluster apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 400)
    rows = (300 * rng.normal(size=(5, 6)))[y] + 0.05 * rng.normal(size=(400, 6))
    metric = LODML(random_state=0, scale=None, C=1e-9).fit(rows, y, triplets=[[0, 1, 2]])
    found, exact = (index_of(metric, b, rows, y).search(rows[:50], 5) for b in ("faiss-flat", "exact"))
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-6, atol=1e-9)


def large(n=6000, d=64, n_classes=20):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    rows = (rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(n_classes, d))[y]).astype(np.float32)
    queries = (rows[:100] + 0.3 * rng.normal(size=(100, d))).astype(np.float32)
    return rows, y, queries


def test_graphs_need_the_balanced_form():
    """Spec 11: plain inner-product HNSW on the search vectors fails at any width; the balanced form does not."""
    rows, y, queries = large()
    metric = LODML(random_state=0, n_epochs=1).fit(rows[:1500], y[:1500])
    index = index_of(metric, "faiss-hnsw", rows, y)
    assert index.recall(queries, 10) > 0.97
    assert index_of(metric, "faiss-ivf", rows, y, n_probes=40).recall(queries, 10) > 0.9
    exact = index_of(metric, "exact", rows, y).search(queries, 10)[1]
    vectors = metric.item_vectors(rows, y)
    plain = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    plain.add(vectors)
    for width, most in ((64, 0.2), (256, 0.4)):
        plain.hnsw.efSearch = width
        found = plain.search(metric.query_vectors(queries), 10)[1]
        assert (exact[:, :, None] == found[:, None, :]).any(axis=2).mean() < most


def test_wider_searches_find_more():
    rows, y, queries = large(2000, 24, 10)
    metric = ODML(random_state=0, n_epochs=1).fit(rows[:500], y[:500])
    recalls = [index_of(metric, "faiss-hnsw", rows, y, n_links=4, ef_search=w).recall(queries, 5) for w in (1, 16, 256)]
    assert recalls[0] < recalls[1] < recalls[2]
    lists = [index_of(metric, "faiss-ivf", rows, y, n_lists=60, n_probes=p).recall(queries, 5) for p in (1, 10, 60)]
    assert lists[0] < lists[1] < lists[2] == 1.0


def test_two_stages_over_a_graph():
    """Learning goes on, the graph stays: candidates by the old metric, ranks and distances by the new one."""
    rows, y, queries = large(3000, 32, 10)
    metric = LODML(random_state=0, n_epochs=1, C=1e-3).fit(rows[:1000], y[:1000])
    index = index_of(metric, "faiss-hnsw", rows, y, ef_search=256)
    metric.set_params(C=0.02).partial_fit(rows[1000:1500], y[1000:1500])
    fresh = index_of(metric, "exact", rows, y)
    exact = fresh.search(queries, 10)
    live = index.search(queries, 10, rerank="live", n_candidates=100)
    old = index.search(queries, 10)[1]
    recall = [(exact[1][:, :, None] == found[:, None, :]).any(axis=2).mean() for found in (live[1], old)]
    assert recall[0] > 0.96 > 0.9 > recall[1], recall
    same = live[1] == exact[1]
    np.testing.assert_allclose(live[0][same], exact[0][same], rtol=1e-4)
    assert index.staleness() > 0.02 > index.refresh().staleness()


def test_a_graph_without_enough_answers_is_searched_exhaustively(monkeypatch):
    metric = fitted()
    index = index_of(metric, "faiss-hnsw")
    engine = index._published.engine
    monkeypatch.setattr(type(engine), "_walk", lambda self, Q, n: np.full((len(Q), n), -1))
    agrees(index.search(Q, 7), metric, X, Y, 7)
    agrees(index.search(Q, 7, rerank="live"), metric, X, Y, 7)


@pytest.mark.parametrize("backend", ["faiss-flat", "faiss-hnsw", "faiss-ivf"])
def test_bad_input(backend, monkeypatch):
    sparse = MetricIndex(L2OSL(random_state=0).fit(sp.csr_matrix(X), Y), backend=backend)
    with pytest.raises(TypeError, match="use backend='exact'"):
        sparse.add(sp.csr_matrix(X), Y)
    assert len(sparse) == 0
    with pytest.raises(TypeError, match=f"backend '{backend}' takes .*, got width"):
        MetricIndex(fitted(), backend=backend, width=3)
    index = index_of(fitted(), backend)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError):
        index_of(fitted(), backend)
    assert len(index) == 60


@pytest.mark.parametrize("options", [{"n_links": 0}, {"ef_search": 2.5}, {"ef_construction": -1}])
def test_bad_options(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be an integer"):
        MetricIndex(fitted(), backend="faiss-hnsw", **options)
    with pytest.raises(ValueError, match="n_lists must be an integer"):
        MetricIndex(fitted(), backend="faiss-ivf", n_lists=0)
