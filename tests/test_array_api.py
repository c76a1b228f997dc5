"""Arrays of other libraries, here array-api-strict, the standard's own; scikit-learn's checks are in test_common.py."""

import inspect
import os
import pickle
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils._testing import set_random_state

import paloma
from helpers.data import IRIS as X
from helpers.data import LABELS as Y
from paloma import LODML, OKS, OMDML, DiagonalODML, MetricIndex, MetricKNeighborsClassifier, plot

strict = pytest.importorskip("array_api_strict")

ARRAY = type(strict.asarray(0))
HOSTS = [strict.Device("CPU_DEVICE"), strict.Device("device1")]
ESTIMATORS = [getattr(paloma, name) for name in paloma.__all__ if inspect.isclass(getattr(paloma, name))]
ESTIMATORS = [kind for kind in ESTIMATORS if issubclass(kind, BaseEstimator)]


@pytest.fixture
def dispatch(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        yield


def seeded(estimator):
    out = clone(estimator)
    set_random_state(out)
    return out


def given(array, device=HOSTS[1]):
    return strict.asarray(array, device=device)


def plain(array):
    """The values of an answer, which must be of the library and on the device that was asked from."""
    assert isinstance(array, ARRAY)
    assert array.device == HOSTS[1]
    return np.from_dlpack(array)


@pytest.mark.usefixtures("dispatch")
@pytest.mark.parametrize(("dtype", "device"), [(np.float64, HOSTS[0]), (np.float32, HOSTS[1])])
@pytest.mark.parametrize(
    "estimator", [*(kind() for kind in ESTIMATORS), OMDML(groups=[[0, 1], [2, 3]]), LODML(scale="diagonal")]
)
def test_the_same_to_the_bit(estimator, dtype, device):
    rows = X.astype(dtype)
    one, other = seeded(estimator).fit(rows, Y), seeded(estimator).fit(given(rows, device), given(Y))
    assert estimator.__sklearn_tags__().array_api_support
    for name in ("transform", "predict", "predict_proba", "kneighbors"):
        if hasattr(one, name):
            answers = getattr(one, name)(rows), getattr(other, name)(given(rows, device))
            for left, right in zip(*(a if isinstance(a, tuple) else (a,) for a in answers), strict=True):
                assert right.device == device
                np.testing.assert_array_equal(left, np.from_dlpack(right), strict=True)
    assert one.score(rows, Y) == other.score(given(rows, device), given(Y))


@pytest.mark.usefixtures("dispatch")
@pytest.mark.parametrize(
    ("learner", "names"),
    [
        (LODML(), ["shared_", "local_", "components_", "whitener_", "recent_loss_", "long_run_loss_", "drift_"]),
        (DiagonalODML(), ["feature_weights_", "shared_"]),
        (OKS(), ["support_"]),
        (OMDML(groups=[[0, 1], [2, 3]]), ["scale_", "weights_", "shared_"]),
    ],
)
def test_what_was_learned_is_handed_out_as_it_was_given(learner, names):
    one, other = seeded(learner).fit(X, Y), seeded(learner).fit(given(X), given(Y))
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), plain(getattr(other, name)))
    if not isinstance(learner, OKS):
        np.testing.assert_array_equal(one.metric_matrix(1), plain(other.metric_matrix(1)))
    assert isinstance(other.classes_, np.ndarray)
    assert isinstance(other.fit(X, Y).shared_, np.ndarray)


@pytest.mark.usefixtures("dispatch")
def test_matrices_and_paths_are_handed_out_alike():
    model = LODML(random_state=0).fit(given(X), Y)
    np.testing.assert_allclose(plain(model.get_mahalanobis_matrix()), plain(model.metric_matrix()), atol=1e-10)
    assert model.get_metric()(X[0], X[50]) == pytest.approx(float(model.pair_distance(X[[[0, 50]]])[0]))
    path = OMDML(groups=[[0, 1], [2, 3]]).fit(given(X), Y).weights_path_
    assert plain(path[0]).shape[0] == plain(path[1]).shape[0]


def test_without_dispatch_answers_follow_and_attributes_are_numpy():
    model = LODML(random_state=0).fit(given(X), given(Y))
    assert isinstance(model.shared_, np.ndarray)
    np.testing.assert_array_equal(plain(model.transform(given(X))), model.transform(X))
    np.testing.assert_array_equal(plain(model.pair_score(given(X[[[0, 1]]]))), model.pair_score(X[[[0, 1]]]))
    numbers = np.array([[0, 1], [5, 60]])
    np.testing.assert_array_equal(plain(model.pair_score(numbers, X=given(X))), model.pair_score(numbers, X=X))
    assert isinstance(model.pair_score(given(numbers), X=X), np.ndarray)


def test_an_index_answers_in_kind():
    metric = LODML(random_state=0).fit(X, Y)
    index, twin = MetricIndex(metric), MetricIndex(metric)
    assert plain(index.add(given(X), given(Y))).tolist() == twin.add(X, Y).tolist()
    for found, wanted in zip(index.search(given(X[:5]), 3), twin.search(X[:5], 3), strict=True):
        np.testing.assert_array_equal(plain(found), wanted)


