"""Pictures show what was learned: the numbers drawn are compared with those of the learner."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from paloma import LODML, LOSL, OKS, plot

pytest.importorskip("matplotlib")
DATA = load_iris()
X, Y = DATA.data, DATA.target


def fitted(**params):
    return LODML(random_state=0, n_epochs=1, **params).fit(X, Y)


def test_spectra_are_those_of_the_metrics():
    metric = fitted(guard=False)
    ax = plot.spectra(metric, n_classes=2)
    assert ax.lines[0].get_label() == "shared"
    assert len(ax.lines) == 3
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.linalg.eigvalsh(metric.metric_matrix())[::-1])
    label = int(ax.lines[1].get_label())
    np.testing.assert_allclose(ax.lines[1].get_ydata(), np.linalg.eigvalsh(metric.metric_matrix(label))[::-1])
    gaps = [np.linalg.norm(metric.metric_matrix(c) - metric.metric_matrix()) for c in metric.classes_]
    assert label == np.argmax(gaps)


def test_spectra_of_a_similarity_are_singular_values():
    metric = LOSL(random_state=0, n_epochs=1).fit(X, Y)
    ax = plot.spectra(metric, n_classes=0)
    expected = np.linalg.svd(metric.metric_matrix(), compute_uv=False)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected)
    assert ax.get_ylabel() == "singular value"


def test_weights_of_features():
    metric = fitted(guard=False)
    ax = plot.feature_weights(metric, names=DATA.feature_names, n_features=3)
    drawn = ax.images[0].get_array()
    assert drawn.shape == (4, 3)
    diagonal = np.diag(metric.metric_matrix())
    heaviest = [DATA.feature_names.index(tick.get_text()) for tick in ax.get_xticklabels()]
    np.testing.assert_allclose(drawn[0], (diagonal / diagonal.mean())[heaviest])
    with pytest.raises(ValueError, match="names must be those of the 4 features, got 2"):
        plot.feature_weights(metric, names=["a", "b"])


def test_names_of_a_data_frame_are_those_of_the_picture():
    pandas = pytest.importorskip("pandas")
    metric = LODML(random_state=0, n_epochs=1).fit(pandas.DataFrame(X, columns=list("abcd")), Y)
    assert {tick.get_text() for tick in plot.feature_weights(metric).get_xticklabels()} == set("abcd")


def test_neighbors_before_and_after():
    rows, labels = load_digits(return_X_y=True)
    metric = LODML(random_state=0, n_epochs=1).fit(rows[:200], labels[:200])
    figure = plot.neighbors(metric, rows[900:901], rows[:200], labels[:200], shape=(8, 8), n_neighbors=5)
    titles = [ax.get_title() for ax in figure.axes]
    assert (titles[0], titles[6]) == ("before", "after")
    nearest = np.linalg.norm(rows[:200] - rows[900], axis=1).argsort(kind="stable")[:5]
    assert titles[1:6] == [str(label) for label in labels[nearest]]
    scores = metric.pairwise_score(rows[900:901], rows[:200], labels[:200])[0]
    assert titles[7:] == [str(label) for label in labels[np.argsort(-scores)[:5]]]
    with pytest.raises(ValueError, match=r"shape \(9, 9\) has 81 entries, but rows have 64 features"):
        plot.neighbors(metric, rows[:1], rows, labels, shape=(9, 9))


def test_learning_curve():
    ax = plot.learning_curve(LODML(random_state=0, n_epochs=1), X, Y, sizes=[20, 105])
    plain, learned = (line.get_ydata() for line in ax.lines)
    assert list(ax.lines[0].get_xdata()) == [20, 105]
    assert 0.8 < min(*plain, *learned) <= max(*plain, *learned) <= 1.0
    with pytest.raises(ValueError, match=r"sizes must be between 2 and the 105 rows.*got \[20, 106\]"):
        plot.learning_curve(LODML(), X, Y, sizes=[20, 106])


def test_a_kernel_has_no_spectra():
    with pytest.raises(TypeError, match="OKS has no metric matrices"):
        plot.spectra(OKS(random_state=0, n_epochs=1).fit(X, Y))


def test_pictures_go_where_they_are_told():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert plot.spectra(fitted(), ax=ax) is ax
