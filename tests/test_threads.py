"""Several threads on one learner, classifier or index: no exception, and every reading is that of a published state."""

import copy
import pickle
import sys
import threading
import time
from contextlib import contextmanager

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import paloma
from helpers import inside
from helpers.files import round_trip

RNG = np.random.default_rng(11)
Y = np.arange(90) % 3
X = RNG.normal(size=(90, 4)) + Y[:, None]
Q = RNG.normal(size=(6, 4)) + 1.0
PAIRS = np.stack([Q, X[:6]], axis=1)
# What must not grow with a stream of a minute.
BOUNDED = {"OKS": {"budget": 40, "when_full": "forget"}, "OMKS": {"budget": 40, "when_full": "forget"},
           "L2ODML": {"max_journal": 500}, "L2OSL": {"max_journal": 500}}  # fmt: skip
LEARNERS = paloma.estimators.__all__
LASTING = [2.0, pytest.param(60.0, marks=pytest.mark.long)]


def learner(name):
    return getattr(paloma, name)(random_state=0, reservoir_size=10, **BOUNDED.get(name, {})).fit(X[:30], Y[:30])


@contextmanager
def threads(n, call):
    """n threads that call again and again until the block ends; what any of them raised, the block raises."""
    done, problems, interval = threading.Event(), [], sys.getswitchinterval()

    def repeat(number):
        try:
            while not done.is_set():
                call(number)
        except BaseException as error:
            problems.append(error)
            done.set()

    running = [threading.Thread(target=repeat, args=(number,)) for number in range(n)]
    sys.setswitchinterval(1e-5)
    try:
        for thread in running:
            thread.start()
        yield problems
    finally:
        done.set()
        for thread in running:
            thread.join()
        sys.setswitchinterval(interval)
    if problems:
        raise problems[0]


def read_while(write, readings, seconds):
    """Four threads read while this one writes, for so long, and at least until they have seen something happen; every
    reading must be that after one of the writes."""
    states, seen = [set() for _ in readings], [set() for _ in readings]

    def publish():
        for state, reading in zip(states, readings, strict=True):
            state.add(reading())

    def read(number):
        for k in range(number, number + len(readings)):
            seen[k % len(readings)].add(readings[k % len(readings)]())

    publish()
    now, begun, writes = time.monotonic, time.monotonic(), 0
    with threads(4, read) as problems:
        while not problems and (now() < begun + seconds or (max(map(len, seen)) < 2 and now() < begun + 60)):
            write(writes)
            publish()
            writes += 1
    for state, found in zip(states, seen, strict=True):
        assert found <= state
    assert max(map(len, seen)) > 1, "the readers saw nothing happen"


def batch(number):
    rows = np.random.default_rng(number).integers(0, 90, 12)
    return X[rows], Y[rows]


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("seconds", LASTING)
def test_readers_of_a_learner_see_the_state_between_two_calls(name, seconds):
    model = learner(name)
    readings = (
        lambda: model.pair_score(PAIRS, Y[:6]).tobytes(),
        lambda: model.pairwise_score(Q, X[:9], Y[:9]).tobytes(),
        lambda: model.shared_.tobytes(),
        lambda: model.drift_.tobytes(),
        lambda: copy.deepcopy(model).pair_score(PAIRS, Y[:6]).tobytes(),
    )
    read_while(lambda number: model.partial_fit(*batch(number)), readings, seconds)


@pytest.mark.parametrize("seconds", LASTING)
def test_readers_of_an_index_see_what_was_published(seconds):
    metric = learner("LODML")
    index = paloma.MetricIndex(metric)
    index.add(X[:40], Y[:40])

    def write(number):
        kind = number % 4
        if kind == 0:
            metric.partial_fit(*batch(number))
        elif kind == 1:
            index.add(*batch(number))
        elif kind == 2:
            index.refresh()
        else:
            index.remove(index.ids[:12])

    def found(**options):
        return b"".join(part.tobytes() for part in index.search(Q, 5, **options))

    read_while(write, (found, lambda: found(rerank="live")), seconds)


@pytest.mark.parametrize("name", LEARNERS)
def test_readers_of_a_classifier_see_the_metric_of_the_last_refresh(name):
    metric = learner(name)
    model = paloma.MetricKNeighborsClassifier(metric).fit(X[:60], Y[:60])

    def write(number):
        metric.partial_fit(*batch(number))
        if number % 2:
            model.refresh()

    read_while(write, (lambda: b"".join(part.tobytes() for part in model.kneighbors(Q)),), 0.5)


def test_a_classifier_of_csr_rows_keeps_the_metric_of_the_last_refresh():
    """Its matrices were built when first needed, from what the metric had become by then."""
    rows = sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    metric = paloma.LOSL(random_state=0).fit(rows[:30], Y[:30])
    model = paloma.MetricKNeighborsClassifier(metric).fit(rows, Y)
    expected = copy.deepcopy(model).kneighbors(rows[:5])
    metric.partial_fit(rows[30:], Y[30:])
    for one, two in zip(model.kneighbors(rows[:5]), expected, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_classifier_of_modalities_keeps_the_metric_of_the_last_refresh():
    """A class that one modality meets later was told apart in half of a distance."""
    metric = paloma.OMDML(random_state=0, lam=0.5, groups=[[0, 1], [2, 3]], n_targets=1, n_impostors=1)
    metric.fit(X[:6], Y[:6])
    model = paloma.MetricKNeighborsClassifier(metric).fit(X, Y)
    expected = copy.deepcopy(model).kneighbors(X[:5])
    for k in range(10):
        metric.partial_fit(*batch(k))
        for one, two in zip(model.kneighbors(X[:5]), expected, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["LODML", "L2ODML", "OKS"])
def test_three_threads_learn_one_after_the_other(name):
    """They left an IndexError for ever."""
    model = learner(name)
    before, calls = inside.memory(model).seen.sum(), [0, 0, 0]

    def learn(number):
        model.partial_fit(*batch(calls[number]))
        calls[number] += 1

    with threads(3, learn) as problems:
        time.sleep(1.0)
        assert not problems
    assert sum(calls) > 3
    assert inside.memory(model).seen.sum() == before + 12 * sum(calls)
    model.partial_fit(X, Y).score(X, Y)


def test_a_lock_is_no_part_of_a_copy(tmp_path):
    model = learner("LODML")
    with paloma.estimators.reading(model):
        assert "_lock" in vars(model)
        joblib.dump(model, tmp_path / "model")
        twins = (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), round_trip(model))
        for twin in (*twins, joblib.load(tmp_path / "model")):
            assert "_lock" not in vars(twin)
            np.testing.assert_array_equal(twin.shared_, model.shared_)
        assert "_lock" not in vars(clone(model))
    scores = joblib.Parallel(2, backend="loky")(joblib.delayed(model.score)(X, Y) for _ in range(2))
    assert scores == [model.score(X, Y)] * 2
