"""Model files: what they hold, what they refuse to hold, and that the format stays as it is."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import linear_kernel
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

import paloma
from helpers import crafted, inside
from paloma.exceptions import ModelFileError
from paloma.persist import _flat, _plain, _registry, register
from paloma.preprocessing import UnitRows
from same import assert_same

GOLDEN = Path(__file__).parent / "data" / "format-2.paloma"
RNG = np.random.default_rng(0)
Y = np.array(["left", "right", "middle"])[RNG.integers(0, 3, 80)]
X = RNG.normal(size=(80, 5)) + (Y[:, None] == np.array(["left", "right", "middle", "", "x"]))
STEPS = [StandardScaler(), MinMaxScaler(), RobustScaler(), MaxAbsScaler(), Normalizer(), PCA(3), TruncatedSVD(3),
         PCA(2, whiten=True), UnitRows(), "passthrough"]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.paloma"


def round_trip(model, path):
    paloma.save(model, path)
    return paloma.load(path)


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_pipelines(step, path):
    model = make_pipeline(step, paloma.MetricKNeighborsClassifier(paloma.LODML(random_state=0))).fit(X, Y)
    copy = round_trip(model, path)
    assert_same(model, copy)
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    metric = make_pipeline(step, paloma.ODML(random_state=0)).fit(X, Y)
    np.testing.assert_array_equal(round_trip(metric, path).transform(X), metric.transform(X))


@pytest.mark.parametrize("wrap", [lambda m: m, FrozenEstimator])
def test_a_classifier_keeps_its_metric(wrap, path):
    metric = paloma.LODML(random_state=0).fit(X, Y)
    model = paloma.MetricKNeighborsClassifier(wrap(metric), n_neighbors=2).fit(X[::2], Y[::2])
    copy = round_trip(model, path)
    assert copy.metric is copy.metric_
    for one, two in zip(model.kneighbors(X), copy.kneighbors(X), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["LOSL", "L2ODML"])
def test_sparse_rows(name, path):
    rows = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0))
    model = paloma.MetricKNeighborsClassifier(getattr(paloma, name)(random_state=0)).fit(rows, Y)
    copy = round_trip(model, path)
    assert_same(model, copy)
    np.testing.assert_array_equal(copy.predict(rows), model.predict(rows))


def test_the_balance_of_search_vectors_is_kept(path):
    model = paloma.LODML(random_state=0).fit(X, Y)
    model.item_vectors(X, Y, for_graph=True)
    expected = model.query_vectors(X, for_graph=True)
    np.testing.assert_array_equal(round_trip(model, path).query_vectors(X, for_graph=True), expected)


@pytest.mark.parametrize("labels", [Y, Y.astype("S"), Y.astype(object), RNG.integers(-3, 2, 80), RNG.random(80) > 0.5,
                                    RNG.integers(0, 3, 80).astype(np.uint8), RNG.integers(0, 3, 80) / 2])  # fmt: skip
def test_labels_of_every_kind(labels, path):
    model = paloma.LODML(random_state=0).fit(X, labels)
    copy = round_trip(model, path)
    assert copy.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(copy.classes_, model.classes_)


def test_column_names(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = paloma.ODML().fit(frame, Y)
    assert_same(model, round_trip(model, path))


def test_a_classifier_whose_metric_has_learned_since_is_refreshed_first(path):
    metric = paloma.LODML(random_state=0).fit(X, Y)
    model = paloma.MetricKNeighborsClassifier(metric).fit(X[::2], Y[::2])
    metric.partial_fit(X, Y)
    with pytest.raises(ModelFileError, match=r"Call refresh\(\), then save"):
        paloma.save(model, path)
    assert not path.exists()
    copy = round_trip(model.refresh(), path)
    np.testing.assert_array_equal(copy.kneighbors(X)[0], model.kneighbors(X)[0])


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -(2**63), 2**64 - 1, 0.1, -0.0, np.inf, -np.inf, np.nan, "ä\ud800", b"x\0", [1, [2]],
     (1, (2, None)), {1: "a", "b": 2}, slice(0, None, 2), np.float64(0.1), np.int8(-3), np.bool_(True), np.str_("x"),
     np.zeros((0, 3)), np.array(3.5), np.asfortranarray(RNG.normal(size=(3, 4))), RNG.normal(size=(6, 4))[::2, 1:],
     np.array(["ab", "", "ü"]), np.array([b"x", b"yz"]), np.array(["a", 1, None, 2.5], object),
     np.arange(6, dtype=np.float16).reshape(2, 3), np.arange(6, dtype=np.uint8).reshape(2, 3), list(range(-5, 200)),
     [f"column {k}" for k in range(100)], np.random.RandomState(3)],
    ids=str,
)  # fmt: skip
def test_parameters(value):
    writer = _flat.Writer()
    node = json.loads(json.dumps(_plain.written(writer, value, "value"), allow_nan=False))
    reader = _flat.Reader(writer.arrays, 0)
    assert_same(_compact(value), _plain.read(reader, node, "value"))
    reader.finish()


def _compact(value):
    if isinstance(value, np.generic):
        return value.item()
    contiguous = not isinstance(value, np.ndarray) or value.flags.c_contiguous or value.flags.f_contiguous
    return value if contiguous else value.copy()


def test_what_users_see_is_kept(path):
    model = paloma.LODML(random_state=0).fit(X, Y)
    model.columns_ = {"features": list("abcde"), "label": "kind"}
    model.rounds_ = [{"round": 1, "accuracy": float("nan")}]
    copy = round_trip(model, path)
    for name in ("columns_", "rounds_", "mined_", "n_iter_", "loss_", "classes_", "scale_", "n_triplets_"):
        assert_same(getattr(model, name), getattr(copy, name))
    groups = paloma.OMDML(groups=[("a", slice(0, 2)), ("b", [2, -1])]).fit(X, Y)
    assert_same(groups.groups_, round_trip(groups, path).groups_)


def test_an_array_in_two_places_becomes_two(path):
    model = paloma.LODML(random_state=0, init=np.eye(5)).fit(X, Y)
    copy = round_trip(model, path)
    held = [array for array in inside.arrays(copy) if array.size]
    assert not any(np.shares_memory(a, b) for k, a in enumerate(held) for b in held[:k])
    assert all(array.flags.writeable for array in held)


def test_saving_imports_no_command(tmp_path):
    code = ("import sys, numpy, paloma; X = numpy.arange(12.0).reshape(6, 2) % 5; "
            "paloma.save(paloma.ODML().fit(X, [0, 0, 0, 1, 1, 1]), sys.argv[1]); paloma.load(sys.argv[1]); "
            "sys.exit(any(name.startswith(('paloma.cli', 'typer', 'dask')) for name in sys.modules))")  # fmt: skip
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")], check=True)


# -- what is refused -------------------------------------------------------------------------------------------


class Own(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


class Learner(paloma.ODML):
    pass


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (make_pipeline(Own(), paloma.ODML()), r"Pipeline.own is a .*Own"),
        (make_pipeline(FunctionTransformer(np.abs), paloma.ODML()), "FunctionTransformer"),
        (LogisticRegression(), "LogisticRegression"),
        (Learner(), "Learner"),
    ],
)
def test_classes_that_are_not_allowed(model, what, path):
    with pytest.raises(ModelFileError, match=f"{what}, which a model file cannot hold"):
        paloma.save(model.fit(X, Y), path)
    assert not path.exists()


def test_callables(path):
    for name, function in (("linear", linear_kernel), ("<lambda>", lambda a, b: a @ b.T)):
        with pytest.raises(
            ModelFileError, match=f"OKS.kernel is the callable '{name}.*, which a model file cannot hold"
        ):
            paloma.save(paloma.OKS(kernel=function).fit(X, Y), path)
    with pytest.raises(ModelFileError, match=r"LODML\.regions is the callable"):
        paloma.save(paloma.LODML(regions=lambda X: np.zeros(len(X), int)).fit(X, Y), path)
    with pytest.raises(ModelFileError, match="GaussianMixture, which a model file cannot hold"):
        paloma.save(paloma.LODML(regions=GaussianMixture(2, random_state=0)).fit(X, Y), path)


def test_generators_that_files_do_not_hold(path):
    model = paloma.ODML().fit(X, Y)
    inside.whole(model).rng = np.random.Generator(np.random.Philox(0))
    with pytest.raises(ModelFileError, match=r"ODML.model.random draws from Philox; model files hold PCG64"):
        paloma.save(model, path)


def test_attributes_that_paloma_does_not_know(path):
    model = paloma.ODML().fit(X, Y)
    model.note_ = "mine"
    with pytest.raises(ModelFileError, match=r"ODML.note_ is not known to paloma"):
        paloma.save(model, path)


def test_what_was_learned_must_be_finite(path):
    model = paloma.ODML().fit(X, Y)
    inside.state(model).shared[0, 0] = np.nan
    with pytest.raises(ModelFileError, match=r"ODML.model.space.shared holds values that are not finite"):
        paloma.save(model, path)
    assert not path.exists()


def test_pipelines_inside_pipelines(path):
    model = make_pipeline(make_pipeline(StandardScaler()), paloma.ODML()).fit(X, Y)
    with pytest.raises(ModelFileError, match=r"Pipeline.pipeline is a .*Pipeline, which a model file cannot hold"):
        paloma.save(model, path)


def test_not_fitted(path):
    for model in (paloma.LODML(), make_pipeline(StandardScaler(), paloma.LODML()), paloma.MetricKNeighborsClassifier()):
        with pytest.raises(NotFittedError):
            paloma.save(model, path)


def test_files_that_are_not_there(tmp_path):
    for kind in (FileNotFoundError, ModelFileError):
        with pytest.raises(kind, match=r"no model file .*none\.paloma"):
            paloma.load(tmp_path / "none.paloma")
    with pytest.raises(ModelFileError, match="is a folder"):
        paloma.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        paloma.save(paloma.ODML().fit(X, Y), tmp_path / "none" / "model.paloma")
    (tmp_path / "empty").touch()
    with pytest.raises(ModelFileError, match=r"empty was not written by paloma\.save"):
        paloma.load(tmp_path / "empty")


def test_another_version(path):
    paloma.save(paloma.ODML().fit(X, Y), path)
    header, arrays = crafted.opened(path.read_bytes())
    for version, advice in (("1", "never released; learn the model again"), ("3", "install the paloma that wrote it")):
        path.write_bytes(crafted.sealed(header, arrays, version))
        with pytest.raises(
            ModelFileError, match=f"version {version} of the format, this paloma reads version 2.*{advice}"
        ):
            paloma.load(path)


# -- classes of one's own --------------------------------------------------------------------------------------


class Notebook:
    """Says itself what it is made of."""

    def __init__(self, metric, notes):
        self.metric, self.lock = metric, object()
        self.notes = notes

    def __paloma_state__(self):
        return {"metric": self.metric, "notes": self.notes}

    @classmethod
    def __paloma_restore__(cls, state):
        return cls(**state)


def test_a_class_that_says_itself_what_it_is_made_of(path, monkeypatch):
    monkeypatch.setattr(_registry, "_registered", {})
    model = Notebook(paloma.ODML(random_state=0).fit(X, Y), {"rows": X})
    with pytest.raises(ModelFileError, match="Notebook"):
        paloma.save(model, path)
    register(Notebook)
    copy = round_trip(model, path)
    assert_same([model.metric, model.notes], [copy.metric, copy.notes])
    for name in ("LODML", "Pipeline", "KMeans", "Notebook"):
        with pytest.raises(ValueError, match=f"'{name}' is already the name of a class in model files"):
            register(type(name, (Notebook,), {}))
    with pytest.raises(TypeError, match="needs the methods __paloma_state__ and __paloma_restore__"):
        register(type("Other", (), {}))


def test_a_learner_of_ones_own(path, monkeypatch):
    monkeypatch.setattr(_registry, "_registered", {})
    register(Learner)
    model = Learner(random_state=0).fit(X, Y)
    assert_same(model, round_trip(model, path))


# -- the format ------------------------------------------------------------------------------------------------


def test_any_reader_of_safetensors_can_open_it(path):
    model = paloma.LODML(random_state=0, C=0.05).fit(X, Y)
    paloma.save(model, path)
    with safetensors.safe_open(path, "numpy") as file:
        header = json.loads(file.metadata()["header"])
        arrays = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118
    assert any(np.array_equal(array, model.shared_) for array in arrays)
    summary = header["summary"]
    assert (summary["learner"], summary["parameters"]["C"]) == ("LODML", "0.05")
    assert summary["classes"] == ["left", "middle", "right"]
    assert summary["n_triplets"] == model.n_triplets_
    assert {"numpy", "scikit-learn", "paloma"} <= header["environment"]["libraries"].keys()
    assert any(pool["num_threads"] for pool in header["environment"]["threads"])


def test_the_same_model_gives_the_same_bytes(tmp_path):
    files = [tmp_path / name for name in "ab"]
    for file in files:
        paloma.save(paloma.LODML(random_state=0).fit(X, Y), file)
    assert files[0].read_bytes() == files[1].read_bytes()


def make_golden():
    """How the file was made; to be made again only while no release has written version 2."""
    rows, labels = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array(["no", "no", "yes", "yes"])
    model = paloma.LODML(lam=0.25, C=0.125, scale=None, random_state=0, n_epochs=1, average=False)
    model.partial_fit(rows, labels, triplets=[[0, 1, 3], [0, 3, 1]]).partial_fit(rows[:1], labels[:1])
    paloma.save(model, GOLDEN)


def test_a_file_of_this_version_is_read(path):
    """tests/data/format-2.paloma must never change once version 2 is released: it stands for the files users have."""
    model = paloma.load(GOLDEN)
    assert type(model) is paloma.LODML
    assert model.get_params()["lam"] == 0.25
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.n_triplets_, model.n_updates_, model.loss_) == (2, 1, 1.0)
    assert model.shared_.tolist() == [[1.0, -0.03125], [-0.03125, 0.96875]]
    assert model.local_[1].tolist() == [[0.90625, -0.09375], [-0.09375, 0.90625]]
    assert_same(round_trip(model, path), model)
    assert inside.whole(model).rng.integers(0, 100, 3).tolist() == [36, 38, 10]


def test_names_in_the_file_are_those_of_the_documentation():
    """A private class may be renamed, a field of a file may not."""
    header, arrays = crafted.opened(GOLDEN.read_bytes())
    assert set(header["model"]) == {"class", "parameters", "attributes", "features", "model"}
    prefix = "LODML.model."
    assert {name.removeprefix(prefix) for name in arrays} == {
        "labels", "random", "scale", "drift", "reservoir.seen", "reservoir.codes", "reservoir.places", "reservoir.rows",
        "space.shared", "space.stack", "space.slots", "space.pending",
    }  # fmt: skip


def test_parameters_that_a_file_lacks_take_their_defaults(path):
    paloma.save(paloma.LODML(random_state=0).fit(X, Y), path)
    header, arrays = crafted.opened(path.read_bytes())
    del header["model"]["parameters"]["remine"]
    path.write_bytes(crafted.sealed(header, arrays))
    assert paloma.load(path).remine is False
    del header["model"]["model"]["counts"]["n_means"]
    path.write_bytes(crafted.sealed(header, arrays))
    with pytest.raises(ModelFileError, match=r"LODML.model.counts.n_means is missing"):
        paloma.load(path)


def test_a_kernel_classifier_over_equal_rows(path):
    rows, labels = np.concatenate([X, X[:9]]), np.concatenate([Y, Y[:9]])
    model = paloma.MetricKNeighborsClassifier(paloma.OKS(random_state=0)).fit(rows, labels)
    np.testing.assert_array_equal(round_trip(model, path).predict(X), model.predict(X))
