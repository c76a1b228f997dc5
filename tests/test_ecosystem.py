"""What the tools around scikit-learn expect: data frames, names, output containers, routed triplets, HTML."""

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from paloma import LODML, ODML, MetricKNeighborsClassifier

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
