"""Errors that say what to do: the stories of test_everyday.py that end in a sentence."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

import paloma
from helpers.cli import NAMES, X, Y, run
from paloma.workflow import train


def three_classes(seed=0, n=240):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + 3 * np.eye(4)[y], y


# -- rows of a stream vote ---------------------------------------------------------------------------------------------


def test_labels_that_are_no_classes_are_told():
    rows, _ = three_classes()
    with pytest.raises(ValueError, match=r"no two of the 240 labeled rows have the same label.* bin it first"):
        paloma.LODML().fit(rows, rows[:, 0])
    with pytest.raises(ValueError, match="no two of the 240"):
        paloma.LODML().fit(rows, np.arange(240))
    with pytest.warns(UserWarning, match=r"229 classes for 240 labeled rows, 228 of which are alone.* bin it first"):
        paloma.LODML().fit(rows, np.maximum(np.arange(240), 11))
    with pytest.warns(
        UserWarning, match=r"120 classes for 240 labeled rows, fewer than three each.* bin it first"
    ) as told:
        paloma.LODML().fit(rows, np.arange(240) // 2)
    assert told[0].filename == __file__  # the line that called, which is where y comes from


def test_too_many_features_name_the_way_out():
    rows = np.zeros((4, 60_000))
    for kind in (paloma.LODML, paloma.OASIS, paloma.SLMOML):
        with pytest.raises(ValueError, match=r"60,000 features need matrices of 13 GiB.* Use L2ODML"):
            kind().fit(rows, [0, 0, 1, 1])


def test_saving_into_a_missing_folder_names_the_folder(tmp_path):
    rows, y = three_classes()
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere to save a.paloma in: create it first"):
        paloma.save(paloma.ODML().fit(rows, y), tmp_path / "nowhere" / "a.paloma")


def test_a_learner_says_who_predicts():
    assert not hasattr(paloma.LODML(), "predict")
    with pytest.raises(AttributeError, match=r"use MetricKNeighborsClassifier\(LODML\(...\)\).fit"):
        paloma.LODML().predict(X)


def test_a_class_instead_of_an_instance_is_told():
    for call in (
        lambda: paloma.MetricKNeighborsClassifier(paloma.LODML).fit(X, Y),
        lambda: paloma.MetricIndex(paloma.LODML),
    ):
        with pytest.raises(TypeError, match=r"got the class LODML itself: pass an instance, LODML\(\)"):
            call()


def test_a_column_of_text_is_named():
    frame = pd.DataFrame(X, columns=NAMES).assign(city="Paris")
    with pytest.raises(ValueError, match="LODML: column 'city' holds text, not numbers"):
        paloma.LODML().fit(frame, Y)
    with pytest.raises(ValueError, match="MetricKNeighborsClassifier: column 'city' holds text"):
        paloma.MetricKNeighborsClassifier().fit(frame, Y)


def test_columns_of_categories_and_dates_are_named():
    frame = pd.DataFrame(X, columns=NAMES)
    for column, what in (
        (pd.Categorical(np.where(X[:, 0] > 0, "new", "old")), "text"),
        (pd.date_range("2026-01-01", periods=len(X)), "dates"),
    ):
        with pytest.raises(ValueError, match=f"LODML: column 'when' holds {what}, not numbers: leave it out"):
            paloma.LODML().fit(frame.assign(when=column), Y)
    assert paloma.LODML().fit(frame.assign(flag=X[:, 0] > 0, n=pd.array([1] * len(X), "Int64")), Y).n_features_in_ == 6


def test_texts_instead_of_vectors_name_the_way_on():
    for texts in (["red apple", "green pear"], [["red", "apple"], ["green", "pear"]], np.array([["a"], ["b"]], object)):
        with pytest.raises(ValueError, match=r"LODML: X holds text, not numbers .*TfidfVectorizer or paloma.datasets"):
            paloma.LODML().fit(texts, [0, 1])


def test_a_matrix_too_large_to_build_names_what_to_use():
    rows = np.random.default_rng(0).normal(size=(8, 10_001))
    metric = paloma.DiagonalODML(random_state=0).fit(rows, [0, 1] * 4)
    with pytest.raises(ValueError, match="10001 x 10001 metric matrix is too large to build; feature_weights_ is its"):
        _ = metric.components_
    assert metric.feature_weights_.shape == (10_001,)


def test_a_pipeline_that_no_file_can_hold_names_the_way_on(tmp_path):
    model = make_pipeline(TfidfVectorizer(), paloma.MetricKNeighborsClassifier(paloma.LOSL(), n_neighbors=1))
    model.fit(["red apple", "green apple", "fast car", "blue car"], [0, 0, 1, 1])
    with pytest.raises(paloma.exceptions.ModelFileError, match=r"paloma.save\(model\[-1\], path\), and the transf"):
        paloma.save(model, tmp_path / "model.paloma")
    paloma.save(model[-1], tmp_path / "model.paloma")
    assert paloma.load(tmp_path / "model.paloma").predict(model[0].transform(["apple"]))[0] == 0


@pytest.mark.filterwarnings("default")
def test_measuring_on_rows_that_vote_is_told(files):
    train_file, test_file, model = files
    run("fit", train_file, "-o", model, "-q")
    shown = run("eval", model, train_file).stderr
    assert "200 of 200 rows are among those that vote, each its own nearest neighbor" in shown
    assert run("eval", model, test_file).stderr == ""


def test_missing_values_in_arrays_name_the_way_on():
    rows, y = three_classes()
    holes = rows.copy()
    holes[3, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"LODML: Input X contains NaN.* put paloma.preprocessing.FillMissing\(\) in front"
    ):
        paloma.LODML().fit(holes, y)
    assert train(paloma.LODML(random_state=0), holes, y, fill_missing=True).score(rows, y) > 0.8
