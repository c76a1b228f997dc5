"""The guard: how far a read-out follows what was learned, judged on rows that the judged metric has not seen."""

import numpy as np
import pytest
from sklearn.base import clone

import paloma
from helpers import inside
from helpers.guarded import GUARDED, SUMS, X, Y, ring, streamed
from paloma import LODML, LOSL, ODML, OKS, OMDML, DiagonalODML, MetricKNeighborsClassifier
from paloma._core.locality import SHARED
from paloma._training import guard
from paloma._training.guard import (
    CAUTION,
    FEW,
    GLOBAL,
    LEAST_SHARE,
    LOCAL,
    MAX_EVIDENCE,
    MAX_JUDGED,
    Guard,
    cautious,
    drawn,
    gathered,
    judged,
    scores,
    strength,
)
from paloma.preprocessing import UnitRows
from twins.neighbors import mixed_shares

# --- the functions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_distance", [True, False])
def test_scores_of_mixed_metrics_are_those_of_a_full_search(is_distance):
    rng = np.random.default_rng(0)
    tables = rng.random((3, 30, 200)) - (0.0 if is_distance else 0.5)
    codes, truth = rng.integers(0, 3, 200), rng.integers(0, 3, 30)
    tables[:, np.arange(30), np.arange(30)] = np.inf
    literal = np.where(np.isinf(tables), 1e9, tables)
    own = None if is_distance else -rng.random((2, 30))
    expected = mixed_shares(literal, LOCAL, codes, truth, own)
    found = scores(tables, codes, truth, LOCAL, is_distance, own)
    np.testing.assert_allclose(found, np.log(expected + LEAST_SHARE), rtol=1e-12)


def test_strength_follows_evidence():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(len(GLOBAL), 500))
    assert strength(0.01 * noise - 10.0 * GLOBAL[:, :1], GLOBAL) == (0.0, 0.0)
    assert strength(0.01 * noise + 10.0 * GLOBAL[:, :1], GLOBAL) == (1.0, 1.0)
    assert strength(np.zeros((len(GLOBAL), 5)), GLOBAL) == (0.5, 0.5)
    assert strength(np.zeros((len(LOCAL), 1)), LOCAL)[1] < 0.5


@pytest.mark.parametrize("points", [GLOBAL, LOCAL])
def test_a_gain_over_the_start_counts_less_half_a_standard_error(points):
    rng = np.random.default_rng(0)
    for gain in (-0.3, 0.0, 0.05, 0.3):
        found = rng.normal(size=120) + rng.normal(size=(len(points), 120)) + gain * points[:, :1]
        gains = found - found[0]
        sure = gains.mean(axis=1) - 0.5 * gains.std(axis=1) / np.sqrt(120)
        best = sure.argmax()
        level = sure[best] - sure <= 0.5 * (found[best] - found).std(axis=1) / np.sqrt(120)
        assert strength(found, points) == pytest.approx(tuple(points[level].mean(axis=0)))
    uncertain = np.zeros((len(GLOBAL), 100))
    uncertain[-1, ::2], uncertain[-1, 1::2] = 1.14, -1.0  # .65 standard errors above the start
    assert strength(uncertain, GLOBAL) == (0.5, 0.5)
    assert strength(uncertain[:, :50].repeat(16, axis=1), GLOBAL) == (1.0, 1.0)


def test_moments_of_scores_are_those_of_all_rows_until_older_ones_fade():
    found = np.random.default_rng(0).normal(size=(len(GLOBAL), MAX_EVIDENCE))
    whole, parts = gathered(None, found), None
    for part in np.split(found, [3, 50, 51], axis=1):
        parts = gathered(parts, part)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    assert whole[0, 0] == MAX_EVIDENCE
    later = gathered(whole, found[:, :50] + 1.0)
    assert later[0, 0] == pytest.approx(MAX_EVIDENCE)
    expected = 0.75 * found.mean(axis=1) + 0.25 * (found[:, :50].mean(axis=1) + 1.0)
    np.testing.assert_allclose(later[0, 1:] / MAX_EVIDENCE, expected, atol=1e-5)
    np.testing.assert_allclose(gathered(whole, np.tile(found, 3)), whole, rtol=1e-12)
    np.testing.assert_array_equal(gathered(whole, np.zeros((len(LOCAL), 1))), np.pad([[1.0]], (0, len(LOCAL))))


