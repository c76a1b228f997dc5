"""What the tools around scikit-learn expect: data frames, names, output containers, routed triplets, HTML."""

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from paloma import LODML, ODML, MetricKNeighborsClassifier
from paloma.evaluate import OnTriplets

X, Y = load_iris(return_X_y=True)
NAMES = ["a", "b", "c", "d"]
TRIPLETS = np.array([[0, 1, 60], [60, 61, 0], [100, 101, 60], [2, 3, 120]])


def frame(library):
    module = pytest.importorskip(library)
    return module.DataFrame({name: X[:, k] for k, name in enumerate(NAMES)})


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_gives_the_metric_of_its_numbers_and_keeps_its_names(library):
    rows = frame(library)
    metric = LODML(random_state=0, n_epochs=1).fit(rows, Y)
    assert metric.feature_names_in_.tolist() == NAMES
    plain = LODML(random_state=0, n_epochs=1).fit(X, Y)
    assert np.array_equal(metric.pairwise_score(rows, rows, Y), plain.pairwise_score(X, X, Y))
    model = MetricKNeighborsClassifier(metric).fit(rows, Y)
    assert np.array_equal(model.predict(rows), MetricKNeighborsClassifier(plain).fit(X, Y).predict(X))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_transform_gives_the_container_that_is_asked_for(library):
    rows = frame(library)
    metric = ODML(random_state=0, n_epochs=1).set_output(transform=library).fit(rows, Y)
    out = metric.transform(rows)
    assert type(out) is type(rows)
    assert list(out.columns) == [f"odml{k}" for k in range(4)]
    assert np.array_equal(out.to_numpy(), ODML(random_state=0, n_epochs=1).fit(X, Y).transform(X))


def test_columns_in_another_order_are_refused():
    rows = frame("pandas")
    metric = LODML(random_state=0, n_epochs=1).fit(rows, Y)
    with pytest.raises(ValueError, match="feature names should match"):
        metric.pairwise_score(rows[["b", "a", "c", "d"]], rows, Y)


def test_triplets_are_routed_through_a_pipeline():
    expected = ODML(random_state=0).fit(StandardScaler().fit_transform(X), Y, triplets=TRIPLETS)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), ODML(random_state=0).set_fit_request(triplets=True))
        pipeline.fit(X, Y, triplets=TRIPLETS)
    assert np.array_equal(pipeline[-1].shared_, expected.shared_)
    plain = make_pipeline(StandardScaler(), ODML(random_state=0)).fit(X, Y, odml__triplets=TRIPLETS)
    assert np.array_equal(plain[-1].shared_, expected.shared_)


def test_triplets_that_no_one_asked_for_are_refused():
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), ODML(random_state=0))
        with pytest.raises(ValueError, match="triplets"):
            pipeline.fit(X, Y, triplets=TRIPLETS)


SAID = np.random.default_rng(0).integers(0, 150, (90, 3))
SAID = SAID[(Y[SAID[:, 0]] == Y[SAID[:, 1]]) & (Y[SAID[:, 0]] != Y[SAID[:, 2]])]
USERS = np.array(["ann", "ben"])[np.arange(len(SAID)) % 2]


def spoken(**options):
    return OnTriplets(make_pipeline(StandardScaler(), LODML(random_state=0, n_epochs=1)), X, **options)


def test_triplets_are_the_samples_of_a_cross_validation():
    """Each fold learns and scores the triplets that scikit-learn gave it, by the numbers of all rows."""
    rows = StandardScaler().fit_transform(X)
    expected = []
    for train, test in KFold(3).split(SAID):
        metric = LODML(random_state=0, n_epochs=1).fit(rows, Y, triplets=SAID[train])
        expected.append(metric.triplet_score(rows, SAID[test], Y))
    assert cross_validate(spoken(labels=Y), SAID, cv=3)["test_score"].tolist() == expected
    alone = OnTriplets(make_pipeline(LODML(random_state=0, n_epochs=1)), rows, Y)
    assert cross_validate(alone, SAID, cv=3)["test_score"].tolist() == expected


def test_groups_are_routed_through_searches():
    """Who said a triplet is split with it, and chooses the metric that it is scored under."""
    rows = StandardScaler().fit_transform(X)
    expected = []
    for train, test in KFold(3).split(SAID):
        metric = LODML(random_state=0, n_epochs=1).fit(rows, triplets=SAID[train], groups=USERS[train])
        right = [
            metric.pairwise_score(rows[a : a + 1], rows[[p, n]], group=user) @ [1.0, -1.0] > 0
            for (a, p, n), user in zip(SAID[test], USERS[test], strict=True)
        ]
        expected.append(np.mean(right))
    with sklearn.config_context(enable_metadata_routing=True):
        model = spoken().set_fit_request(groups=True).set_score_request(groups=True)
        found = cross_validate(model, SAID, cv=3, params={"groups": USERS})["test_score"]
        search = GridSearchCV(model, {"learner__lodml__C": [0.002, 0.02]}, cv=3).fit(SAID, groups=USERS)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"][1], np.mean(expected))
    assert search.best_estimator_.learner_[-1].classes_.tolist() == ["ann", "ben"]


def test_searches_reach_the_parameters_of_the_metric():
    model = make_pipeline(StandardScaler(), MetricKNeighborsClassifier(LODML(random_state=0, n_epochs=1)))
    grid = {"metrickneighborsclassifier__metric__C": [0.002, 0.02]}
    search = GridSearchCV(model, grid, cv=3).fit(X, Y)
    assert search.best_score_ > 0.9
    assert cross_validate(model, X, Y, cv=3)["test_score"].min() > 0.85


def test_notebooks_show_parameters():
    html = MetricKNeighborsClassifier(LODML(C=0.125))._repr_html_()
    assert "MetricKNeighborsClassifier" in html
    assert "LODML" in html
    assert "0.125" in html


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "string", "category"])
def test_labels_of_a_pandas_type_keep_their_kind(dtype):
    pandas = pytest.importorskip("pandas")
    plain = {"Int64": Y, "boolean": Y > 0, "string": Y.astype(str), "category": Y.astype(str)}[dtype]
    labels = pandas.Series(plain).astype(dtype)
    metric = LODML(random_state=0, n_epochs=1).fit(X, labels)
    assert metric.classes_.dtype.kind == plain.dtype.kind
    assert metric.classes_.tolist() == np.unique(plain).tolist()
    with pytest.raises(ValueError, match=r"contains NaN|of type NAType|of type float, str"):
        metric.fit(X, labels.where(np.arange(len(Y)) > 0))


@pytest.mark.parametrize("labels", [list(Y > 0), (Y > 0).tolist(), list(Y.astype(np.uint8)), list(Y.astype(str))])
def test_labels_in_a_list_keep_their_kind(labels):
    metric = LODML(random_state=0, n_epochs=1).fit(X, labels)
    assert metric.classes_.tolist() == np.unique(labels).tolist()
    assert metric.classes_.dtype.kind == np.asarray(labels).dtype.kind


def test_labels_of_numpys_new_strings_are_words():
    labels = Y.astype(str).astype(np.dtypes.StringDType())
    metric = LODML(random_state=0, n_epochs=1).fit(X, labels)
    assert metric.classes_.tolist() == ["0", "1", "2"]
    assert metric.classes_.dtype.kind == "U"
