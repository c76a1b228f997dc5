"""Model files from strangers: what each of them once did, and that it is refused before it does anything."""

import json
import os
import pickle

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import paloma
from helpers import crafted
from helpers.cli import run
from helpers.crafted import CSR, GRAM, X, Y
from paloma.exceptions import ModelFileError

SMALL = {"random_state": 0, "n_targets": 1, "n_impostors": 3, "n_epochs": 1}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.paloma"


class File:
    """A saved model whose numbers and arrays can be set; `refused` writes it, and reads it again in vain."""

    def __init__(self, model, path):
        paloma.save(model, path)
        self.path, self.who = path, type(model).__name__
        self.header, self.arrays = crafted.opened(path.read_bytes())
        self.model = self.header["model"]

    def array(self, name):
        return self.arrays[f"{self.who}.{name}"]

    def put(self, name, value):
        self.arrays[f"{self.who}.{name}"] = np.ascontiguousarray(value)
        return self

    def refused(self, match):
        self.path.write_bytes(crafted.sealed(self.header, self.arrays))
        with pytest.raises(ModelFileError, match=match):
            paloma.load(self.path)


def test_shapes_that_do_not_fit_each_other(path):
    """(d, 1) instead of (d, d) for a similarity: compiled loops read out of bounds."""
    file = File(paloma.LOSL(**SMALL).fit(CSR, Y), path)
    for name in ("shared", "mean_shared"):
        file.put(f"model.space.{name}", file.array("model.space.shared")[:, :1]).refused(r"must have shape \(4, 4\)")
    file = File(paloma.LOSL(**SMALL).fit(CSR, Y), path)
    file.put("model.space.slots", [0, 1, 7]).refused("wrong type")
    file.put("model.space.slots", np.array([0, 1, 7], np.int32)).refused("must be less than 3, got 7")
    file.put("model.space.slots", np.array([0, 1, 1], np.int32)).refused("name each matrix of the stack once")
    file.put("model.space.slots", np.zeros(4, np.int32)).refused("at most 3 entries")


def test_columns_beyond_the_data(path):
    """Of OMDML, and of a classifier over OKS."""
    file = File(paloma.OMDML(**SMALL, groups=[[0, 1], [2, 3]]).fit(X, Y), path)
    file.model["parameters"]["groups"] = [[0, 1], [2, 4]]
    file.refused("must select columns of X, which has 4")
    file.model["parameters"]["groups"] = [[0, 1], [1, 2, 3]]
    file.refused(r"must have shape \(3, 3\)")
    model = paloma.MetricKNeighborsClassifier(paloma.OKS(**SMALL).fit(X, Y)).fit(X, Y)
    for field in ("anchors", "candidates"):
        file = File(model, path)
        name = f"metric_.model.space.pairs.{field}"
        file.put(name, np.full_like(file.array(name), 1000)).refused("must be less than")
    file = File(model, path)
    file.put("rows.numbers", np.full(len(X), 3)).refused("must be less than 3")
    file = File(paloma.OKS(**SMALL, kernel="precomputed").fit(GRAM, Y), path)
    file.put("model.space.points", file.array("model.space.points") + 40).refused("must be less than 40")


def test_losses_of_hedge_shorter_than_the_kernels(path):
    file = File(paloma.OMKS(**SMALL).fit(X, Y), path)
    losses = file.array("model.space.hedge.losses")
    file.put("model.space.hedge.losses", losses[:2]).refused("must have shape")
    file.put("model.space.hedge.losses", losses + 10**6).refused("losses cannot be more than the rounds")


def test_a_record_of_hedge_that_never_ends(path):
    """`every` = 0: partial_fit never returned."""
    for every in (0, 3, -1):
        file = File(paloma.OMKS(**SMALL).fit(X, Y), path)
        file.model["model"]["space"]["hedge"]["every"] = every
        file.refused("every must be at least 1|power of two")


