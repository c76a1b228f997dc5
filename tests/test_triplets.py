"""Triplets: the miner against its literal twin, shuffling, random triplets, and the reservoir of a stream."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest

from paloma import LODML, MetricKNeighborsClassifier
from paloma._search import euclid as _euclid
from paloma._search import tiles as _search
from paloma.triplets import Mined, Reservoir, mine, random_triplets, targets_impostors
from twins import mining

SIZES = {
    "even": (12, 12, 12),
    "uneven": (25, 3, 2, 9),
    "singletons": (1, 14, 1, 10),
    "two rows": (1, 1),
    "pairs": (2, 2, 2, 2),
}


def problem(sizes, seed=0, d=4):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(np.int32)
    return rng.normal(size=(len(codes), d)) + 0.7 * codes[:, None], codes


def as_set(rows):
    return {tuple(row) for row in np.asarray(rows).tolist()}


@pytest.fixture(params=[(512, 2048), (5, 7), (1, 1)], ids=["one tile", "tiles", "tiles of one"])
def tiles(request, monkeypatch):
    monkeypatch.setattr(_search, "QUERY_TILE", request.param[0])
    monkeypatch.setattr(_search, "ITEM_TILE", request.param[1])
    monkeypatch.setattr(_euclid, "QUERY_TILE", request.param[0])


# --- targets times impostors ---------------------------------------------------------------------------


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("margin", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_mined_equals_the_literal_miner(sizes, margin):
    X, codes = problem(sizes)
    for n_targets, n_impostors in ((3, 10), (1, 1), (2, 100), (50, 4)):
        expected = mining.targets_impostors(X, codes, n_targets, n_impostors, margin)
        found = mine(X, codes, n_targets, n_impostors, margin)
        # The same order, too: by anchor, then target, then impostor, nearest first.
        np.testing.assert_array_equal(found.triplets, expected)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_counts_of_anchors_that_give_none(sizes):
    X, codes = problem(sizes)
    found = mine(X, codes, 3, 10, 0.0)
    gave = set(found.triplets[:, 0].tolist())
    alone = {row for row in range(len(X)) if (codes == codes[row]).sum() == 1}
    assert found.n_anchors == len(X)
    assert found.n_alone == len(alone)
    assert found.n_unopposed == len(X) - len(alone) - len(gave)


def test_far_classes_are_opposed_by_as_many_as_there_are_targets():
    X, codes = problem((10, 10))
    found = mine(X + 1000.0 * codes[:, None], codes)
    assert set(Counter(found.triplets[:, 0].tolist()).values()) == {9}
    assert (found.n_alone, found.n_unopposed) == (0, 0)


def test_the_rule_of_the_paper():
    X, codes = problem(SIZES["uneven"])
    for margin in (0.0, 0.1):
        expected = mining.targets_impostors(X, codes, 3, 10, margin, least=0)
        np.testing.assert_array_equal(mine(X, codes, 3, 10, margin, least=0).triplets, expected)
    far = mine(X + 1000.0 * codes[:, None], codes, least=0)
    assert far.triplets.shape == (0, 3)
    assert far.n_unopposed == len(X)


def test_a_narrow_class_inside_a_wide_one_has_a_voice():
    """Without impostors of its own the narrow class could not resist while the wide one's metric shrinks to nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    X = rng.normal(size=(1200, 20)) * np.where(y == 0, 2.0, 1.0)[:, None] + 0.5 * y[:, None]
    starved, heard = (Counter(y[mine(X, y.astype(np.int32), least=n).triplets[:, 0]].tolist()) for n in (0, None))
    assert heard[1] > 10 * starved[1]
    model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(X[:800], y[:800])
    assert model.score(X[800:], y[800:]) > 0.9


def test_one_class_has_no_impostors():
    X, _ = problem((10,))
    found = mine(X, np.zeros(10, np.int32))
    assert found.triplets.shape == (0, 3)
    assert found.n_unopposed == 10


@pytest.mark.usefixtures("tiles")
def test_only_the_anchors_asked_for():
    X, codes = problem(SIZES["uneven"])
    every = mine(X, codes).triplets
    anchors = np.array([30, 4, 11, 17])
    some = mine(X, codes, anchors=anchors)
    assert some.n_anchors == 4
    np.testing.assert_array_equal(some.triplets, np.concatenate([every[every[:, 0] == anchor] for anchor in anchors]))


def test_impostors_are_the_nearest_ones_and_near_enough():
    X, codes = problem((30, 30, 30), seed=2)
    rows = mine(X, codes, 3, 5, 0.1).triplets
    assert (codes[rows[:, 0]] == codes[rows[:, 1]]).all()
    assert (codes[rows[:, 0]] != codes[rows[:, 2]]).all()
    assert (rows[:, 0] != rows[:, 1]).all()
    assert max(Counter(rows[:, 0].tolist()).values()) <= 15


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_units_and_offset_do_not_matter(factor, offset):
    X, codes = problem((20, 20, 20), seed=3)
    found = mine(factor * (X + offset), codes, 3, 10, 0.1).triplets
    assert as_set(found) == as_set(mine(X, codes, 3, 10, 0.1).triplets)


