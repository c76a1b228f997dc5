"""Bad input: a clear error of the right type, and the model after the refused call is the one before it."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import paloma
from axes import GLOBAL, TABLE
from helpers.refusal import assert_refused

LEARNERS = list(TABLE)
N, D = 24, 4
RNG = np.random.default_rng(8)
Y = np.arange(N) % 3
X = RNG.normal(size=(N, D)) + Y[:, None]
T = RNG.integers(N, size=(20, 3))
POINTS = X[T]
ONES = np.ones(len(T))


def spoilt(array, value, where=(-1, -1)):
    """A copy with one bad entry, at the end, so that a loop that checks as it goes has already stepped."""
    bad = np.array(array)
    bad[(*where,) if bad.ndim > 1 else where[-1]] = value
    return bad


def fitted(name, **params):
    return getattr(paloma, name)(random_state=0, **params).fit(X, Y)


NAN, INFINITE, LARGE = r"(?i)nan", r"(?i)inf", r"(?i)large|overflow"
LENGTH, SHAPE, RANGE = r"(?i)length|inconsistent", r"(?i)shape|columns|\(n, 3\)", r"(?i)row|range"
TRIPLETS, WEIGHT, FEATURE = r"(?i)triplet", r"(?i)weight", r"(?i)feature"
EMPTY = r"(?i)0 sample|empty|at least"
KIND = (TypeError, ValueError)
CALLS = {  # what is given to fit and to partial_fit: (X, y, keywords), error, message
    "nan in X": ((spoilt(X, np.nan), Y, {}), ValueError, NAN),
    "inf in X": ((spoilt(X, np.inf), Y, {}), ValueError, INFINITE),
    "minus inf in X": ((spoilt(X, -np.inf), Y, {}), ValueError, INFINITE),
    "nan in X with triplets": ((spoilt(X, np.nan), Y, {"triplets": T}), ValueError, NAN),
    "nan in y": ((X, spoilt(Y.astype(float), np.nan), {}), ValueError, NAN),
    "triplet row too large": ((X, Y, {"triplets": spoilt(T, N)}), ValueError, RANGE),
    "triplet row negative": ((X, Y, {"triplets": spoilt(T, -1)}), ValueError, r"(?i)row|range|negative"),
    "triplets of floats": ((X, Y, {"triplets": T.astype(float)}), KIND, r"(?i)integer"),
    "triplets of nan": ((X, Y, {"triplets": spoilt(T * 1.0, np.nan)}), KIND, r"(?i)integer|nan"),
    "triplets of words": ((X, Y, {"triplets": T.astype(str)}), KIND, TRIPLETS),
    "triplets of two": ((X, Y, {"triplets": T[:, :2]}), ValueError, SHAPE),
    "triplets flat": ((X, Y, {"triplets": T.ravel()}), ValueError, SHAPE),
    "row triplets without X": ((None, None, {"triplets": T}), KIND, TRIPLETS),
    "nothing at all": ((None, None, {}), KIND, r"(?i)X"),
    "neither y nor triplets": ((X, None, {}), KIND, r"(?i)\by\b|triplets"),
    "y too short": ((X, Y[:-1], {}), ValueError, LENGTH),
    "y too short with triplets": ((X, Y[:-1], {"triplets": T}), ValueError, LENGTH),
    "empty X": ((X[:0], Y[:0], {}), ValueError, EMPTY),
    "X of one dimension": ((X[0], Y[:1], {}), ValueError, r"(?i)2D|dimension|shape"),
    "X of words": ((np.full((N, D), "a"), Y, {}), KIND, r"(?i)convert|numeric|string|dtype"),
    "nan in points": ((None, None, {"triplets": spoilt(POINTS, np.nan, (-1, -1, -1))}), ValueError, NAN),
    "inf in points": ((None, None, {"triplets": spoilt(POINTS, np.inf, (-1, -1, -1))}), ValueError, INFINITE),
    "a class a triplet": ((None, Y[T[:, 1]], {"triplets": POINTS}), ValueError, r"must have shape \(20, 3\)"),
    "pairs of points": ((None, None, {"triplets": POINTS[:, :2]}), ValueError, SHAPE),
    "weight negative": ((X, Y, {"triplets": T, "triplet_weight": spoilt(ONES, -1)}), ValueError, WEIGHT),
    "weight nan": ((X, Y, {"triplets": T, "triplet_weight": spoilt(ONES, np.nan)}), ValueError, WEIGHT),
    "weight inf": ((X, Y, {"triplets": T, "triplet_weight": spoilt(ONES, np.inf)}), ValueError, WEIGHT),
    "weights too few": ((X, Y, {"triplets": T, "triplet_weight": ONES[1:]}), ValueError, WEIGHT),
    "weights of words": ((X, Y, {"triplets": T, "triplet_weight": ["a"] * len(T)}), ValueError, WEIGHT),
    "weight beyond reason": ((X, Y, {"triplets": T, "triplet_weight": 1e308 * ONES}), ValueError, WEIGHT),
    "rows of two lengths": (([[1.0], *X.tolist()], [0, *Y], {}), ValueError, "rows of X must all be of one length"),
    "triplets of two lengths": ((X, Y, {"triplets": [[0, 1], [0, 1, 2]]}), ValueError, "triplets must be .* lengths"),
    "points without features": ((None, None, {"triplets": POINTS[:, :, :0]}), ValueError, r"(?i)0 feature"),
    "None in y": ((X, [None, *Y[1:].tolist()], {}), ValueError, "of type NoneType, int"),
    "dates in y": ((X, Y.astype("M8[D]"), {}), ValueError, "strings or numbers, got dtype datetime64"),
    "lists in y": ((X, [[1], [1, 2], *Y[2:].tolist()], {}), ValueError, "of type int, list"),
}  # fmt: skip


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("name", LEARNERS)
def test_data_is_refused(name, case, method):
    (data, labels, keywords), error, match = CALLS[case]
    assert_refused(fitted(name), lambda model: getattr(model, method)(data, labels, **keywords), error, match)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", LEARNERS)
def test_refused_before_the_first_fit_leaves_it_unfitted(name, method):
    model = getattr(paloma, name)()
    for (data, labels, keywords), error, match in CALLS.values():
        with pytest.raises(error, match=match):
            getattr(model, method)(data, labels, **keywords)
    with pytest.raises(NotFittedError):
        model.metric_matrix()
    assert not [word for word in vars(model) if word.endswith("_")]


WIDE, NARROW = np.ones((5, D + 1)), np.ones((5, D - 1))
ASKING = {
    "partial_fit": lambda m, A: m.partial_fit(A, np.arange(len(A)) % 2),
    "partial_fit points": lambda m, A: m.partial_fit(None, triplets=np.stack([A, A, A], axis=1)),
    "pair_score": lambda m, A: m.pair_score(np.stack([A, A], axis=1)),
    "pairwise_score": lambda m, A: m.pairwise_score(A, X),
    "pairwise_score items": lambda m, A: m.pairwise_score(X, A),
    "query_vectors": lambda m, A: m.query_vectors(A),
    "item_vectors": lambda m, A: m.item_vectors(A, np.zeros(len(A), dtype=int)),
    "score": lambda m, A: m.score(A, np.arange(len(A)) % 2),
    "triplet_score": lambda m, A: m.triplet_score(A, np.array([[0, 1, 2]])),
}
ASKING_DISTANCE = {
    "pair_distance": lambda m, A: m.pair_distance(np.stack([A, A], axis=1)),
    "transform": lambda m, A: m.transform(A),
}
ASKED = [(name, how) for name in LEARNERS for how in ASKING] + [
    (name, how) for name in ("ODML", "LODML", "SLMOML") for how in ASKING_DISTANCE
]


@pytest.mark.parametrize(("name", "how"), ASKED)
@pytest.mark.parametrize(
    ("data", "match"),
    [(WIDE, FEATURE), (NARROW, FEATURE), (spoilt(X, np.nan), NAN), (spoilt(X, np.inf), INFINITE), (1e200 * X, LARGE)],
    ids=["wide", "narrow", "nan", "inf", "huge"],
)
def test_wrong_features_and_values_in_every_method(name, how, data, match):
    call = (ASKING | ASKING_DISTANCE)[how]
    assert_refused(fitted(name), lambda model: call(model, data), ValueError, match)


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, how in ASKED if "partial_fit" not in how])
def test_not_fitted(name, how):
    with pytest.raises(NotFittedError, match=name):
        (ASKING | ASKING_DISTANCE)[how](getattr(paloma, name)(), X)


@pytest.mark.parametrize("name", LEARNERS)
def test_no_triplets_have_no_score(name):
    none = np.empty((0, 3), int)
    assert_refused(fitted(name), lambda model: model.triplet_score(X, none, Y), ValueError, "at least one triplet")


@pytest.mark.parametrize("method", ["get_metric", "get_mahalanobis_matrix"])
@pytest.mark.parametrize("name", ["ODML", "LODML", "SLMOML"])
def test_not_fitted_metric_learn_methods(name, method):
    with pytest.raises(NotFittedError, match=name):
        getattr(getattr(paloma, name)(), method)()


PARAMS = [
    ("C", 0), ("C", -1.0), ("C", np.nan), ("C", "big"), ("lam", -0.1), ("lam", 1.1), ("lam", np.nan),
    ("step", "leap"), ("psd", "sometimes"), ("psd", 0), ("psd", -3), ("scale", "large"),
    ("average", "perhaps"), ("margin", np.nan), ("init", "random"), ("step_params", {"speed": 1.0}),
    ("step", ["pa1", "pa2"]), ("step_params", {"speed": 1.0, 1: 2.0}), ("step_params", ["gamma", 1.0]),
    ("block_size", 0), ("block_size", "big"), ("n_epochs", 0), ("n_targets", 0), ("n_impostors", 0),
    ("remine", "yes"), ("early_stopping", "no"), ("verbose", "loud"), ("verbose", -1),
]  # fmt: skip


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(("param", "value"), PARAMS)
@pytest.mark.parametrize("name", LEARNERS)
def test_parameters_are_refused(name, param, value, method):
    if name in GLOBAL.values() and param == "lam":
        with pytest.raises(TypeError, match="lam"):
            getattr(paloma, name)(lam=value)
        return

    def call(model):
        getattr(model.set_params(**{param: value}), method)(X, Y)

    assert_refused(fitted(name), call, KIND, rf"\b{param}\b")


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("name", LEARNERS)
def test_booleans_of_numpy_are_booleans(name, value, tmp_path):
    """A grid of parameters that is an array holds NumPy's."""
    found = []
    for given in (value, np.bool_(value)):
        model = getattr(paloma, name)(random_state=0, n_epochs=2)
        for word in ("guard", "average", "balanced", "remine", "early_stopping", "verbose"):
            try:
                type(model)(**{**model.get_params(), word: given}).fit(X, Y)
            except (TypeError, ValueError):
                assert value  # some cannot do what True asks for; False is refused by none
            else:
                model.set_params(**{word: given})
        paloma.save(model.fit(X, Y), tmp_path / "model.paloma")
        again = paloma.load(tmp_path / "model.paloma")
        found.append((repr(again.get_params()), again.state_token_))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "SLMOML"])
