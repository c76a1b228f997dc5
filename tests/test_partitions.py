"""Mining and search over partitions against one machine; data that cannot be learned from."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

import paloma
from paloma.distributed import PartitionedIndex, fit, targets_impostors

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")

DIGITS, Y = load_digits(return_X_y=True)
DIGITS, Y = DIGITS[:900] / 16.0, Y[:900]
CHUNKED = da.from_array(DIGITS, chunks=(150, 64))


# -- mining and search ---------------------------------------------------------------------------------------------


def blobs(n, d, n_classes, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return (rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n_classes, d))[y] + 20.0).astype(dtype), y


def triplet_set(triplets):
    return set(map(tuple, triplets.tolist()))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("chunks", [(700,), (350, 350), (1, 300, 0, 99, 300)])
def test_mining_over_partitions_is_mining_on_one_machine(chunks, dtype, client):
    X, y = blobs(700, 9, 5, dtype=dtype)
    order = np.argsort(y, kind="stable")  # partitions without some classes
    X, y = X[order], y[order]
    expected = paloma.triplets.targets_impostors(X, y, random_state=0)
    rows = da.from_array(X, chunks=(chunks, 9))
    found = targets_impostors(rows, y, random_state=0, client=client if len(chunks) == 2 else None)
    assert triplet_set(found) == triplet_set(expected)
    assert len(expected) > 5000


def test_mining_copes_with_ties_and_duplicates():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 4)).astype(float)
    y = rng.integers(0, 3, 300)
    settings = {"n_targets": 2, "n_impostors": 4, "impostor_margin": 0.0}
    found = targets_impostors(da.from_array(X, chunks=(70, 4)), y, **settings)
    expected = paloma.triplets.targets_impostors(X, y, **settings)
    for column in (1, 2):
        distances = [np.sort(((X[t[:, 0]] - X[t[:, column]]) ** 2).sum(axis=1)) for t in (found, expected)]
        np.testing.assert_allclose(*distances, atol=1e-9)
    assert np.array_equal(np.unique(found[:, 0]), np.unique(expected[:, 0]))


def test_shards_learn_from_the_triplets_of_one_machine():
    """Across shards every triplet of one machine is learned, by the shard of its anchor."""
    model = fit(paloma.LODML(random_state=0), CHUNKED, Y, rounds=1, held_out=0.0)
    whole = paloma.LODML(random_state=0, n_epochs=1, scale="scalar").fit(DIGITS, Y)
    assert model.mined_ == whole.mined_
    assert model.n_triplets_ == whole.n_triplets_
    assert model.scale_ == pytest.approx(whole.scale_, rel=1e-12)


@pytest.mark.parametrize("name", ["LODML", "LOSL", "L2ODML"])
@pytest.mark.parametrize("keep", [False, True])
def test_search_over_partitions_is_search_on_one_machine(name, keep, client):
    extra = {"n_components": 30} if name == "L2ODML" else {}
    metric = getattr(paloma, name)(random_state=0, **extra).fit(DIGITS[:600], Y[:600])
    one = paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(DIGITS[:600], Y[:600])
    rows = da.from_array(DIGITS[:600], chunks=((100, 0, 2, 398, 100), 64))
    index = PartitionedIndex(metric, rows, Y[:600], client=client, keep=keep)
    distances, numbers = index.search(DIGITS[600:], 5)
    expected, ids = one.kneighbors(DIGITS[600:], 5)
    np.testing.assert_allclose(distances, expected, atol=1e-9)
    np.testing.assert_array_equal(numbers, ids)
    np.testing.assert_array_equal(index.predict(DIGITS[600:]), one.predict(DIGITS[600:]))


@pytest.mark.parametrize("unlabeled", [None, 0])
def test_items_without_a_class_are_scored_by_the_shared_part(unlabeled):
    metric = paloma.LODML(random_state=0, unlabeled=unlabeled).fit(DIGITS[:600], Y[:600])
    index = PartitionedIndex(metric, CHUNKED)
    distances, numbers = index.search(DIGITS[:4], 3)
    scores = metric.pairwise_score(DIGITS[:4], DIGITS)
    np.testing.assert_allclose(-distances, -np.sort(-scores, axis=1)[:, :3], atol=1e-9)
    assert numbers[:, 0].tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="no classes"):
        index.predict(DIGITS[:2])
    with pytest.raises(ValueError, match="more than the 900 items"):
        index.search(DIGITS[:2], 901)
    with pytest.raises(TypeError, match="paloma learner"):
        PartitionedIndex(object(), CHUNKED)


# -- bad input -----------------------------------------------------------------------------------------------------


def with_one_changed(number, change, n_chunks=20):
    """A Dask array whose chunk of this number is what `change` makes of it."""
    import dask

    pieces = np.array_split(DIGITS, n_chunks)
    blocks = [dask.delayed(change(x) if k == number else x) for k, x in enumerate(pieces)]
    shapes = [(len(x), 64) for x in pieces]
    return da.concatenate([da.from_delayed(b, s, float) for b, s in zip(blocks, shapes, strict=True)])


def nan_in(rows):
    rows = rows.copy()
    rows[3, 5] = np.nan
    return rows


BAD = {
    "NaN": (lambda: with_one_changed(17, nan_in), Y, r"Partition 17: LODML: Input X contains NaN"),
    "features": (
        lambda: with_one_changed(4, lambda x: x[:, :60]),
        Y,
        "Partition 4: X has 60 features, but partition 0",
    ),
    "rows": (lambda: with_one_changed(5, lambda x: x[:-1]), Y, "Partition 5: .*inconsistent lengths"),
    "length of y": (lambda: CHUNKED, Y[:-1], "y has 899 labels for 900 rows"),
    "length of chunked y": (lambda: CHUNKED, da.from_array(Y[:-1], chunks=100), "y has 899 labels for 900 rows"),
    "one class": (lambda: CHUNKED, np.zeros(900, int), "at least 2 classes, got 1 class"),
    "no y": (lambda: CHUNKED, None, "requires y"),
    "empty": (lambda: CHUNKED[:0], Y[:0], "all 1 partitions are empty"),
    "dimensions": (lambda: CHUNKED[:, 0], Y, "2 dimensions"),
    "huge values": (lambda: CHUNKED * 1e80, Y, "too large"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_are_refused(case):
    X, y, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        fit(paloma.LODML(random_state=0), X(), y, rounds=1)


def test_a_nan_on_a_worker_names_its_partition(client):
    X, y, message = BAD["NaN"]
    with pytest.raises(ValueError, match=message):
        fit(paloma.LODML(random_state=0), X(), y, rounds=1, client=client)


@pytest.mark.parametrize("mining", ["across", "within"])
def test_partitions_may_be_empty_or_lack_classes(mining):
    order = np.argsort(Y, kind="stable")
    rows = da.from_array(DIGITS[order], chunks=((0, 300, 0, 300, 300), 64))
    model = fit(paloma.LODML(random_state=0), rows, Y[order], rounds=2, mining=mining)
    assert model.classes_.tolist() == list(range(10))
    assert model.leave_one_out_score(DIGITS, Y) > 0.9


def test_partitions_of_one_class_are_named():
    order = np.argsort(Y < 5, kind="stable")
    cut = int((Y >= 5).sum())
    rows, y = da.from_array(DIGITS[order], chunks=((cut, 900 - cut), 64)), (Y < 5)[order]
    with (
        pytest.warns(UserWarning, match="2 of 2 partitions contain only one class, the first of them is partition 0"),
        pytest.raises(ValueError, match=r"no triplet was formed .* mining='across'"),
    ):
        fit(paloma.LODML(), rows, y, mining="within")
    assert fit(paloma.LODML(random_state=0), rows, y, rounds=1).n_updates_ > 0


def test_columns_of_other_names_are_refused():
    pandas = pytest.importorskip("pandas")
    parts = [pandas.DataFrame(DIGITS[:150], columns=[f"{letter}{k}" for k in range(64)]) for letter in "ab"]
    import dask

    frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0], verify_meta=False)
    with pytest.raises(ValueError, match="Partition 1: its column names differ from those of partition 0"):
        fit(paloma.LODML(), frame, da.from_array(Y[:300], chunks=150))


def test_words_and_numbers_do_not_mix():
    frames = [[0, 1] * 75, ["a", "b"] * 75]
    y = da.concatenate([da.from_array(np.array(each, object), chunks=150) for each in frames])
    with pytest.raises(TypeError, match="Partition 1: The classes so far are numbers"):
        fit(paloma.LODML(), CHUNKED[:300], y)


def test_bad_arguments_are_refused(tmp_path):
    learner = paloma.LODML()
    with pytest.raises(TypeError, match=r"For rows in memory use the learner's own fit"):
        fit(learner, DIGITS, Y)
    with pytest.raises(TypeError, match="estimator must be a paloma learner, got GridSearchCV"):
        fit(GridSearchCV(learner, {}), CHUNKED, Y)
    with pytest.raises(TypeError, match=r"client must be a dask.distributed.Client, got str"):
        fit(learner, CHUNKED, Y, client="tcp://127.0.0.1:8786")
    for name, value in {"rounds": 0, "mining": "here", "held_out": 0.9, "shard_rows": 1.5}.items():
        with pytest.raises(ValueError, match=name):
            fit(learner, CHUNKED, Y, **{name: value})
    with pytest.raises(ValueError, match="set the random_state of LODML"):
        fit(learner, CHUNKED, Y, checkpoint=tmp_path / "rounds.paloma")
    with pytest.raises(ValueError, match="early_stopping watches the held-out rows"):
        fit(paloma.LODML(early_stopping=True), CHUNKED, Y, held_out=0)
    with pytest.raises(ValueError, match="remine"):
        fit(paloma.LODML(remine=True), CHUNKED, Y)
    with pytest.raises(ValueError, match=r"forget=0.1 needs an order in time"):
        fit(paloma.LODML(forget=0.1), CHUNKED, Y)
    with pytest.raises(ValueError, match="regions"):
        fit(paloma.LODML(regions=3), CHUNKED, Y)
    with pytest.raises(ValueError, match="rank"):
        fit(paloma.OMDML(rank=3), CHUNKED, Y)
    with pytest.raises(ValueError, match="C must be"):
        fit(paloma.LODML(C=-1), CHUNKED, Y)
    with pytest.raises(FileNotFoundError):
        fit(learner, tmp_path / "nowhere.npy", Y)
    frame = dd.from_dask_array(CHUNKED, columns=[f"f{k}" for k in range(64)])
    with pytest.raises(ValueError, match="no column 'label'"):
        fit(learner, frame, "label")
    np.save(tmp_path / "X.npy", DIGITS)
    with pytest.raises(ValueError, match="must be whole"):
        fit(learner, np.load(tmp_path / "X.npy", mmap_mode="r")[10:], Y[10:])
