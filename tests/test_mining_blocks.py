"""Many rows: blocks that mine among themselves, with every option of `fit`; exact blocks that take averages inside."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import paloma
from paloma._search import directions, euclid
from paloma._spaces.dense import blocks as dense_blocks
from paloma._training import mining
from paloma.estimators import settings_of
from paloma.triplets import mine, random_triplets

N, D, CLASSES = 900, 6, 4
RNG = np.random.default_rng(0)
Y = RNG.integers(0, CLASSES, N)
X = RNG.normal(size=(N, D)) * np.linspace(2.0, 0.5, D) + 1.2 * RNG.normal(size=(CLASSES, D))[Y]


@pytest.fixture
def in_blocks(monkeypatch):
    monkeypatch.setattr(mining, "EXACT_ROWS", 500)
    monkeypatch.setattr(mining, "BLOCK_ROWS", 300)


# --- few directions ------------------------------------------------------------------------------------------------


def test_many_features_are_mined_among_candidates_of_few_directions(monkeypatch):
    monkeypatch.setattr(directions, "FEWEST_ROWS", 2500)
    monkeypatch.setattr(directions, "FEWEST_FEATURES", 400)
    rng = np.random.default_rng(1)
    y = rng.integers(0, 6, 2600).astype(np.int32)
    rows = rng.normal(size=(2600, 60)) @ rng.normal(size=(60, 420)) + rng.normal(size=(6, 420))[y]
    rows += 2.0 * rng.normal(size=rows.shape)
    some = np.sort(rng.permutation(2600)[:300])
    for anchors in (np.arange(2600), some):
        exact = euclid.neighbors_by_class(rows, y, anchors, 3, 10)
        targets, reaches, impostors, distances, mean = directions.neighbors_by_directions(rows, y, anchors, 3, 10)
        np.testing.assert_array_equal(targets, exact[0])
        np.testing.assert_allclose(reaches, exact[1], rtol=1e-12)
        assert mean == pytest.approx(exact[4])
        true = ((rows[anchors[:, None]] - rows[impostors]) ** 2).sum(axis=2)
        np.testing.assert_allclose(distances, true, rtol=1e-10)
        assert (np.diff(distances, axis=1) >= 0.0).all()
        assert (y[impostors] != y[anchors][:, None]).all()
        assert np.mean([np.isin(a, b).mean() for a, b in zip(impostors, exact[2], strict=True)]) > 0.98
    for kind, expected in ((paloma.L2ODML, "candidates in 256 directions"), (paloma.ODML, "exact")):
        assert kind(random_state=0, n_epochs=1, guard=False).fit(rows, y).mined_["search"] == expected
    assert paloma.L2ODML(random_state=0, n_epochs=1).fit(rows[:500], y[:500]).mined_["search"] == "exact"


# --- blocks --------------------------------------------------------------------------------------------------------


def test_blocks_share_all_rows_and_every_class():
    codes = np.repeat(np.arange(5), 20_000).astype(np.int32)
    blocks = mining.blocks_of(codes, np.random.default_rng(0))
    assert sorted(np.concatenate(blocks).tolist()) == list(range(len(codes)))
    for rows in blocks:
        assert (np.diff(rows) > 0).all()
        assert np.ptp(np.bincount(codes[rows], minlength=5)) <= 2
    again = mining.blocks_of(codes, np.random.default_rng(1))
    assert not np.array_equal(blocks[0], again[0])


def test_small_classes_stay_together():
    """Cut like large ones, the two rows of a class would rarely meet."""
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(40_000), 2)).astype(np.int32)
    blocks = mining.blocks_of(codes, np.random.default_rng(0))
    assert all((np.bincount(codes[rows])[np.unique(codes[rows])] == 2).all() for rows in blocks)
    assert max(map(len, blocks)) < 1.1 * min(map(len, blocks))


def test_rows_without_a_label_are_spread_and_do_not_count(in_blocks):
    codes = np.where(np.arange(3000) % 3, -1, 0).astype(np.int32)
    blocks = mining.blocks_of(codes, np.random.default_rng(0))
    assert len(blocks) == 4
    assert max(len(rows) for rows in blocks) - min(len(rows) for rows in blocks) <= 2
    miner = settings_of(paloma.LODML()).mining
    assert miner.blocks(codes, np.random.default_rng(0))
    assert not miner.blocks(codes[:1500], np.random.default_rng(0))


# --- fit -----------------------------------------------------------------------------------------------------------


def test_says_how_rows_were_mined(in_blocks):
    learner = paloma.LODML(random_state=0)
    assert learner.fit(X[:400], Y[:400]).mined_["search"] == "exact"
    model = learner.fit(X, Y)
    assert model.mined_["search"] == "blocks of 300"
    assert model.mined_["anchors"] == N
    assert model.n_triplets_ > 3 * model.mined_["triplets"]


@pytest.mark.parametrize("kind", [
    paloma.LODML, paloma.ODML, paloma.LOSL, paloma.L2ODML, paloma.SLMOML, paloma.DiagonalODML, paloma.OMDML, paloma.OKS,
])  # fmt: skip
def test_every_representation_learns_in_blocks(in_blocks, monkeypatch, kind):
    model = kind(n_epochs=2, random_state=0).fit(X, Y)
    again = kind(n_epochs=2, random_state=0).fit(X, Y)
    assert model.mined_["search"] == "blocks of 300"
    pairs = X[:40].reshape(20, 2, D)
    np.testing.assert_array_equal(model.pair_score(pairs, Y[:20]), again.pair_score(pairs, Y[:20]))
    monkeypatch.setattr(mining, "EXACT_ROWS", N)
    exact = kind(n_epochs=2, random_state=0).fit(X, Y)
    assert model.score(X, Y) > exact.score(X, Y) - 0.03


@pytest.mark.parametrize("options", [
    {"scale": "full", "least_impostors": 3}, {"scale": "diagonal"}, {"remine": True}, {"balanced": True},
    {"early_stopping": True, "n_epochs": 10}, {"guard": True}, {"regions": 3}, {"unlabeled": 3, "semi": "both"},
    {"forget": 1e-4}, {"psd": 200},
], ids=str)  # fmt: skip
def test_every_option_goes_with_blocks(in_blocks, options):
    model = paloma.LODML(random_state=0, **options).fit(X, Y)
    assert model.mined_["search"].startswith("blocks of")
    assert 1 <= model.n_iter_ <= options.get("n_epochs", 4)
    assert model.score(X, Y) > 0.75 if "unlabeled" not in options else model.score(X[Y != 3], Y[Y != 3]) > 0.75


def test_held_out_anchors_are_never_learned(in_blocks, monkeypatch):
    learned = []
    learn = paloma._training.trainer.Trainer.learn

    def spy(self, stream, *arguments):
        learned.append(np.unique(stream.X[stream.triplets[:, 0]], axis=0))
        return learn(self, stream, *arguments)

    monkeypatch.setattr(paloma._training.trainer.Trainer, "learn", spy)
    paloma.LODML(random_state=0, early_stopping=True, validation_fraction=0.5, n_epochs=2, guard=False).fit(X, Y)
    anchors = len(np.unique(np.concatenate(learned), axis=0))
    assert anchors < N - 100


def test_no_triplets_in_blocks_is_no_error(in_blocks):
    far = X + 1000.0 * Y[:, None]
    model = paloma.LODML(random_state=0, least_impostors=0, scale="scalar").fit(far, Y)
    assert model.mined_["triplets"] == model.n_triplets_ == 0


def test_the_journal_keeps_a_row_once(in_blocks):
    wide = np.random.default_rng(0).normal(size=(N, 300)) + Y[:, None] * 0.02
    model = paloma.L2ODML(n_components=20, n_epochs=3, random_state=0).fit(wide, Y)
    assert model._model.space.state.journal.rows.shape[0] <= N


def test_a_memory_map_is_not_copied(in_blocks, tmp_path):
    rows = np.tile(X, (24, 40)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    labels = np.tile(Y, 24)
    learner = paloma.LODML(n_epochs=1, n_impostors=2, guard=False, random_state=0)
    learner.fit(mapped[:N], labels[:N])
    tracemalloc.start()
    learner.fit(mapped, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * rows.nbytes


@pytest.mark.usefixtures("in_blocks")
def test_sparse_rows_in_blocks():
    model = paloma.LOSL(random_state=0).fit(sp.csr_matrix(X), Y)
    assert model.mined_["search"] == "blocks of 300"


# --- parts of it -----------------------------------------------------------------------------------------------------


def test_small_and_large_classes_are_searched_alike(monkeypatch):
    expected = mine(X, Y.astype(np.int32)).triplets
    for size in (0, 10**6):
        monkeypatch.setattr(euclid, "SMALL_CLASS", size)
        np.testing.assert_array_equal(mine(X, Y.astype(np.int32)).triplets, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_and_large_data_are_searched_alike(monkeypatch, dtype):
    rows, found = np.round(X[:200], 2).astype(dtype), []
    for size in (0, 10**9):
        monkeypatch.setattr(euclid, "SMALL_DATA", size)
        found.append(mine(rows, Y[:200].astype(np.int32)).triplets)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", [paloma.LODML, paloma.ODML, paloma.LOSL, paloma.OASIS])
def test_averages_inside_a_block_are_those_at_its_end(kind):
    """A call of 1,024 triplets ends where an average is due; one call takes them all inside its blocks."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(300, 70)), rng.integers(0, 5, 300)
    triplets = random_triplets(labels, 4500, rng)
    one, many = (kind(average=True, scale=None, C=0.01, block_size=400, random_state=0) for _ in range(2))
    one.partial_fit(rows, labels, triplets=triplets)
    for a in range(0, len(triplets), 1024):
        many.partial_fit(rows, labels, triplets=triplets[a : a + 1024])
    for label in (None, *range(5)):
        np.testing.assert_allclose(one.metric_matrix(label), many.metric_matrix(label), rtol=1e-10, atol=1e-10)
    assert not np.allclose(one.metric_matrix(), one.shared_)


