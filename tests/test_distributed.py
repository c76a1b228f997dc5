"""Learning, mining and search on a Dask cluster of two processes, against the same in this process."""

import os
import signal
import subprocess
import sys
import threading
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

import paloma
from helpers import inside
from paloma.distributed import _runner, _shards, connected, fit

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

DIGITS, Y = load_digits(return_X_y=True)
DIGITS, Y = DIGITS[:900] / 16.0, Y[:900]
CHUNKED = da.from_array(DIGITS, chunks=(150, 64))
LEARNERS = {
    "LODML": {},
    "ODML": {"psd": 500},
    "LOSL": {"average": False},
    "L2ODML": {"n_components": 30, "max_journal": 2000, "rank": 40},
    "SLMOML": {"lam": 0.5},
    "OKS": {"lam": 0.5},
}


def same_bits(one, other):
    np.testing.assert_array_equal(one.shared_, other.shared_)
    np.testing.assert_array_equal(one.local_, other.local_)
    np.testing.assert_array_equal(*(each.pairwise_score(DIGITS[:9], DIGITS[:99], Y[:99]) for each in (one, other)))
    np.testing.assert_array_equal(inside.memory(one).rows, inside.memory(other).rows)
    untimed = [[{k: v for k, v in row.items() if k != "seconds"} for row in each.rounds_] for each in (one, other)]
    assert repr(untimed[0]) == repr(untimed[1])
    assert one.n_updates_ == other.n_updates_ > 0


# -- the same bits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [n if n in ("LODML", "L2ODML", "OKS") else pytest.param(n, marks=pytest.mark.long) for n in LEARNERS]
)
def test_a_cluster_gives_the_bits_of_one_process(name, client):
    learner = getattr(paloma, name)(random_state=0, **LEARNERS[name])
    here, there = (fit(learner, CHUNKED, Y, rounds=2, client=each) for each in (None, client))
    same_bits(here, there)
    assert [row["round"] for row in there.rounds_] == [1, 2]
    assert there.rounds_[1]["loss"] < there.rounds_[0]["loss"]
    assert there.rounds_[1]["accuracy"] > 0.7


def test_shards_within_and_more_shards_than_one_mix_takes(client):
    rows = da.from_array(DIGITS.astype(np.float32), chunks=(60, 64))
    here, there = (
        fit(paloma.LODML(random_state=1), rows, Y, rounds=2, mining="within", held_out=0.0, client=each)
        for each in (None, client)
    )
    same_bits(here, there)
    assert here.shared_.dtype == np.float32
    assert np.isnan(here.rounds_[0]["accuracy"])


def test_the_current_client_is_used(client):
    with client.as_current():
        there = fit(paloma.LODML(random_state=0), CHUNKED, Y, rounds=1)
    same_bits(there, fit(paloma.LODML(random_state=0), CHUNKED, Y, rounds=1))


def test_a_checkpoint_without_rows_held_out(tmp_path):
    settings = {"rounds": 2, "held_out": 0.0, "checkpoint": tmp_path / "rounds.paloma"}
    one, other = (fit(paloma.LODML(random_state=0), CHUNKED, Y, **settings) for _ in range(2))
    same_bits(one, other)
    assert np.isnan(other.rounds_[0]["accuracy"])


def test_a_checkpoint_of_other_labels_is_refused(tmp_path):
    settings = {"rounds": 1, "mining": "within", "checkpoint": tmp_path / "rounds.paloma"}
    fit(paloma.LODML(random_state=0), CHUNKED, Y, **settings)
    for other in ((Y + 1) % 10, Y + 10, Y.astype(str)):
        with pytest.raises(ValueError, match=r"rounds of another fit \(labels\)"):
            fit(paloma.LODML(random_state=0), CHUNKED, other, **settings)


def test_seeds_matter_and_the_estimator_is_not_changed():
    learner = paloma.LODML(random_state=0)
    one = fit(learner, CHUNKED, Y, rounds=1)
    assert not hasattr(learner, "classes_")
    assert (fit(paloma.LODML(random_state=1), CHUNKED, Y, rounds=1).shared_ != one.shared_).any()


def big_rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 8, 6000)
    return rng.normal(size=(6000, 48)) + rng.normal(size=(8, 48))[y] * 0.6, y


def learning(client):
    """Workers on which a shard is being learned now."""
    return [worker for worker, keys in client.processing().items() if any("learn-" in str(key) for key in keys)]