def test_float32_finds_nearly_the_same():
    X, codes = problem((40, 40, 40), seed=4)
    exact, single = (as_set(mine(rows, codes).triplets) for rows in (X, X.astype(np.float32)))
    assert len(exact ^ single) <= 0.01 * len(exact)


def test_float32_far_from_the_origin():
    X, codes = problem((40, 40, 40), seed=4)
    far = (X + 1000).astype(np.float32)
    exact = as_set(mining.targets_impostors(far.astype(float), codes, 3, 10, 0.1))
    assert len(exact ^ as_set(mine(far, codes, 3, 10, 0.1).triplets)) <= 0.01 * len(exact)


def test_repeated_rows_are_each_other_s_targets():
    X, codes = problem((10, 10), seed=5)
    X[1], codes[1] = X[0], codes[0]
    found = mine(X, codes, 1, 3, 10.0).triplets
    assert set(found[found[:, 0] == 0][:, 1]) == {1}
    assert set(found[found[:, 0] == 1][:, 1]) == {0}
    assert (found[:, 0] != found[:, 1]).all()


# --- order -----------------------------------------------------------------------------------------------


def anchor_groups(rows):
    return [anchor for k, anchor in enumerate(rows[:, 0]) if k == 0 or rows[k - 1, 0] != anchor]


def test_shuffled_is_a_permutation_grouped_by_anchor():
    X, codes = problem(SIZES["uneven"])
    mined = mine(X, codes)
    before = mined.triplets.copy()
    rows = mined.shuffled(np.random.default_rng(0))
    np.testing.assert_array_equal(mined.triplets, before)
    assert not np.array_equal(rows, before)
    groups = anchor_groups(rows)
    assert len(groups) == len(set(groups))
    for anchor in groups:
        np.testing.assert_array_equal(rows[rows[:, 0] == anchor], before[before[:, 0] == anchor])
    assert len(rows) == len(before)


def test_the_seed_decides_the_order():
    X, codes = problem(SIZES["even"])
    one, two, other = (targets_impostors(X, codes, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
    assert as_set(one) == as_set(other)


def test_nothing_to_shuffle():
    empty = Mined(np.empty((0, 3), np.int64), 4, 0, 4)
    assert empty.shuffled(np.random.default_rng(0)).shape == (0, 3)


def test_labels_of_any_kind():
    X, codes = problem(SIZES["uneven"])
    expected = as_set(mining.targets_impostors(X, codes, 2, 5, 0.3))
    for y in (codes, np.array(list("zebra"))[codes], codes * 10.0 - 5):
        found = targets_impostors(X, y, n_targets=2, n_impostors=5, impostor_margin=0.3, random_state=0)
        assert found.shape == (len(expected), 3)
        assert as_set(found) == expected


@pytest.mark.parametrize("X", [[[0.0], [np.nan], [1.0]], [[0.0], [np.inf], [1.0]], [[0.0], [1.0]]])
def test_bad_rows_are_refused(X):
    with pytest.raises(ValueError):
        targets_impostors(X, [0, 0, 1])


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, bad) for name in ("n_targets", "n_impostors") for bad in (0, -1, 1.5, "all")),
     *(("impostor_margin", bad) for bad in (-1.0, np.nan, "wide"))],
)  # fmt: skip
def test_bad_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        targets_impostors(*problem(SIZES["even"]), **{name: value})


# --- random triplets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("name", ["even", "uneven", "singletons", "pairs"])
def test_random_triplets_are_valid(name, balanced):
    _, codes = problem(SIZES[name])
    rows = random_triplets(codes, 3000, np.random.default_rng(0), balanced)
    assert rows.shape == (3000, 3)
    assert rows.min() >= 0
    assert rows.max() < len(codes)
    assert (rows[:, 0] != rows[:, 1]).all()
    assert (codes[rows[:, 0]] == codes[rows[:, 1]]).all()
    assert (codes[rows[:, 0]] != codes[rows[:, 2]]).all()
    members = np.bincount(codes)[codes]
    assert set(rows[:, 0].tolist()) == set(np.flatnonzero(members >= 2).tolist())  # nobody is left out
    assert set(rows[:, 2].tolist()) == set(range(len(codes)))


def test_random_triplets_follow_the_rows_or_the_classes():
    codes = np.repeat([0, 1, 2], [60, 30, 10])
    plain, even = (random_triplets(codes, 20000, np.random.default_rng(0), b) for b in (False, True))
    np.testing.assert_allclose(np.bincount(codes[plain[:, 0]]) / 20000, [0.6, 0.3, 0.1], atol=0.02)
    np.testing.assert_allclose(np.bincount(codes[even[:, 0]]) / 20000, [1 / 3] * 3, atol=0.02)