def lasting(points, sure, growth):
    """Of each point the lesser of its gain and that of the point GROWTH * growth times as far, found on its ray."""
    at, out = {(round(s, 6), round(t, 6)): gain for (s, t), gain in zip(points, sure, strict=True)}, []
    for s, t in points:
        share, aim = (t / s if s else 0.0), min(1.5 * growth * s, 1.0)
        below, above = np.floor(4 * aim) / 4, np.ceil(4 * aim) / 4
        first, second = (at[round(step, 6), round(step * share, 6)] for step in (below, above))
        out.append(min(at[round(s, 6), round(t, 6)], first + 4 * (aim - below) * (second - first)))
    return np.array(out)


@pytest.mark.parametrize("growth", [1.0, 1.2, 2.0])
@pytest.mark.parametrize("points", [GLOBAL, LOCAL])
def test_a_stream_is_followed_where_a_gain_over_the_start_is_certain(points, growth):
    rng = np.random.default_rng(0)
    for gain in (-0.3, 0.0, 0.05, 0.3):
        found = np.round(rng.normal(size=120) + rng.normal(size=(len(points), 120)) + gain * points[:, :1], 6)
        gains = found - found[0]
        sure = gains.mean(axis=1) - CAUTION * (1 + FEW / 120) * gains.std(axis=1) / np.sqrt(120)
        sure = lasting(points, sure, growth)
        best = sure.argmax()
        level = sure[best] - sure <= 0.5 * (found[best] - found).std(axis=1) / np.sqrt(120)
        expected = points[level].mean(axis=0) * 120 / 170
        assert cautious(gathered(None, found), points, growth=growth) == pytest.approx(tuple(expected), abs=1e-9)
    assert cautious(gathered(None, rng.normal(size=(len(points), 120)) - 9.0 * points[:, :1]), points) == (0.0, 0.0)
    assert cautious(None, points) == (0.0, 0.0)
    assert cautious(np.eye(3), points) == (0.0, 0.0)  # of another locality


def test_fewer_rows_than_ten_are_no_evidence():
    """The standard error of one row is 0, and that of two is chance."""
    found = np.arange(20.0) + np.linspace(0.0, 9.0, len(GLOBAL))[:, None]
    strengths = [cautious(gathered(None, found[:, :n]), GLOBAL)[0] for n in (1, 2, 9, 10, 20)]
    assert strengths[:3] == [0.0] * 3
    assert min(strengths[3:]) > 0.0


def test_what_would_be_a_loss_half_as_far_again_is_not_followed():
    rng = np.random.default_rng(0)
    found = rng.normal(size=200) + 0.01 * rng.normal(size=(len(GLOBAL), 200))
    for gains, least, most in (((0.0, 0.3, 0.4, 0.5, 0.6), 0.75, 0.8), ((0.0, 0.3, -0.4, -0.8, -1.0), 0.0, 0.0)):
        evidence = gathered(None, found + np.array(gains)[:, None])
        assert least <= cautious(evidence, GLOBAL)[0] <= most
    near = gathered(None, found + np.array([0.0, 0.3, 0.2, -0.8, -1.0])[:, None])
    assert cautious(near, GLOBAL)[0] == pytest.approx(0.25 * 200 / 250)
    assert cautious(near, GLOBAL, growth=2.0)[0] == 0.0


def test_streams_are_judged_at_every_half_more():
    seen, n = [], 0
    for _ in range(4000):
        if Guard().due(n, n + 25):
            seen.append(n + 25)
        n += 25
    assert seen[:2] == [25, 50]
    steps = np.diff(seen) / seen[:-1]
    assert steps[5:].max() < 0.8
    assert len(seen) < 25
    assert not Guard().due(100, 100)
    assert not Guard().due(0, 0)


