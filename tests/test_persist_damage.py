"""Altered, crafted and half-written files: one kind of error, no code run, no memory beyond the file, no crash.

`make test-long` runs a million altered files and all crafted ones, 140,000, in processes of their own that check the
bounds of compiled loops. PALOMA_FILES=0.01 in the environment makes that a hundredth of both; with a folder in
PALOMA_STATE, whoever starts again goes on where it stopped.
"""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import paloma
from helpers import crafted, mass
from paloma.exceptions import ModelFileError
from paloma.persist import _about

SHARE = float(os.environ.get("PALOMA_FILES", "1"))
PARTS = 10


@pytest.fixture(scope="module")
def files():
    return mass.all_files()


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    """For the disk, and for a list of all libraries."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(_about, "environment", dict)


def peak_of(function):
    tracemalloc.start()
    try:
        function()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def refused(path):
    with pytest.raises(ModelFileError) as error:
        paloma.load(path)
    assert str(path) in str(error.value)


def test_altered_files(files, tmp_path):
    altered = mass.Altered(files)
    for number in range(2_000):
        altered.attempt(number, tmp_path / "model.paloma")


@pytest.mark.parametrize("part", range(4))
def test_crafted_files(files, tmp_path, part):
    """Of one thing wrong, and of two."""
    every, n_loaded = mass.Crafted(files), 0
    first = 250 * part if part < 3 else len(every.singles)
    for number in range(first, first + 250):
        try:
            n_loaded += every.attempt(number, tmp_path / "model.paloma")
        except Exception as error:
            raise AssertionError(f"crafted file {number}: {error!r}") from error
    assert 0 < n_loaded < 100


def assert_all_right(kind, total, part, folder):
    """A tenth of all files, in the folder PALOMA_STATE if there is one: started again, it goes on where it stopped."""
    folder = Path(os.environ.get("PALOMA_STATE", folder))
    n = int(total * SHARE / PARTS)
    found = mass.tried(kind, folder, part * n, (part + 1) * n)
    told = "".join(path.read_text()[-4000:] for path in folder.glob(f"{kind} {part * n} * wrong"))
    assert (found.at, found.wrong, found.crashed) == ((part + 1) * n, 0, 0), told
    assert found.refused + found.loaded == n


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_a_million_altered_files(tmp_path, part):
    assert_all_right("altered", 1_000_000, part, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand_crafted_files(tmp_path, part):
    """More than every entry of the schema with every bad value: what is left of them has two things wrong."""
    assert_all_right("crafted", 140_000, part, tmp_path)


def test_a_crash_is_counted_and_gone_past(tmp_path):
    """The trial of files itself: a process that dies, and a file that is wrong."""
    found = mass.tried("selftest", tmp_path, 0, 6)
    assert (found.at, found.refused, found.loaded, found.wrong, found.crashed) == (6, 2, 2, 1, 1)


@pytest.mark.parametrize("number", range(21))
def test_resealing_alone_changes_nothing(files, tmp_path, number):
    if number >= len(files):
        pytest.skip("faiss is not installed")
    _, raw, rows = files[number]
    path = tmp_path / "model.paloma"
    path.write_bytes(crafted.sealed(*crafted.opened(raw)))
    paloma.save(paloma.load(path), path)
    again = crafted.opened(path.read_bytes())
    assert again[0]["model"] == crafted.opened(raw)[0]["model"]
    assert {name: array.tobytes() for name, array in again[1].items()} == {
        name: array.tobytes() for name, array in crafted.opened(raw)[1].items()
    }
    crafted.use(paloma.load(path), rows, path)


def test_hostile_sizes_allocate_nothing(files, tmp_path):
    path, raw = tmp_path / "model.paloma", files[0][1]
    n = int.from_bytes(raw[:8], "little")
    table = json.loads(raw[8 : 8 + n])
    name = next(name for name in table if name not in ("__metadata__", "sha256"))
    for shape in ([10**9, 10**9], [2**62], [-1], [0]):
        path.write_bytes(crafted.resealed({**table, name: {**table[name], "shape": shape}}, raw[8 + n : -32]))
        assert peak_of(lambda: refused(path)) < 10 * len(raw) + 200_000
    path.write_bytes((2**62).to_bytes(8, "little") + raw[8:])
    assert peak_of(lambda: refused(path)) < len(raw) + 200_000


# -- crashes while saving --------------------------------------------------------------------------------------

SAVER = """
import itertools, os, random, signal, sys, time
import numpy as np, paloma
path, times, draw = sys.argv[1], int(sys.argv[2]), random.Random(0)
rng = np.random.default_rng(0)
X, y = rng.normal(size=(400, 30)), rng.integers(0, 12, 400)
models = [paloma.LODML(random_state=k).fit(X, y) for k in (0, 1)]
versions, seen = [model.shared_.tobytes() for model in models], []
paloma.save(models[0], path)
begin = time.perf_counter()
paloma.save(models[0], path)
duration = time.perf_counter() - begin
for _ in range(times):
    child = os.fork()
    if child == 0:
        for model in itertools.cycle(models):
            paloma.save(model, path)
    time.sleep(draw.random() * 4 * duration)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    seen.append(versions.index(paloma.load(path).shared_.tobytes()))
print(len(seen), len(set(seen)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")
@pytest.mark.parametrize("times", [40, pytest.param(200, marks=pytest.mark.long)])
def test_killed_while_saving(tmp_path, times):
    command = [sys.executable, "-c", SAVER, str(tmp_path / "model.paloma"), str(times)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stdout == f"{times} 2\n", result.stderr
    assert len(list(tmp_path.iterdir())) > 1, "no kill came in the middle of a save"


def test_an_error_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.paloma"
    old, new = (model for _, model, _ in list(crafted.models())[:2])
    paloma.save(old, path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        paloma.save(new, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.paloma"]
