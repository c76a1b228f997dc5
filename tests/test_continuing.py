"""Going on: streams, folding, mixed kinds of rows and labels, read-outs that follow the parameters."""

import numpy as np
import pytest
import scipy.sparse as sp

import paloma
from helpers import inside
from paloma._core import loop
from paloma._spaces.dense import space as dense_space
from paloma._spaces.grouped import blocks as grouped_blocks
from same import assert_close

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 4, 200)
X = RNG.normal(size=(200, 20)) + 0.7 * RNG.normal(size=(4, 20))[Y]
T = RNG.integers(0, 200, (300, 3))
SPARSE = ["OASIS", "LOSL", "L2OSL", "L2ODML"]


def fitted(name, rows=X, **parameters):
    extra = {"n_components": 10} if name.startswith("L2") else {}
    return getattr(paloma, name)(random_state=0, **extra, **parameters).fit(rows, Y)


@pytest.mark.parametrize("name", SPARSE)
def test_queries_and_items_may_differ_in_kind(name):
    model, A = fitted(name), sp.csr_matrix(X)
    expected = model.pairwise_score(X, X, Y)
    for q, x in ((X, A), (A, X), (A, A)):
        np.testing.assert_allclose(model.pairwise_score(q, x, Y), expected, atol=1e-7)
    knn = paloma.MetricKNeighborsClassifier(model).fit(A, Y)
    np.testing.assert_array_equal(knn.predict(X), knn.predict(A))


@pytest.mark.parametrize("name", SPARSE)
def test_rows_of_the_other_kind_go_on(name):
    A = sp.csr_matrix(X)
    models = [fitted(name, A).partial_fit(rows[:60], Y[:60], triplets=T[:50] % 60) for rows in (A, X)]
    np.testing.assert_allclose(models[1].shared_, models[0].shared_, atol=1e-12)
    for model in models:
        model.partial_fit(X[:60], Y[:60])


def test_repeated_entries_of_csr_rows_add_up():
    twice = sp.csr_matrix(
        (np.repeat(X.ravel() / 2, 2), np.repeat(np.tile(np.arange(20), 200), 2), np.arange(0, 8001, 40)), X.shape
    )
    assert not twice.has_canonical_format
    np.testing.assert_allclose(fitted("LOSL", twice).shared_, fitted("LOSL", sp.csr_matrix(X)).shared_, atol=1e-10)


@pytest.mark.parametrize("name", ["L2ODML", "L2OSL"])
def test_folding_with_averages_and_new_classes(name):
    rows, labels = RNG.normal(size=(600, 100)), RNG.integers(0, 6, 600)
    labels[:100] %= 2
    folded, whole = (
        getattr(paloma, name)(random_state=0, max_journal=most, n_components=20, average=True) for most in (50, None)
    )
    for a in range(0, 600, 50):
        for model in (folded, whole):
            model.partial_fit(rows[a : a + 50], labels[a : a + 50])
    assert len(inside.state(folded).journal) <= 50 < len(inside.state(whole).journal)
    for label in (None, 0, 5):  # the rank is that of the rows: folding loses nothing
        assert_close(folded.metric_matrix(label), whole.metric_matrix(label), 1e-8)


@pytest.mark.parametrize("psd", ["end", "step", "exact", 7])
def test_projected_metrics_are_psd_whatever_the_word(psd):
    model = paloma.L2ODML(psd=psd, C=1.0, n_epochs=1, n_components=10, random_state=0).fit(X, Y, triplets=T)
    assert min(np.linalg.eigvalsh(model.metric_matrix(k))[0] for k in (None, 0, 3)) > -1e-9


def test_words_and_numbers_do_not_mix():
    model = fitted("LODML")
    with pytest.raises(TypeError, match="classes so far are numbers, got labels that are words"):
        model.partial_fit(X, Y.astype(str))
    with pytest.raises(TypeError, match="numbers"):
        model.pairwise_score(X, X, Y.astype(str))
    assert list(model.classes_) == [0, 1, 2, 3]


