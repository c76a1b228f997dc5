"""Model files that somebody else made: the digest is right, the content is not. And what a user then does with them."""

import contextlib
import copy
import gc
import hashlib
import json
import os
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from safetensors import numpy as tensors
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

import paloma
from paloma.exceptions import ModelFileError
from paloma.preprocessing import UnitRows

RNG = np.random.default_rng(0)
Y = np.array(list("abc"))[RNG.integers(0, 3, 40)]
X = RNG.normal(size=(40, 4)) + (Y[:, None] == np.array(list("abcd")))
CSR = sp.csr_matrix(np.where(np.abs(X) > 0.4, X, 0.0))
GRAM = rbf_kernel(X)
SECONDS, BYTES, TIMES = 1.0, 64 << 20, 8
# What a call on a sound model may refuse as well: the same errors of the same calls.
REFUSED = (ValueError, TypeError)


def models():
    """One model of each kind that a file may hold, each with rows of the kind that it takes."""
    small = {"random_state": 0, "n_targets": 1, "n_impostors": 3, "n_epochs": 1, "reservoir_size": 5}
    yield "LODML", paloma.LODML(**small).partial_fit(X, Y), X
    yield "ODML with forgetting", paloma.ODML(**small, forget=0.01).partial_fit(X, Y).partial_fit(X, Y), X
    yield "LODML from init", paloma.LODML(**small, init=np.diag([1.0, 2, 3, 4])).fit(X, Y), X
    yield "LODML with regions", paloma.LODML(**small, regions=3).partial_fit(X, Y).partial_fit(X, Y), X
    yield "LOSL with given regions", paloma.LOSL(**small, regions=KMeans(2, random_state=0).fit(X)).fit(X, Y), X
    yield "LOSL on CSR rows", paloma.LOSL(**small).fit(CSR, Y), CSR
    yield "SLMOML", paloma.SLMOML(**small, lam=0.5).fit(X, Y), X
    folding = {"n_components": 2, "rank": 3, "max_journal": 10, "average": True}
    yield "L2ODML folded", paloma.L2ODML(**small, **folding).fit(X, Y).partial_fit(X[:5], Y[:5]), X
    yield "L2OSL on CSR rows", paloma.L2OSL(**small, n_components=3, projection="sparse").partial_fit(CSR, Y), CSR
    yield "OKS", paloma.OKS(**small, lam=0.5, measure="distance", budget=30, when_full="forget").fit(X, Y), X
    yield "OKS precomputed", paloma.OKS(**small, kernel="precomputed").fit(GRAM, Y), GRAM
    several = {"kernels": ["linear", ("rbf", {"gamma": 0.5})], "combination": "stochastic"}
    yield "OMKS", paloma.OMKS(**small, **several).fit(X, Y), X
    groups = [("one", slice(0, 2)), ("two", [2, 3])]
    yield "OMDML", paloma.OMDML(**small, groups=groups, lam=0.5).fit(X, Y), X
    yield "OMDML of low rank", paloma.OMDML(**small, groups=groups, rank=1).fit(X, Y), X
    pipeline = make_pipeline(StandardScaler(), PCA(3), paloma.MetricKNeighborsClassifier(paloma.ODML(**small)))
    pipeline.fit(X, Y).columns_ = {"features": list("wxyz"), "label": "kind"}
    yield "pipeline of a classifier", pipeline, X
    soft = paloma.LODML(**small, regions=2, soft_regions=True)
    yield "classifier over soft regions", paloma.MetricKNeighborsClassifier(soft).fit(X, Y), X
    frozen = FrozenEstimator(paloma.OKS(**small).fit(X, Y))
    yield "classifier over a frozen OKS", paloma.MetricKNeighborsClassifier(frozen, n_neighbors=1).fit(X, Y), X
    steps = (RobustScaler(), MinMaxScaler(), UnitRows())
    yield "pipeline of a learner", make_pipeline(*steps, paloma.OASIS(**small)).fit(X, Y), X
    metric = paloma.LODML(**small).fit(X, Y)
    index = paloma.MetricIndex(make_pipeline(StandardScaler(), paloma.LODML(**small)).fit(X, Y))
    index.add(X, Y)
    yield "index over a pipeline", index, X
    index = paloma.MetricIndex(metric)
    index.add(X[:20], RNG.dirichlet(np.ones(3), 20), ids=[f"item {k}" for k in range(20)])
    metric.partial_fit(X, Y)
    yield "stale index with shares", index, X
    try:
        graph = paloma.MetricIndex(metric, backend="faiss-hnsw", n_links=4)
        graph.add(X, Y)
        yield "index of faiss", graph, X
    except ImportError:
        pass


def opened(raw):
    """Header and arrays of a file."""
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(json.loads(raw[8 : 8 + n])["__metadata__"]["header"])
    arrays = tensors.load(raw)
    arrays.pop("sha256")
    return header, arrays


