"""Streams as they come: class-free and labeled calls, new and forgotten classes, memory, drift signals."""

import pickle

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import paloma
from axes import DENSE, LOCAL, learner, weights_of
from helpers import inside
from helpers.streams import N_CLASSES, fixed_stream
from paloma.triplets import Reservoir, mine
from twins.reading import drift
from twins.stacked import run
from twins.steps import step_size

STREAM = fixed_stream()
X, Y, T = STREAM.X, STREAM.y, STREAM.triplets
C = 0.3
ALL = {**DENSE, "L2ODML": "distance", "L2OSL": "similarity"}


def plain(name, **options):
    extra = {"n_components": X.shape[1]} if name.startswith("L2") else {}
    return learner(name, C=C, **extra, **options)


def relative(found, expected):
    return np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("size", [1, 2, 37])
@pytest.mark.parametrize("name", ALL)
def test_labeled_and_class_free_calls_alternate(name, size):
    """Any split of the stream gives the iterates of the twin."""
    labeled = (np.arange(len(T)) // size) % 2 == 0
    model = plain(name)
    for a in range(0, len(T), size):
        model.partial_fit(X, Y if labeled[a] else None, triplets=T[a : a + size])
    classes = np.where(labeled[:, None], Y[T[:, 1:]], -1)
    expected = run(ALL[name], X, T, classes, *weights_of(name, 0.5), C, n_classes=N_CLASSES)
    assert relative(model.shared_, expected.U) < 1e-10
    for k, label in enumerate(model.classes_[: len(model.local_)]):
        assert relative(model.local_[k], expected.L[label]) < 1e-10


@pytest.mark.parametrize("name", ALL)
def test_class_free_calls_alone(name):
    model = plain(name)
    for a in range(0, len(T), 10):
        model.partial_fit(X, triplets=T[a : a + 10])
    expected = run(ALL[name], X, T, STREAM.class_free, *weights_of(name, 0.5), C)
    assert relative(model.shared_, expected.U) < 1e-10
    assert len(model.classes_) == len(model.local_) == 0
    assert np.isfinite(model.pair_score(X[PAIR])).all()


PAIR = np.array([[1, 2], [3, 4]])


@pytest.mark.parametrize("block", [1, 7, "auto"])
@pytest.mark.parametrize("psd", ["never", "step"])
def test_a_class_has_no_matrix_before_its_first_update(psd, block):
    rows = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 0.0], [0.0, 9.0], [0.1, 0.1]])
    labels = np.array([0, 0, 1, 2, 3])
    model = paloma.LODML(scale=None, psd=psd, block_size=block)
    model.partial_fit(rows, labels, triplets=[[0, 1, 2], [0, 1, 3]])  # both passive
    assert list(model.classes_) == [0, 1, 2, 3]
    assert (model.n_updates_, inside.state(model).n_slots) == (0, 0)
    model.partial_fit(rows, labels, triplets=[[0, 1, 2], [0, 3, 4], [0, 1, 3]])
    assert (model.n_updates_, inside.state(model).n_slots) == (1, 2)
    assert not np.array_equal(model.local_[2], np.eye(2))
    assert not np.array_equal(model.local_[3], np.eye(2))
    assert np.array_equal(model.local_[1], np.eye(2))


@pytest.mark.parametrize("name", ["LODML", "LOSL", "L2ODML", "L2OSL"])
def test_a_class_unseen_by_the_model_scores_with_the_shared_part_and_the_identity(name):
    model = plain(name, lam=0.3).fit(X, Y, triplets=T)
    expected = 0.3 * model.metric_matrix() + 0.7 * np.eye(X.shape[1])
    assert relative(model.metric_matrix(99), expected) < 1e-12


@pytest.mark.parametrize("name", ["LODML", "LOSL", "L2ODML", "L2OSL", "ODML"])
@pytest.mark.parametrize("average", [True, False])
def test_forgotten_classes(name, average):
    model = plain(name, average=average, random_state=0).fit(X, Y)
    model.partial_fit(X, Y, triplets=T)
    shared, local, kept = model.shared_, model.local_, [0, 3]
    metric, n_kept = model.metric_matrix(3), int(np.isin(inside.labels_kept(model), kept).sum())
    assert model.forget_classes([2, 1]) is model
    assert list(model.classes_) == kept
    assert relative(model.shared_, shared) < 1e-12
    if len(local):
        assert relative(model.local_, local[kept]) < 1e-12
        assert relative(model.metric_matrix(2), 0.5 * model.metric_matrix() + 0.5 * np.eye(X.shape[1])) < 1e-10
    assert relative(model.metric_matrix(3), metric) < 1e-10
    assert len(inside.memory(model).codes) == n_kept
    again = pickle.loads(pickle.dumps(model)).partial_fit(X, Y)
    assert list(again.classes_) == [0, 1, 2, 3]
    if len(local):
        model.partial_fit(X, Y, triplets=T[:0])
        assert np.array_equal(model.local_[1], np.eye(X.shape[1]))


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("lam", [1.0, 0.4])
def test_kernel_learners_forget_classes_too(lam, kernel, average):
    """The forms of other classes stay; a forgotten class has those of one never seen: the shared part and the start."""
    rows = rbf_kernel(X) if kernel == "precomputed" else X
    model = paloma.OKS(kernel=kernel, lam=lam, average=average, random_state=0).fit(rows, Y)
    before, unseen = model.pairwise_score(rows, rows, y=Y), model.pairwise_score(rows, rows, y=np.full(len(Y), 99))
    model.forget_classes([1, 2])
    assert list(model.classes_) == [0, 3]
    after, gone = model.pairwise_score(rows, rows, y=Y), np.isin(Y, [1, 2])
    assert relative(after[:, ~gone], before[:, ~gone]) < 1e-12
    assert relative(after[:, gone], unseen[:, gone]) < 1e-12
    assert list(model.partial_fit(rows, Y).classes_) == [0, 1, 2, 3]
    assert list(model.forget_classes([0, 1, 2, 3]).classes_) == []


