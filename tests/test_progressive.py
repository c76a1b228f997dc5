"""Progressive validation: test, then train."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB

import paloma
from helpers import inside
from paloma.evaluate import plot_progress, progressive
from paloma.neighbors.reservoir import shares

mpl.use("Agg")
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
X = RNG.normal(size=(3, 5))[Y] * 1.5 + RNG.normal(size=(300, 5))


def test_equals_a_literal_loop():
    """Predict by hand with the rows remembered, then learn."""
    model, twin = (paloma.LODML(random_state=0) for _ in range(2))
    result = progressive(model, X, Y, batch_size=25)
    right = []
    for a in range(0, 300, 25):
        rows, labels = X[a : a + 25], Y[a : a + 25]
        if a:
            kept, known = inside.memory(twin).sample(rows)[0], inside.labels_kept(twin)
            scores = twin.pairwise_score(rows, kept, known)
            near = known[np.argsort(-scores, axis=1, kind="stable")[:, :3]]
            votes = [max(v, key=lambda c, v=v: (list(v).count(c), -list(v).index(c))) for v in near.tolist()]
            right.append(np.mean(np.array(votes) == labels))
        else:
            right.append(0.0)
        twin.partial_fit(rows, labels)
    np.testing.assert_allclose(result.over_time("accuracy"), right)
    np.testing.assert_array_equal(model.shared_, twin.shared_)
    assert result.triplets.sum() == model.n_triplets_
    assert result.mean("loss") == pytest.approx(
        np.nansum(inside.whole(model).drift.sums[:, 2]) / inside.whole(model).drift.sums[:, 0].sum()
    )
    assert list(result.classes) == [0, 1, 2]
    assert result.seen[-1] == 300


def test_by_class_and_windows():
    result = progressive(paloma.LODML(random_state=0), X, Y, batch_size=10)
    by_class = result.over_time("accuracy", window=4, by_class=True)
    assert by_class.shape == (30, 3)
    part = result.right[6:10].sum(axis=0) / result.rows[6:10].sum(axis=0)
    np.testing.assert_allclose(by_class[9], part)
    assert result.over_time("triplet_accuracy", window=5)[-1] > 0.5
    np.testing.assert_array_equal(np.isnan(result.over_time("loss")), result.triplets.sum(axis=1) == 0)
    assert result.over_time("loss", window=30)[-1] == pytest.approx(result.mean("loss"))
    with pytest.raises(ValueError, match="what must be one of"):
        result.over_time("speed")


def test_an_iterable_of_batches_and_new_classes():
    labels = np.sort(Y)
    rows = X[np.argsort(Y, kind="stable")]
    batches = ((rows[a : a + 20], labels[a : a + 20]) for a in range(0, 300, 20))
    result = progressive(paloma.LODML(random_state=0), batches)
    assert result.rows.shape == (15, 3)
    assert result.right[np.flatnonzero(result.rows[:, 2])[0], 2] == 0  # a class not met yet cannot be right
    with pytest.raises(ValueError, match="labels for 300 rows"):
        progressive(paloma.LODML(), X, Y[:5])
    with pytest.raises(TypeError, match="partial_fit"):
        progressive(object(), X, Y)


def test_unlabeled_rows_are_not_counted():
    marked = np.where(np.arange(300) % 2, Y, -1)
    result = progressive(paloma.LODML(random_state=0, unlabeled=-1), X, marked)
    assert list(result.classes) == [0, 1, 2]
    assert result.rows.sum() == 150


def test_any_classifier_can_be_compared():
    batches = [(X[:100], Y[:100]), (X[100:], Y[100:])]
    result = progressive(GaussianNB(), batches)
    assert result.over_time("accuracy")[0] == 0.0
    assert result.over_time("accuracy")[1] > 0.5
    assert np.isnan(result.mean("triplet_accuracy"))
    assert progressive(SGDClassifier(random_state=0), X, Y, batch_size=1).mean() > 0.5  # the first batch lacks classes


def test_votes_without_any_row():
    model = paloma.LODML().fit(X, Y, triplets=[[0, 1, 2]]).forget_classes([0, 1, 2])
    labels, votes = shares(model, X[:4], 3)
    assert len(labels) == 0
    assert votes.shape == (4, 0)


def test_rows_without_labels_are_no_batches():
    with pytest.raises(TypeError, match="pass the labels y of these rows"):
        progressive(paloma.LODML(), X)


def test_plot():
    result = progressive(paloma.LODML(random_state=0), X, Y)
    ax = plot_progress(result, "triplet_accuracy", window=3, label="LODML")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rows", "triplet accuracy")
    assert len(plot_progress(result, "loss", by_class=True, ax=ax).lines) == 4
    mpl.pyplot.close("all")