def test_a_rank_of_zero(path):
    file = File(paloma.OMDML(**SMALL, rank=1).fit(X, Y), path)
    file.model["parameters"]["rank"] = 0
    file.refused("rank must be an integer of at least 1")


def test_an_array_in_two_places(path):
    """Aliasing is not possible: a place has one name, and a name one place."""
    file = File(paloma.LODML(**SMALL, init=np.eye(4)).fit(X, Y), path)
    raw = crafted.sealed(file.header, file.arrays)
    n = int.from_bytes(raw[:8], "little")
    table = json.loads(raw[8 : 8 + n])
    table["LODML.model.space.shared"]["data_offsets"] = table["LODML.init"]["data_offsets"]
    path.write_bytes(crafted.resealed(table, raw[8 + n : -32]))
    with pytest.raises(ModelFileError, match="header that cannot be read"):
        paloma.load(path)


def test_clusters_are_made_anew(path):
    """`_n_threads`, `_counts` and narrow centers of a MiniBatchKMeans: segmentation faults in scikit-learn."""
    model = paloma.LODML(**SMALL, regions=3).partial_fit(X, Y)
    file = File(model, path)
    assert not any("_" in name.rpartition(".")[2][:1] for name in file.arrays)
    assert set(file.model["model"]["regions"]["fitted"]) == {"steps", "batch", "since"}
    centers = file.array("model.regions.fitted.centers")
    for value in (centers[:, :2], centers[:2], centers.astype(np.float16), np.full_like(centers, np.nan)):
        file.put("model.regions.fitted.centers", value).refused("centers")
    file = File(model, path)
    file.put("model.regions.fitted.counts", np.ones(2)).refused("must have shape")
    file = File(model, path)
    file.put("model.regions.fitted.counts", np.ones(3, np.float32)).refused("type of the centers")
    file = File(model, path)
    file.model["model"]["regions"]["fitted"]["_n_threads"] = 10**6
    file.refused("unknown entries: _n_threads")


@pytest.mark.parametrize("options", [{"n_links": 1}, {"n_links": 10**6}, {"ef_construction": 0}, {"ef_search": 10**9}])
def test_a_graph_of_one_link(options, path):
    """It crashed faiss in `add` and in `load`."""
    pytest.importorskip("faiss")
    metric = paloma.LODML(**SMALL).fit(X, Y)
    with pytest.raises(ValueError, match="must be an integer of at"):
        paloma.MetricIndex(metric, backend="faiss-hnsw", **options)
    index = paloma.MetricIndex(metric, backend="faiss-hnsw")
    index.add(X, Y)
    file = File(index, path)
    file.model["options"] |= options
    file.refused("must be an integer of at")


def test_a_graph_of_one_link_on_the_command_line(files):
    pytest.importorskip("faiss")
    train, _, model = files
    run("fit", train, "-o", model, "-q")
    arguments = ("index", model, train, "-o", model.with_suffix(".index"), "--backend", "faiss-hnsw")
    assert "n_links must be an integer of at least 2" in run(*arguments, "--set", "n_links=1", code=1).stderr


def test_a_file_names_no_connection(path):
    """The first search sent PGUSER and PGPASSWORD to whatever host the file named."""
    metric = paloma.LODML(**SMALL).fit(X, Y)
    for name in ("connection", "replace"):
        file = File(paloma.MetricIndex(metric, backend="pgvector"), path)
        assert name not in file.model["options"]
        file.model["options"][name] = "host=example.org"
        file.refused("options that no file may have")


def test_a_file_names_no_memory(path):
    """joblib read pickles from the folder that `Pipeline.memory` named."""
    model = make_pipeline(StandardScaler(), paloma.ODML(**SMALL)).fit(X, Y)
    file = File(model, path)
    assert "memory" not in file.model
    for name in ("memory", "transform_input"):
        file.model[name] = "folder"
        file.refused(f"unknown entries: {name}")
        del file.model[name]
    model.memory = str(path.parent)
    with pytest.raises(ModelFileError, match=r"Pipeline.memory cannot be kept in a model file"):
        paloma.save(model, path)


