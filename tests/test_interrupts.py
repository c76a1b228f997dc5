"""Ctrl-C at any moment of `partial_fit`: the model is the one before the call, or the one after it."""

import subprocess
import sys
from pathlib import Path

import pytest

import paloma

# In a process of its own, because a Ctrl-C that came too late would end the tests.
SCRIPT = """
import copy, os, random, signal, sys, threading, time
import numpy as np
import paloma
from helpers import crafted
from paloma.persist import _about

_about.threadpool_info = list
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background lacks
path, times, names = crafted.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
rng, draw = np.random.default_rng(5), random.Random(5)
Y = np.arange(120) % 4
X = rng.normal(size=(120, 4)) + Y[:, None]
BOUNDED = {"OKS": {"budget": 40, "when_full": "forget"}, "OMKS": {"budget": 40, "when_full": "forget"}}


def learner(name):
    return getattr(paloma, name)(random_state=0, reservoir_size=10, **BOUNDED.get(name, {}))


def content(model):
    paloma.save(model, path)
    header, arrays = crafted.opened(path.read_bytes())
    return header["model"], {name: array.tobytes() for name, array in arrays.items()}


def press(delay):
    time.sleep(delay)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def interrupted(model, rows):
    # whether partial_fit ended by a Ctrl-C that came at a random moment of it, or soon after
    begun = time.perf_counter()
    copy.deepcopy(model).partial_fit(X[rows], Y[rows])
    thread = threading.Thread(target=press, args=(draw.random() * 1.2 * (time.perf_counter() - begun),))
    ended = False
    try:
        thread.start()
        model.partial_fit(X[rows], Y[rows])
        ended = True
        thread.join()
    except KeyboardInterrupt:
        pass
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt:
            pass
    return not ended


for name in names:
    counts, model = {"before": 0, "after": 0, "late": 0}, learner(name).partial_fit(X[:40], Y[:40])
    while counts["before"] + counts["after"] < times:
        rows = rng.integers(0, 120, 30)
        if draw.random() < 0.1:  # no triplets: only the memory changes
            rows = np.flatnonzero(Y == draw.randrange(4))[:3]
            model = learner(name).partial_fit(X[rows], Y[rows])
        before, after = content(model), content(copy.deepcopy(model).partial_fit(X[rows], Y[rows]))
        pressed = interrupted(model, rows)
        found = content(model)
        assert found in (before, after), f"{name}: neither before nor after"
        assert pressed or found == after, f"{name}: rows were lost"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        again = paloma.load(path)
        assert content(again.partial_fit(X, Y)) == content(copy.deepcopy(model).partial_fit(X, Y))
        counts["late" if not pressed else "before" if found == before else "after"] += 1
    print(name, counts, flush=True)
    assert times < 100 or (counts["before"] and counts["after"])
"""


def press(names, times, folder):
    arguments = [str(folder / "model.paloma"), str(times), *names]
    path = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})"
    command = [sys.executable, "-c", f"{path}\n{SCRIPT}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_at_some_moments(tmp_path):
    press(paloma.estimators.__all__, 10, tmp_path)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", paloma.estimators.__all__)
def test_ctrl_c_at_any_moment(name, tmp_path):
    press([name], 200, tmp_path)
