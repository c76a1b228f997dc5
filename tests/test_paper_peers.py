"""The bench of the peers: files go to another environment and come back, here with a stand-in for metric-learn."""

import os
import sys

import numpy as np
import pytest
from benchmarks import paper_peers as peers

from helpers.peers import STAND_IN
from paloma.evaluate import Euclid, Protocol
from paloma.experiments._journal import Journal
from paloma.experiments._tasks import split_of, table2
from paloma.experiments.paper import SETS

METRIC_LEARN = (
    STAND_IN
    + """

class LMNN(StandIn):
    def __init__(self, **parameters):
        assert parameters["n_neighbors"] == 3


class SCML_Supervised(StandIn):
    pass
"""
)


@pytest.fixture
def data(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), 12)
    X = rng.normal(size=(12, 16))[y] + rng.normal(size=(len(y), 16))
    np.savez(tmp_path / "caltech101.npz", X=X, y=y)
    monkeypatch.setenv("PALOMA_DATA", str(tmp_path))
    return tmp_path


def stand_in(folder, monkeypatch, seconds=0):
    (folder / "metric_learn.py").write_text(METRIC_LEARN.format(seconds=seconds))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PEERS_PYTHON", sys.executable)
    monkeypatch.setenv("SETS", "caltech101_10")
    monkeypatch.setenv("OUTPUT", str(folder / "out"))


def test_results_come_back_into_the_journal_and_are_not_made_twice(data, monkeypatch):
    stand_in(data, monkeypatch)
    peers.main()
    path = data / "out" / "journal.jsonl"
    journal = Journal(path)
    assert len(journal.records) == 4
    euclid = table2(peers.task_of("caltech101_10", 70, "Euclid", 0))
    found = journal.get(peers.task_of("caltech101_10", 70, "LMNN", 0))
    assert found["accuracy"] == euclid["accuracy"]  # a multiple of the identity changes no neighbor
    assert set(found) == set(euclid)
    before = path.read_text()
    peers.main()
    assert path.read_text() == before


def test_a_peer_that_takes_too_long_is_left_out(data, monkeypatch):
    stand_in(data, monkeypatch, seconds=60)
    split = peers.Split(peers.task_of("caltech101_10", 70, "Euclid", 0))
    assert peers.fit_peer(split, "lmnn", sys.executable, 3) is None


def test_time_to_accuracy_ends_at_the_first_stop_that_is_good_enough(data):
    task = peers.task_of("caltech101_10", 30, "Euclid", 0)
    split = peers.Split(task)
    peers.time_to(split, 0.0)  # compiles
    seconds, accuracy = peers.time_to(split, 0.0)
    longer, best = peers.time_to(split, 2.0)
    assert 0 < seconds < longer
    assert 0 < accuracy <= 1
    assert 0 < best <= 1


def test_the_rows_are_those_that_suit_euclid_best(data):
    task = peers.task_of("caltech101_10", 70, "Euclid", 3)
    X, y, _ = SETS["caltech101_10"].load()
    train, _ = split_of(SETS["caltech101_10"], 70, 3)
    protocol = Protocol(SETS["caltech101_10"].recipe("ours"))
    assert peers.Split(task).power == protocol.tune(Euclid(), X[train], y[train], 3)[0].power


def test_without_the_environment_it_says_so(monkeypatch, capsys):
    monkeypatch.setenv("PEERS_PYTHON", "nowhere")
    peers.main()
    assert "make bench-paper-peers builds one" in capsys.readouterr().out
