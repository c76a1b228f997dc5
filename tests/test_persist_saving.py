"""What `save` owes the file that is there: snapshots, modes, locks, and labels that a file can hold."""

import json
import os
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import paloma
from helpers import inside
from helpers.cli import run
from helpers.crafted import X, Y
from paloma.estimators import learner_of
from paloma.exceptions import ModelFileError
from paloma.persist import _container, locked

SMALL = {"random_state": 0, "n_targets": 1, "n_impostors": 3, "n_epochs": 1}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.paloma"


def test_s1_a_classifier_over_soft_regions(path):
    """It was saved, and could not be loaded."""
    metric = paloma.LODML(**SMALL, regions=3, soft_regions=True)
    model = paloma.MetricKNeighborsClassifier(metric).fit(X, Y)
    paloma.save(model, path)
    copy = paloma.load(path)
    for one, two in zip(model.kneighbors(X), copy.kneighbors(X), strict=True):
        np.testing.assert_array_equal(one, two)
    for each in (model, copy):
        each.metric_.partial_fit(X, Y)
    np.testing.assert_array_equal(model.metric_.shared_, copy.metric_.shared_)


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["LODML", "L2ODML", "SLMOML", "OMDML", "OKS"])
def test_s2_saves_while_learning(name, times, path):
    """Live memory was hashed, then written: some files were unreadable, in the place of the good one."""
    model, stop = getattr(paloma, name)(**SMALL).fit(X, Y), threading.Event()
    paloma.save(model, path)

    def learn():
        rng = np.random.default_rng(0)
        while not stop.is_set():
            rows = rng.permutation(len(X))[:20]
            model.partial_fit(X[rows], np.array([f"{y}{k % 5}" for k, y in enumerate(Y[rows])]))

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        for _ in range(times):
            paloma.save(model, path)
            assert type(paloma.load(path)) is type(model)
    finally:
        stop.set()
        thread.join()


def test_s2_what_is_written_is_verified_before_it_takes_the_place(path, monkeypatch):
    paloma.save(paloma.ODML(**SMALL).fit(X, Y), path)
    before = path.read_bytes()
    monkeypatch.setattr(_container, "_sealed", lambda chunks: [*chunks, bytes(32)])
    with pytest.raises(OSError, match="what came back from the disk"):
        paloma.save(paloma.LODML(**SMALL).fit(X, Y), path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (Y.astype("S"), Y),
        (Y, Y.astype("S")),
        (np.uint64(2**63) + np.arange(40, dtype=np.uint64) % 3, np.arange(40) % 3 - 1),
        (np.arange(40) % 3 - 1, np.uint64(2**63) + np.arange(40, dtype=np.uint64) % 3),
        (2**60 + np.arange(40) % 3, np.arange(40) % 3 / 2),
    ],
)
def test_s3_labels_that_collide(first, then, path):
    """Joined, they gave a class twice, and a file that could not be read."""
    model = paloma.LODML(**SMALL).partial_fit(X, first)
    paloma.save(model, path)
    with pytest.raises(TypeError, match="convert y first"):
        model.partial_fit(X, then)
    paloma.save(model, path)
    np.testing.assert_array_equal(paloma.load(path).classes_, np.unique(first))


def test_s3_labels_that_do_not_collide(path):
    model = paloma.LODML(**SMALL).partial_fit(X, np.arange(40, dtype=np.uint64) % 3)
    model.partial_fit(X, np.arange(40) % 3 - 1)
    paloma.save(model, path)
    assert paloma.load(path).classes_.tolist() == [-1, 0, 1, 2]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_s4_a_file_that_is_replaced_keeps_its_mode(path):
    """0600 became 0644, and files hold training rows."""
    model = paloma.ODML(**SMALL).fit(X, Y)
    for mask, mode in ((0o022, 0o644), (0o077, 0o600)):
        before = os.umask(mask)
        try:
            paloma.save(model, path)
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == mode
        path.unlink()
    for mode in (0o600, 0o640, 0o664):
        path.touch()
        path.chmod(mode)
        paloma.save(model, path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


def following(model):
    command = [sys.executable, "-m", "paloma", "update", str(model), "-l", "ODML", "-q", "--save-every", "0"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_s5_a_second_update_of_one_file_is_refused(files):
    """Both ended well, and what one had learned was lost."""
    train, _, model = files
    with following(model) as process:
        lock = model.with_name(f".{model.name}.lock")
        deadline = time.monotonic() + 60
        while not lock.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        result = run("update", model, train, "-l", "ODML", code=1)
        assert "is being updated by another process: wait for it to end" in result.stderr
        process.stdin.write(train.read_text())
        process.stdin.close()
        assert process.wait() == 0
    assert not lock.exists()
    once = learner_of(paloma.load(model)).n_triplets_
    run("update", model, train, "-q")
    assert learner_of(paloma.load(model)).n_triplets_ > once


def test_s5_a_lock_does_not_outlive_its_process(path):
    code = ("import os, sys; from paloma.persist import locked\n"
            "with locked(sys.argv[1]): os._exit(0)")  # fmt: skip
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    with locked(path), pytest.raises(ModelFileError, match="another process"), locked(path):
        pass
    assert list(path.parent.iterdir()) == []
    with pytest.raises(FileNotFoundError, match="There is no folder"), locked(path / "model"):
        pass


@pytest.mark.long
def test_s5_nothing_acknowledged_is_lost(files):
    train, _, model = files
    run("update", model, train, "-l", "ODML", "-q")
    rows, times = len(train.read_text().splitlines()) - 1, 100
    code = """
import subprocess, sys
done = [subprocess.run([sys.executable, "-m", "paloma", "update", *sys.argv[1:3], "-q"], capture_output=True).returncode
        for _ in range(int(sys.argv[3]))]
print(done.count(0), done.count(1), len(done))
"""
    command = [sys.executable, "-c", code, str(model), str(train), str(times)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    counts = [list(map(int, process.communicate()[0].split())) for process in both]
    assert all(ended + refused == times for ended, refused, _ in counts)
    assert inside.memory(learner_of(paloma.load(model))).seen.sum() == rows * (1 + sum(ended for ended, _, _ in counts))


def test_a_header_that_is_too_large_is_not_written(path):
    model = paloma.OMKS(**SMALL, kernels=[("rbf", {"gamma": 0.5}), "linear"]).fit(X, Y)
    model._fit_of = {f"part {k}": 0.5 for k in range(200_000)}
    with pytest.raises(ModelFileError, match="do not fit into a model file"):
        paloma.save(model, path)


def test_many_columns_and_classes(path):
    names = [f"a column with the number {k}" for k in range(100_000)]
    model = paloma.LODML(**SMALL).fit(X, Y)
    model.columns_ = {"features": names, "label": "kind"}
    paloma.save(model, path)
    assert paloma.load(path).columns_["features"] == names
    raw = path.read_bytes()
    header = json.loads(json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]["header"])
    assert len(header["summary"]["features"]) == 1000
