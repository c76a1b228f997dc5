"""Altered, crafted and half-written files: one kind of error, no code run, no memory beyond the file, no crash.

`make test-long` runs a million altered files and a hundred thousand crafted ones, these with NUMBA_BOUNDSCHECK=1 in
processes of their own; PALOMA_FILES=0.01 in the environment makes that a hundredth of both.
"""

import json
import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import paloma
from helpers import crafted
from paloma.exceptions import ModelFileError

SHARE = float(os.environ.get("PALOMA_FILES", "1"))
PARTS = 10


def all_files():
    """A file of each kind of model, and rows to use it with."""
    out = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.paloma"
        for name, model, rows in crafted.models():
            paloma.save(model, path)
            out.append((name, path.read_bytes(), rows))
    return out


@pytest.fixture(scope="module")
def files():
    return all_files()


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


def mutated(raw, other, draw):
    """A file with one thing wrong."""
    out, n = bytearray(raw), len(raw)
    a, b = sorted((draw.randrange(n), draw.randrange(n)))
    kind = draw.randrange(9)
    if kind == 0:
        out[a] ^= 1 << draw.randrange(8)
    elif kind == 1:
        out[a] = draw.randrange(256)
    elif kind == 2:
        del out[a:]
    elif kind == 3:
        del out[a : a + draw.randrange(1, 64)]
    elif kind == 4:
        out[a:a] = draw.randbytes(draw.randrange(1, 64))
    elif kind == 5:
        out[a:b] = bytes(b - a)
    elif kind == 6:
        out[a:] = other[a:]
    elif kind == 7:
        out[:8] = draw.randrange(1 << draw.randrange(1, 64)).to_bytes(8, "little")
    else:
        out += draw.randbytes(draw.randrange(1, 64))
    return bytes(out)


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


def check_altered(files, path, n, seed):
    """Files with a wrong digest: nothing but the digest is looked at."""
    draw, known = random.Random(seed), {raw for _, raw, _ in files}
    for k in range(n):
        altered = mutated(draw.choice(files)[1], draw.choice(files)[1], draw)
        if altered in known:
            continue
        path.write_bytes(altered)
        if k % 20:
            refused(path)
        else:
            assert peak_of(lambda: refused(path)) < len(altered) + 200_000


def test_altered_files(files, tmp_path):
    check_altered(files, tmp_path / "model.paloma", 2_000, seed=0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(PARTS))
def test_a_million_altered_files(files, tmp_path, seed):
    check_altered(files, tmp_path / "model.paloma", int(1_000_000 * SHARE / PARTS), seed=seed + 1)


def check_crafted(files, path, first, n):
    """Files with the right digest, each made from its number: refused as such, or loaded, and then used."""
    n_loaded = 0
    for number in range(first, first + n):
        draw = random.Random(number)
        name, raw, rows = draw.choice(files)
        path.write_bytes(crafted.crafted(raw, draw))
        try:
            model = crafted.load(path, measured=number % 20 == 0)
            if model is not None:
                n_loaded += 1
                crafted.use(model, rows, path)
        except Exception as error:
            raise AssertionError(f"crafted file {number}, made of {name}: {error!r}") from error
    return n_loaded


@pytest.mark.parametrize("part", range(4))
def test_crafted_files(files, tmp_path, part):
    n_loaded = check_crafted(files, tmp_path / "model.paloma", 250 * part, 250)
    assert 0 < n_loaded < 100


CRAFTED = """
import os, sys
from pathlib import Path
import test_persist_damage as test
os.fsync = lambda _: None
test.check_crafted(test.all_files(), Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
"""


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand_crafted_files(tmp_path, tmp_path_factory, part):
    n, cache = int(100_000 * SHARE / PARTS), tmp_path_factory.getbasetemp() / "bounds checked"
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(paths)}
    arguments = [str(tmp_path / "model.paloma"), str(1000 + part * n), str(n)]
    command = [sys.executable, "-X", "faulthandler", "-c", CRAFTED, *arguments]
    done = subprocess.run(command, env={**os.environ, **checked}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


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
