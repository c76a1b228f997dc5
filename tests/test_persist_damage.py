"""Damaged, hostile and half-written files: one kind of error, no code run, no memory beyond the file, no crash."""

import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import paloma
from paloma.exceptions import ModelFileError
from same import assert_same

RNG = np.random.default_rng(0)
Y = np.array(list("abc"))[RNG.integers(0, 3, 60)]
X = RNG.normal(size=(60, 4)) + (Y[:, None] == np.array(list("abcd")))
JUNK = (None, True, -1, 0, 1, 10**30, 1e308, -0.5, "", "x", "LODML", "0", [], [1], {}, {"same": 0}, {"same": 10**9},
        {"tuple": 3}, {"float": "nan"}, {"scalar": ["<f8", "x"]}, {"array": {"name": "0"}}, {"object": {}},
        {"array": {"name": "1", "order": "C", "writeable": True}},
        {"object": {"class": "Dense", "fields": {}}}, {"object": {"class": "os", "fields": {"system": "x"}}},
        {"random": ["Generator", {}]}, {"dict": [[[], 1]]}, {"set": [[]]},
        {"objects": {"shape": [10**12], "items": []}},
        {"sparse": {"kind": "csr_matrix", "shape": [10**12, 10**12], "data": [], "indices": [],
                    "indptr": []}})  # fmt: skip


def models():
    yield paloma.LODML(random_state=0).partial_fit(X, Y)
    yield paloma.L2OSL(random_state=0, n_components=2).fit(X, Y)
    yield make_pipeline(StandardScaler(), paloma.MetricKNeighborsClassifier(paloma.ODML(random_state=0))).fit(X, Y)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    out = []
    for k, model in enumerate(models()):
        path = tmp_path_factory.mktemp("models") / f"{k}.paloma"
        paloma.save(model, path)
        out.append(path.read_bytes())
    return out


@pytest.fixture
def no_pickle(monkeypatch):
    def explode(*_, **__):
        raise SystemError("something was unpickled")

    for name in ("loads", "load", "Unpickler"):
        monkeypatch.setattr(pickle, name, explode)


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


def check_mutations(files, path, n, seed):
    draw = random.Random(seed)
    for k in range(n):
        raw = draw.choice(files)
        damaged = mutated(raw, draw.choice(files), draw)
        if damaged in files:
            continue
        path.write_bytes(damaged)
        if k % 20:
            refused(path)
        else:
            assert peak_of(lambda: refused(path)) < 3 * len(damaged) + 200_000


def test_mutated_files(files, tmp_path, no_pickle):
    check_mutations(files, tmp_path / "model.paloma", 2_000, seed=0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_many_mutated_files(files, tmp_path, no_pickle, seed):
    check_mutations(files, tmp_path / "model.paloma", 10_000, seed=seed + 1)


# -- files whose digest is right and whose content is not ------------------------------------------------------


def unsealed(raw):
    n = int.from_bytes(raw[:8], "little")
    table = json.loads(raw[8 : 8 + n])
    return table, json.loads(table["__metadata__"]["header"]), raw[8 + n : -32]


def sealed(table, header, data):
    metadata = {**table["__metadata__"], "header": json.dumps(header, separators=(",", ":"))}
    text = json.dumps({**table, "__metadata__": metadata}, separators=(",", ":")).encode()
    raw = len(text).to_bytes(8, "little") + text + bytes(data)
    return raw + hashlib.sha256(raw).digest()


def places(node, found):
    """Every (container, key) of a JSON tree."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found.append((node, key))
        places(value, found)
    return found


def hostile(raw, draw):
    table, header, data = unsealed(raw)
    kind = draw.randrange(4)
    if kind == 0:
        data = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
    elif kind == 1:
        owner, key = draw.choice(places(table, []))
        owner[key] = draw.choice(JUNK)
        table.setdefault("__metadata__", {"header": ""})
        if not isinstance(table["__metadata__"], dict):
            table["__metadata__"] = {}
    else:
        found = places(header["model"], [])
        for _ in range(draw.randrange(1, 3)):
            owner, key = draw.choice(found)
            if kind == 2 or not isinstance(owner, dict):
                owner[key] = draw.choice(JUNK)
            else:
                owner.pop(key, None)
    return sealed(table, header, data)


def use(model):
    """What a user would do next; a wrong value may be an error, never a crash."""
    try:
        last = model[-1] if hasattr(model, "steps") else model
        if hasattr(last, "partial_fit"):
            last.partial_fit(X, Y)
            last.metric_matrix("a")
        model.predict(X) if hasattr(model, "predict") else last.pairwise_score(X, X, Y)
    except Exception:
        pass


@pytest.mark.filterwarnings("ignore")  # damaged numbers overflow
@pytest.mark.parametrize("seed", range(3))
def test_hostile_files(files, tmp_path, no_pickle, seed):
    draw, path, n_loaded = random.Random(seed), tmp_path / "model.paloma", 0
    for _ in range(300):
        raw = hostile(draw.choice(files), draw)
        path.write_bytes(raw)
        try:
            model = paloma.load(path)
        except ModelFileError:
            continue
        n_loaded += 1
        use(model)
    assert n_loaded < 300


def test_resealing_alone_changes_nothing(files, tmp_path):
    path = tmp_path / "model.paloma"
    for raw, model in zip(files, models(), strict=True):
        path.write_bytes(sealed(*unsealed(raw)))
        assert_same(paloma.load(path), model)


def test_hostile_sizes_allocate_nothing(files, tmp_path):
    path = tmp_path / "model.paloma"
    table, header, data = unsealed(files[0])
    name = next(name for name in table if name not in ("__metadata__", "sha256"))
    for shape in ([10**9, 10**9], [2**62], [-1], [0]):
        path.write_bytes(sealed({**table, name: {**table[name], "shape": shape}}, header, data))
        assert peak_of(lambda: refused(path)) < 10 * len(files[0]) + 200_000
    path.write_bytes((2**62).to_bytes(8, "little") + files[0][8:])
    assert peak_of(lambda: refused(path)) < 3 * len(files[0]) + 200_000


def test_deep_nesting(files, tmp_path):
    path = tmp_path / "model.paloma"
    table, header, data = unsealed(files[0])
    deep = '{"tuple":[' * 5000 + "1" + "]}" * 5000
    text = json.dumps({**header, "model": "HERE"}).replace('"HERE"', deep)
    metadata = {**table["__metadata__"], "header": text}
    body = json.dumps({**table, "__metadata__": metadata}, separators=(",", ":")).encode()
    raw = len(body).to_bytes(8, "little") + body + data
    path.write_bytes(raw + hashlib.sha256(raw).digest())
    refused(path)


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
    old, new = list(models())[:2]
    paloma.save(old, path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        paloma.save(new, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.paloma"]
