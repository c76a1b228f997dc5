"""Threads by size: what blocks ask for, what is put back, and that bits do not depend on n_jobs."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info

import paloma
from paloma import _threads
from paloma._threads import LARGE, in_threads, jobs, sharing, single


class Library:
    """A BLAS library as threadpoolctl shows it."""

    def __init__(self, num_threads):
        self.num_threads = num_threads

    def set_num_threads(self, number):
        self.num_threads = number


@pytest.fixture
def library(monkeypatch):
    """The only BLAS there is, with four threads, in a process that may use four CPUs."""
    one = Library(4)
    monkeypatch.setattr(_threads, "n_cpus", lambda: 4)
    monkeypatch.setattr(_threads, "_blas", lambda: [one])
    return one


def test_the_libraries_of_numpy_and_scipy_are_told():
    def numbers():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    _threads._blas()  # SciPy brings a library of its own
    before = numbers()
    with sharing(1):
        assert set(numbers()) == {1}
    assert numbers() == before


def test_every_thread_is_obeyed_whichever_was_first():
    """In a process whose BLAS has two threads, which that of the tests has not."""
    script = """if True:
        import threading
        import numpy as np
        from paloma import _threads
        from paloma._threads import sharing

        with sharing(1):
            pass

        def numbers():
            return [library.num_threads for library in _threads._blas()]

        def small():
            with sharing(1):
                found.append(numbers())
            found.append(numbers())

        found = []
        other = threading.Thread(target=small)
        other.start()
        other.join()
        print(found[0], found[1] == numbers())
        """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    inside, _, put_back = done.stdout.rpartition(" ")
    assert set(json.loads(inside)) == {1}, done.stderr
    assert put_back == "True\n"


def test_small_products_run_on_one_thread_and_large_ones_on_all(library):
    with sharing(512, 64, 64):
        assert library.num_threads == 1
        with sharing(LARGE):
            assert library.num_threads == 4
        assert library.num_threads == 1
    assert library.num_threads == 4


def test_single_means_single_however_large(library):
    with single(), sharing(LARGE):
        assert library.num_threads == 1
    assert library.num_threads == 4


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 4), (-1, 4), (1, 1), (3, 3), (99, 4)])
def test_n_jobs_limits_large_products(library, n_jobs, expected):
    with jobs(n_jobs), sharing(LARGE):
        assert library.num_threads == expected
    assert library.num_threads == 4


def test_a_limit_from_outside_is_never_passed(library):
    library.num_threads = 2
    with jobs(-1), sharing(LARGE):
        assert library.num_threads == 2


def test_the_smallest_of_several_threads_counts_and_all_is_put_back(library):
    inside, done = threading.Event(), threading.Event()

    def small():
        with sharing(1):
            inside.set()
            done.wait(120)

    other = threading.Thread(target=small)
    with sharing(LARGE):
        other.start()
        assert inside.wait(120)
        assert library.num_threads == 1
    assert library.num_threads == 1
    done.set()
    other.join()
    assert library.num_threads == 4


def test_threads_are_put_back_after_errors(library):
    with pytest.raises(ValueError, match="on purpose"), sharing(1):
        raise ValueError("on purpose")
    assert library.num_threads == 4


def test_bits_do_not_depend_on_n_jobs():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 80)).astype(np.float32), rng.integers(0, 3, 300)
    models = [paloma.LODML(random_state=0, n_jobs=n).fit(X, y) for n in (None, 1, 4)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.shared_, models[0].shared_)
        np.testing.assert_array_equal(model.metric_matrix(1), models[0].metric_matrix(1))


def test_bits_of_sparse_blocks_do_not_depend_on_n_jobs():
    X, triplets = sp.random(300, 400, 0.05, format="csr", random_state=1), np.arange(900).reshape(300, 3) % 300
    models = [paloma.OASIS(block_size=64, n_jobs=n).fit(X, triplets=triplets) for n in (None, 1, 4)]
    assert models[0].n_updates_ > 64
    for model in models[1:]:
        np.testing.assert_array_equal(model.shared_, models[0].shared_)


def test_threads_give_their_parts_in_order():
    names = [[name for name, _ in _in_threads(n)] for n in (1, 3)]
    assert [[part for _, part in _in_threads(n)] for n in (1, 3)] == [list(range(8))] * 2
    assert set(names[0]) == {threading.current_thread().name}
    assert not set(names[1]) & set(names[0])


def test_parts_in_threads_do_not_share_their_products(library):
    with sharing(LARGE):
        assert in_threads(lambda part: library.num_threads, range(3)) == [1] * 3
        assert in_threads(lambda part: library.num_threads, range(1)) == [4]
        assert in_threads(lambda part: library.num_threads, range(0)) == []
        assert library.num_threads == 4


def test_bits_of_a_search_among_many_classes_do_not_depend_on_n_jobs():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(40), 6)
    X = rng.normal(size=(40, 48))[y] + rng.normal(size=(240, 48))
    metric = paloma.LODML(random_state=0, n_epochs=1).fit(X, y)
    found = [paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, n_jobs=n).fit(X, y) for n in (1, 4)]
    one, four = (model.kneighbors(X + 0.1) for model in found)
    np.testing.assert_array_equal(one, four)


def _in_threads(n_jobs):
    with jobs(n_jobs):
        return in_threads(lambda part: (threading.current_thread().name, part), range(8))


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, "two", True])
def test_n_jobs_is_checked(n_jobs):
    X, y = np.arange(12.0).reshape(6, 2), [0, 1] * 3
    told = "n_jobs must be a positive integer, -1 for all CPUs, or None"
    with pytest.raises(ValueError, match=told):
        paloma.LODML(n_jobs=n_jobs).fit(X, y)
    learner = paloma.LODML(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=told):
        paloma.MetricKNeighborsClassifier(learner, n_jobs=n_jobs).fit(X, y)
    with pytest.raises(ValueError, match=told):
        paloma.MetricIndex(learner, n_jobs=n_jobs)