# --- learners ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GUARDED)
def test_the_read_out_is_a_point_of_the_plane(kind):
    model = kind(random_state=0, project="components").fit(X, Y)
    plain = clone(model).set_params(guard=False).fit(X, Y)
    assert plain.strength_ == 1.0
    np.testing.assert_array_equal(model.shared_, plain.shared_)  # learning itself is untouched
    s, share = model.strength_, model.local_share_
    assert 0.0 <= s <= 1.0
    assert 0.0 <= share <= 1.0
    W = np.eye(13) if model.whitener_ is None else model.whitener_
    start = W @ W / model.scale_**2
    U = plain.metric_matrix()
    np.testing.assert_allclose(model.metric_matrix(), start + s * (U - start), rtol=1e-9, atol=1e-9)
    if kind in (LODML, LOSL):
        t = s * share
        for label in (0, 1, 2, "unseen"):
            label = 7 if label == "unseen" else label
            expected = start + (s - t) * (U - start) + t * (plain.metric_matrix(label) - start)
            np.testing.assert_allclose(model.metric_matrix(label), expected, rtol=1e-9, atol=1e-9)
        vectors = model.query_vectors(X[:9]) @ model.item_vectors(X, np.where(Y == 2, 7, Y)).T
        values = model.pairwise_score(X[:9], X, np.where(Y == 2, 7, Y))
        expected = values if kind is LOSL else -(values**2)
        np.testing.assert_allclose(vectors, expected, rtol=1e-8, atol=1e-8)


def test_clean_rows_are_followed_and_noise_is_not():
    clean = LODML(random_state=0).fit(*ring(800))
    assert clean.strength_ > 0.7
    assert clean.local_share_ > 0.7
    rng = np.random.default_rng(1)
    rows, noise = rng.normal(size=(800, 20)), rng.integers(0, 2, 800)
    for kind in (ODML, LODML):
        assert kind(random_state=0).fit(rows, noise).strength_ < 0.7


def test_the_ring_is_learned():
    rows, y = ring(3000)
    model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(rows[:1500], y[:1500])
    assert model.score(rows[1500:], y[1500:]) >= 0.95


def test_the_guard_is_the_same_each_time_and_leaves_the_model_s_randomness_alone():
    one, other = (LODML(random_state=0).fit(X, Y) for _ in range(2))
    assert one.strength_ == other.strength_
    np.testing.assert_array_equal(one.metric_matrix(1), other.metric_matrix(1))
    plain = LODML(random_state=0, guard=False).fit(X, Y)
    for model in (one, plain):
        model.partial_fit(X[:60], Y[:60])
    np.testing.assert_array_equal(one.shared_, plain.shared_)


def test_no_guard_without_labels_or_enough_of_them():
    triplets = paloma.triplets.targets_impostors(X, Y, random_state=0)
    assert LODML(random_state=0).fit(X, Y, triplets=triplets).strength_ == 1.0
    assert LODML(random_state=0).fit(X[[0, 1, 100]], Y[[0, 1, 100]]).strength_ == 1.0