def test_an_unlabeled_class_is_never_announced():
    model = paloma.LODML(unlabeled=-1, random_state=0).partial_fit(X, Y, classes=[-1, 0, 1, 2, 3, 9])
    assert list(model.classes_) == [0, 1, 2, 3, 9]


def test_parameters_take_effect_when_learning_goes_on():
    model = fitted("LODML")
    before = model.metric_matrix(2)
    np.testing.assert_array_equal(model.set_params(psd="never", average=False).metric_matrix(2), before)
    model.partial_fit(X[:20], Y[:20])
    after = fitted("LODML").partial_fit(X[:20], Y[:20]).metric_matrix(2)
    assert np.abs(model.metric_matrix(2) - after).max() > 1e-3


def test_learned_matrices_are_the_users_own():
    model = fitted("ODML")
    model.shared_[:] = 0
    assert np.abs(model.shared_).max() > 0


def test_a_balance_belongs_to_one_metric():
    model = fitted("LODML")
    model.item_vectors(X, Y, for_graph=True)
    model.query_vectors(X, for_graph=True)
    model.partial_fit(X, Y + 2)
    with pytest.raises(ValueError, match="item_vectors"):
        model.query_vectors(X, for_graph=True)
    rows = sp.csr_matrix(X)
    sparse = fitted("L2ODML", rows)
    with pytest.raises(TypeError, match="dense rows"):
        sparse.item_vectors(rows, Y, for_graph=True)


@pytest.mark.parametrize("name", ["LODML", "LOSL", "L2OSL"])
def test_early_stopping_never_learns_from_held_out_anchors(name, monkeypatch):
    seen = []
    learn = inside.dense_module.learn
    monkeypatch.setattr(
        inside.dense_module,
        "learn",
        lambda *a, **k: (seen.append(np.unique(a[3].triplets[:, 0])), learn(*a, **k))[1],
    )
    model = fitted(name, early_stopping=True, validation_fraction=0.5, remine=True, n_epochs=6, guard=False)
    assert 1 <= model.n_iter_ <= 6
    assert len(np.unique(np.concatenate(seen))) <= 100


@pytest.mark.parametrize("name", ["L2ODML", "L2OSL"])
def test_an_exact_basis_does_not_grow_without_bound(name):
    rows, labels = RNG.normal(size=(30, 2000)), RNG.integers(0, 2, 30)
    model = getattr(paloma, name)(random_state=0).fit(rows, labels)
    assert model.exact_
    for _ in range(5):
        model.partial_fit(RNG.normal(size=(60, 2000)), RNG.integers(0, 2, 60))
    assert not model.exact_
    assert inside.state(model).map.shape[1] <= 2 * 30 + 50


def test_nothing_learned_yet():
    model = paloma.L2ODML().partial_fit(X[:5], np.zeros(5))
    np.testing.assert_array_equal(model.shared_, np.eye(20))
    np.testing.assert_array_equal(model.metric_matrix(), np.eye(20))


def test_equal_neighbors_come_in_the_order_of_rows():
    rows = np.tile(X[:1], (20, 1))
    knn = paloma.MetricKNeighborsClassifier(fitted("ODML"), n_neighbors=3).fit(rows, np.arange(20) % 4)
    assert knn.kneighbors(X[:1])[1].tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(("name", "d"), [("LODML", 64), ("ODML", 64), ("LODML", 530), ("OMDML", 64)])
def test_matrices_that_are_made_whole_late_are_the_same(name, d, monkeypatch):
    """A first pass may be learned by another loop than the next ones, and loops read and move other halves."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, 150)
    rows = rng.normal(size=(150, d)) + 0.6 * rng.normal(size=(6, d))[y]
    late = getattr(paloma, name)(random_state=0).fit(rows, y)
    learn = loop.learn

    def learned(choice, plan, state, *args, **options):
        tally = learn(choice, plan, state, *args, **options)
        for matrices in getattr(state, "states", [state]):
            matrices.symmetrize()
        return tally

    for module in (dense_space, grouped_blocks):
        monkeypatch.setattr(module, "learn", learned)
    at_once = getattr(paloma, name)(random_state=0).fit(rows, y)
    assert (late.metric_matrix(1) == at_once.metric_matrix(1)).all()
