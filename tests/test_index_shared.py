"""MetricIndex under threads, and as plain data: pickles and states that continue exactly."""

import pickle
import threading
from copy import deepcopy
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.index import MORE, SHARES, Y_MORE, Q, X, Y, fitted
from paloma import LODML, LOSL, MetricIndex

NEEDS_FAISS = pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
BACKENDS = ["exact", *(pytest.param(name, marks=NEEDS_FAISS) for name in ("faiss-flat", "faiss-hnsw"))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_readers_see_whole_states_while_one_writer_works(backend):
    """Every search equals the search of some state that the writer left behind."""
    metric = fitted(C=0.01)
    twin = MetricIndex(metric)
    twin.add(X, Y)
    states = [twin.search(Q, 5)[1]]
    parts = np.array_split(np.arange(len(MORE)), 8)
    for part in parts:
        twin.add(MORE[part], Y_MORE[part])
        states.append(twin.search(Q, 5)[1])
        twin.remove(part[:2] + 60)
        states.append(twin.search(Q, 5)[1])
    index = MetricIndex(metric, backend=backend)
    index.add(X, Y)
    done, problems = threading.Event(), []

    def read():
        seen = 0
        while not (done.is_set() and seen > 3):
            found = index.search(Q, 5)[1]
            seen += 1
            if not any((found == state).all() for state in states):
                problems.append(found)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for part in parts:
        index.add(MORE[part], Y_MORE[part])
        index.remove(part[:2] + 60)
    index.refresh()
    done.set()
    for reader in readers:
        reader.join()
    assert not problems
    np.testing.assert_array_equal(index.search(Q, 5)[1], states[-1])


@pytest.mark.parametrize("copy", [lambda i: pickle.loads(pickle.dumps(i)), deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [LODML, LOSL])
def test_copies_go_on_exactly(kind, backend, copy):
    metric = fitted(kind, C=0.01)
    index = MetricIndex(metric, backend=backend)
    index.add(X, SHARES)
    index.remove([4, 9])
    metric.partial_fit(MORE, Y_MORE)
    twin = copy(index)
    for each in (index, twin):
        each.add(MORE, Y_MORE)
        assert each.updates_behind > 0
    for one, other in zip(index.search(Q, 6), twin.search(Q, 6), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9) if one.dtype.kind == "f" else np.testing.assert_array_equal(
            one, other
        )
    for each in (index, twin):
        each.refresh()
    np.testing.assert_array_equal(index.search(Q, 6)[1], twin.search(Q, 6)[1])
    assert twin.metric is not index.metric


def test_an_empty_index_is_copied_too():
    index = MetricIndex(fitted())
    assert len(deepcopy(index)) == 0
    assert MetricIndex(LODML()).__paloma_state__()["published"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("ids", np.zeros(60, np.int64)), ("X", X[:50]), ("labels", np.array(["blue"])), ("next_id", 1.5)],
)
def test_states_that_do_not_fit_together_are_refused(name, value):
    index = MetricIndex(fitted())
    index.add(X, Y)
    with pytest.raises(ValueError, match="do not"):
        MetricIndex.__paloma_restore__({**index.__paloma_state__(), name: value})


def test_shares_of_a_state_must_sum_to_1():
    index = MetricIndex(fitted())
    index.add(X, SHARES)
    state = index.__paloma_state__()
    with pytest.raises(ValueError, match="do not sum to 1"):
        MetricIndex.__paloma_restore__({**state, "shares": 2.0 * state["shares"]})


def test_a_pipeline_prepares_items_and_queries():
    model = make_pipeline(StandardScaler(), LODML(random_state=0)).fit(X * 7 + 3, Y)
    index, plain = MetricIndex(model), MetricIndex(model[-1])
    index.add(X * 7 + 3, SHARES)
    plain.add(model[0].transform(X * 7 + 3), SHARES)
    queries, prepared = Q * 7 + 3, model[0].transform(Q * 7 + 3)
    for each in (index, pickle.loads(pickle.dumps(index))):
        np.testing.assert_array_equal(each.search(queries, 5)[1], plain.search(prepared, 5)[1])
        np.testing.assert_array_equal(each.rank(queries), plain.rank(prepared))
        assert each.recall(queries, 5) == 1.0
        assert each.staleness() == 0.0
    model[-1].partial_fit(model[0].transform(MORE * 7 + 3), Y_MORE)
    assert index.updates_behind > 0
    with pytest.raises(TypeError, match="must be a paloma learner, got Pipeline"):
        MetricIndex(make_pipeline(LODML(), StandardScaler()))
