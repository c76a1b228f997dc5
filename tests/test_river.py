"""One row at a time: river's own checks, and equality with partial_fit."""

import copy
import pickle

import numpy as np
import pytest

pytest.importorskip("river", reason="needs paloma[river]")

from river import checks, datasets

import paloma
from paloma.stream import RiverClassifier

ROWS = 40


class Short:
    """The first rows of river's dataset, so that every check runs in the quick suite."""

    def __init__(self, dataset):
        self.rows = list(dataset)[:ROWS]

    def __iter__(self):
        return iter(copy.deepcopy(self.rows))


def name_of(check):
    return check.__name__


def all_checks():
    return list(checks.yield_checks(RiverClassifier()))


def test_no_check_is_skipped():
    assert RiverClassifier()._unit_test_skips() == set()
    assert len(all_checks()) > 50


@pytest.mark.parametrize("check", all_checks(), ids=name_of)
def test_river_on_few_rows(check):
    if "dataset" in getattr(check, "keywords", {}):
        check.keywords["dataset"] = Short(check.keywords["dataset"])
    check(RiverClassifier())


@pytest.mark.long
@pytest.mark.parametrize("check", all_checks(), ids=name_of)
def test_river(check):
    check(RiverClassifier())


def rows_of(n, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(3, d))[y] * 2 + rng.normal(size=(n, d)), y


@pytest.mark.parametrize("forget", [0.0, 0.001])
@pytest.mark.parametrize("name", ["OASIS", "LOSL", "ODML", "LODML"])
def test_learn_one_is_partial_fit_with_one_row(name, forget):
    X, y = rows_of(60)
    metric = getattr(paloma, name)(random_state=0, forget=forget)
    model = RiverClassifier(metric, n_neighbors=1)
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one({f"f{k}": v for k, v in enumerate(x)}, label)
        metric.partial_fit(x[None], [label])
    np.testing.assert_array_equal(model.learner.shared_, metric.shared_)
    np.testing.assert_array_equal(model.learner.local_, metric.local_)
    if "ODML" in name:  # a row is nearest to itself, but need not be most similar to itself
        assert model.predict_one({f"f{k}": v for k, v in enumerate(X[7])}) == y[7]


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("name", ["OASIS", "LOSL", "ODML", "LODML"])
def test_new_features_grow_the_metric_and_missing_ones_are_zero(name, average):
    """The same as rows that had all features from the start, with zeros."""
    X, y = rows_of(80)
    seen = np.arange(6)[None, :] < np.array([2, 3, 6, 5])[np.arange(80) // 20][:, None]
    model, metric = (getattr(paloma, name)(random_state=0, average=average, scale="scalar") for _ in range(2))
    model = RiverClassifier(model)
    for x, kept, label in zip(X, seen, y, strict=True):
        model.learn_one({f"f{k}": x[k] for k in np.flatnonzero(kept)}, label)
        metric.partial_fit((x * kept)[None], [label])
    assert model.learner.n_features_in_ == 6
    np.testing.assert_allclose(model.learner.shared_, metric.shared_, atol=1e-12)
    np.testing.assert_allclose(model.learner.local_, metric.local_, atol=1e-12)
    np.testing.assert_allclose(model.learner.metric_matrix(1), metric.metric_matrix(1), atol=1e-12)
    assert model.predict_one({"never learned": 3.0, "f0": 1.0}) in (0, 1, 2)


def test_new_features_need_the_identity_as_a_start():
    model = RiverClassifier(paloma.LODML(init=np.eye(1)))
    model.learn_one({"a": 1.0}, 0)
    with pytest.raises(ValueError, match="init='identity'"):
        model.learn_one({"a": 1.0, "b": 2.0}, 1)


def test_labels_come_back_as_they_were_given():
    model = RiverClassifier(seed=0)
    assert model.predict_one({"a": 1.0}) is None
    for k in range(20):
        model.learn_one({"a": float(k), "b": k % 3}, ("low", "high")[k > 9])
    assert model.predict_one({"a": 1.0}) == "low"
    assert set(model.predict_proba_one({"a": 1.0})) == {"low", "high"}
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba_one({"a": 9.4, "b": 1}) == model.predict_proba_one({"a": 9.4, "b": 1})


def test_learns_phishing():
    right, model = [], RiverClassifier(seed=0)
    for x, y in datasets.Phishing().take(300):
        right.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    assert np.mean(right[100:]) > 0.8


@pytest.mark.parametrize("bad", [({"a": np.nan}, 1), ({"a": "red"}, 1), ({"new": np.inf}, 1), ({"new": 1.0}, "word")])
@pytest.mark.parametrize("n", [0, 20])
def test_a_refused_row_changes_nothing(bad, n):
    X, y = rows_of(30)
    model, twin = (RiverClassifier(paloma.LODML(random_state=0)) for _ in range(2))
    for k in range(30):
        if k == n and (n or bad[1] == 1):
            with pytest.raises((ValueError, TypeError)):
                model.learn_one(*bad)
            assert model.predict_one({"b": 1.0}) == twin.predict_one({"b": 1.0})
        for each in (model, twin):
            each.learn_one(dict(zip("abcdef", X[k], strict=True)), int(y[k]))
    assert model.columns == twin.columns
    np.testing.assert_array_equal(model.learner.shared_, twin.learner.shared_)
    with pytest.raises(ValueError, match="n_neighbors"):
        RiverClassifier(n_neighbors=0)