@pytest.mark.parametrize(
    "options", [{}, {"forget": 1e-3}, {"step": "logistic"}, {"step": "pa2", "margin": 0.5}], ids=str
)
@pytest.mark.parametrize("block_size", ["auto", 100])
def test_sparse_blocks_are_exact(monkeypatch, options, block_size):
    rng = np.random.default_rng(0)
    rows = sp.random(200, 150, 0.1, format="csr", random_state=1)[[0, 1, 2, 4, *range(4, 200)]]
    labels = rng.integers(0, 4, 200)
    triplets = np.concatenate([random_triplets(labels, 1500, rng), [[0, 3, 4], [7, 7, 7]]])
    found = []
    for cache in (0, 1 << 40):
        monkeypatch.setattr(dense_blocks, "CACHE", cache)
        size = block_size if not cache else "auto"
        learner = paloma.OASIS(C=0.1, scale=None, average=False, n_epochs=2, block_size=size, **options)
        found.append(learner.fit(rows, labels, triplets=triplets))
    np.testing.assert_allclose(found[0].shared_, found[1].shared_, rtol=1e-10, atol=1e-12)
    assert found[0].loss_ == pytest.approx(found[1].loss_, rel=1e-10)
    assert found[0].n_updates_ == found[1].n_updates_ > 1000