def test_random_triplets_are_uniform():
    codes = np.array([0, 0, 0, 1, 1])
    counts = Counter(as_set(random_triplets(codes, 1, np.random.default_rng(s))).pop() for s in range(1600))
    possible = {(a, p, n) for a in range(5) for p in range(5) for n in range(5)
                if a != p and codes[a] == codes[p] != codes[n]}  # fmt: skip
    assert set(counts) == possible
    expected = {t: 1600 * (3 / 5 / 12 if codes[t[0]] == 0 else 2 / 5 / 6) for t in possible}
    chi2 = sum((counts[t] - expected[t]) ** 2 / expected[t] for t in possible)
    assert chi2 < 45  # 17 degrees of freedom: exceeded with probability 2.4e-4


@pytest.mark.parametrize("codes", [[0, 0, 0], [0, 1, 2], [0]])
def test_no_random_triplets_without_pairs_and_others(codes):
    assert random_triplets(np.array(codes), 5, np.random.default_rng(0)).shape == (0, 3)


# --- the reservoir ---------------------------------------------------------------------------------------


def numbered(n, n_classes, seed=0):
    """Rows that carry their own number and class."""
    codes = np.random.default_rng(seed).integers(0, n_classes, n).astype(np.int32)
    return np.column_stack([np.arange(n, dtype=float), codes]), codes


@pytest.mark.parametrize("batch", [1, 7, 100, 1000])
def test_reservoir_is_bounded_and_keeps_valid_rows(batch):
    X, codes = numbered(300, 4)
    reservoir, rng = Reservoir(6), np.random.default_rng(1)
    for start in range(0, len(X), batch):
        reservoir.add(X[start : start + batch], codes[start : start + batch], rng)
        seen = codes[: start + batch]
        rows, kept = reservoir.sample(X)
        np.testing.assert_array_equal(np.bincount(kept), np.minimum(np.bincount(seen), 6))
        np.testing.assert_array_equal(rows[:, 1], kept)  # each row under its own class
        assert len(set(rows[:, 0])) == len(rows)  # none twice
        assert rows[:, 0].max() < len(seen)
        np.testing.assert_array_equal(codes[rows[:, 0].astype(int)], kept)


@pytest.mark.parametrize("batch", [1, 8, 40])
def test_reservoir_is_uniform(batch):
    counts = np.zeros(40)
    X = np.arange(40.0)[:, None]
    for seed in range(1500):
        reservoir, rng = Reservoir(10), np.random.default_rng(seed)
        for start in range(0, 40, batch):
            part = X[start : start + batch]
            reservoir.add(part, np.zeros(len(part), np.int32), rng)
        counts[reservoir.sample(X)[0][:, 0].astype(int)] += 1
    expected = 1500 * 10 / 40
    chi2 = np.sum((counts - expected) ** 2 / (expected * (1 - 10 / 40)))
    assert chi2 < 85  # about 40 degrees of freedom; the mean is 40, 85 lies 5 deviations above it


def test_reservoir_meets_new_classes_and_nothing():
    reservoir, rng = Reservoir(2), np.random.default_rng(0)
    X = np.arange(8.0)[:, None]
    assert reservoir.sample(X)[0].shape == (0, 1)
    reservoir.add(X[:0], np.empty(0, np.int32), rng)
    reservoir.add(X[:3], np.full(3, 5, np.int32), rng)
    reservoir.add(X[3:4], np.full(1, 0, np.int32), rng)
    reservoir.add(X[4:8], np.full(4, 9, np.int32), rng)
    rows, codes = reservoir.sample(X)
    rows, codes = rows[np.argsort(codes)], np.sort(codes)
    assert codes.tolist() == [0, 5, 5, 9, 9]
    assert rows[0, 0] == 3
    assert set(rows[1:3, 0]) <= {0, 1, 2}
    assert set(rows[3:, 0]) <= {4, 5, 6, 7}


def test_reservoir_keeps_the_precision_of_the_rows():
    reservoir = Reservoir(3)
    reservoir.add(np.ones((2, 2), np.float32), np.zeros(2, np.int32), np.random.default_rng(0))
    assert reservoir.sample(np.ones((1, 2), np.float32))[0].dtype == np.float32


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_a_stream_of_small_batches_forms_triplets(batch):
    """Even one row at a time: the others of its triplets are those that the reservoir remembers."""
    X, codes = problem((40, 40, 40), seed=6)
    X[:, 0] += 2 * codes
    model = LODML(random_state=0, reservoir_size=8)
    for start in range(0, len(X), batch):
        model.partial_fit(X[start : start + batch], codes[start : start + batch])
    assert model.n_triplets_ > 2 * len(X)
    assert model.score(X, codes) > 0.6
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


def test_mining_makes_no_table_over_classes():
    """20,000 classes of two rows once took minutes; a code is a name, however large."""
    X, codes = problem((60, 60, 60))
    tracemalloc.start()
    found = mine(X, codes * np.int32(1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found.triplets, mine(X, codes).triplets)
    assert peak < 10e6