def test_unknown_classes_cannot_be_forgotten():
    model = plain("LODML").fit(X, Y)
    with pytest.raises(ValueError, match=r"cannot forget \[7\]: not among classes_"):
        model.forget_classes([0, 7])
    assert list(model.classes_) == [0, 1, 2, 3]
    model.forget_classes([0, 1, 2, 3])
    assert len(model.classes_) == len(model.local_) == 0
    model.partial_fit(X, Y)
    assert list(model.classes_) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", LOCAL.values())
def test_drift_signals_do_not_depend_on_the_split(name):
    whole, parts = plain(name), plain(name)
    whole.partial_fit(X, Y, triplets=T)
    for a in range(0, len(T), 7):
        parts.partial_fit(X, Y, triplets=T[a : a + 7])
    np.testing.assert_allclose(parts.recent_loss_, whole.recent_loss_, rtol=1e-10)
    np.testing.assert_allclose(parts.long_run_loss_, whole.long_run_loss_, rtol=1e-10)
    expected = run(ALL[name], X, T, STREAM.classes, 0.5, 0.5, C)
    long_run, recent = drift(Y[T[:, 1]], np.maximum(expected.e, 0), 4, 1 - 1 / 3000)
    np.testing.assert_allclose(whole.long_run_loss_, long_run, rtol=1e-9)
    np.testing.assert_allclose(whole.recent_loss_, recent, rtol=1e-9)


def test_drift_shows_in_the_class_that_changed():
    rng = np.random.default_rng(0)
    centers = 1.5 * rng.normal(size=(4, 8))

    def batch(n):
        y = rng.integers(0, 4, n)
        return centers[y] + spread[y][:, None] * rng.normal(size=(n, 8)), y

    spread, model = np.ones(4), paloma.LODML(C=0.002, random_state=0)
    assert not hasattr(model, "recent_loss_")
    for _ in range(40):
        model.partial_fit(*batch(100))
    assert (model.drift_ < 1.4).all()
    spread[2] = 3.0
    for _ in range(4):
        model.partial_fit(*batch(100))
    assert model.drift_[2] > 1.5
    assert model.drift_[2] > 1.3 * model.drift_[[0, 1, 3]].max()
    assert np.isnan(model.partial_fit(X[:1, [0] * 8], [9]).drift_[4])


@pytest.mark.parametrize("calls", [1, 40])
def test_a_window_keeps_the_last_rows_of_each_class(calls):
    rng = np.random.default_rng(0)
    rows, codes, memory = (
        np.arange(400.0)[:, None],
        rng.integers(0, 3, 400).astype(np.int32),
        Reservoir(20, window=True),
    )
    for part in np.split(np.arange(400), calls):
        memory.add(rows[part], codes[part], rng)
    kept, kept_codes = memory.sample(rows)
    for c in range(3):
        assert sorted(kept[kept_codes == c].ravel()) == np.flatnonzero(codes == c)[-20:].tolist()
    model = paloma.LODML(forget=0.001, reservoir_size=5).partial_fit(X, Y)
    assert inside.memory(model).window
    assert not inside.memory(paloma.LODML(forget=0.001, memory="sample").partial_fit(X, Y)).window


def test_balanced_anchors():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [200, 20, 5]).astype(np.int32)
    mined = mine(rng.normal(size=(225, 3)), codes)
    drawn = mined.shuffled(rng, codes)
    _, counts = np.unique(codes[drawn[np.r_[True, np.diff(drawn[:, 0]) != 0], 0]], return_counts=True)
    assert np.ptp(counts) <= 0.1 * counts.mean()
    assert {tuple(t) for t in drawn} <= {tuple(t) for t in mined.triplets}
    rows = rng.normal(size=(225, 3))
    same = [paloma.LODML(balanced=True, random_state=0).fit(rows, codes).shared_ for _ in range(2)]
    assert np.array_equal(*same)
    assert not np.array_equal(same[0], paloma.LODML(random_state=0).fit(rows, codes).shared_)


@pytest.mark.parametrize("gap", [-30.0, 0.5, 7.6, 60.0])
@pytest.mark.parametrize("norm", [1e-6, 1.0, 39.0, 1e6])
@pytest.mark.parametrize("cap", [1e-4, 0.3, 50.0])
def test_the_logistic_root_is_found_wherever_the_sigmoid_is_steep(gap, norm, cap):
    tau = inside.step_size("logistic", gap, norm, cap)
    assert tau == pytest.approx(step_size("logistic", gap, norm, cap), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("kind", [paloma.OKS, paloma.OMDML])
def test_learners_of_another_geometry_refuse_what_they_cannot_do(kind):
    with pytest.raises(ValueError, match=f"{kind.__name__}.* forget"):
        kind(forget=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="pairs"):
        kind().fit(X, Y, pairs=[[0, 1]], pair_targets=[1])
