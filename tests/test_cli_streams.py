"""``paloma update``: batches, streams that pause, errors and signals in the middle of one."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import paloma
from helpers import inside
from helpers.cli import NAMES, X, Y, run
from paloma.cli._tail import Interrupt, follow
from same import assert_same

BARE = ("--prepare", "none", "--metric-only")  # a new model is the learner itself
COLUMNS = ("columns_", "feature_names_in_")  # what a table adds to a learner


def test_update_equals_the_library(files):
    train, test, model = files
    text = train.read_text()
    result = run("update", model, "--learner", "LODML", *BARE, "--batch", 51, input=text)
    metric = paloma.LODML(random_state=0).partial_fit(X[:50], Y[:50])  # the header is one of the first 51 lines
    for a in range(50, 200, 51):
        metric.partial_fit(X[a : min(a + 51, 200)], Y[a : min(a + 51, 200)])
    found = paloma.load(model)
    assert found.columns_ == {"features": NAMES, "label": "label"}
    assert_same(found, metric, without=COLUMNS)
    assert "200 rows" in result.stderr
    run("update", model, test, "--batch", 50, "--json")
    for part in (slice(200, 249), slice(249, 299), slice(299, 300)):
        metric.partial_fit(X[part], Y[part])
    assert_same(paloma.load(model), metric, without=COLUMNS)


def test_update_of_a_classifier_brings_its_rows_under_the_new_metric(files):
    train, test, model = files
    run("fit", train, "-o", model, "-q")
    before = paloma.load(model)
    run("update", model, test, "-q", "--batch", 1000)
    after = paloma.load(model)
    metric = before[-1].metric_.partial_fit(before[0].transform(X[200:]), Y[200:])
    assert_same(after[-1].metric_, metric, without=COLUMNS)
    again = paloma.MetricKNeighborsClassifier(metric).fit(before[0].transform(X), Y)
    for one, two in zip(after[-1].kneighbors(X), again.kneighbors(X), strict=True):
        np.testing.assert_array_equal(one, two)


def test_update_with_json_lines_of_both_kinds(tmp_path):
    model = tmp_path / "model.paloma"
    rows = [{"x": x, "label": y} for x, y in zip(X[:60].tolist(), Y[:60].tolist(), strict=True)]
    points = {"anchor": X[0].tolist(), "positive": X[1].tolist(), "negative": X[2].tolist()}
    triplets = [{**points, "classes": [Y[1], Y[2]], "weight": 0.5}, {**points, "classes": [Y[1], Y[2]]}]
    run("update", model, "-l", "ODML", *BARE, input="\n".join(map(json.dumps, rows + triplets)))
    metric = paloma.ODML(random_state=0).partial_fit(X[:60], Y[:60])
    classes = np.array([[Y[1], Y[1], Y[2]]] * 2)
    metric.partial_fit(None, classes, triplets=X[[[0, 1, 2]] * 2], triplet_weight=[0.5, 1.0])
    assert_same(paloma.load(model), metric, without=COLUMNS)


def test_update_without_a_model(tmp_path):
    result = run("update", tmp_path / "none.paloma", input="a,label\n1,x\n", code=1)
    assert "none.paloma does not exist. Create a new model with --learner" in result.stderr


def test_an_error_in_a_stream_keeps_what_was_learned_before(files):
    train, _, model = files
    result = run(
        "update", model, "-l", "ODML", *BARE, "--batch", 101, input=train.read_text() + "1,2,oops,4,red\n", code=1
    )
    assert "standard input, row 201, column 'c': 'oops' is not a number" in result.stderr
    metric = paloma.ODML(random_state=0).partial_fit(X[:100], Y[:100])
    assert_same(paloma.load(model), metric, without=COLUMNS)


def following(model, save_every):
    """`paloma update` that waits for rows on standard input."""
    command = [sys.executable, "-m", "paloma", "update", str(model), "-l", "ODML", *BARE, "--patience", "0.1"]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*command, "--save-every", save_every], **pipes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves(number, files):
    train, _, model = files
    with following(model, "0") as process:
        process.stdin.write(train.read_text())
        process.stdin.flush()
        assert process.stderr.readline() == "reading standard input\n"
        assert "mean loss" in process.stderr.readline()
        time.sleep(0.5)
        assert not model.exists()
        os.kill(process.pid, number)
        shown = process.stderr.read()
        assert process.wait() == 128 + number
    assert "Traceback" not in shown
    assert_same(paloma.load(model), paloma.ODML(random_state=0).partial_fit(X[:200], Y[:200]), without=COLUMNS)


def test_a_silent_stream_is_saved(files):
    train, _, model = files
    with following(model, "0.1") as process:
        process.stdin.write(train.read_text())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not model.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        found = paloma.load(model)
        process.stdin.close()
        process.stdin = None
        assert process.wait() == 0
    assert_same(found, paloma.ODML(random_state=0).partial_fit(X[:200], Y[:200]), without=COLUMNS)


def test_who_reads_us_may_stop(files):
    train, _, model = files
    run("fit", train, "-o", model, "-q")
    command = f"{sys.executable} -m paloma search {model} {train} --json | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert json.loads(result.stdout)["query"] == 0
    assert result.stderr == ""


def test_a_second_ctrl_c_saves_nothing_half_learned(files, monkeypatch):
    train, _, model = files
    learn, calls = paloma.ODML.partial_fit, []

    def interrupted(self, *arguments, **named):
        calls.append(1)
        if len(calls) == 2:
            inside.state(self).shared[:] = 7.0
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return learn(self, *arguments, **named)

    monkeypatch.setattr(paloma.ODML, "partial_fit", interrupted)
    result = run("update", model, train, "-l", "ODML", "--batch", 50, "-q", code=130)
    assert result.stderr == "paloma: interrupted\n"
    assert not model.exists()


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_waiting_for_queries():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        timer = threading.Timer(0.2, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            next(follow(pipe, 10, 30.0, Interrupt()))
    os.close(writing)
