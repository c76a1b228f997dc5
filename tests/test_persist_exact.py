"""Save, load and go on equals going on, to the bit: every learner, every source of triplets, any split."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from sklearn.utils import get_tags

import paloma
from same import assert_same

LEARNERS = [name for name in paloma.estimators.__all__ if name[0].isupper()]
RULES = ("pa", "pa1", "pa2", "smooth", "logistic", "ramp", "rescaled")
SOURCES = ("rows", "one class", "triplets", "class-free", "points", "weighted")
CANNOT_FORGET = ("OKS", "OMKS", "OMDML")
N, D = 48, 5


@pytest.fixture(scope="module", autouse=True)
def without_waiting_for_the_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@st.composite
def cases(draw):
    parameters = {
        "random_state": draw(st.integers(0, 3)),
        "step": draw(st.sampled_from(RULES)),
        "average": draw(st.sampled_from(["auto", True, False])),
        "n_targets": 1,
        "n_impostors": 2,
        "scale": draw(st.sampled_from(["auto", None])),
        "reservoir_size": draw(st.sampled_from([2, 8, 64])),
        "psd": draw(st.sampled_from(["never", "end", "step", 7])),
        "unlabeled": draw(st.sampled_from([None, "b"])),
        "max_journal": draw(st.sampled_from([20, None])),
        "n_components": draw(st.sampled_from([2, "auto"])),
        "forget": draw(st.sampled_from([0.0, 0.01])),
        "memory": draw(st.sampled_from(["auto", "window"])),
        "balanced": draw(st.booleans()),
        "semi": draw(st.sampled_from(["neighbors", "both"])),
        "regions": draw(st.sampled_from([None, 2])),
    }
    parameters["soft_regions"] = parameters["regions"] is not None and draw(st.booleans())
    if parameters["forget"] and parameters["psd"] not in ("never", "end"):
        parameters["forget"] = 0.0
    batch = st.tuples(st.sampled_from(SOURCES), st.integers(0, 99))
    batches = draw(st.lists(batch, min_size=2, max_size=5))
    return {
        "name": draw(st.sampled_from(LEARNERS)),
        "parameters": parameters,
        "batches": batches,
        "split": draw(st.integers(1, len(batches) - 1)),
        "dtype": draw(st.sampled_from([np.float64, np.float32])),
        "sparse": draw(st.booleans()),
    }


def learner(name, parameters):
    kind = getattr(paloma, name)
    known = set(kind().get_params()) - ({"forget"} if name in CANNOT_FORGET else set())
    return kind(**{key: value for key, value in parameters.items() if key in known})


def go_on(model, batch, dtype, sparse):
    """One call of partial_fit; which rows and triplets depends on the batch's seed alone."""
    source, seed = batch
    rng = np.random.default_rng(seed)
    y = np.array(list("abcd"))[rng.integers(0, 2 + seed % 3, N)]
    X = (rng.normal(size=(N, D)) + (y[:, None] == np.array(list("abcde")))).astype(dtype)
    rows = sp.csr_matrix(X) if sparse and get_tags(model).input_tags.sparse else X
    triplets = rng.integers(0, N, (N, 3))
    if source == "points":
        return model.partial_fit(None, triplets=X[triplets])
    given = {
        "rows": {"y": y},
        "one class": {"y": np.full(N, "c")},
        "triplets": {"y": y, "triplets": triplets},
        "class-free": {"triplets": triplets},
        "weighted": {"y": y, "triplets": triplets, "triplet_weight": rng.random(N)},
    }[source]
    return model.partial_fit(rows, **given)


def round_trip(model):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.paloma"
        paloma.save(model, path)
        return paloma.load(path)


def check(case):
    model = learner(case["name"], case["parameters"])
    kind = (case["dtype"], case["sparse"])
    try:
        for batch in case["batches"][: case["split"]]:
            go_on(model, batch, *kind)
    except (ValueError, TypeError):
        reject()  # parameters that this learner refuses
    copy = round_trip(model)
    assert_same(model, copy)
    for batch in case["batches"][case["split"] :]:
        for each in (model, copy):
            go_on(each, batch, *kind)
        assert_same(model, copy)
    rows, labels = np.random.default_rng(0).normal(size=(N, D)).astype(case["dtype"]), np.resize(model.classes_, N)
    for y in (None, labels) if len(model.classes_) else (None,):
        scores = [each.pairwise_score(rows[:3], rows, y) for each in (model, copy)]
        np.testing.assert_array_equal(*scores)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_streams(case):
    check(case)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_streams_at_length(case):
    check(case)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_learner_and_source(name, source):
    parameters = {"random_state": 0, "n_components": 3}
    case = {"name": name, "parameters": parameters, "batches": [("rows", 1), (source, 2), (source, 3)], "split": 2}
    check({**case, "dtype": np.float64, "sparse": False})


@pytest.mark.parametrize("name", LEARNERS)
def test_after_fit(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 6)), rng.integers(0, 3, 80)
    model = getattr(paloma, name)(random_state=np.random.RandomState(7), n_epochs=2).fit(X, y)
    copy = round_trip(model)
    assert_same(model, copy)
    for each in (model, copy):
        each.partial_fit(X[:40], y[:40] + 2)
        each.partial_fit(X, triplets=[[0, 1, 2], [3, 4, 5]])
    assert_same(model, copy)
    for each in (model, copy):
        each.fit(X, y)
    assert_same(model, copy)
