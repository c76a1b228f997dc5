"""Parameter mixing on one machine: the mean of shards against obvious twins, for every representation."""

import copy

import numpy as np
import pytest
from sklearn.datasets import load_digits

import paloma
from helpers import inside
from paloma import _mixing as mixing
from paloma._core.hedge import Hedge
from paloma._spaces.dense.matrices import Matrices
from paloma._spaces.projected.journal import Journal
from paloma._training.partitions import one_reservoir
from paloma.distributed import fit
from paloma.estimators import settings_of, with_model
from paloma.triplets import Reservoir

da = pytest.importorskip("dask.array")

DIGITS, Y = load_digits(return_X_y=True)
DIGITS, Y = DIGITS[:600] / 16.0, Y[:600]
CHUNKED = da.from_array(DIGITS, chunks=(200, 64))


def shards_after(learner, X, y, n_shards):
    """One round by hand: a clone at its start, and what each shard learns from there."""
    codes = np.unique(y, return_inverse=True)[1].astype(np.int32)
    model = copy.deepcopy(learner).fit(X[:100], y[:100])
    parts, settings = np.array_split(np.arange(len(X)), n_shards), settings_of(model)
    learned = [
        mixing.learn_shard(
            settings, inside.whole(model), X, codes, np.arange(len(X)), settings.mining.near(X, codes, rows), rng
        )
        for rows, rng in zip(parts, map(np.random.default_rng, range(n_shards)), strict=True)
    ]
    return model, learned


def joined(model, learned):
    """The learner moved to the mean of its shards."""
    return with_model(model, mixing.join(inside.whole(model), mixing.mix(learned), settings_of(model).choice))


@pytest.mark.parametrize("average", [False, True])
def test_the_mix_is_the_weighted_mean_of_every_matrix(average):
    model, learned = shards_after(paloma.LODML(random_state=0, average=average), DIGITS, Y, 3)
    after = joined(model, learned)
    weights = np.array([each.tally.updates for each in learned]) / sum(each.tally.updates for each in learned)
    states = [inside.state_of(each.model) for each in learned]
    np.testing.assert_allclose(after.shared_, sum(w * s.shared for w, s in zip(weights, states, strict=True)), 1e-12)
    for code in range(10):
        expected = sum(w * s.local(code) for w, s in zip(weights, states, strict=True))
        np.testing.assert_allclose(after.local_[code], expected, 1e-10, 1e-12)
    if average:
        expected = sum(w * s.mean[0] for w, s in zip(weights, states, strict=True))
        np.testing.assert_allclose(inside.state(after).mean[0], expected, 1e-10, 1e-12)
    seen = sum(each.tally.triplets for each in learned)
    assert after.n_triplets_ == model.n_triplets_ + seen > model.n_triplets_
    assert after.n_updates_ == model.n_updates_ + sum(each.tally.updates for each in learned)


def test_mixing_does_not_change_what_it_mixes():
    model, learned = shards_after(paloma.LODML(random_state=0, psd="step", n_epochs=1), DIGITS[:150], Y[:150], 2)
    before = [inside.state_of(each.model).shared.copy() for each in learned], model.shared_
    for _ in range(2):
        after = joined(model, learned).shared_
    for kept, each in zip(before[0], learned, strict=True):
        np.testing.assert_array_equal(kept, inside.state_of(each.model).shared)
    np.testing.assert_array_equal(before[1], model.shared_)
    np.testing.assert_array_equal(after, joined(model, learned).shared_)


def test_a_class_that_a_shard_lacks_counts_as_its_start():
    start = np.eye(2)
    one, other = Matrices(start, True), Matrices(start, True)
    one.allocate(np.array([3], np.int32))
    one.stack[one.slot(3)] = np.array([[5.0, 1.0], [1.0, 2.0]])
    mixed = Matrices.mixed([one, other], np.array([0.25, 0.75]))
    np.testing.assert_allclose(mixed.local(3), [[2.0, 0.25], [0.25, 1.25]])
    assert mixed.slot(1) == -1
    assert mixed.mean is None