def test_only_listed_steps_and_parameters(path):
    model = make_pipeline(StandardScaler(), paloma.ODML(**SMALL)).fit(X, Y)
    file = File(model, path)
    file.model["steps"][0]["class"] = "FunctionTransformer"
    file.refused("'FunctionTransformer' is unknown to this paloma")
    file = File(model, path)
    file.model["steps"][0]["parameters"]["func"] = "os.system"
    file.refused("unknown entries: func")
    file = File(model, path)
    file.put("standardscaler.found.mean_", np.zeros(3)).refused("must have shape")
    file.put("standardscaler.found.mean_", np.zeros(4))
    file.put("standardscaler.found.scale_", np.zeros(4)).refused("must be at least")


def test_work_is_in_proportion_to_the_file(path):
    """73 kB took 16.6 GB, 15 kB took minutes, 24 MB took 1.4 GB."""
    file = File(paloma.L2ODML(**SMALL, n_components=2).fit(X, Y), path)
    codes = file.array("model.space.journal.pairs.codes").copy()
    codes[-1] = 2**31 - 1
    file.put("model.space.journal.pairs.codes", codes).refused("must be less than 3")
    file = File(paloma.OMDML(**SMALL).fit(X, Y), path)
    file.model["features"] = 10**12
    file.refused("wrong number of features")
    file.model["features"] = 10**6
    file.model["parameters"]["groups"] = [{"slice": [0, None, None]}] * 10_000
    file.refused("groups select more columns")
    file = File(paloma.LODML(**SMALL, regions=3).partial_fit(X[:2], Y[:2]), path)
    file.model["parameters"]["regions"] = 10**9
    file.refused("too many regions")


def test_tables_are_in_proportion_to_the_file(path):
    """Rows by regions, and items by classes, are more than either: 1 MB would have taken 12 GB."""
    metric = paloma.LODML(**SMALL, regions=2, soft_regions=True).fit(X, Y)
    n, k = 60_000, 20_000
    file = File(paloma.MetricKNeighborsClassifier(metric).fit(X, Y), path)
    file.model["metric_"]["parameters"]["regions"] = k
    for name in ("centers", "counts"):
        file.put(f"metric_.model.regions.fitted.{name}", np.resize(file.array(f"metric_.model.regions.fitted.{name}"),
                                                                   (k, 4)[: 2 - (name == "counts")]))  # fmt: skip
    file.put("rows.rows", np.resize(X, (n, 4))).put("rows.numbers", np.zeros(n, np.int64))
    file.model["rows"] = {"n_fitted": n, "n_seen": n}
    file.refused(f"would need a table of {n:,} by {k:,} numbers")


def test_nested_pipelines(path):
    file = File(make_pipeline(StandardScaler(), paloma.ODML(**SMALL)).fit(X, Y), path)
    for _ in range(100):
        file.model = file.header["model"] = {**file.model, "names": ["pipeline"], "steps": [], "last": file.model}
    file.refused("nested too deeply")


