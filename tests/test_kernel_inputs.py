"""Kernels by name, callable or precomputed; units, precision, refusals, neighbors."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import chi2_kernel, pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

import paloma
from axes import GAMMA, MEASURES, STREAM, C, T, X, Y, oks
from helpers import inside
from helpers.data import IRIS, LABELS
from same import assert_close
from twins.kernel import all_values, normalized
from twins.kernel import run as kernel_run

# --- kernels ------------------------------------------------------------------------------------------------


def by_matrices(A, B, gamma=GAMMA):
    return rbf_kernel(A, B, gamma=gamma)


def by_rows(a, b):
    return np.exp(-GAMMA * np.sum((a - b) ** 2))


@pytest.mark.parametrize("kernel", [by_matrices, by_rows])
@pytest.mark.parametrize("d", [2, 6])
def test_callables(kernel, d):
    named, called = (oks(k, lam=0.5).fit(X[:, :d], Y, triplets=T) for k in ("rbf", kernel))
    assert_close(called.pairwise_score(X[::9, :d], X[:, :d], Y), named.pairwise_score(X[::9, :d], X[:, :d], Y))
    assert inside.state(called).kernels[0].by_rows == (kernel is by_rows)


@pytest.mark.parametrize("name", ["linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"])
@pytest.mark.parametrize("normalize", [False, True])
def test_every_kernel_by_name(name, normalize):
    rows = X + 0.1  # no row is 0, which cannot be normalized
    gram = pairwise_kernels(rows, metric=name)
    gram = normalized(gram) if normalize else gram
    model = paloma.OKS(kernel=name, normalize=normalize, lam=0.4, C=C, scale=None, n_epochs=1).fit(rows, Y, triplets=T)
    run = kernel_run([gram], T, STREAM.classes, 0.4, 0.6, C)
    assert (run.tau > 0).sum() > 20
    assert_close(model.pairwise_score(rows[::5], rows, Y), all_values("similarity", [gram], run, Y, 0.4, 0.6))


def test_a_kernel_of_positive_rows():
    rows = np.abs(IRIS)
    named, called = (
        paloma.OKS(kernel=kernel, random_state=0).fit(rows, LABELS)
        for kernel in ("chi2", lambda A, B: chi2_kernel(np.array(A), np.array(B)))
    )
    assert_close(named.pairwise_score(rows[::5], rows, LABELS), called.pairwise_score(rows[::5], rows, LABELS))
    assert named.n_updates_ == called.n_updates_ > 100


@pytest.mark.parametrize("kind", [paloma.OKS, paloma.OMKS])
@pytest.mark.parametrize("measure", MEASURES)
def test_units_do_not_matter(kind, measure):
    small, large = (kind(measure=measure, random_state=0).fit(IRIS * unit, LABELS) for unit in (1.0, 1024.0))
    assert large.scale_ == 1024 * small.scale_
    np.testing.assert_allclose(
        large.pairwise_score(IRIS * 1024, IRIS * 1024, LABELS), small.pairwise_score(IRIS, IRIS, LABELS), atol=1e-6
    )


@pytest.mark.parametrize("kind", [paloma.OKS, paloma.OMKS])
def test_float32_stays_float32(kind):
    rows = IRIS.astype(np.float32)
    model, double = (kind(random_state=0).fit(data, LABELS) for data in (rows, IRIS))
    assert model.shared_.dtype == model.support_.dtype == model.pairwise_score(rows, rows).dtype == np.float32
    assert abs(model.score(rows, LABELS) - double.score(IRIS, LABELS)) < 0.03


# --- a precomputed kernel -----------------------------------------------------------------------------------

GRAM = rbf_kernel(IRIS, gamma=0.2)


def test_a_precomputed_kernel_is_the_kernel():
    triplets = paloma.triplets.targets_impostors(IRIS, LABELS, random_state=0)
    params = {"C": 1e-3, "lam": 0.5, "scale": None, "n_epochs": 2}
    named = paloma.OKS(kernel_params={"gamma": 0.2}, **params).fit(IRIS, LABELS, triplets=triplets)
    given = paloma.OKS(kernel="precomputed", **params).fit(GRAM, LABELS, triplets=triplets)
    assert_close(given.pairwise_score(GRAM[::3], GRAM, LABELS), named.pairwise_score(IRIS[::3], IRIS, LABELS))
    assert_close(given.pairwise_score(GRAM, GRAM[::7]), named.pairwise_score(IRIS, IRIS[::7]))
    assert given.triplet_score(GRAM, triplets, LABELS) == named.triplet_score(IRIS, triplets, LABELS)
    assert given.score(GRAM, LABELS) == named.score(IRIS, LABELS)
    np.testing.assert_array_equal(IRIS[given.support_], named.support_)


def test_a_precomputed_kernel_finds_neighbors_under_its_own_distance():
    """An RBF kernel's distance grows with the Euclidean one, so the neighbors are the same."""
    params = {"impostor_margin": 0.0, "scale": None, "random_state": 0}
    from_gram = paloma.OKS(kernel="precomputed", **params).fit(GRAM, LABELS)
    from_rows = paloma.OKS(kernel_params={"gamma": 0.2}, **params).fit(IRIS, LABELS)
    assert from_gram.mined_ == from_rows.mined_
    assert_close(from_gram.pairwise_score(GRAM, GRAM), from_rows.pairwise_score(IRIS, IRIS))
    labels = np.where(np.arange(150) % 4 == 1, -1, LABELS)
    some = [m.set_params(unlabeled=-1).fit(data, labels) for m, data in ((from_gram, GRAM), (from_rows, IRIS))]
    assert some[0].mined_ == some[1].mined_


