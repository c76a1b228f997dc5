"""Whether two models are the same bit for bit, as far as anybody can tell from outside.

Same class, same parameters, the same value of every public attribute, and the same file: a file is what learning goes
on from. Nothing here knows how paloma keeps what it has learned.
"""

import copy
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp
from safetensors import safe_open
from sklearn.base import BaseEstimator

import paloma


def assert_same(one, two, without=()):
    """Models, or plain values; `without` names attributes that may differ."""
    whole = isinstance(one, BaseEstimator | paloma.MetricIndex)
    files = [_file(each, without) if whole else None for each in (one, two)]  # before anything is asked of the models
    _assert_same_values(one, two, type(one).__name__, without)
    assert files[0] == files[1], f"{type(one).__name__}: the files differ"


def relative(found, expected):
    """The largest deviation, as a share of the largest expected number."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    return np.abs(found - expected).max(initial=0.0) / np.abs(expected).max(initial=1e-300)


def assert_close(found, expected, tolerance=1e-10):
    assert relative(found, expected) <= tolerance


def squares(scores, measure):
    """The measure itself: `pairwise_score` of a distance is minus its signed root."""
    return -np.sign(scores) * scores**2 if measure == "distance" else scores


def public(model):
    """Every fitted attribute that a user may ask for, by name; properties included."""
    if hasattr(model, "cluster_centers_"):  # a file keeps where clusters are, not how they were found
        return {"cluster_centers_": model.cluster_centers_}
    names = (name for name in dir(model) if name.endswith("_") and not name.startswith("_"))
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _assert_same_values(one, two, where, without=()):
    assert type(one) is type(two), where
    if isinstance(one, np.ndarray) and one.dtype != object:
        assert (one.dtype, one.shape) == (two.dtype, two.shape), where
        assert one.tobytes() == two.tobytes(), where
        assert one.flags.writeable == two.flags.writeable, where
        assert two.flags.c_contiguous or not one.flags.c_contiguous, where
        assert two.flags.f_contiguous or not one.flags.f_contiguous, where
    elif isinstance(one, list | tuple | np.ndarray):
        assert len(one) == len(two), where
        for k, (a, b) in enumerate(zip(one, two, strict=True)):
            _assert_same_values(a, b, f"{where}[{k}]")
    elif isinstance(one, dict):
        assert list(one) == list(two), where
        for key in one:
            _assert_same_values(one[key], two[key], f"{where}[{key!r}]")
    elif sp.issparse(one):
        _assert_same_values(_csr(one), _csr(two), where)
    elif isinstance(one, np.random.Generator):
        assert one.bit_generator.state == two.bit_generator.state, where
    elif isinstance(one, np.random.RandomState):
        _assert_same_values(one.get_state(legacy=False), two.get_state(legacy=False), where)
    elif isinstance(one, BaseEstimator):
        _assert_same_values(one.get_params(deep=False), two.get_params(deep=False), where)
        mine, theirs = ({k: v for k, v in public(m).items() if k not in without} for m in (one, two))
        assert mine.keys() == theirs.keys(), where
        for name in mine:
            values = [mine[name], theirs[name]]
            if name == "n_samples_seen_" and any(isinstance(value, np.integer) for value in values):
                # so in older scikit-learn alone; a file holds it as a float
                values = [np.asarray(value, np.float64) for value in values]
            _assert_same_values(*values, f"{where}.{name}")
    elif not isinstance(one, paloma.MetricIndex):
        assert one == two or (one != one and two != two), where


def _csr(matrix):
    return [matrix.shape, matrix.data, matrix.indices, matrix.indptr]


def _file(model, without):
    """What `paloma.save` writes: JSON, and arrays by their places."""
    model = copy.deepcopy(model) if without else model
    for name in without:
        vars(model).pop(name, None)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.paloma"
        paloma.save(model, path)
        with safe_open(path, "numpy") as file:
            names = set(file.keys()) - {"sha256"}
            arrays = {name: file.get_tensor(name) for name in names}
            header = json.loads(file.metadata()["header"])
    return header["model"], {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}
