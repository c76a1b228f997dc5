"""Feedback on odd input: refused, or computed with whatever its size."""

import numpy as np
import pytest

from helpers.feedback import N, X
from paloma.feedback import FeedbackSearch


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda search: search.search(N, 3), "no item"),
        (lambda search: search.search(0, N), "more than the items"),
        (lambda search: search.search(0, 2, among=[0, 1]), "more than the items that there are beside the query, 1"),
        (lambda search: search.search(0, 1, among=[1, -1, N]), rf"no items \[-1, {N}\] to rank"),
        (lambda search: search.search(0, 3, like=[1, N]), rf"no items \[{N}\] to rank, or to move the query by"),
        (lambda search: search.search(0, 3, unlike=["a"]), r"no items \['a'\]"),
        (lambda search: search.search([0.0], 3), "a row of 12 finite numbers"),
        (lambda search: FeedbackSearch(X, lam=1.0), "lam must lie between"),
        (lambda search: FeedbackSearch(X, ids=[0] * N), "different ones"),
        (lambda search: search.search(0, N), f"beside the query, {N - 1}"),
        (lambda search: search.search(["a"] * 12, 3), "a row of 12 finite numbers"),
        (lambda search: search.search([1e300] * 12, 3), "a query has numbers up to"),
        (lambda search: search.search({}, 3), "no item"),
        (lambda search: search.metric_matrix(after=1), "more than what was said"),
        (lambda search: search.undo(since=np.nan), "since must be a number"),
        (lambda search: search.together([1]), "at least two items"),
        (lambda search: search.together("ab"), "at least two items"),
        (lambda search: search.label([1, 2], [None, "a"]), "a label that is missing"),
        (lambda search: search.label([1, 2], [np.nan, 1.0]), "a label that is missing"),
        (lambda search: search.label(1, 1), "one label for each of the 1 items"),
        (lambda search: search.mark(0, None, [1]), "relevant must be a list"),
        (lambda search: search.mark(0, [1], grades=1), "grades must be a list"),
        (lambda search: search.tell(None), "a dict with an id"),
        (lambda search: search.tell({"query": 0, "relevant": [1]}), "a dict with an id"),
        (lambda search: FeedbackSearch(1e101 * X), "overflow; scale it"),
    ],
)
def test_bad_input_is_refused(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call(FeedbackSearch(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("scale", "offset"), [(1e-30, 0.0), (1e30, 0.0), (1.0, 1e4), (1e-12, 0.0), (1.0, 1e8)])
def test_numbers_of_any_size_are_ranked_exactly(dtype, scale, offset):
    rows = (scale * X + offset).astype(dtype)
    search = FeedbackSearch(rows)
    search.mark(0, [1, 2], [3, 4])
    for metric, feedback in ((search.metric_matrix(), True), (np.eye(12), False)):
        gaps = (rows.astype(float) - rows[0].astype(float)) / scale
        values = np.einsum("ij,ij->i", gaps @ (metric / metric.max()), gaps)
        found = search.search(0, 10, feedback=feedback)[1]
        np.testing.assert_allclose(values[found], np.sort(values)[1:11], rtol=1e-4)


@pytest.mark.parametrize("far", [1e8, 1e20, 1e40, 1e300])
def test_a_query_however_far_away_leaves_a_metric(far):
    search = FeedbackSearch(X)
    for k in range(12):
        search.mark(np.r_[far, -far, np.zeros(10)], [k], [k + 1])
        search.mark(k, [k + 2], [k + 3])
        assert np.isfinite(search.metric_matrix()).all()


def test_one_item_of_many_that_is_far_away_leaves_a_metric(monkeypatch):
    """Though it is none of the rows that the scatter is taken from."""
    monkeypatch.setattr("paloma.feedback._start.MAX_ROWS", 10)
    rows = X.copy()
    rows[1] = 1e90
    search = FeedbackSearch(rows)
    for k in range(2, 14):
        search.mark(k, [1], [k + 1])
        assert np.isfinite(search.metric_matrix()).all()


def test_grades_of_any_size_are_learned():
    search = FeedbackSearch(X)
    search.mark(0, [1, 2], grades=[-1e308, 1e308])
    same = FeedbackSearch(X)
    same.mark(0, [1, 2], grades=[0, 1])
    assert np.array_equal(search.metric_matrix(), same.metric_matrix())


def test_learning_that_fails_changes_nothing(monkeypatch):
    search, other = FeedbackSearch(X), FeedbackSearch(X)
    for each in (search, other):
        each.mark(0, [1], [2])
    with monkeypatch.context() as context:
        context.setattr("paloma.feedback._model.root_of", lambda *_: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            search.mark(1, [2], [3])
    assert search.log == other.log
    for each in (search, other):
        each.mark(2, [3], [4])
        each.mark(3, [4], [5], user="anna")
    assert search.log == other.log
    assert np.array_equal(search.metric_matrix("anna"), other.metric_matrix("anna"))


def test_a_blank_user_is_nobody_in_particular():
    search = FeedbackSearch(X)
    for k in range(6):
        search.mark(k, [k + 10], [k + 20])
    before, now = (search.search(0, 5, feedback=feedback)[0] for feedback in (False, True))
    assert np.array_equal(search.search(0, 5, user="")[0], now)
    assert np.array_equal(search.search(0, 5, feedback=False)[0], before)


def test_undo_takes_any_collection_of_ids():
    search = FeedbackSearch(X)
    for k in range(5):
        search.mark(k, [k + 10], [k + 20])
    assert search.undo(np.array([0, 1])) == [0, 1]
    assert search.undo({2}) == [2]
    assert search.undo(np.int64(3)) == [3]