@pytest.mark.usefixtures("dispatch")
def test_rows_of_another_kind_are_refused():
    model = LODML(random_state=0).fit(given(X), Y)
    for rows, words in [
        (X, r"LODML.transform\(\) must use the same namespace .* array_api_strict.* on .*device1.*, got numpy.ndarray"),
        (X.tolist(), "got builtins.list"),
        (given(X, HOSTS[0]), "got array_api_strict.*CPU_DEVICE"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.transform(rows)
    with config_context(array_api_dispatch=False):
        assert isinstance(model.transform(X), np.ndarray)
    assert isinstance(model.pair_score(X[[[0, 1]]]), np.ndarray)
    assert isinstance(LODML(random_state=0).fit(X, Y).transform(given(X)), ARRAY)


@pytest.mark.usefixtures("dispatch")
def test_a_refused_fit_changes_nothing():
    model = LODML(random_state=0).fit(given(X), Y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X * np.nan, Y)
    assert isinstance(model.shared_, ARRAY)
    fresh, voters = LODML(), MetricKNeighborsClassifier()
    for estimator in (fresh, voters):
        before = dict(vars(estimator))
        with pytest.raises(ValueError, match="NaN"):
            estimator.fit(given(X * np.nan), Y)
        assert {name: value for name, value in vars(estimator).items() if value is not None and name != "_lock"} == {
            name: value for name, value in before.items() if value is not None
        }


@pytest.mark.usefixtures("dispatch")
def test_answers_follow_x_and_not_y():
    labels = np.where(np.arange(len(Y)) % 3, Y, -1)
    model = LODML(random_state=0, unlabeled=-1).fit(X, given(labels))
    assert isinstance(model.transduce(X, given(labels)), np.ndarray)
    np.testing.assert_array_equal(plain(model.transduce(given(X), labels)), model.transduce(X, labels))


@pytest.mark.usefixtures("dispatch")
def test_a_stream_follows_its_first_rows():
    model, twin = LODML(random_state=0), LODML(random_state=0)
    for part in (slice(0, None, 2), slice(1, None, 2)):
        model.partial_fit(given(X[part]), given(Y[part]), classes=given(np.arange(3)))
        twin.partial_fit(X[part], Y[part], classes=np.arange(3))
    np.testing.assert_array_equal(plain(model.shared_), twin.shared_)
    points = X[[[0, 1, 60], [70, 60, 140]]]
    np.testing.assert_array_equal(plain(LODML(random_state=0).fit(None, triplets=given(points)).shared_),
                                  LODML(random_state=0).fit(None, triplets=points).shared_)  # fmt: skip


@pytest.mark.usefixtures("dispatch")
def test_the_classifier_and_its_metric_follow():
    weights = np.linspace(0.5, 1, len(Y))
    one = MetricKNeighborsClassifier().fit(X, Y, weights)
    other = MetricKNeighborsClassifier().fit(given(X), given(Y), given(weights))
    for name in ("rows_", "labels_", "row_numbers_"):
        np.testing.assert_array_equal(getattr(one, name), plain(getattr(other, name)))
    for left, right in zip(one.kneighbors(), other.kneighbors(), strict=True):
        np.testing.assert_array_equal(left, plain(right))
    assert isinstance(other.metric_.shared_, ARRAY)
    other.rows_[0, 0] = 99.0
    assert np.array_equal(plain(other.rows_), X)
    assert one.neighbor_scores(X, Y) == other.neighbor_scores(given(X), given(Y))
    one.partial_fit(X + 0.1, Y, classes=[0, 1, 2, 3])
    other.partial_fit(given(X + 0.1), given(Y), classes=given(np.arange(4)))
    np.testing.assert_array_equal(one.predict_proba(X), plain(other.predict_proba(given(X))))
    stream = MetricKNeighborsClassifier().partial_fit(given(X), given(Y))
    assert isinstance(stream.labels_, ARRAY)
    assert stream.score(given(X), given(Y)) > 0.9


@pytest.mark.usefixtures("dispatch")
def test_labels_that_are_words_stay_numpy():
    words = np.array(["a", "b", "c"])[Y]
    model = MetricKNeighborsClassifier().fit(given(X), words)
    assert model.predict(given(X[:2])).tolist() == ["a", "a"]
    assert model.score(given(X), words) > 0.9


@pytest.mark.usefixtures("dispatch")
def test_a_device_without_float64_gets_float32():
    rows = strict.asarray(X.astype(np.float32), device=strict.Device("no_float64"))
    shares = MetricKNeighborsClassifier().fit(rows, Y).predict_proba(rows)
    assert shares.dtype == strict.float32
    assert shares.device == rows.device


@pytest.mark.usefixtures("dispatch")
def test_a_pipeline_of_scikit_learn_hands_its_arrays_on():
    one, other = (make_pipeline(MaxAbsScaler(), MetricKNeighborsClassifier()) for _ in range(2))
    one.fit(X, Y)
    other.fit(given(X), given(Y))
    np.testing.assert_array_equal(one.predict(X), plain(other.predict(given(X))))


@pytest.mark.usefixtures("dispatch")
def test_files_know_no_library(tmp_path):
    model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(given(X), Y)
    paloma.save(model, tmp_path / "model")
    loaded = paloma.load(tmp_path / "model")
    assert isinstance(loaded.rows_, np.ndarray)
    assert isinstance(loaded.metric_.shared_, np.ndarray)
    np.testing.assert_array_equal(loaded.predict(X), plain(model.predict(given(X))))
    np.testing.assert_array_equal(plain(pickle.loads(pickle.dumps(model)).rows_), X)


@pytest.mark.usefixtures("dispatch")
def test_the_rest_of_paloma_takes_such_models():
    model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(given(X), Y)
    twin = MetricKNeighborsClassifier(LODML(random_state=0)).fit(X, Y)
    for draw in (plot.spectra, plot.feature_weights):
        assert draw(model.metric_).get_title() == draw(twin.metric_).get_title()
    found = paloma.workflow.search(model, given(X[:4]), k=2)
    np.testing.assert_array_equal(found.labels, paloma.workflow.search(twin, X[:4], k=2).labels)
    graphs = [paloma.export.to_onnx(each, part="knn") for each in (model, twin)]
    assert graphs[0] == graphs[1]


@pytest.mark.usefixtures("dispatch")
def test_scikit_learn_moves_estimators():
    array_api = pytest.importorskip("sklearn.utils._array_api")
    if not hasattr(array_api, "move_estimator_to"):
        pytest.skip("scikit-learn 1.9 and later move estimators")
    model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(given(X), Y)
    to_numpy = partial(array_api.move_estimator_to, xp=np, device="cpu")
    for each, ask in ((model, "predict"), (model.metric_, "transform")):
        moved = to_numpy(each)
        wanted = plain(getattr(each, ask)(given(X)))
        np.testing.assert_array_equal(getattr(moved, ask)(X), wanted)
        back = array_api.move_estimator_to(moved, xp=strict, device=HOSTS[1])
        np.testing.assert_array_equal(plain(getattr(back, ask)(given(X))), wanted)
    assert isinstance(to_numpy(model.metric_).shared_, np.ndarray)
    assert isinstance(model.metric_.shared_, ARRAY)


@pytest.mark.usefixtures("dispatch")
def test_arrays_of_cupy_are_followed(monkeypatch):
    """By a stand-in with what is used of CuPy, whose arrays do not name their namespace and do not become NumPy's."""

    class Stub:
        device = nullcontext()

        def __init__(self, array):
            self.array, self.shape = array, array.shape

        def __array__(self, *_, **__):
            raise TypeError("Implicit conversion to a NumPy array is not allowed.")

        def get(self):
            return self.array

    Stub.__module__ = "cupy"
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=Stub))
    model, twin = (MetricKNeighborsClassifier().fit(rows, Y) for rows in (Stub(X), X))
    np.testing.assert_array_equal(model.predict(Stub(X)).get(), twin.predict(X))
    np.testing.assert_array_equal(model.metric_.shared_.get(), twin.metric_.shared_)
    with pytest.raises(ValueError, match=r"got numpy\.ndarray"):
        model.predict(X)