def test_a_logistic_step_needs_a_bound(name):
    def call(model):
        model.set_params(step="logistic", C=np.inf).fit(X, Y)

    assert_refused(fitted(name), call, ValueError, r"\bC\b.*finite")


@pytest.mark.parametrize("init", [np.eye(D + 1), np.ones(D), np.full((D, D), np.nan)], ids=["size", "1-D", "nan"])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_start_is_refused(name, init):
    assert_refused(fitted(name), lambda model: model.set_params(init=init).fit(X, Y), ValueError, r"\binit\b")


@pytest.mark.parametrize("name", LEARNERS)
def test_fit_on_one_class_is_refused_and_a_batch_of_one_class_is_not(name):
    one = np.zeros(N, dtype=int)
    assert_refused(fitted(name), lambda model: model.fit(X, one), ValueError, r"(?i)class")
    model = getattr(paloma, name)(random_state=0).partial_fit(X[Y == 0], Y[Y == 0])
    assert model.n_triplets_ == 0
    model.partial_fit(X[Y == 1], Y[Y == 1])
    assert list(model.classes_) == [0, 1]
    assert model.n_triplets_ > 0


@pytest.mark.filterwarnings("ignore::UserWarning")  # it may say that some rows gave no anchor
@pytest.mark.parametrize("name", LEARNERS)
def test_a_class_with_one_member_is_kept_but_gives_no_anchor(name):
    labels = Y.copy()
    labels[5] = 7
    model = getattr(paloma, name)(random_state=0).fit(X, labels)
    assert list(model.classes_) == [0, 1, 2, 7]
    assert np.isfinite(model.pairwise_score(X, X, labels)).all()
    triplets = paloma.triplets.targets_impostors(X, labels, impostor_margin=10.0, n_impostors=N)
    assert 5 not in triplets[:, :2]
    assert 5 in triplets[:, 2]