def test_a_precomputed_kernel_under_cross_validation():
    metric = paloma.OKS(kernel="precomputed", random_state=0)
    search = GridSearchCV(metric, {"C": [1e-4, 1e-3]}, cv=StratifiedKFold(3)).fit(GRAM, LABELS)
    assert search.best_score_ > 0.9
    assert cross_val_score(paloma.MetricKNeighborsClassifier(metric), GRAM, LABELS, cv=3).min() > 0.9
    rows = paloma.OKS(kernel_params={"gamma": 0.2}, scale=None, C=1e-4)
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    triplets = paloma.triplets.targets_impostors(IRIS[train], LABELS[train], random_state=0)
    rows.fit(IRIS[train], LABELS[train], triplets=triplets)
    given = metric.set_params(C=1e-4, scale=None).fit(GRAM[np.ix_(train, train)], LABELS[train], triplets=triplets)
    knn, other = (
        paloma.MetricKNeighborsClassifier(m).fit(data, LABELS[train])
        for m, data in ((rows, IRIS[train]), (given, GRAM[np.ix_(train, train)]))
    )
    np.testing.assert_array_equal(other.predict(GRAM[np.ix_(test, train)]), knn.predict(IRIS[test]))


def test_a_precomputed_kernel_goes_on_with_the_same_rows():
    model = paloma.OKS(kernel="precomputed", random_state=0)
    triplets = paloma.triplets.targets_impostors(IRIS, LABELS, random_state=0)
    for part in np.array_split(triplets, 3):
        model.partial_fit(GRAM, LABELS, triplets=part)
    whole = paloma.OKS(kernel="precomputed", n_epochs=1).fit(GRAM, LABELS, triplets=triplets)
    assert_close(model.pairwise_score(GRAM, GRAM), whole.pairwise_score(GRAM, GRAM))
    model.partial_fit(GRAM[::2], LABELS[::2]).partial_fit(GRAM[1::2], LABELS[1::2])
    assert model.n_triplets_ > len(triplets)