@pytest.mark.parametrize("lam", [1.0, 0.5])
@pytest.mark.parametrize("name", SUMS)
def test_other_read_outs_are_points_of_the_plane_as_well(name, lam):
    model = SUMS[name](lam=lam, guard=False, project="components").fit(X, Y)
    shared = np.full(60, SHARED, np.int32)
    own = inside.whole(model).labels.codes(np.where(np.arange(60) % 4, Y[60:120], 7))

    def values(metric, codes):
        left, right = (X[:60] - X[60:120],) * 2 if metric.of_differences else (X[:60], X[60:120])
        return metric.values(left, right, codes)

    def at(s, t):
        inside.whole(model).strength, inside.whole(model).metric = (s, t), None
        return inside.readout(model)

    learned, alone = values(at(1.0, 1.0), own), values(at(1.0, 1.0), shared)
    equal = {"beta": 1.0} if name in ("OMDML", "OMKS") else {}
    start = values(inside.readout(SUMS[name](lam=lam, C=1e-14, guard=False, **equal).fit(X, Y)), own)
    for s, t in ((0.0, 0.0), (1.0, 0.0), (0.6, 0.6), (0.7, 0.2)):
        expected = (1.0 - s) * start + (s - t) * alone + t * learned
        np.testing.assert_allclose(values(at(s, t), own), expected, rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(values(at(s, t).at_start(), own), start, rtol=1e-9, atol=1e-8)
    assert np.abs(learned - start).max() > 1e-3


@pytest.mark.parametrize("name", SUMS)
def test_every_read_out_follows_labels_that_help_and_is_saved(name, tmp_path):
    model = SUMS[name]().fit(X, Y)
    plain = SUMS[name](guard=False).fit(X, Y)
    assert 0.0 < model.strength_ <= 1.0 == plain.strength_
    np.testing.assert_array_equal(model.shared_, plain.shared_)
    noise = np.random.default_rng(0).integers(0, 3, len(Y))
    assert SUMS[name]().fit(X, noise).strength_ < 1.0
    paloma.save(model, tmp_path / "model.paloma")
    again = paloma.load(tmp_path / "model.paloma")
    np.testing.assert_array_equal(again.pairwise_score(X[:9], X, Y), model.pairwise_score(X[:9], X, Y))


def test_refused():
    kernel = OKS(kernel="precomputed", guard=True)
    for model, rows in ((OMDML(rank=2, guard=True), X), (kernel, X @ X.T), (DiagonalODML(guard="maybe"), X)):
        with pytest.raises(ValueError, match="guard"):
            model.fit(rows, Y)
    for model, rows in ((OMDML(rank=2), X), (OKS(kernel="precomputed"), X @ X.T)):
        assert model.fit(rows, Y).strength_ == 1.0


def test_few_rows_are_cut_twice_and_the_score_of_a_row_is_the_mean_of_both(monkeypatch):
    cuts, scored = [], []
    monkeypatch.setattr(guard, "drawn", lambda codes, rng: cuts.append(drawn(codes, rng)) or cuts[-1])
    monkeypatch.setattr(guard, "judged", lambda *given: scored.append((given[5], judged(*given))) or scored[-1][1])
    model = LODML(random_state=0).fit(X, Y)
    assert len(cuts) == 2
    assert (cuts[0][0] != cuts[1][0]).any()
    total = np.zeros((len(LOCAL), len(Y)))
    for k, (rows, found) in enumerate(scored):
        total[:, cuts[k // 2][0][rows]] += found
    s, t = strength(total / 2, LOCAL)
    assert (model.strength_, model.strength_ * model.local_share_) == pytest.approx((s, t))
    cuts.clear()
    LODML(random_state=0).fit(*ring(MAX_JUDGED))
    assert len(cuts) == 1


def test_projected_learners_are_judged_too():
    rng = np.random.default_rng(1)
    for kind in (paloma.L2ODML, paloma.L2OSL):
        model = kind(n_components=6, random_state=0)
        noise = [(rng.normal(size=(300, 20)), rng.integers(0, 3, 300)) for _ in range(4)]
        assert np.mean([model.fit(*each).strength_ for each in noise]) < 0.8
        assert streamed(clone(model), X, Y).strength_ < 1.0


def test_regions_and_rows_without_labels():
    marked = np.where(np.arange(len(Y)) % 3 == 0, -1, Y)
    assert 0.0 <= LODML(unlabeled=-1, random_state=0).fit(X, marked).strength_ <= 1.0
    for soft in (False, True):
        assert 0.0 <= LODML(regions=3, soft_regions=soft, random_state=0).fit(X, Y).strength_ <= 1.0
    unit = UnitRows().fit_transform(X)
    assert 0.0 <= LOSL(random_state=0).fit(unit, Y).strength_ <= 1.0


def test_files_keep_the_strength(tmp_path):
    model = LODML(random_state=0, init=np.cov(X.T) + np.eye(13)).fit(X, Y)
    paloma.save(model, tmp_path / "model.paloma")
    again = paloma.load(tmp_path / "model.paloma")
    assert (again.strength_, again.local_share_) == (model.strength_, model.local_share_)
    np.testing.assert_array_equal(again.metric_matrix(1), model.metric_matrix(1))
