"""scikit-learn's checks, and ours, on every estimator that paloma exports: tested because it exists."""

import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import paloma
from axes import TABLE
from helpers.data import IRIS as X
from helpers.data import LABELS as Y
from paloma.preprocessing import UnitRows

EXPORTED = [getattr(paloma, name) for name in paloma.__all__ if inspect.isclass(getattr(paloma, name))]
LEARNERS = [c for c in EXPORTED if hasattr(c, "pair_score")]
MATRICES = [c for c in LEARNERS if TABLE[c.__name__].spaces[0][:6] != "kernel"]  # see test_kernel.py for those
DISTANCES = [c for c in LEARNERS if hasattr(c, "pair_distance")]


REPEATED = "weights are factors of votes: a row given twice takes two of the k places, and teaches the metric twice"


def _cannot(estimator):
    weighs = isinstance(estimator, paloma.MetricKNeighborsClassifier)
    return {"check_sample_weight_equivalence_on_dense_data": REPEATED} if weighs else {}


@parametrize_with_checks([c() for c in EXPORTED if issubclass(c, BaseEstimator)], expected_failed_checks=_cannot)
def test_scikit_learn(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # or the checks of `array_api_support` are skipped
    check(estimator)


def documented(doc):
    """{name: description} of the Parameters section: entries `name : type` or `a, b, c`, each with indented lines."""
    section = re.search(r"^Parameters\n-{10}\n(.*?)(?=^\w[^\n]*\n-{3,}$|\Z)", inspect.cleandoc(doc), re.M | re.S)[1]
    entries = re.findall(r"^([*\w][^\n]*)\n((?: {4}[^\n]*\n?|\n)*)", section, re.M)
    names = [(name.strip("* "), text.strip()) for head, text in entries for name in head.split(" : ")[0].split(",")]
    assert len(dict(names)) == len(names), "a parameter is documented twice"
    return dict(names)


@pytest.mark.parametrize("kind", EXPORTED)
def test_documented(kind):
    found = documented(kind.__doc__)
    assert found.keys() == set(inspect.signature(kind).parameters)
    assert all(found.values()), "an entry says nothing"
    assert re.search(r"^ *Examples\n *-{8}$", kind.__doc__, re.M)
    assert not re.search(r"{\w+}", kind.__doc__), "a placeholder was left"


def test_documented_reads_whole_entries():
    entries = "lam : float\n    Of C.\na, b : int\n    Two.\n**options\n    More.\n"
    doc = f"One.\n\nParameters\n----------\n{entries}\nNotes\n-----\nC : none\n    Not one.\n"
    assert documented(doc) == {"lam": "Of C.", "a": "Two.", "b": "Two.", "options": "More."}


@pytest.mark.parametrize("kind", MATRICES)
def test_units_do_not_matter(kind):
    small, large = (kind(random_state=0).fit(X * unit, Y) for unit in (1.0, 1000.0))
    for label in (None, *small.classes_):
        np.testing.assert_allclose(large.metric_matrix(label) * 1e6, small.metric_matrix(label), rtol=1e-6, atol=1e-8)
    assert large.score(X * 1000, Y) == small.score(X, Y)


@pytest.mark.parametrize("kind", DISTANCES)
def test_translation_does_not_matter(kind):
    here, there = (kind(random_state=0).fit(X + shift, Y) for shift in (0.0, 64.0))
    assert there.scale_ == pytest.approx(here.scale_, rel=1e-12)
    np.testing.assert_allclose(there.metric_matrix(), here.metric_matrix(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", LEARNERS)
def test_same_seed_same_result(kind):
    one, two = (kind(random_state=3).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(one.shared_, two.shared_)
    np.testing.assert_array_equal(one.local_, two.local_)


@pytest.mark.parametrize("kind", MATRICES)
def test_float32_stays_float32(kind):
    model = kind(random_state=0).fit(X.astype(np.float32), Y)
    assert model.shared_.dtype == model.metric_matrix().dtype == np.float32
    assert model.query_vectors(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("kind", LEARNERS)
def test_scores_of_float32_are_float32(kind):
    rows = X.astype(np.float32)
    model, double = (kind(random_state=0).fit(data, Y) for data in (rows, X))
    pairs = rows[:10].reshape(5, 2, 4)
    for ask in ("pair_score", "pair_distance") if kind in DISTANCES else ("pair_score",):
        assert getattr(model, ask)(pairs).dtype == np.float32
        assert getattr(double, ask)(pairs).dtype == np.float64
    assert model.pairwise_score(rows, rows, Y).dtype == np.float32
    assert double.pairwise_score(X, X, Y).dtype == np.float64


@pytest.mark.parametrize("kind", LEARNERS)
def test_frames_names_and_read_only_arrays(kind):
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frozen = X.copy()
    frozen.flags.writeable = False
    models = [kind(random_state=0).fit(data, Y) for data in (X, frame, frozen)]
    assert list(models[1].feature_names_in_) == ["a", "b", "c", "d"]
    for model in models[1:]:
        np.testing.assert_array_equal(model.shared_, models[0].shared_)


@pytest.mark.parametrize("kind", LEARNERS)
def test_points_need_no_names(kind):
    """A warning about names that points (n, 2, d) and (n, 3, d) cannot have would be one nobody can heed."""
    model = kind(random_state=0).fit(pd.DataFrame(X, columns=["a", "b", "c", "d"]), Y)
    triplets = X[[[0, 1, 60], [70, 60, 140]]]
    assert model.pair_score(triplets[:, :2]).shape == (2,)
    near, far = (model.pair_score(triplets[:, [0, k]]) for k in (1, 2))
    assert model.triplet_score(None, triplets) == np.mean(near > far)
    model.partial_fit(None, triplets=triplets)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="features"):
        model.pair_score(triplets[:, :2, :3])


@pytest.mark.parametrize("kind", LEARNERS)
def test_attributes_where_nothing_was_learned(kind):
    model = kind(random_state=0).fit(np.zeros((6, 2)), [0, 0, 0, 1, 1, 1])
    assert model.n_updates_ == 0
    assert model.local_.shape == (2 if hasattr(model, "lam") else 0, *model.shared_.shape)


@pytest.mark.parametrize("kind", LEARNERS)
def test_pickle_goes_on_exactly(kind):
    model = kind(random_state=0).partial_fit(X[::2], Y[::2])
    copy = pickle.loads(pickle.dumps(model))
    for each in (model, copy):
        each.partial_fit(X[1::2], Y[1::2])
    np.testing.assert_array_equal(copy.shared_, model.shared_)
    np.testing.assert_array_equal(copy.local_, model.local_)


@pytest.mark.parametrize("kind", LEARNERS)
def test_grid_search_on_a_learner(kind):
    rows = UnitRows().fit_transform(StandardScaler().fit_transform(X))  # as similarities need them
    search = GridSearchCV(kind(random_state=0), {"C": [0.001, 0.01]}, cv=StratifiedKFold(3)).fit(rows, Y)
    assert search.best_score_ > 0.8


@pytest.mark.parametrize("kind", LEARNERS)
def test_classifier_in_a_pipeline_under_search(kind):
    X, Y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), UnitRows(), paloma.MetricKNeighborsClassifier(kind(random_state=0)))
    search = GridSearchCV(model, {"metrickneighborsclassifier__n_neighbors": [1, 3]}, cv=3)
    assert search.fit(X, Y).best_score_ > 0.9
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.9


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_fitted_metric_is_used_as_it_is(kind):
    metric = kind(random_state=0).fit(X, Y)
    before = metric.shared_.copy()
    plain, frozen = (
        paloma.MetricKNeighborsClassifier(m).fit(X[::2], Y[::2]) for m in (metric, FrozenEstimator(metric))
    )
    np.testing.assert_array_equal(plain.predict(X), frozen.predict(X))
    np.testing.assert_array_equal(metric.shared_, before)
    assert not clone(metric).__sklearn_is_fitted__()


@pytest.mark.parametrize("kind", DISTANCES)
def test_transform_as_in_metric_learn(kind):
    metric = kind(random_state=0).fit(X, Y).set_output(transform="pandas")
    Z = metric.transform(X)
    assert list(Z.columns) == [f"{kind.__name__.lower()}{k}" for k in range(4)]
    pairs = np.stack([X[:50], X[50:100]], axis=1)
    direct = np.linalg.norm(Z.to_numpy()[:50] - Z.to_numpy()[50:100], axis=1)
    np.testing.assert_allclose(metric.pair_distance(pairs), direct, rtol=1e-9)
    f = pickle.loads(pickle.dumps(metric.get_metric()))
    assert f(X[0], X[50]) == pytest.approx(direct[0])
    assert f(X[0], X[50], squared=True) == pytest.approx(direct[0] ** 2)
    np.testing.assert_allclose(metric.get_mahalanobis_matrix(), metric.metric_matrix(), atol=1e-10)


@pytest.mark.parametrize("kind", LEARNERS)
def test_says_how_many_anchors_gave_no_triplets(kind):
    labels = Y.copy()
    labels[7] = 9
    for least, opposed in (("auto", True), (0, False)):
        counts = kind(random_state=0, least_impostors=least).fit(X, labels).mined_
        assert counts["anchors"] == len(X)
        assert counts["alone"] == 1
        assert counts["unopposed"] == 0 if opposed else counts["unopposed"] > 10
        assert counts["triplets"] > 0
    assert not hasattr(kind().fit(X, Y, triplets=[[0, 1, 60]]), "mined_")