@pytest.mark.parametrize("factor", [1e80, 1e200])
@pytest.mark.parametrize("given", ["labels", "triplets", "points"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", LEARNERS)
def test_values_that_would_overflow_a_step(name, method, given, factor):
    """||a||^4 overflows float64 from 1e77 on."""
    huge = X.copy()
    huge[-1] *= factor
    triplets = np.vstack([T, [[N - 1, 0, 1], [0, N - 1, 1]]])
    arguments, keywords = {
        "labels": ((huge, Y), {}),
        "triplets": ((huge, Y), {"triplets": triplets}),
        "points": ((None,), {"triplets": huge[triplets]}),
    }[given]
    model = fitted(name, scale=None)
    assert_refused(model, lambda model: getattr(model, method)(*arguments, **keywords), ValueError, LARGE)


@pytest.mark.parametrize("name", LEARNERS)
def test_overflow_in_float32_and_under_a_frozen_scale(name):
    huge = (X * 1e30).astype(np.float32)
    with pytest.raises(ValueError, match=LARGE):
        getattr(paloma, name)(scale=None).fit(huge, Y, triplets=T)
    assert_refused(fitted(name), lambda model: model.partial_fit(X * 1e200, Y), ValueError, LARGE)


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in ("OKS", "OMKS")])
def test_units_too_small_for_float32(name):
    """M in the units of X is about 1 / scale^2, and was infinite."""
    tiny = (X * 1e-20).astype(np.float32)
    with pytest.raises(ValueError, match=r"too small.*float64"):
        getattr(paloma, name)().fit(tiny, Y)
    assert np.isfinite(getattr(paloma, name)().fit(tiny.astype(float), Y).metric_matrix()).all()


