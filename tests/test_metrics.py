"""Retrieval metrics against theory 15 I written out; no label of a query reaches a ranking."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import scale

import paloma
from paloma.evaluate import retrieval
from paloma.metrics import (
    count_relevant,
    hit_at_k,
    mean_average_precision,
    precision_at_k,
    recall_at_k,
    retrieval_report,
)

RANKED = np.array([list("aabba"), list("bbbbb"), list("babab"), list("ccccc")])
QUERIES = np.array(list("aabz"))


def twin(relevance, k, R, cut):
    """(precision, recall, hit, AP) of one query by the formulas of the theory; None where undefined."""
    first = relevance[:k]
    ap = sum(relevance[: r + 1].sum() / (r + 1) for r in range(k if cut else len(relevance)) if relevance[r])
    return (
        first.sum() / k,
        first.sum() / R if R else None,
        float(first.sum() > 0),
        ap / (min(R, k) if cut else R) if R else None,
    )


@st.composite
def lists(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n, m, n_labels = draw(st.integers(1, 6)), draw(st.integers(1, 12)), draw(st.integers(1, 4))
    ranked, y = rng.integers(0, n_labels, (n, m)), rng.integers(0, n_labels + 1, n)
    return ranked, y, draw(st.integers(1, m)), rng.integers(0, 3, n)


@given(lists())
def test_formulas(case):
    ranked, y, k, unseen = case
    relevance = ranked == y[:, None]
    R = relevance.sum(axis=1) + unseen
    rows = [twin(*each, cut) for cut in (False, True) for each in zip(relevance, [k] * len(y), R, strict=True)]
    whole, cut = rows[: len(y)], rows[len(y) :]

    def check(found, column, rows=whole):
        values = [row[column] for row in rows]
        np.testing.assert_allclose(found(None), [np.nan if v is None else v for v in values])
        defined = [v for v in values if v is not None]
        np.testing.assert_allclose(found("micro"), np.mean(defined) if defined else np.nan)
        classes = [
            [v for v, c in zip(values, y, strict=True) if c == label and v is not None] for label in np.unique(y)
        ]
        means = [np.mean(c) for c in classes if c]
        np.testing.assert_allclose(found("macro"), np.mean(means) if means else np.nan)

    check(lambda average: precision_at_k(ranked, y, k, average=average), 0)
    check(lambda average: recall_at_k(ranked, y, k, n_relevant=R, average=average), 1)
    check(lambda average: hit_at_k(ranked, y, k, average=average), 2)
    check(lambda average: mean_average_precision(ranked, y, n_relevant=R, average=average), 3)
    check(lambda average: mean_average_precision(ranked, y, k, n_relevant=R, average=average), 3, cut)


def test_average_precision_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    relevance = rng.random((20, 50)) < 0.2
    ours = mean_average_precision(relevance, average=None)
    theirs = [average_precision_score(row, -np.arange(50)) for row in relevance]
    np.testing.assert_allclose(ours, theirs)


def test_numbers():
    assert precision_at_k(RANKED, QUERIES, 2) == (1 + 0 + 0.5 + 0) / 4
    assert precision_at_k(RANKED, QUERIES, 2, average="macro") == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert hit_at_k(RANKED, QUERIES, 2) == 0.5
    assert recall_at_k(RANKED, QUERIES, 2) == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert recall_at_k(RANKED, QUERIES, 2, n_relevant=[4, 1, 4, 0]) == pytest.approx((0.5 + 0 + 0.25) / 3)
    assert mean_average_precision(RANKED[:1], QUERIES[:1]) == pytest.approx((1 + 1 + 3 / 5) / 3)
    assert mean_average_precision(RANKED[:1], QUERIES[:1], k=2) == 1.0
    assert mean_average_precision(RANKED[:1], QUERIES[:1], k=2, n_relevant=1000) == 1.0  # AP@2 divides by min(R, 2)
    np.testing.assert_array_equal(count_relevant(QUERIES, list("aaabz")), [3, 3, 1, 1])
    np.testing.assert_array_equal(count_relevant(QUERIES, []), 0)


def test_natural_ways_to_call():
    relevance = QUERIES[:, None] == RANKED
    expected = precision_at_k(RANKED, QUERIES, 2)
    for found in (
        precision_at_k(QUERIES, RANKED, 2),
        precision_at_k(QUERIES.tolist(), RANKED.tolist(), k=2),
        precision_at_k(relevance, k=2),
        precision_at_k(relevance.astype(int), 2),
        precision_at_k(relevance.tolist(), k=2),
    ):
        assert found == expected
    ids, wanted = [[7, 3, 9], [1, 2, 3]], [{3, 9, 11, 12}, []]
    assert precision_at_k(ids, wanted, k=2) == 0.25
    assert recall_at_k(ids, wanted, k=3) == 0.5
    assert recall_at_k([7, 3, 9], [3, 9, 11, 12], k=2) == 0.25
    assert hit_at_k([7, 3, 9], {3}, k=1) == 0.0
    assert precision_at_k([1, 0, 1], k=2) == 0.5
    assert precision_at_k(np.tile(RANKED, 3), QUERIES) == precision_at_k(np.tile(RANKED, 3), QUERIES, 10)


def test_report_counts_queries_without_relevant_items():
    report = retrieval_report(RANKED, QUERIES, 2, n_relevant=[3, 5, 3, 0])
    assert (report["n_queries"], report["n_without_relevant"]) == (4, 1)
    assert report["precision@2"] == precision_at_k(RANKED, QUERIES, 2)
    assert report["recall@2 macro"] == recall_at_k(RANKED, QUERIES, 2, n_relevant=[3, 5, 3, 0], average="macro")
    assert report["mAP"] == mean_average_precision(RANKED, QUERIES, n_relevant=[3, 5, 3, 0])
    assert report["AP@2"] == mean_average_precision(RANKED, QUERIES, 2, n_relevant=[3, 5, 3, 0])
    assert report["hit@2"] == 0.5
    assert "mAP macro" not in retrieval_report(RANKED == "a", k=2)
    assert np.isnan(mean_average_precision(RANKED, np.repeat("z", 4)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: precision_at_k(RANKED, QUERIES, 6), ValueError, "k=6 is more than the 5 ranks"),
        (lambda: precision_at_k(RANKED, QUERIES, 0), ValueError, "at least 1"),
        (lambda: precision_at_k(RANKED, QUERIES[:3], 2), ValueError, "each of the 3 queries"),
        (lambda: precision_at_k(RANKED, [1, 2, 3, 4], 2), TypeError, "the same type"),
        (lambda: precision_at_k([[3, 4]], k=2), ValueError, "must contain relevance"),
        (lambda: precision_at_k(RANKED, QUERIES, 2, average="mean"), ValueError, "'micro', 'macro'"),
        (lambda: precision_at_k(RANKED == "a", k=2, average="macro"), ValueError, "needs the query labels"),
        (lambda: recall_at_k(RANKED, QUERIES, 2, n_relevant=1), ValueError, "less than the number"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


# --- no leakage -------------------------------------------------------------------------------------------

X, Y = load_wine(return_X_y=True)
X = scale(X) + 1e-3 * np.random.default_rng(0).normal(size=X.shape)
METRIC = paloma.LODML(random_state=0).fit(X[::3], Y[::3])
DATABASE, QUERY = np.arange(len(X)) % 3 == 1, np.arange(len(X)) % 3 == 2


def evaluated(y_query=Y[QUERY], y=Y[DATABASE], **options):
    return retrieval(METRIC, X[DATABASE], y, X[QUERY], y_query, **options)


def test_labels_of_queries_never_reach_the_ranking(monkeypatch):
    rankings = []
    rank = paloma.MetricIndex.rank
    monkeypatch.setattr(paloma.MetricIndex, "rank", lambda self, Q: rankings.append(rank(self, Q)) or rankings[-1])
    right, wrong = evaluated(), evaluated((Y[QUERY] + 1) % 3)
    np.testing.assert_array_equal(*rankings)
    assert right["mAP"] > 0.85 > 0.3 > wrong["mAP"]


def test_without_labels_of_the_database_they_are_not_used_either(monkeypatch):
    """With classes=None or estimated, other true labels of the items change the report but not the ranking."""
    rankings = []
    rank = paloma.MetricIndex.rank
    monkeypatch.setattr(paloma.MetricIndex, "rank", lambda self, Q: rankings.append(rank(self, Q)) or rankings[-1])
    shares = paloma.MetricKNeighborsClassifier(METRIC, n_neighbors=5).fit(X[::3], Y[::3]).predict_proba(X[DATABASE])
    for classes in (None, shares):
        for y in (Y[DATABASE], (Y[DATABASE] + 1) % 3):
            evaluated(y=y, classes=classes)
        np.testing.assert_array_equal(*rankings[-2:])
    known = evaluated()
    np.testing.assert_array_equal(
        rankings[-1], METRIC.pairwise_score(X[QUERY], X[DATABASE], Y[DATABASE]).argsort()[:, ::-1]
    )
    shared, estimated = evaluated(classes=None), evaluated(classes=shares)
    assert known["n_queries"] == QUERY.sum()
    assert shared["mAP"] != known["mAP"] != estimated["mAP"]
    assert min(shared["mAP"], estimated["mAP"]) > 0.8


def test_euclid_to_compare_with():
    order = np.linalg.norm(X[QUERY][:, None] - X[DATABASE], axis=2).argsort(axis=1)
    report = retrieval(None, X[DATABASE], Y[DATABASE], X[QUERY], Y[QUERY])
    assert report["mAP"] == pytest.approx(mean_average_precision(Y[DATABASE][order], Y[QUERY]))
    assert report["mAP"] < evaluated()["mAP"]


def test_queries_of_classes_that_the_database_lacks_are_counted():
    report = evaluated(np.where(np.arange(QUERY.sum()) < 5, 7, Y[QUERY]))
    assert report["n_without_relevant"] == 5