@pytest.mark.parametrize("item", ["[]", "{}", '""', "[[", '{"a":'])
def test_a_header_of_nothing(item, path):
    """Megabytes of empty lists, or a depth of millions."""
    file = File(paloma.ODML(**SMALL).fit(X, Y), path)
    for size in (1 << 20, 24 << 20):
        closing = "" if item in ("[]", "{}", '""') else "0"
        text = "[" + ",".join([item] * (size // (len(item) + 1))) + "]" if not closing else item * (size // len(item))
        path.write_bytes(crafted.sealed(file.header, file.arrays, header=text))
        assert crafted.load(path) is None


def test_what_is_no_model(path):
    file = File(paloma.ODML(**SMALL).fit(X, Y), path)
    for value in (None, [], 7, "ODML", {}, {"class": 7}, {"class": "os"}, {"class": []}):
        file.header["model"] = value
        file.refused("holds no valid model")


def test_numbers_that_are_none(path):
    """NaN in matrices was loaded."""
    for value in (np.nan, np.inf):
        file = File(paloma.LODML(**SMALL).fit(X, Y), path)
        for name in [name for name, array in file.arrays.items() if array.dtype.kind == "f"]:
            before = file.arrays[name]
            file.arrays[name] = np.full_like(before, value)
            file.refused("not finite")
            file.arrays[name] = before


def test_errors_of_other_libraries(path):
    """faiss and numba raised errors of their own out of `load`."""
    pytest.importorskip("faiss")
    index = paloma.MetricIndex(paloma.LODML(**SMALL, guard=False).fit(X, Y), backend="faiss-flat")
    index.add(X, Y)
    file = File(index, path)
    shared = file.array("metric.model.space.shared")
    file.put("metric.model.space.shared", np.full_like(shared, 1e60)).refused("float32")


def test_counts_beyond_counting(path):
    """Learning goes on from them: 2**63 - 1 triplets leave no room for one more."""
    file = File(paloma.OKS(**SMALL).fit(X, Y), path)
    for number in (2**53 + 1, 2**63 - 1):
        file.model["model"]["counts"]["seen"] = number
        file.refused("too large")


def test_voters_that_nobody_judged(path):
    """How many neighbors vote is not found again when a file is loaded."""
    file = File(paloma.MetricKNeighborsClassifier(paloma.ODML(**SMALL)).fit(X, Y), path)
    n, k = file.model["judged"]
    for judged, match in [
        (None, "judged belongs to"), ([n], "two numbers"), ([n + 1, k], "at most"), ([1, k], "too few"),
        ([n, 0], "at least 1"), ([n, 57], "at most"), ([n, 10**30], "at most"),
    ]:  # fmt: skip
        file.model["judged"] = judged
        file.refused(match)
    file.model.update(judged=[n, k], n_neighbors=3)
    file.refused("judged belongs to")


def test_power_iterations_without_end(path):
    file = File(paloma.L2ODML(**SMALL).fit(X, Y), path)
    file.model["parameters"]["n_power_iter"] = 10**9
    file.refused("at most 100")


def test_random_states_that_repeat_themselves(path):
    """An even increment of PCG64 may draw the same number forever, and so does a twister of zeros."""
    file = File(paloma.ODML(**SMALL).fit(X, Y), path)
    words = file.array("model.random").copy()
    words[3] = 0
    file.put("model.random", words).refused("none of PCG64")
    file = File(paloma.ODML(random_state=np.random.RandomState(0)).fit(X, Y), path)
    sound = file.array("random_state")
    for place, value in ((slice(624), 0), (0, 2**32), (624, 625), (625, 2)):
        words = sound.copy()
        words[place] = value
        file.put("random_state", words).refused("none of MT19937")


def test_no_file_is_ever_executed(tmp_path, monkeypatch):
    kinds = {}
    for name, model, _ in crafted.models():
        paloma.save(model, tmp_path / name)
        kinds[name] = type(model)
        paloma.load(tmp_path / name)  # numba reads its own cache of compiled loops, which are pickles

    def explode(*_, **__):
        raise SystemError("something was unpickled or run")

    for module, name in ((pickle, "loads"), (pickle, "load"), (pickle, "Unpickler"), (os, "system")):
        monkeypatch.setattr(module, name, explode)
    for name, kind in kinds.items():
        assert type(paloma.load(tmp_path / name)) is kind


def test_two_models_of_one_file_are_two(path):
    model = paloma.LODML(**SMALL).fit(X, Y)
    paloma.save(model, path)
    one, two = paloma.load(path), paloma.load(path)
    one.partial_fit(X, Y)
    np.testing.assert_array_equal(two.shared_, model.shared_)