def test_a_worker_killed_in_the_middle_of_a_round_changes_nothing(client):
    X, y = big_rows()
    rows = da.from_array(X, chunks=(1000, 48))
    learner = paloma.LODML(random_state=0)
    pids, killed = client.run(os.getpid), []

    def kill():
        while not killed:
            for worker in learning(client)[:1]:
                os.kill(pids[worker], signal.SIGKILL)
                killed.append(worker)
            time.sleep(0.005)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    there = fit(learner, rows, y, rounds=2, mining="within", client=client)
    thread.join()
    client.wait_for_workers(2, timeout=60)
    here = fit(learner, rows, y, rounds=2, mining="within")
    np.testing.assert_array_equal(here.shared_, there.shared_)
    np.testing.assert_array_equal(here.local_, there.local_)


CLIENT = """
import os, signal, sys
import dask.array as da, paloma, distributed
from paloma.distributed import _checkpoint, fit
from sklearn.datasets import load_digits

write = _checkpoint.Checkpoint.write

def write_and_die(self, learner, report):
    write(self, learner, report)
    if len(report) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

_checkpoint.Checkpoint.write = write_and_die
if __name__ == "__main__":
    X, y = load_digits(return_X_y=True)
    with distributed.Client(sys.argv[1]) as client:
        rows = da.from_array(X[:900] / 16.0, chunks=(150, 64))
        learner = paloma.L2ODML(random_state=0, n_components=30)
        fit(learner, rows, y[:900], rounds=4, client=client, checkpoint=sys.argv[2])
"""


