"""What to ask next: questions whose answers teach most."""

import numpy as np

from helpers.feedback import N, X, session
from paloma.feedback import FeedbackSearch
from paloma.feedback._suggest import ONE_IN, STRIDES, Relevance


def test_suggestions_are_new_questions():
    search = session(30)
    asked = {said.query for said in search.log}
    found = search.suggest(5)
    queries = [each.query for each in found]
    assert len(set(queries)) == 5
    assert not asked & set(queries)
    near = search.search(queries[0], N - 1)[1]
    assert list(found[0].show) in [near[::step][:10] for step in STRIDES]
    assert search.suggest(5) == found


def test_relevance_of_marks_by_their_distance():
    rng = np.random.default_rng(0)
    logs, relevant = np.r_[rng.normal(-1, 0.5, 4000), rng.normal(1, 0.5, 4000)], np.arange(8000) < 4000
    likely = Relevance(np.exp(logs), relevant)
    x = np.linspace(-1, 1, 9)
    np.testing.assert_allclose(likely(np.exp(x)), 1 / (1 + np.exp(8 * x)), atol=0.03)
    assert (Relevance(np.ones(3), np.ones(3, bool))(np.array([0.0, 1.0])) == 0.5).all()


def test_what_is_far_is_never_more_likely_to_be_relevant():
    likely = Relevance(np.array([1.0, 1.1, 2.0]), np.array([False, False, True]))
    np.testing.assert_allclose(likely(np.array([0.5, 1.0, 5.0])), 1 / 3)


def test_suggested_results_come_from_the_nearest_items_alone():
    rng = np.random.default_rng(0)
    search = FeedbackSearch(rng.normal(size=(900, 4)))
    for query in range(20):
        near = search.search(query, 10)[1]
        search.mark(query, near[:9], near[9:])
    shown = [(each.query, each.show) for k in (2, 10) for each in search.suggest(5, k=k)]
    assert {len(show) for _, show in shown} == {2, 10}
    for query, show in shown:
        assert set(show) <= set(search.search(query, 900 // ONE_IN)[1])
    [step] = {search.search(query, 45)[1].index(show[1]) for query, show in shown if len(show) == 2}
    assert step == 10  # nine of ten near results are relevant, so that farther ones tell more


def test_a_suggestion_is_far_from_what_was_asked_and_its_marks_are_likely_to_be_mixed():
    search = session(30)
    metric = search.metric_matrix()

    def values(query, items):
        gaps = X[items] - X[query]
        return np.einsum("ij,jk,ik->i", gaps, metric, gaps)

    log = search.log
    marks = [(said.query, item, item in said.relevant) for said in log for item in (*said.relevant, *said.irrelevant)]
    likely = Relevance(np.array([values(q, [item])[0] for q, item, _ in marks]), np.array([yes for *_, yes in marks]))
    free = sorted(set(range(N)) - {said.query for said in log})

    def mixed(query, step):
        share = likely(values(query, search.search(query, 15)[1][: 5 * step : step])).mean()
        return share * (1 - share)

    def apart(query):
        return values(query, [said.query for said in log]).min()

    steps = [step for step in STRIDES if step == 1 or 5 * ONE_IN * step <= N]
    step = max(steps, key=lambda step: np.mean([mixed(query, step) for query in free]))
    [found] = search.suggest(1, k=5, n_tried=N)
    assert found.query == max(free, key=lambda query: mixed(query, step) * apart(query))
    assert list(found.show) == search.search(found.query, 15)[1][: 5 * step : step]


# -- examples ----------------------------------------------------------------------------------------------------------


def test_examples_move_the_query_and_nothing_else():
    """To the mean of the query and what is like it, and half as far again from the mean of what is not."""
    search = session(20)
    M, liked, not_ = search.metric_matrix(), [5, 9], [3, 4, 8]
    for like, unlike in ((liked, []), ([], not_), (liked, not_)):
        point = X[[0, *like]].mean(axis=0)
        point = point + 0.5 * (point - X[unlike].mean(axis=0)) if unlike else point
        gaps = np.delete(X, 0, axis=0) - point
        values = np.einsum("ij,jk,ik->i", gaps, M, gaps)
        distances, items = search.search(0, N - 1, like=like, unlike=unlike)
        np.testing.assert_allclose(distances**2, np.sort(values), rtol=1e-9)
        np.testing.assert_array_equal(items, 1 + np.argsort(values))
        ranked = search.search(0, 3, like=like, unlike=unlike, among=[1, 2, 3, 7])[1]
        assert ranked == [item for item in items if item in (1, 2, 3, 7)][:3]
    assert search.search(0, 9, like=(), unlike=[])[1] == search.search(0, 9)[1]