@pytest.mark.parametrize("lam", [0.3, 0.5])
def test_what_ties_shared_and_local_parts_survives_mixing(lam):
    """U - I = lam / mu sum_c (L_c - I) (theory Fact 2): one weight a shard, for all its matrices."""
    model = fit(paloma.LODML(random_state=0, lam=lam), CHUNKED, Y, rounds=3)
    eye = np.eye(64)
    expected = lam / (1 - lam) * (model.local_ - eye).sum(axis=0)
    np.testing.assert_allclose(model.shared_ - eye, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(("dense", "name"), [("LODML", "L2ODML"), ("LOSL", "L2OSL")])
def test_journals_mix_to_the_dense_mean(dense, name):
    settings = {"random_state": 0, "C": 0.01}
    full = fit(getattr(paloma, dense)(**settings), CHUNKED, Y, rounds=3)
    model = fit(getattr(paloma, name)(n_components=64, max_journal=None, **settings), CHUNKED, Y, rounds=3)
    assert model.n_updates_ == full.n_updates_ > 500
    np.testing.assert_allclose(model.shared_, full.shared_, atol=1e-10)
    np.testing.assert_allclose(model.local_, full.local_, atol=1e-10)
    np.testing.assert_allclose(model.metric_matrix(3), full.metric_matrix(3), atol=1e-9)
    rows = inside.state(model).journal.ids
    assert len(np.unique(rows)) == len(rows) <= 600


def test_folded_journals_mix_as_well():
    settings = {"random_state": 0, "n_components": 30, "rank": 60}
    whole = fit(paloma.L2ODML(max_journal=None, **settings), CHUNKED, Y, rounds=3)
    folded = fit(paloma.L2ODML(max_journal=300, **settings), CHUNKED, Y, rounds=3)
    assert len(inside.state(folded).journal) <= 300 < len(inside.state(whole).journal)
    assert inside.state(folded).folded[0].shape[1] <= 60
    error = np.abs(folded.metric_matrix(3) - whole.metric_matrix(3)).max()
    assert error < 0.03 * np.abs(whole.metric_matrix(3)).max()
    assert folded.leave_one_out_score(DIGITS, Y) == pytest.approx(whole.leave_one_out_score(DIGITS, Y), abs=0.01)


def test_journals_keep_a_numbered_row_once():
    X = np.arange(12.0).reshape(6, 2)
    one, other = Journal(), Journal()
    free = np.full((1, 2), -1, np.int32)
    one.open(X, np.array([10, 11, 12, 13, 14, 15]))
    one.add(X, np.array([[0, 1, 2]]), free, np.array([2.0]), np.array([1.0]))
    other.open(X, np.array([10, 12, 11, -1, -1, -1]))
    other.add(X, np.array([[0, 2, 3]]), free, np.array([4.0]), np.array([4.0]))
    both = Journal.joined([one, Journal(), other], np.array([0.5, 0.3, 0.25]))
    assert both.ids.tolist() == [10, 11, 12, -1]
    pairs = dict(
        zip(
            zip(both.pairs.anchors.tolist(), both.pairs.candidates.tolist(), strict=True),
            both.pairs.steps[0].tolist(),
            strict=True,
        )
    )
    assert pairs == {(0, 1): 2.0, (0, 2): -1.0, (0, 3): -1.0}


@pytest.mark.parametrize("psd", ["step", 700])
def test_policies_of_the_loop_hold_after_the_mix(psd):
    small = da.from_array(DIGITS[:200, :40], chunks=(100, 40))
    model = fit(paloma.LODML(random_state=0, psd=psd, n_targets=1, n_impostors=2), small, Y[:200], rounds=2)
    assert np.linalg.eigvalsh(model.shared_).min() > -1e-9
    assert np.linalg.eigvalsh(model.local_).min() > -1e-9


def test_modalities_mix_and_their_mistakes_add_up():
    groups = {"left": np.arange(32), "right": np.arange(32, 64)}
    model = fit(paloma.OMDML(random_state=0, groups=groups, lam=0.5), CHUNKED, Y, rounds=2)
    hedge = inside.state(model).hedge
    assert model.weights_.sum() == pytest.approx(1.0)
    assert hedge.rounds > 600
    assert (hedge.losses == np.round(hedge.losses)).all()
    assert model.leave_one_out_score(DIGITS, Y) > 0.95
    with pytest.raises(ValueError, match="only supports mining within shards"):
        fit(paloma.OMDML(groups=groups), CHUNKED, Y, mining="across")


def test_forks_of_hedge_add_up():
    game = Hedge(2, 0.9)
    game.play(np.array([[1, 0]]))
    forks = [game.fork() for _ in range(3)]
    for k, fork in enumerate(forks):
        fork.play(np.array([[0, 1]] * k + [[1, 1]]))
    mixed = Hedge.mixed([Hedge.mixed(forks[:2]), forks[2]])
    assert mixed.rounds == 1 + 1 + 2 + 3
    assert mixed.losses.tolist() == [4.0, 6.0]


def test_one_reservoir_from_many_is_a_uniform_sample():
    counts = np.zeros(60)
    for seed in range(400):
        rng, parts = np.random.default_rng(seed), []
        for a, b in ((0, 10), (10, 60)):
            part = Reservoir(8)
            part.add(np.arange(a, b, dtype=float)[:, None], np.zeros(b - a, np.int32), rng)
            parts.append(part)
        held = one_reservoir([*parts, Reservoir(8)], rng)
        assert held.seen.tolist() == [60]
        rows, codes = held.sample(np.empty((0, 1)))
        assert len(np.unique(rows)) == len(codes) == 8
        counts[rows[:, 0].astype(int)] += 1
    expected = 400 * 8 / 60
    assert ((counts - expected) ** 2 / expected).sum() < 100  # chi-square with 59 degrees of freedom, p < .001


def test_kernel_learners_mix_in_index_space():
    """A linear kernel makes OKS the OASIS learner, and its mixed steps the mixed matrix."""
    settings = {"random_state": 0, "C": 0.01, "scale": None}
    full = fit(paloma.OASIS(**settings), CHUNKED, Y, rounds=3)
    model = fit(paloma.OKS(kernel="linear", **settings), CHUNKED, Y, rounds=3)
    assert model.n_updates_ == full.n_updates_ > 500
    scores = [each.pairwise_score(DIGITS[:50], DIGITS) for each in (full, model)]
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-9, atol=1e-8 * np.abs(scores[0]).max())
    assert len(np.unique(model.support_, axis=0)) == len(model.support_) <= 600
    model.partial_fit(DIGITS[:50], Y[:50])


def test_several_kernels_mix_and_their_mistakes_add_up():
    model = fit(paloma.OMKS(kernels=["linear", "rbf"], random_state=0), CHUNKED, Y, rounds=2)
    assert inside.whole(model).space.hedge.rounds == model.rounds_[0]["triplets"]  # triplets met again do not count
    assert model.weights_.sum() == pytest.approx(1.0)
    assert model.leave_one_out_score(DIGITS, Y) > 0.9
    with pytest.raises(ValueError, match="budget"):
        fit(paloma.OKS(budget=10), CHUNKED, Y)
    with pytest.raises(ValueError, match="precomputed"):
        fit(paloma.OKS(kernel="precomputed"), CHUNKED, Y)


def test_learning_goes_on_after_the_mix():
    model = fit(paloma.LODML(random_state=0), CHUNKED, Y, rounds=2)
    seen = model.n_triplets_
    model.partial_fit(DIGITS[:50] * 0.9, Y[:50])
    assert model.n_triplets_ > seen
    assert model.leave_one_out_score(DIGITS, Y) > 0.97