def test_a_killed_client_goes_on_from_its_checkpoint(client, tmp_path):
    path = tmp_path / "rounds.paloma"
    address = client.scheduler.address
    done = subprocess.run([sys.executable, "-c", CLIENT, address, str(path)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    learner = paloma.L2ODML(random_state=0, n_components=30)
    assert len(paloma.load(path).rounds_) == 2
    resumed = fit(learner, CHUNKED, Y, rounds=4, client=client, checkpoint=path)
    whole = fit(learner, CHUNKED, Y, rounds=4)
    same_bits(resumed, whole)
    same_bits(fit(learner, CHUNKED, Y, rounds=4, checkpoint=path), whole)  # nothing is left to do
    with pytest.raises(ValueError, match=r"rounds of another fit \(parameters\)"):
        fit(paloma.L2ODML(random_state=0, n_components=31), CHUNKED, Y, rounds=4, checkpoint=path)
    with pytest.raises(ValueError, match=r"rounds of another fit \(sums\)"):
        fit(learner, CHUNKED * 2, Y, rounds=4, checkpoint=path)


# -- where the rows are --------------------------------------------------------------------------------------------


def test_every_kind_of_source_gives_the_same_model(client, tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    np.save(tmp_path / "X.npy", DIGITS)
    np.save(tmp_path / "y.npy", Y)
    frame = pandas.DataFrame(DIGITS, columns=[f"f{k}" for k in range(64)])
    table = frame.assign(label=Y)
    for k in range(3):
        table.iloc[300 * k : 300 * (k + 1)].to_parquet(tmp_path / f"part{k}.parquet")
    learner = paloma.LODML(random_state=0)
    expected = fit(learner, CHUNKED.rechunk((300, 20)), Y, rounds=2)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    sources = {
        "path": (tmp_path / "X.npy", str(tmp_path / "y.npy")),
        "memory map": (mapped, Y),
        "arrays": (CHUNKED.rechunk((300, 64)), da.from_array(Y, chunks=500)),
        "dataframe": (dd.from_pandas(table, npartitions=3, sort=False), "label"),
        "dataframe and series": (dd.from_pandas(frame, npartitions=3), dd.from_pandas(table["label"], npartitions=3)),
        "parquet": (tmp_path, "label"),
    }
    monkeypatch.setattr(_shards.File, "read", lambda *_: pytest.fail("rows went through the client"))
    for kind, (X, y) in sources.items():
        if kind == "parquet":
            for name in ("X.npy", "y.npy"):
                os.remove(tmp_path / name)
        model = fit(learner, X, y, rounds=2, shard_rows=300, client=client)
        assert len(model.rounds_) == 2
        np.testing.assert_array_equal(model.shared_, expected.shared_, err_msg=kind)
        np.testing.assert_array_equal(model.local_, expected.local_, err_msg=kind)
        assert hasattr(model, "feature_names_in_") == ("frame" in kind or kind == "parquet")


def test_labels_of_words_and_rows_without_a_label():
    words = np.array(["a", "b", "c"])[Y % 3].astype(object)
    words[::7] = "?"
    model = fit(paloma.LODML(random_state=0, unlabeled="?"), CHUNKED, da.from_array(words, chunks=150), rounds=1)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.mined_["anchors"] < 900 * 6 / 7


def test_sparse_chunks():
    X = sp.random(600, 80, density=0.2, random_state=0, format="csr")
    y = np.random.default_rng(0).integers(0, 3, 600)
    pieces = [da.from_array(X[a : a + 200], chunks=-1, asarray=False) for a in (0, 200, 400)]
    learner = paloma.L2ODML(random_state=0, n_components=30)
    model = fit(learner, da.concatenate(pieces), y, rounds=2)
    dense = fit(learner, da.from_array(X.toarray(), chunks=(200, 80)), y, rounds=2)
    assert model.n_triplets_ == dense.n_triplets_
    np.testing.assert_allclose(model.shared_, dense.shared_, atol=1e-8)


def test_early_stopping_ends_the_rounds():
    model = fit(paloma.LODML(random_state=0, early_stopping=True), CHUNKED, Y, rounds=30, held_out=0.2)
    scores = [row["accuracy"] for row in model.rounds_]
    assert 2 <= len(scores) < 30
    assert scores[-1] <= max(scores[:-1])
    with pytest.raises(ValueError, match="too small to hold any out"):
        fit(paloma.LODML(random_state=0, early_stopping=True), CHUNKED[:60].rechunk((15, 64)), Y[:60])


def test_a_dataframe_is_learned_here_without_a_warning():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(DIGITS[:300], columns=[f"f{k}" for k in range(64)]).assign(label=Y[:300])
    model = fit(paloma.LODML(random_state=0), dd.from_pandas(table, npartitions=2), "label", rounds=1)
    assert model.rounds_[0]["accuracy"] > 0.5
    assert len(model.feature_names_in_) == 64


# -- model selection -----------------------------------------------------------------------------------------------


def test_grid_search_through_joblib(client):
    from joblib import parallel_config

    grid = {"C": [0.001, 0.02], "lam": [0.3, 0.7]}
    searches = []
    for backend in ("dask", "sequential"):
        with client.as_current(), parallel_config(backend=backend):
            searches.append(GridSearchCV(paloma.LODML(random_state=0, n_epochs=1), grid, cv=2).fit(DIGITS, Y))
    np.testing.assert_array_equal(*(search.cv_results_["mean_test_score"] for search in searches))
    assert searches[0].best_params_ == searches[1].best_params_


# -- clusters ------------------------------------------------------------------------------------------------------


def test_clusters_that_cannot_be_had():
    with pytest.raises(ValueError, match="address of a scheduler, or the number of workers"), connected():
        pass
    with pytest.raises(ValueError, match="workers must be"), connected(workers=0):
        pass
    with pytest.raises(ValueError, match="No such file"), connected("tls://127.0.0.1:9", tls_ca="nowhere.pem"):
        pass
    began = time.monotonic()
    refused = pytest.raises(ConnectionError, match=r"No Dask scheduler answers at tcp://127.0.0.1:9")
    with refused, connected("tcp://127.0.0.1:9", timeout=1):
        pass
    assert time.monotonic() - began < 20


def test_a_scheduler_without_workers_is_told_of():
    nobody = distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None)
    told = pytest.warns(UserWarning, match="has no workers")
    with nobody, distributed.Client(nobody, set_as_default=False) as idle, told:
        _runner.runner(idle)


def test_a_local_cluster_listens_on_the_loopback_interface_alone(client):
    psutil = pytest.importorskip("psutil")
    workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
    open_ones = [c.laddr.ip for p in [psutil.Process(), *workers] for c in p.net_connections() if c.status == "LISTEN"]
    assert len(open_ones) >= 4
    assert set(open_ones) == {"127.0.0.1"}
    assert set(client.nthreads().values()) == {1}
    with pytest.raises(HTTPError, match="404") as no_dashboard:
        urlopen(client.dashboard_link)
    no_dashboard.value.close()
