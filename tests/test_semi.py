"""Rows without labels: they never vote, and what they teach is gated."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

import paloma
from helpers import inside
from paloma import LODML, MetricKNeighborsClassifier
from paloma.preprocessing import UnitRows
from paloma.triplets import neighbor_triplets
from paloma.workflow import search, train

X, Y = load_digits(return_X_y=True)
X = X[:900]
Y = Y[:900]
KNOWN = np.zeros(900, bool)
for digit in range(10):
    KNOWN[np.flatnonzero(digit == Y)[:4]] = True
MARKED = np.where(KNOWN, Y, -1)
NEW, NEW_Y = load_digits(return_X_y=True)[0][900:], load_digits(return_X_y=True)[1][900:]
# What rows without labels teach, apart from what whitening, guard and soft votes do for few labels.
PLAIN = {"scale": "scalar", "guard": False, "random_state": 0}
VOTE = {"n_neighbors": 3, "weights": "uniform"}
MODES = ["none", "neighbors", "self", "both"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fitted", [False, True])
def test_marked_rows_never_vote_unlabeled(mode, fitted):
    metric = LODML(unlabeled=-1, semi=mode, random_state=0)
    if fitted:
        metric.fit(X, MARKED)
    knn = MetricKNeighborsClassifier(metric).fit(X, MARKED)
    assert list(knn.classes_) == list(range(10))
    assert set(knn.predict(NEW)) <= set(range(10))
    assert knn.predict_proba(NEW).shape == (len(NEW), 10)
    rows = np.unique(knn.kneighbors(NEW)[1])
    if mode == "none":
        assert KNOWN[rows].all()
    else:
        labels = knn.metric_.transduce(X, MARKED)
        assert (labels[rows] != -1).all()
        assert not KNOWN[rows].all()


def test_without_self_labels_the_marked_rows_change_nothing_but_what_they_should():
    alone = LODML(random_state=0).fit(X[KNOWN], Y[KNOWN])
    none = LODML(unlabeled=-1, semi="none", random_state=0).fit(X, MARKED)
    np.testing.assert_allclose(none.shared_, alone.shared_, atol=1e-12)
    near = LODML(unlabeled=-1, semi="neighbors", random_state=0).fit(X, MARKED)
    assert near.n_triplets_ > none.n_triplets_
    everything = LODML(random_state=0, unlabeled=-1).fit(X, Y)
    np.testing.assert_array_equal(everything.shared_, LODML(random_state=0).fit(X, Y).shared_)


def test_self_labels_help_and_are_mostly_right():
    scores = {
        mode: MetricKNeighborsClassifier(LODML(unlabeled=-1, semi=mode, **PLAIN), **VOTE)
        .fit(X, MARKED)
        .score(NEW, NEW_Y)
        for mode in MODES
    }
    assert min(scores[mode] for mode in ("neighbors", "self", "both")) > scores["none"] + 0.02
    metric = LODML(unlabeled=-1, semi="self", **PLAIN).fit(X, MARKED)
    labels = metric.transduce(X, MARKED)
    taken = (labels != -1) & ~KNOWN
    assert taken.sum() > 150
    assert (labels[taken] == Y[taken]).mean() > 0.93
    np.testing.assert_array_equal(labels[KNOWN], Y[KNOWN])


def test_a_stricter_gate_takes_fewer_rows():
    metric = LODML(unlabeled=-1, **PLAIN).fit(X, MARKED)
    counts = []
    for params in ({"share": 0.6}, {}, {"share": 1.0}, {"share": 1.0, "quantile": 0.3}):
        counts.append(int((metric.set_params(semi_params=params).transduce(X, MARKED) != -1).sum()))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1] > KNOWN.sum()


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, "both") for name in ("OASIS", "LOSL", "ODML", "L2ODML", "L2OSL")] + [("LODML", mode) for mode in MODES],
)
def test_every_learner_and_streams(name, mode):
    rows = UnitRows().fit_transform(X) if "SL" in name or name == "OASIS" else X
    model = getattr(paloma, name)(unlabeled=-1, semi=mode, random_state=0)
    for a in range(0, 900, 90):
        model.partial_fit(rows[a : a + 90], np.where(np.arange(90) % 6, -1, Y[a : a + 90]))
    assert list(model.classes_) == list(range(10))
    assert np.isin(inside.labels_kept(model), range(10)).all()
    assert len(inside.memory(model).codes) == 150  # rows without a label are never remembered
    model.partial_fit(rows[:50], np.full(50, -1))
    assert model.score(rows, Y) > 0.7


def test_early_stopping_and_sparse_rows_and_regions():
    LODML(unlabeled=-1, semi="both", early_stopping=True, random_state=0).fit(X, MARKED)
    LODML(unlabeled=-1, semi="both", remine=True, random_state=0).fit(X, MARKED)
    LODML(unlabeled=-1, semi="both", regions=3, soft_regions=True, random_state=0).fit(X, MARKED)
    rows = UnitRows().fit_transform(X)
    dense, sparse = (
        paloma.LOSL(unlabeled=-1, semi="both", random_state=0).fit(r, MARKED) for r in (rows, sp.csr_matrix(rows))
    )
    np.testing.assert_allclose(sparse.shared_, dense.shared_, atol=1e-8)


def test_neighbor_triplets_are_near_and_far():
    rows = X[:400] + np.random.default_rng(1).normal(size=(400, 64))  # no two distances are equal
    triplets = neighbor_triplets(rows, np.arange(0, 400, 2), np.random.default_rng(0))
    distance = ((rows[:, None] - rows) ** 2).sum(axis=2)
    rank = np.argsort(np.argsort(distance + 1e9 * np.eye(400), axis=1), axis=1)
    p, q, n = triplets.T
    assert len(triplets) > 300
    assert (rank[p, q] < 3).all()
    assert (rank[q, p] < 3).all()
    assert (rank[p, n] >= 30).all()
    assert (p != n).all()
    assert len(neighbor_triplets(X[:3], np.arange(3), np.random.default_rng(0))) == 0


def test_same_seed_same_result():
    one, two = (LODML(unlabeled=-1, semi="both", random_state=1).fit(X, MARKED).shared_ for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"semi": "full"}, "semi must be one of"),
        ({"semi_params": {"gate": 1}}, r"semi_params takes \['share'"),
        ({"semi_params": {"share": 2.0}}, r"semi_params\['share'\] must be a number in \[0, 1\]"),
    ],
)
def test_bad_words_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        LODML(**parameters).fit(X, Y)


def test_too_few_labeled_rows_to_vote():
    few = np.where(np.arange(900) < 2, Y, -1)
    metric = LODML(unlabeled=-1, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="more than the 2 labeled rows"):
        MetricKNeighborsClassifier(metric, n_neighbors=3).fit(X, few)


def test_labels_of_the_model_alone_are_given_and_to_marked_rows_alone():
    known = Y < 2
    labels = np.where(np.arange(len(Y)) % 4, Y, -1)
    metric = paloma.LODML(unlabeled=-1, random_state=0).fit(X[known], Y[known])
    found = metric.transduce(X, labels)
    np.testing.assert_array_equal(found[labels >= 0], labels[labels >= 0])
    assert (found[labels < 0] >= 0).any()
    unmarked = paloma.LODML(random_state=0).fit(X[known], Y[known])
    np.testing.assert_array_equal(unmarked.transduce(X, Y), Y)
    free = paloma.LODML(unlabeled=-1, random_state=0).fit(X, triplets=[[0, 1, 2]])
    np.testing.assert_array_equal(free.transduce(X, labels), labels)


@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, object)], ids=["list", "objects"])
def test_words_marked_by_a_number_are_refused(kind):
    words = kind([-1 if row % 3 == 0 else f"class {label}" for row, label in enumerate(Y)])
    with pytest.raises(ValueError, match="including the `unlabeled` marker"):
        paloma.LODML(unlabeled=-1).fit(X, words)


@pytest.mark.parametrize("mode", ["none", "self"])
def test_search_names_the_rows_of_the_table_and_their_labels(mode):
    model = train(LODML(unlabeled=-1, semi=mode, random_state=0), X, MARKED, preprocessing=None)
    assert 10 < len(model.row_numbers_) < len(X)
    found = search(model, NEW[:20], 3)
    np.testing.assert_array_equal(X[model.row_numbers_], model.rows_)
    np.testing.assert_array_equal(found.labels[KNOWN[found.ids]], MARKED[found.ids][KNOWN[found.ids]])
    assert (found.labels != -1).all()
    assert KNOWN[found.ids].all() == (mode == "none")


@pytest.mark.parametrize(("marker", "y"), [("-1", MARKED), (-1, MARKED.astype(str)), (b"-1", MARKED.astype(float))])
def test_a_marker_of_another_type_than_the_labels_is_refused(marker, y):
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=r"unlabeled=.* would mark no row. Use one type"):
            getattr(LODML(unlabeled=marker), method)(X, y)
