"""Cross-validation over triplets: which triplets land where, against a literal loop, and the refusals."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold

from paloma import LODML, LOSL, ODML
from paloma.evaluate import cross_validate_triplets
from paloma.triplets import random_triplets

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], 20)
X = RNG.normal(size=(60, 4)) + 2 * np.eye(3, 4)[Y]
TRIPLETS = random_triplets(Y, 2000, RNG)


def literal(estimator, triplets, y, splits, weight=None):
    """Fit on the whole X with the training triplets: rows of no triplet do not matter to the matrices."""
    scores, counts = [], []
    for train, test in splits:
        learned = [t for t, rows in enumerate(triplets) if set(rows) <= set(train)]
        scored = [t for t, rows in enumerate(triplets) if set(rows) <= set(test)]
        model = clone(estimator)
        model.fit(X, y, triplets=triplets[learned], triplet_weight=None if weight is None else weight[learned])
        scores.append(model.triplet_score(X, triplets[scored], y))
        counts.append((len(learned), len(scored)))
    return np.array(scores), np.array(counts).T


@pytest.mark.parametrize("y", [Y, None], ids=["labels", "class-free"])
@pytest.mark.parametrize("kind", [ODML, LODML, LOSL])
def test_equals_the_literal_loop(kind, y):
    estimator = kind(random_state=0)
    result = cross_validate_triplets(estimator, X, TRIPLETS, y, cv=3, random_state=1)
    scores, (n_train, n_test) = literal(estimator, TRIPLETS, y, KFold(3, shuffle=True, random_state=1).split(X))
    assert sorted(result) == ["fit_time", "n_test", "n_train", "test_score"]
    np.testing.assert_allclose(result["test_score"], scores, atol=1e-12)
    np.testing.assert_array_equal(result["n_train"], n_train)
    np.testing.assert_array_equal(result["n_test"], n_test)
    assert result["fit_time"].shape == (3,)
    assert (result["fit_time"] > 0).all()
    assert not hasattr(estimator, "classes_")


def test_weights_go_with_their_triplets():
    weight = RNG.choice([0.0, 3.0], size=len(TRIPLETS))
    estimator = LODML(random_state=0, C=1.0)
    result = cross_validate_triplets(estimator, X, TRIPLETS, Y, cv=3, random_state=1, triplet_weight=weight)
    splits = list(KFold(3, shuffle=True, random_state=1).split(X))
    np.testing.assert_allclose(result["test_score"], literal(estimator, TRIPLETS, Y, splits, weight)[0], atol=1e-12)


def test_the_seed_decides_the_folds():
    one, two, other = (
        cross_validate_triplets(ODML(), X, TRIPLETS, Y, cv=3, random_state=seed)["n_test"] for seed in (0, 0, 1)
    )
    assert list(one) == list(two)
    assert list(one) != list(other)


@pytest.mark.parametrize(
    "cv",
    [
        StratifiedKFold(3),
        ShuffleSplit(3, test_size=0.4, random_state=0),
        np.int64(3),
        list(GroupKFold(3).split(X, Y, groups=np.arange(60) % 6)),
    ],
    ids=["stratified", "shuffle", "numpy int", "iterable"],
)
def test_kinds_of_cv(cv):
    result = cross_validate_triplets(ODML(), X, TRIPLETS, Y, cv=cv, random_state=0)
    assert result["test_score"].shape == (3,)
    assert (result["n_test"] > 0).all()


def test_data_frames_and_string_labels():
    frame, names = pd.DataFrame(X, columns=list("abcd"), index=range(100, 160)), np.array(["p", "q", "r"])[Y]
    plain = cross_validate_triplets(LODML(random_state=0), X, TRIPLETS, Y, cv=3, random_state=0)
    other = cross_validate_triplets(LODML(random_state=0), frame, TRIPLETS.tolist(), names, cv=3, random_state=0)
    np.testing.assert_array_equal(plain["test_score"], other["test_score"])


def test_a_fold_without_triplets_is_named():
    inside = np.array([[0, 1, 2], [3, 4, 5]])
    folds = [(np.arange(30), np.arange(30, 60))]
    with pytest.raises(ValueError, match=r"Fold 0 has no test triplets: none of the 2 triplets .* its 30 rows"):
        cross_validate_triplets(ODML(), X, inside, cv=folds)
    with pytest.raises(ValueError, match="Fold 0 has no training triplets"):
        cross_validate_triplets(ODML(), X, inside, cv=[folds[0][::-1]])
    with pytest.raises(ValueError, match="Fold 0 has no training triplets: none of the 0"):
        cross_validate_triplets(ODML(), X, np.empty((0, 3), int))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"estimator": LogisticRegression()},
            TypeError,
            "learner with triplet_score, got LogisticRegression",
        ),
        ({"X": None}, ValueError, "needs X"),
        ({"triplets": [[0, 1, 60]]}, ValueError, "rows 0 to 59"),
        ({"triplets": [[0, -1, 2]]}, ValueError, "rows 0 to 59"),
        ({"triplets": [[0.0, 1.0, 2.0]]}, ValueError, "integer row numbers"),
        ({"y": Y[:-1]}, ValueError, "59 labels for 60 rows"),
        ({"triplet_weight": [1.0]}, ValueError, "one value for each of the 2000 triplets"),
        ({"cv": 1}, ValueError, "k-fold"),
        ({"cv": "five"}, ValueError, "cv"),
    ],
)
def test_bad_input(change, error, message):
    arguments = {"estimator": ODML(), "X": X, "triplets": TRIPLETS, "y": Y, **change}
    with pytest.raises(error, match=message):
        cross_validate_triplets(**arguments)