REFUSED = {
    "not square": (lambda: paloma.OKS(kernel="precomputed").fit(GRAM[::3], LABELS[::3]), "square"),
    "normalized": (lambda: paloma.OKS(kernel="precomputed", normalize=True).fit(GRAM, LABELS), "normalize the matrix"),
    "unknown candidates": (
        lambda: paloma.OKS(kernel="precomputed").fit(GRAM, LABELS).pairwise_score(GRAM[:3], GRAM[:3] + 1),
        "candidates must be rows",
    ),
    "several": (lambda: paloma.OMKS(kernels=["precomputed"]).fit(GRAM, LABELS), "precomputed"),
    "no classes": (
        lambda: paloma.OKS(kernel="precomputed").fit(GRAM, triplets=[[0, 1, 99]]).score(GRAM, LABELS), "without y"),
    "no kernel": (lambda: paloma.OKS(kernel="round").fit(IRIS, LABELS), "kernel must be one of"),
    "parameter": (lambda: paloma.OKS(kernel_params={"width": 1}).fit(IRIS, LABELS), "width"),
    "params": (lambda: paloma.OKS(kernel_params=3).fit(IRIS, LABELS), "kernel_params"),
    "none": (lambda: paloma.OMKS(kernels=[]).fit(IRIS, LABELS), "kernels must be a list"),
    "one word": (lambda: paloma.OMKS(kernels="rbf").fit(IRIS, LABELS), "kernels must be a list"),
    "budget": (lambda: paloma.OKS(budget=2).fit(IRIS, LABELS), "budget"),
    "when_full": (lambda: paloma.OKS(when_full="stop").fit(IRIS, LABELS), "when_full"),
    "measure": (lambda: paloma.OKS(measure="angle").fit(IRIS, LABELS), "measure"),
    "cache": (lambda: paloma.OKS(cache_size=-1).fit(IRIS, LABELS), "cache_size"),
    "psd": (lambda: paloma.OKS(psd="end").fit(IRIS, LABELS), "no matrix to project"),
    "remine": (lambda: paloma.OKS(remine=True).fit(IRIS, LABELS), "remine"),
    "beta": (lambda: paloma.OMKS(beta=0.0).fit(IRIS, LABELS), "beta"),
    "delta": (lambda: paloma.OMKS(delta=2.0).fit(IRIS, LABELS), "delta"),
    "combination": (lambda: paloma.OMKS(combination="best").fit(IRIS, LABELS), "combination"),
    "not finite": (lambda: paloma.OKS(kernel=lambda A, B: np.nan * (A @ B.T)).fit(IRIS, LABELS), "finite"),
    "overflow": (
        lambda: paloma.OKS(kernel="poly", kernel_params={"degree": 99, "coef0": 1e9}).fit(IRIS, LABELS), "overflow"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, match = REFUSED[case]
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize("kind", [paloma.OKS, paloma.OMKS])
def test_what_a_kernel_has_not(kind):
    model = kind(random_state=0).fit(IRIS, LABELS)
    for call in (model.metric_matrix, lambda: model.query_vectors(IRIS), lambda: model.item_vectors(IRIS, LABELS)):
        with pytest.raises(TypeError, match="Nystroem"):
            call()
    with pytest.raises(TypeError, match="sparse"):
        model.fit(sp.csr_matrix(IRIS), LABELS)


@pytest.mark.parametrize("measure", MEASURES)
def test_neighbors_are_those_of_all_scores(measure):
    model = paloma.OMKS(lam=0.5, measure=measure, random_state=0).fit(IRIS[::2], LABELS[::2])
    knn = paloma.MetricKNeighborsClassifier(model, n_neighbors=4).fit(IRIS[::2], LABELS[::2])
    scores = model.pairwise_score(IRIS[1::2], IRIS[::2], LABELS[::2])
    np.testing.assert_array_equal(knn.kneighbors(IRIS[1::2])[1], np.argsort(-scores, axis=1, kind="stable")[:, :4])
    inside.whole(model).metric[1][0].cache = 0.0
    again = paloma.MetricKNeighborsClassifier(model, n_neighbors=4).fit(IRIS[::2], LABELS[::2])
    np.testing.assert_array_equal(again.kneighbors(IRIS[1::2])[1], knn.kneighbors(IRIS[1::2])[1])


def test_coefficients_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(inside.kernel_module, "DENSE_LIMIT", 10)
    with pytest.raises(ValueError, match="too large to build"):
        _ = oks().fit(X, Y, triplets=T).shared_
