"""Many triplets of few points: long blocks by products on points are the sequential iterates, too."""

import numpy as np
import pytest

from axes import DENSE, LOCAL, learner, weights_of
from helpers.inside import blocks_module, points_module
from same import assert_close
from twins.careful import careful_run
from twins.reading import averaged
from twins.stacked import run

D, N, N_CLASSES, C = 130, 40, 6, 0.01
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, D)) / np.sqrt(D), RNG.integers(0, N_CLASSES, N)
RANDOM = RNG.integers(0, N, (2500, 3))
# Triplets of one anchor follow each other, as those from labels do; some anchors have more than blocks keep together.
GROUPED = np.column_stack([np.repeat(RNG.integers(0, N, 40), RNG.integers(1, 150, 40))] * 3)
GROUPED[:, 1:] = RNG.integers(0, 12, (len(GROUPED), 2))


@pytest.fixture
def blocks(monkeypatch):
    """Parts of 150 pairs, blocks of 40 pairs a class; counts the blocks by points."""
    calls, block = [], points_module.points_block
    monkeypatch.setattr(points_module.Points, "between", property(lambda _: 150))
    monkeypatch.setattr(blocks_module, "OF_CLASS", 40)
    monkeypatch.setattr(blocks_module, "FUSED_DISTANCES", {8: 1, 4: 1})

    def counted(*args, **options):
        calls.append(options["points"])
        return block(*args, **options)

    monkeypatch.setattr(blocks_module, "points_block", counted)
    return calls


def twin(name, triplets, lam, **more):
    classes = Y[triplets[:, 1:]]
    return run(DENSE[name], X, triplets, classes, *weights_of(name, lam), C, n_classes=N_CLASSES, **more)


def assert_same_iterates(model, expected, tolerance=1e-10):
    assert_close(model.shared_, expected.U, tolerance)
    for k, label in enumerate(model.classes_ if type(model).__name__ in LOCAL.values() else ()):
        assert_close(model.local_[k], expected.L[label], tolerance)


@pytest.mark.parametrize("triplets", [RANDOM, GROUPED], ids=["random", "grouped"])
@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("name", DENSE)
def test_iterates(name, lam, triplets, blocks):
    model = learner(name, lam=lam, C=C).fit(X, Y, triplets=triplets)
    assert len(blocks) > 1
    expected = careful_run(DENSE[name], X, triplets, Y[triplets[:, 1:]], *weights_of(name, lam), C)
    assert (expected.tau > 0).mean() > 0.5
    assert (expected.tau == 0).any()
    assert_same_iterates(model, expected)
    assert model.n_updates_ == pytest.approx((expected.tau > 0).sum(), abs=2)


@pytest.mark.parametrize("name", DENSE)
def test_single_precision(name, blocks):
    model = learner(name, C=C).fit(X.astype(np.float32), Y, triplets=RANDOM)
    assert blocks
    assert_same_iterates(model, twin(name, RANDOM, 0.5), 1e-5)


@pytest.mark.parametrize("name", DENSE)
def test_forgetting_and_a_start(name, blocks):
    init = np.eye(D) + 0.1
    model = learner(name, C=C, forget=0.003, init=init).fit(X, Y, triplets=RANDOM)
    assert blocks
    assert_same_iterates(model, twin(name, RANDOM, 0.5, forget=0.003, U0=init))


@pytest.mark.parametrize("name", DENSE)
def test_rows_without_a_class_and_weights(name, blocks):
    y, weight = np.where(np.arange(N) % 5 == 0, -1, Y), np.arange(len(RANDOM)) % 3 / 2.0
    model = learner(name, C=C, unlabeled=-1).fit(X, y, triplets=RANDOM, triplet_weight=weight)
    assert blocks
    classes = y[RANDOM[:, 1:]]
    expected = run(DENSE[name], X, RANDOM, classes, *weights_of(name, 0.5), C, n_classes=N_CLASSES, weights=weight)
    assert_same_iterates(model, expected)


@pytest.mark.parametrize("name", LOCAL.values())
def test_averages(name, blocks):
    """Averages fall into the middle of parts and of blocks."""
    model = learner(name, lam=0.4, C=C, average=True).fit(X, Y, triplets=RANDOM)
    assert blocks

    def after(t):
        iterate = careful_run(DENSE[name], X, RANDOM[:t], Y[RANDOM[:t, 1:]], 0.4, 0.6, C)
        return np.concatenate([iterate.U[None], 0.4 * iterate.U + 0.6 * iterate.L])

    expected = averaged(after, len(RANDOM))
    assert np.abs(expected - after(len(RANDOM))).max() > 1e-3
    assert_close(model.metric_matrix(), expected[0])
    for label in model.classes_:
        assert_close(model.metric_matrix(label), expected[1 + label])


def test_a_far_center_costs_no_digits(blocks):
    model = learner("LODML", C=C).fit(X + 1e4, Y, triplets=RANDOM)
    assert blocks
    assert_same_iterates(model, twin("LODML", RANDOM, 0.5), 1e-9)


def test_when_points_pay(blocks):
    for name in LOCAL.values():  # squared norms far beyond what triplets compare
        learner(name, C=C).fit(100 * X, Y, triplets=RANDOM)
    learner("LODML", C=C).fit(X, Y, triplets=RANDOM[:30])  # hardly more pairs than points
    learner("LODML", C=C, psd=7).fit(X, Y, triplets=RANDOM)  # blocks of seven triplets
    assert not blocks


def test_passes_over_the_same_rows_share_what_is_known_of_them(blocks):
    learner("LODML", C=C, n_epochs=3, scale="scalar", guard=False).fit(X, Y)
    assert len(blocks) >= 3
    assert len(set(map(id, blocks))) == 1
