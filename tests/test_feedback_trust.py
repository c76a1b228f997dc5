"""Which marks are likely wrong, and what becomes of them."""

import numpy as np
import pytest

from helpers.feedback import same
from paloma.feedback import FeedbackSearch, Statement, _model, _rows, _trust
from paloma.feedback._rows import Rows
from paloma.feedback._statement import lesson_of
from paloma.feedback._trust import Lists, contradicted, trusted, weighed

N_ITEMS = 600


def classes(seed=0):
    """Forty clusters in ten dimensions, and five others that say nothing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(40, size=N_ITEMS)
    noise = rng.normal(size=(N_ITEMS, 15))
    return np.hstack([2.5 * rng.normal(size=(40, 10))[y] + noise[:, :10], 1.5 * noise[:, 10:]]), y


X, Y = classes()


def erring(n, rate, *, seed=0, user=None, search=None, hidden=Y):
    """n statements of a user of whose marks a share is wrong."""
    search, rng = FeedbackSearch(X) if search is None else search, np.random.default_rng(seed)
    for _ in range(n):
        query = int(rng.integers(N_ITEMS))
        near = np.array(search.search(query, 10, user=user)[1])
        yes = (hidden[near] == hidden[query]) ^ (rng.random(10) < rate)
        search.mark(query, near[yes].tolist(), near[~yes].tolist(), user=user)
    return search


def precision(search):
    return np.mean([Y[search.search(query, 10)[1]] == Y[query] for query in range(N_ITEMS)])


def lessons_of(search):
    return [lesson_of(said, lambda item: item, N_ITEMS) for said in search.log]


def told(*said):
    """Lessons of (user, query, relevant, irrelevant)."""
    numbered = (
        Statement(k, query=q, relevant=yes, irrelevant=no, user=who) for k, (who, q, yes, no) in enumerate(said)
    )
    return [lesson_of(each, lambda item: item, 99) for each in numbered]


@pytest.mark.parametrize(
    ("said", "who"),
    [
        ([("a", 1, [2], [3]), ("a", 2, [4], [3]), ("a", 5, [3], [4])], []),
        ([("a", 1, [2], []), ("a", 2, [], [1])], ["a"]),
        ([("a", 1, [2, 3], []), ("a", 2, [], [3])], ["a"]),
        ([("a", 1, [2], []), ("b", 2, [], [1]), ("b", 7, [8], [9])], []),
        ([("a", 1, [2], []), ("b", 3, [2, 4], []), ("b", 5, [4, 6], []), ("b", 6, [], [3])], ["b"]),
        ([(None, 1, [2], []), (None, 1, [], [2])], [None]),
        ([("a", 1, [], [2])], []),
        ([], []),
    ],
)
def test_who_calls_what_a_chain_connects_irrelevant_contradicts_himself(said, who):
    assert contradicted(told(*said)) == who


@pytest.mark.parametrize("hidden", [Y, Y % 2])
def test_who_never_contradicts_himself_keeps_his_bits(monkeypatch, hidden):
    honest = erring(100, 0.0, hidden=hidden)
    assert not contradicted(lessons_of(honest))
    monkeypatch.setattr(_model, "trusted", lambda lessons, n, rows: lessons[len(lessons) - n :])
    same(honest, erring(100, 0.0, hidden=hidden))


def test_wrong_marks_weigh_less():
    before = lessons_of(erring(200, 0.2))
    after = trusted(before, 200, Rows(X, list(range(N_ITEMS))))
    for name in ("near", "far"):
        pairs, old, new = (np.concatenate([getattr(each, f"{name}{end}") for each in lessons])
                           for end, lessons in (("", before), ("_weight", before), ("_weight", after)))  # fmt: skip
        right, share = (Y[pairs[:, 0]] == Y[pairs[:, 1]]) == (name == "near"), new / old
        assert 0.0 <= share.min() <= share.max() <= 1.0
        assert share[right].mean() > share[~right].mean() + 0.05


def test_a_triplet_is_right_if_both_of_its_marks_are():
    [lesson] = told(("a", 1, [2, 3], [4]))
    right = weighed(lesson, np.array([0.5, 1.0, 0.25]))
    assert (right.near_weight / lesson.near_weight).tolist() == [0.5, 1.0]
    assert (right.far_weight / lesson.far_weight).tolist() == [0.25]
    assert (right.triplet_weight / lesson.triplet_weight).tolist() == [0.125, 0.25]


def test_less_is_lost_to_wrong_marks(monkeypatch):
    with_trust = [precision(erring(200, 0.2, seed=seed)) for seed in range(3)]
    monkeypatch.setattr(_model, "trusted", lambda lessons, n, rows: lessons[len(lessons) - n :])
    without = [precision(erring(200, 0.2, seed=seed)) for seed in range(3)]
    assert np.mean(with_trust) > np.mean(without) + 0.003


@pytest.mark.parametrize("n_signs", [2, 3])
def test_the_share_of_wrong_marks_is_found(n_signs):
    rng = np.random.default_rng(0)
    signs = rng.normal(size=(4000, n_signs))
    chance = 1.0 / (1.0 + np.exp(2.0 * signs[:, 0] - 3.0 * signs[:, 1] - signs[:, 2:].sum(axis=1)))
    for rate in (0.0, 0.2):
        relevant = (rng.random(4000) < chance) ^ (rng.random(4000) < rate)
        found, wrong = _trust._fitted(signs, relevant)
        assert wrong == pytest.approx(rate, abs=0.03)
        assert np.abs(found - chance).mean() < 0.03


def test_what_was_said_near_by_is_a_weighted_mean():
    """One mark after the other, with all lists near enough to speak."""
    lessons, rows = lessons_of(erring(12, 0.2)), Rows(X, list(range(N_ITEMS)))
    lists, points = Lists.of(lessons), rows.unit_rows(np.arange(N_ITEMS)).astype(float)
    mean, expected = lists.relevant.mean(), []
    for k, (q, i) in list(enumerate(lists.pairs))[lists.starts[8] :]:
        weight = np.exp([-(((points[q] - points[a]) ** 2).sum() + ((points[i] - points[b]) ** 2).sum()) / 7.0
                         for a, b in lists.pairs])  # fmt: skip
        weight[k] = 0.0
        expected.append(weight @ (lists.relevant - mean) / (weight.sum() + _trust.IGNORANCE))
    np.testing.assert_allclose(_trust._said_near(lists, 4, rows, 7.0), expected, atol=1e-5)


@pytest.mark.parametrize("most", [8192, 100])
def test_items_that_are_near_query_and_item_are_counted(monkeypatch, most):
    """One pair after the other, for queries that are items and one that is none."""
    monkeypatch.setattr(_rows, "MAX_SOUGHT", most)
    rows, among = Rows(X, list(range(N_ITEMS))), np.linspace(0, N_ITEMS - 1, min(N_ITEMS, most)).astype(int)
    query = X[:3].mean(axis=0)
    like = [int(np.flatnonzero(Y[k] == Y)[-1]) for k in range(20)]
    pairs = np.array([(5, 300), (rows.number(tuple(query)), 0), *enumerate(like)])

    def near(number):
        row = query if number < 0 else X[number]
        return set(among[np.argsort(((X[among] - row) ** 2).sum(axis=1))[: _trust.NEIGHBORS]])

    for number, found in zip([7, -1], rows.nearest(np.array([7, -1]), _trust.NEIGHBORS), strict=True):
        assert set(found) == near(number)
    counts = [len(near(q) & near(i)) for q, i in pairs]
    assert len(set(counts)) > 1
    np.testing.assert_allclose(np.expm1(_trust._shared(pairs, rows)), counts, atol=1e-12)


def test_common_neighbors_tell_wrong_marks(monkeypatch):
    """Among marks called relevant, the weights of right and wrong ones lie farther apart."""
    before = [lessons_of(erring(150, 0.2, seed=seed)) for seed in range(3)]

    def told_apart(lessons):
        after = trusted(lessons, len(lessons), Rows(X, list(range(N_ITEMS))))
        pairs, old, new = (np.concatenate([getattr(each, name) for each in some]) for name, some in
                           (("near", lessons), ("near_weight", lessons), ("near_weight", after)))  # fmt: skip
        right, share = Y[pairs[:, 0]] == Y[pairs[:, 1]], new / old
        return (share[right, None] > share[~right]).mean()

    now = np.mean([told_apart(lessons) for lessons in before])
    monkeypatch.setattr(_trust, "_shared", lambda pairs, rows: np.zeros(len(pairs)))
    assert now > np.mean([told_apart(lessons) for lessons in before]) + 0.005


def test_who_errs_is_undone_to_the_bit():
    search = erring(70, 0.3, user="eve", search=erring(70, 0.1, user="anna"))
    again = FeedbackSearch(X)
    again.tell_all(search.log)
    same(search, again)
    search.undo(20)
    again = FeedbackSearch(X)
    for said in search.log:
        again.tell(said)
    same(search, again)
    assert set(contradicted(lessons_of(search))) == {"anna", "eve"}


def test_marks_of_one_point_leave_a_metric():
    """All distances are zero: nothing tells marks apart."""
    search = FeedbackSearch(np.repeat(np.random.default_rng(0).normal(size=(2, 4)), 20, axis=0))
    for k in range(12):
        search.mark(k, [k + 1, k + 2], [k + 3])
    assert np.isfinite(search.metric_matrix()).all()
