"""Modalities as column groups: how they are named, what they weigh, and their place among scikit-learn's tools."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

import paloma
from helpers.refusal import assert_refused
from paloma import OMDML

X, Y = load_wine(return_X_y=True)
X = scale(X)
NAMES = [f"c{k}" for k in range(13)]
FRAME = pd.DataFrame(X, columns=NAMES)
HALVES = [slice(0, 5), slice(5, 13)]


def fit(groups=HALVES, rows=X, **params):
    return OMDML(groups=groups, random_state=0, **params).fit(rows, Y)


@pytest.mark.parametrize(
    "groups",
    [
        HALVES,
        [range(5), np.arange(5, 13)],
        [[0, 1, 2, 3, 4], np.arange(-8, 0)],
        [np.arange(13) < 5, (np.arange(13) >= 5).tolist()],
        [("a", slice(5)), ("b", slice(5, None))],
        {"a": slice(0, 5), "b": list(range(5, 13))},
        ({"a": NAMES[:5], "b": NAMES[5:]}),
        [NAMES[:5], pd.Index(NAMES[5:])],
    ],
    ids=lambda groups: type(groups).__name__ + str(len(str(groups))),
)
def test_many_ways_to_name_the_same_columns(groups):
    model = fit(groups, FRAME)
    np.testing.assert_array_equal(model.shared_, fit().shared_)
    np.testing.assert_array_equal(model.weights_, fit().weights_)
    assert list(model.groups_) in (["group0", "group1"], ["a", "b"])
    assert [len(c) for c in model.groups_.values()] == [5, 8]
    np.testing.assert_array_equal(clone(model).fit(FRAME, Y).shared_, model.shared_)


@pytest.mark.parametrize(
    ("groups", "error", "match"),
    [
        ([], ValueError, "at least one selection"),
        ("c1", TypeError, "list of column selections"),
        (3, TypeError, "list of column selections"),
        ([slice(0, 0)], ValueError, "'group0' selects no columns"),
        ([("empty", [])], ValueError, "'empty'"),
        ([[0, 13]], ValueError, "'group0' must select columns of X, which has 13"),
        ([[-14]], ValueError, "must select columns"),
        ([[0, 0]], ValueError, "selects a column twice"),
        ([[True] * 5], ValueError, "must select columns"),
        ([[0.5]], ValueError, "must select columns"),
        ([["c1", "nose"]], ValueError, "no column is called"),
        ([("a", [1]), ("a", [2])], ValueError, "different names"),
    ],
)
def test_bad_groups_are_refused(groups, error, match):
    assert_refused_here({"groups": groups}, error, match)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"gate": "shut"}, "gate must be one of 'combined', 'own'"),
        ({"gate_margin": -1.0}, "gate_margin"),
        ({"beta": 0.0}, "beta must be"),
        ({"beta": "tuned"}, "beta must be 'auto'"),
        ({"rank": 0}, "rank must be an integer"),
        ({"rank": 2.5}, "rank must be an integer"),
        ({"eta": 0.1}, "set rank as well"),
        ({"eta": 0.0, "rank": 2}, "eta must be"),
        ({"rank": 2, "psd": "exact"}, "p.s.d. by construction"),
        ({"lam": 1.5}, "lam"),
        ({"init": np.eye(5)}, r"finite \(13, 13\) array"),
        ({"init": "ones"}, "init must be one of 'identity'"),
    ],
)
def test_bad_parameters_are_refused(params, match):
    assert_refused_here(params, ValueError, match)


def assert_refused_here(params, error, match):
    """By fit, before anything changes."""
    model = fit()
    before = (model.shared_, model.weights_, model.n_triplets_)
    with pytest.raises(error, match=match):
        model.set_params(**params).fit(X, Y)
    for one, other in zip(before, (model.shared_, model.weights_, model.n_triplets_), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("params", [{}, {"gate": "own"}, {"rank": 2, "lam": 0.5}])
@pytest.mark.parametrize(
    ("spoil", "match"),
    [(np.nan, "NaN"), (np.inf, "infinity"), (1e80, "too large")],
)
def test_a_refused_batch_leaves_the_weights_alone(params, spoil, match):
    rows = np.random.default_rng(0).normal(size=(24, 4))
    model = OMDML(groups=[[0, 1], [2, 3]], random_state=0, **params).fit(rows, np.arange(24) % 3)
    bad = rows.copy()
    bad[-1, -1] = spoil
    weights = model.weights_
    assert_refused(model, lambda m: m.partial_fit(bad, np.arange(24) % 3), ValueError, match)
    assert len(weights) == 2


def test_units_of_one_group_do_not_matter():
    """Not for mining, nor for learning, nor for the weights."""
    rows = X.copy()
    rows[:, :5] *= 1e6
    here, there = fit(), fit(rows=rows)
    np.testing.assert_allclose(there.scale_, here.scale_ * [1e6, 1], rtol=1e-6)
    np.testing.assert_allclose(there.weights_, here.weights_)
    np.testing.assert_allclose(there.pairwise_score(rows, rows), here.pairwise_score(X, X), rtol=1e-6, atol=1e-9)
    plain = fit(scale=None)
    assert plain.scale_.tolist() == [1.0, 1.0]


def test_columns_in_no_group_do_not_count():
    noisy = np.hstack([X, 100 * np.random.default_rng(0).normal(size=(len(X), 1))])
    with_noise, without = fit(rows=noisy), fit()
    np.testing.assert_array_equal(with_noise.metric_matrix()[:13, :13], without.metric_matrix())
    assert not with_noise.metric_matrix()[13].any()
    assert with_noise.score(noisy, Y) == without.score(X, Y)


@pytest.mark.parametrize("gate", ["own", "combined"])
@pytest.mark.parametrize("useless", ["noise", "constant"])
def test_a_useless_modality_loses_its_weight(gate, useless):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(len(X), 4)) if useless == "noise" else np.full((len(X), 4), 3.0)
    model = fit([slice(0, 13), slice(13, 17)], np.hstack([X, noise]), gate=gate, least_impostors=0)
    assert model.weights_[0] > 0.9
    rounds, weights = model.weights_path_
    assert rounds[0] == 0
    assert rounds[-1] == model.n_triplets_
    assert (np.diff(rounds) > 0).all()
    assert weights[0].tolist() == [0.5, 0.5]
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_array_equal(weights[-1], model.weights_)


def test_beta_one_keeps_the_weights_equal():
    assert fit(beta=1.0).weights_.tolist() == [0.5, 0.5]


def test_in_a_pipeline_with_a_column_transformer():
    """Modalities are what a ColumnTransformer puts side by side."""
    columns = ColumnTransformer([("few", PCA(3), slice(0, 6)), ("plain", "passthrough", slice(6, 13))])
    columns.fit(X)
    metric = OMDML(groups=columns.output_indices_, random_state=0)
    model = make_pipeline(StandardScaler(), columns, paloma.MetricKNeighborsClassifier(metric))
    assert list(model.fit(X, Y)[-1].metric_.groups_) == ["few", "plain"]
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.9
    search = GridSearchCV(model, {"metrickneighborsclassifier__metric__gate": ["own", "combined"]}, cv=3)
    assert search.fit(X, Y).best_score_ > 0.9


@pytest.mark.parametrize("params", [{}, {"gate": "own"}, {"rank": 2}])
def test_nothing_to_learn(params):
    model = fit(n_epochs=1, **params).fit(X, Y, triplets=np.empty((0, 3), int))
    assert model.n_triplets_ == model.n_updates_ == 0
    assert model.weights_.tolist() == [0.5, 0.5]
    far_apart = np.array([[0.0, 0], [0, 1], [99, 9], [99, 8]])
    model = OMDML(groups=[[0], [1]], least_impostors=0, **params).fit(far_apart, [0, 0, 1, 1])
    assert model.n_triplets_ == 0


@pytest.mark.parametrize("params", [{}, {"gate": "own"}, {"rank": 2}])
def test_streams_of_rows(params):
    """Rows in batches, one class at first, classes that come later."""
    order = np.argsort(Y, kind="stable")
    model = OMDML(groups=HALVES, random_state=0, lam=0.6, **params)
    model.partial_fit(X[order[:30]], Y[order[:30]])
    assert model.n_triplets_ == 0
    np.testing.assert_array_equal(model.scale_, [1.0, 1.0])
    for part in np.array_split(np.random.default_rng(0).permutation(order[30:]), 5):
        model.partial_fit(X[part], Y[part])
    assert model.score(X, Y) > 0.9
    assert list(model.classes_) == [0, 1, 2]


def test_remining_and_early_stopping():
    model = fit(remine=True, early_stopping=True, n_epochs=6)
    assert 1 <= model.n_iter_ <= 6
    assert model.score(X, Y) > 0.95
    assert fit(rank=2, remine=True).score(X, Y) > 0.9