def sealed(content, arrays, version="2", header=None):
    """A file of these, with the right digest; `header` is text to be taken instead of the content."""
    text = json.dumps(content) if header is None else header
    table = {"__metadata__": {"format": "paloma", "version": version, "header": text}}
    names = {np.dtype(code): name for name, code in NAMES.items()}
    at = 0
    for name, array in arrays.items():
        table[name] = {"dtype": names[array.dtype], "shape": array.shape, "data_offsets": (at, at + array.nbytes)}
        at += array.nbytes
    table["sha256"] = {"dtype": "U8", "shape": (32,), "data_offsets": (at, at + 32)}
    return resealed(table, b"".join(array.tobytes() for array in arrays.values()))


def resealed(table, data):
    """A file of this table over these bytes, with the right digest."""
    text = json.dumps(table, separators=(",", ":")).encode()
    raw = len(text).to_bytes(8, "little") + text + data
    return raw + hashlib.sha256(raw).digest()


NAMES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
         "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}  # fmt: skip
VALUES = (
    None, True, False, -1, 0, 1, 2, 7, 2**31 - 1, 2**53, 2**62, 2**63 - 1, 10**30, 0.0, -0.5, 0.5, 1e-310, 1e308,
    "", "x", "LODML", "auto", "precomputed", "fitted", "passthrough", "float32", "pgvector", "faiss-hnsw",
    [], [[]], [1, 2], {}, {"dict": []}, {"dict": [["a", {"tuple": [1]}]]}, {"float": "nan"}, {"float": "inf"},
    {"slice": [0, 10**18, None]}, {"tuple": [{"slice": [None, None, None]}] * 3}, {"array": "numbers"},
    {"array": "names"}, {"bytes": "00"}, {"class": "LODML"}, {"clusters": {}},
    {"class": "Pipeline", "names": [], "steps": [], "last": {}},
)  # fmt: skip
FILLS = (np.nan, np.inf, -np.inf, 1e300, 1e-300, -1, 0, 1, 2, 100, 2**31 - 1, 2**40, 2**62, -(2**31), 255)


def places(node, found):
    """Every (container, key) of a JSON tree."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found.append((node, key))
        places(value, found)
    return found


def alter_number(header, draw):
    """Another value somewhere in the JSON, one less, or one more."""
    owner, key = draw.choice(places(header["model"], []))
    put(owner, key, draw.choice((*CHANGES, *[("set", value) for value in VALUES])))


def put(owner, key, change):
    """Set, add, or delete an entry; of a list, entries are only set."""
    how, value = change
    if isinstance(owner, list) or how == "set":
        owner[key] = copy.deepcopy(value)
    elif how == "delete":
        del owner[key]
    else:
        owner[how] = copy.deepcopy(value)


CHANGES = (("delete", None), *((name, 1) for name in ("x", "connection", "memory", "_model", "__class__", "replace")))


def _filled(place, value):
    def fill(array):
        changed = array.copy()
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed.reshape(-1)[place] = np.array(value).astype(array.dtype)
        return changed

    return fill


def _typed(code):
    def converted(array):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return array.astype(code)

    return converted


SHAPES = (
    lambda a: a[:0], lambda a: a[:1], lambda a: a[:-1], lambda a: a[::2], lambda a: a[::-1],
    lambda a: np.concatenate([a, a[:1]]), lambda a: a.reshape(a.shape[::-1]), lambda a: a.reshape(*a.shape, 1),
    lambda a: a.reshape(-1), lambda a: a.reshape(-1, 1), lambda a: a.reshape(1, *a.shape), lambda a: a[..., :1],
)  # fmt: skip
ALTERATIONS = (
    *map(_typed, NAMES.values()), *SHAPES,
    *(_filled(place, value) for place in (slice(None), slice(1), slice(-1, None)) for value in FILLS),
)  # fmt: skip


def alter_array(arrays, draw):
    """Another type, shape, value or name of an array."""
    name = draw.choice(sorted(arrays))
    kind = draw.randrange(10)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[draw.choice([f"{name}.T", f"{name}.data", "x", name + "x"])] = arrays.pop(name)
    elif kind == 2:
        other = draw.choice(sorted(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    else:
        arrays[name] = draw.choice(ALTERATIONS)(arrays[name])


def singles(raw):
    """Every way to spoil one thing in a file: each entry of the JSON and each array, by each of the changes."""
    header, arrays = opened(raw)
    changes = (*CHANGES, *(("set", value) for value in VALUES))
    found = []
    for place, (owner, _) in enumerate(places(header["model"], [])):
        found += [(place, change) for change in (changes[len(CHANGES) :] if isinstance(owner, list) else changes)]
    return found + [(name, change) for name in sorted(arrays) for change in (None, *ALTERATIONS)]


def spoiled(raw, place, change):
    """A file with this one thing wrong, and the right digest."""
    header, arrays = opened(raw)
    if isinstance(place, int):
        put(*places(header["model"], [])[place], change)
    elif change is None:
        del arrays[place]
    else:
        arrays[place] = change(arrays[place])
    return sealed(header, arrays)


def crafted(raw, draw):
    """A file with two things wrong, and the right digest."""
    header, arrays = opened(raw)
    for _ in range(2):
        if draw.random() < 0.5 and arrays:
            alter_array(arrays, draw)
        else:
            alter_number(header, draw)
    return sealed(header, arrays)


class Peak:
    """The most memory that a block takes, in bytes: resident memory where the system tells it, else what Python traces.

    The first is cheap, and counts what libraries allocate by themselves.
    """

    told = os.access("/proc/self/clear_refs", os.W_OK)

    def __enter__(self):
        if self.told:
            Path("/proc/self/clear_refs").write_text("5")
            self._before = self._most()
        else:
            tracemalloc.start()
        return self

    def __exit__(self, *_):
        if self.told:
            self.bytes = self._most() - self._before
        else:
            self.bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()

    @staticmethod
    def _most():
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split(maxsplit=1)[0])


def plain_load(path):
    """The model of a file, or None where it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return paloma.load(path)
        except ModelFileError as error:
            sentence = str(error)
    assert str(path) in sentence
    return None