def test_arrays_that_numpy_cannot_read_are_refused():
    class Odd:
        dtype, device, shape = "bfloat16", "moon:0", X.shape

        def __array_namespace__(self):
            return strict

        def __dlpack__(self, **_):
            raise BufferError("not from here")

        def __dlpack_device__(self):
            return (1, 0)

    model = LODML(random_state=0).fit(X, Y)
    before = model.shared_
    with pytest.raises(TypeError, match=r"LODML takes arrays .*bfloat16 on moon:0 \(not from here\). Pass float32"):
        model.partial_fit(Odd(), Y)
    np.testing.assert_array_equal(model.shared_, before)
    with pytest.raises(ValueError, match="Complex"):
        model.partial_fit(given(X.astype(complex)), Y)


CODE = """
import sys
import numpy as np
import paloma
from paloma import MetricIndex, MetricKNeighborsClassifier
from sklearn import config_context
rows = np.random.default_rng(0).normal(size=(60, 4))
MetricKNeighborsClassifier().fit(rows, np.arange(60) % 3).predict(rows)
assert not {"torch", "array_api_strict", "jax", "cupy"} & set(sys.modules)
import array_api_strict
with config_context(array_api_dispatch=True):
    rows, labels = array_api_strict.asarray(rows), array_api_strict.asarray(np.arange(60) % 3)
    model = MetricKNeighborsClassifier().fit(rows, labels)
    assert type(model.predict(rows)) is type(rows)
    assert 0 <= model.score(rows, labels) <= 1
"""


def test_nothing_is_imported_and_scipy_may_dispatch_too():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, env={**os.environ, "SCIPY_ARRAY_API": "1"}
    )
    assert done.returncode == 0, done.stderr