# --- the classifier -------------------------------------------------------------------------------------

KNN_CALLS = ("nan in X", "inf in X", "nan in y", "y too short", "empty X", "X of one dimension", "X of words")
KNN_FIT = {
    **{case: CALLS[case] for case in KNN_CALLS},
    "one class": ((X, 0 * Y, {}), ValueError, r"(?i)class"),
}


@pytest.mark.parametrize("case", KNN_FIT)
@pytest.mark.parametrize("name", LEARNERS)
def test_the_classifier_refuses_data(name, case):
    (data, labels, _), error, match = KNN_FIT[case]
    knn = paloma.MetricKNeighborsClassifier(getattr(paloma, name)(random_state=0)).fit(X, Y)
    before, classes = knn.predict_proba(X), knn.classes_.copy()
    with pytest.raises(error, match=match):
        knn.fit(data, labels)
    assert np.array_equal(knn.predict_proba(X), before)
    assert np.array_equal(knn.classes_, classes)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "kneighbors"])
@pytest.mark.parametrize(
    ("query", "match"),
    [(WIDE, FEATURE), (spoilt(X, np.nan), NAN), (spoilt(X, np.inf), INFINITE), (X[:0], EMPTY), (1e200 * X, LARGE)],
    ids=["wide", "nan", "inf", "empty", "huge"],
)
def test_the_classifier_refuses_queries(query, match, method):
    knn = paloma.MetricKNeighborsClassifier().fit(X, Y)
    before = knn.predict_proba(X)
    with pytest.raises(ValueError, match=match):
        getattr(knn, method)(query)
    assert np.array_equal(knn.predict_proba(X), before)


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"classes": 3}, "1d array"),
        ({"classes": [0, None]}, "of type NoneType, int"),
        ({"sample_weight": ["a"] * N}, "sample_weight must have one value for each of the 24 rows of X, each a number"),
        ({"sample_weight": [1e308] * N}, "sample_weight must be finite"),
    ],
)
def test_the_classifier_refuses_classes_and_weights(keywords, match):
    knn = paloma.MetricKNeighborsClassifier().fit(X, Y)
    before = knn.predict_proba(X)
    with pytest.raises(ValueError, match=match):
        knn.partial_fit(X, Y, **keywords)
    assert np.array_equal(knn.predict_proba(X), before)
    assert knn.n_streamed_ == 0


def test_the_classifier_counts_the_other_rows():
    knn = paloma.MetricKNeighborsClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="n_neighbors=24 is more than the 23 other rows"):
        knn.kneighbors(n_neighbors=N)
    with pytest.raises(ValueError, match="n_neighbors=1 is more than the 0 other rows"):
        paloma.MetricKNeighborsClassifier().partial_fit(X[:1], Y[:1]).kneighbors()


def test_a_row_is_too_large_by_the_units_of_the_metric():
    metric = paloma.LODML(random_state=0).fit(1e50 * X, Y)
    assert np.isfinite(metric.pairwise_score(1e60 * X, 1e50 * X, Y)).all()
    narrow = paloma.LODML(random_state=0).fit(1e-50 * X, Y)
    with pytest.raises(ValueError, match=LARGE):
        narrow.pairwise_score(1e60 * X, 1e-50 * X, Y)


@pytest.mark.parametrize("n_neighbors", [0, -1, "three", N + 1])
def test_the_classifier_refuses_its_own_parameter(n_neighbors):
    knn = paloma.MetricKNeighborsClassifier(n_neighbors=n_neighbors)
    with pytest.raises(KIND, match="n_neighbors"):
        knn.fit(X, Y).predict(X)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "kneighbors"])
def test_the_classifier_is_not_fitted(method):
    with pytest.raises(NotFittedError, match="MetricKNeighborsClassifier"):
        getattr(paloma.MetricKNeighborsClassifier(), method)(X)


def test_the_classifier_refuses_what_is_no_metric():
    with pytest.raises(KIND, match=r"(?i)metric"):
        paloma.MetricKNeighborsClassifier(metric="euclidean").fit(X, Y)