def load(path):
    """The same in the bounds that any file must keep to; what the tests hold is not for the collector to walk then."""
    gc.freeze()
    size, begun = path.stat().st_size, time.process_time()
    with Peak() as peak:
        model = plain_load(path)
    seconds = time.process_time() - begun
    gc.unfreeze()
    assert peak.bytes < BYTES + TIMES * size, f"took {peak.bytes:,} bytes"
    assert seconds < SECONDS * (1 if Peak.told else 10), f"took {seconds:.2f} s"
    return model


def use(model, rows, path):
    """What a user would do next; a wrong value may be refused, and nothing else."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _same_again(model, path)
        for call in (_read, _learn, _read, _save):
            with contextlib.suppress(REFUSED):
                call(model, rows, path)


def _same_again(model, path):
    """A file that loads says what the model is: saved again, it says the same.

    Decay that was pending is another matter: it is applied when a model is first read, by a classifier at once.
    """
    again = path.with_suffix(".again")
    paloma.save(model, again)
    (one, arrays), (two, more) = opened(path.read_bytes()), opened(again.read_bytes())
    assert not _lost(one["model"], two["model"]), f"changed without a word: {_lost(one['model'], two['model'])}"
    for name, array in arrays.items():
        pending = [arrays.get(f"{name.rpartition('.')[0]}.{part}") for part in ("pending", "pending.T")]
        if any(part is not None and (part != 1).any() for part in pending):
            continue
        found = more[name] if name in more else more[name.removesuffix(".T") if name.endswith(".T") else f"{name}.T"].T
        assert np.array_equal(array, found), f"{name} changed without a word"
        if not name.endswith((".indices", ".indptr")):  # numbers of either width
            assert array.dtype == found.dtype, f"{name} changed its type without a word"


def _lost(one, two, where=""):
    """The first place where JSON says something that other JSON does not."""
    if isinstance(one, dict) and isinstance(two, dict):
        found = (_lost(value, two.get(name, "nothing"), f"{where}.{name}") for name, value in one.items())
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        found = (_lost(a, b, f"{where}[{k}]") for k, (a, b) in enumerate(zip(one, two, strict=True)))
    else:
        return "" if type(one) is type(two) and one == two else f"{where}: {one!r} became {two!r}"
    return next(filter(None, found), "")


def _read(model, rows, path):
    if isinstance(model, paloma.MetricIndex):
        model.search(rows[:3], 2)
        model.search(rows[:3], 2, rerank="live")
    elif hasattr(model, "predict"):
        model.predict(rows[:3])
    else:
        last = model[-1] if hasattr(model, "steps") else model
        seen = model[:-1].transform(rows) if hasattr(model, "steps") else rows
        last = last.estimator if isinstance(last, FrozenEstimator) else last
        last.pairwise_score(seen[:3], seen, Y)
        if isinstance(last, paloma.LODML | paloma.L2ODML | paloma.OMDML):
            last.item_vectors(seen[:3], Y[:3])


def _learn(model, rows, path):
    learner = paloma.estimators.learner_of(model)
    if learner.n_features_in_ == rows.shape[1]:
        learner.partial_fit(rows, Y)
        learner.partial_fit(rows, Y, triplets=[[0, 1, 2], [3, 4, 5]])
    if isinstance(model, paloma.MetricIndex):
        model.add(rows[:2], Y[:2], ids=["new", "newer"] if model.ids.dtype.kind == "U" else None)
        model.remove(model.ids[:1])
        model.refresh()


def _save(model, rows, path):
    last = model[-1] if hasattr(model, "steps") else model
    if isinstance(last, paloma.MetricKNeighborsClassifier):
        last.refresh()
    paloma.save(model, path.with_suffix(".again"))
    assert paloma.load(path.with_suffix(".again")) is not None
