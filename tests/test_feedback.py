"""Learning from feedback: statements, the log as the model, undo, the guard, users, explanations, files."""

import json
import os
import pickle

import numpy as np
import pytest
from scipy.linalg import sqrtm

import paloma
from helpers.feedback import D, N, X, precision, same, session
from paloma.feedback import FeedbackSearch, Statement
from paloma.feedback._guard import STRENGTHS
from paloma.feedback._model import LONG_PAGE, PAGE
from paloma.feedback._start import FAR_WEIGHT, PRIOR, root_of, scatter_of
from paloma.feedback._statement import IMPLIED, MAX_TAUGHT, lesson_of

# -- statements --------------------------------------------------------------------------------------------------------


def test_statements_are_plain_data():
    said = Statement(
        id="a", query=[0.5] * D, relevant=np.array([1, 2]), grades=[2, 1], irrelevant=(3,), user="anna", time=3
    )
    again = Statement.from_dict(json.loads(json.dumps(said.as_dict())))
    assert again == said
    assert Statement(id=0, sets=[[1, 2], [3]]).as_dict() == {"id": 0, "sets": ((1, 2), (3,))}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({}, "give a query with relevant or irrelevant items, or sets"),
        ({"query": 1}, "give a query"),
        ({"relevant": [1]}, "give a query"),
        ({"query": 1, "relevant": [2], "sets": [[3, 4]]}, "not both"),
        ({"query": 1, "relevant": [1]}, "the query is among"),
        ({"query": 1, "relevant": [2], "irrelevant": [2]}, "twice"),
        ({"query": 1, "relevant": [2, 3], "grades": [1]}, "one number for each of the 2"),
        ({"query": [np.nan], "relevant": [2]}, "finite"),
        ({"query": 1, "relevant": [2], "user": " "}, "not blank"),
    ],
)
def test_statements_that_say_nothing_are_refused(content, sentence):
    with pytest.raises(ValueError, match=sentence):
        Statement(id=0, **content)


def test_a_refused_statement_changes_nothing():
    search, other = session(7), session(7)
    for wrong in ({"relevant": [N]}, {"relevant": [1], "query": [1.0]}, {"relevant": [1], "colour": 1}):
        with pytest.raises(ValueError, match=r"no items|numbers, but items have|unknown entries"):
            search.tell({"id": 99, "query": 0, **wrong})
    same(search, other)


def test_a_statement_weighs_at_most_one_however_long_it_is():
    lessons = [
        lesson_of(Statement(id=0, query=0, relevant=range(1, 1 + n), irrelevant=range(100, 100 + n)), int, N)
        for n in (1, 3, 40)
    ]
    for lesson in lessons:
        weights = lesson.near_weight, lesson.far_weight, lesson.triplet_weight
        assert [weight.sum() for weight in weights] == pytest.approx([0.5**0.5, 0.5**0.125, 1.0])
        assert len(lesson.triplets) <= MAX_TAUGHT
    assert len(lessons[1].triplets) == 9


@pytest.mark.parametrize(
    ("content", "sums"),
    [
        ({"query": 0, "relevant": [1], "irrelevant": range(2, 11)}, [0.1**0.5, 0.9**0.125, 0.6]),
        ({"query": 0, "relevant": range(2, 101), "irrelevant": [1]}, [0.99**0.5, 0.01**0.125, 0.0396**0.5]),
        ({"query": 0, "relevant": [1, 2]}, [1.0, 0.0, IMPLIED]),
        ({"query": 0, "irrelevant": [1, 2]}, [0.0, 1.0, 0.0]),
        ({"query": 0, "relevant": [1, 2], "grades": [1, 2]}, [1.0, 0.0, 1.0]),
        ({"sets": [[1, 2], [3, 4, 5], [6]]}, [1.0, 1.0, 1.0]),
    ],
)
def test_a_click_among_few_of_its_kind_weighs_less(content, sums):
    lesson = lesson_of(Statement(id=0, **content), int, N)
    weights = lesson.near_weight, lesson.far_weight, lesson.triplet_weight
    assert [weight.sum() for weight in weights] == pytest.approx(sums)


def test_grades_order_the_relevant_among_themselves():
    lesson = lesson_of(Statement(id=0, query=0, relevant=[1, 2, 3], grades=[3, 1, 1], irrelevant=[4]), int, N)
    taught = {tuple(t): w for t, w in zip(lesson.triplets.tolist(), lesson.triplet_weight, strict=True)}
    assert taught.keys() == {(0, 1, 4), (0, 2, 4), (0, 3, 4), (0, 1, 2), (0, 1, 3)}
    assert taught[0, 1, 4] == pytest.approx(2 * taught[0, 2, 4])


def test_labels_are_sets_that_stay_apart():
    search = FeedbackSearch(X)
    search.label([1, 2, 3, 4], ["b", "a", "b", "c"])
    (said,) = search.log
    assert said.sets == ((2,), (1, 3), (4,))
    lesson = lesson_of(said, int, N)
    assert {tuple(pair) for pair in lesson.near.tolist()} == {(1, 3), (3, 1)}
    assert (1, 3, 4) in {tuple(triplet) for triplet in lesson.triplets.tolist()}


def test_every_kind_of_statement_moves_the_metric():
    search, before = FeedbackSearch(X), FeedbackSearch(X).metric_matrix()
    for say in (
        lambda: search.mark(0, [1, 2], [3]),
        lambda: search.mark(X[5] + 0.1, [7]),
        lambda: search.compare(4, 5, 6),
        lambda: search.together([7, 8, 9]),
        lambda: search.label([10, 11, 12], [0, 0, 1]),
    ):
        say()
        after = search.metric_matrix()
        assert not np.array_equal(after, before)
        before = after


def test_saying_it_twice_changes_nothing():
    search = session(7)
    before, said = search.metric_matrix(), search.log[3]
    assert search.tell(said.as_dict()) == said.id
    assert np.array_equal(search.metric_matrix(), before)
    with pytest.raises(ValueError, match="with other content"):
        search.tell({**said.as_dict(), "user": "eve"})


# -- the start ---------------------------------------------------------------------------------------------------------


def test_without_statements_distances_are_euclidean():
    search = FeedbackSearch(X)
    metric = search.metric_matrix()
    assert np.allclose(metric, np.eye(D) * metric[0, 0])
    squares = ((X[:, None] - X) ** 2).sum(axis=2).mean() * N / (N - 1) * metric[0, 0]
    assert squares == pytest.approx(1.0, rel=0.02)
    distances, ids = search.search(0, 5)
    direct = np.linalg.norm(X - X[0], axis=1) * np.sqrt(metric[0, 0])
    assert ids == np.argsort(direct)[1:6].tolist()
    assert distances == pytest.approx(np.sort(direct)[1:6])


def test_the_start_is_a_geometric_mean_of_scatters():
    rng = np.random.default_rng(1)
    near, far = rng.normal(size=(30, D)) * 0.3, rng.normal(size=(20, D))
    whole, _ = scatter_of(X)

    def shrunk(differences, n):
        scatter = differences.T @ differences
        return (n * scatter * D / np.trace(scatter) + PRIOR * whole) / (n + PRIOR)

    S, D_ = shrunk(near, 30), shrunk(far, FAR_WEIGHT * 20)
    root = root_of(near.T @ near, 30.0, far.T @ far, 20.0, whole)
    assert np.array_equal(root, root.T)
    assert np.allclose(root @ S @ root, D_, atol=1e-8)  # what S^-1 # D solves
    half = np.real(sqrtm(S))
    inverse = np.linalg.inv(half)
    assert np.allclose(root, inverse @ np.real(sqrtm(half @ D_ @ half)) @ inverse, atol=1e-7)


# -- learning ----------------------------------------------------------------------------------------------------------


def test_feedback_helps_soon_and_on():
    gains = [precision(session(n)) - precision(FeedbackSearch(X)) for n in (5, 20, 100)]
    assert gains[0] > -0.005
    assert gains[1] > 0.01
    assert gains[2] > max(gains[1], 0.05)


def test_values_of_all_strengths_are_those_of_the_metrics():
    state = session(45, user="anna")._model.base
    differences = X[:20] - X[20:40]
    for user in ("anna", None):
        values = state.values(differences, state.learned.inside(user, state.lam))
        for column, strength in enumerate(STRENGTHS):
            direct = ((differences @ state.metric(user, strength)) * differences).sum(axis=1)
            assert values[:, column] == pytest.approx(direct)


def test_metrics_that_judge_are_found_when_users_first_speak():
    search = session(45, user="anna")
    model = search._model
    session(1, user="ben", search=search)
    assert sorted(model._judges()) == ["anna", "ben"]
    for name, matrix in model._judges().items():
        np.testing.assert_array_equal(matrix, model.base.learned.inside(name, model.lam))
    for k in range(12):
        session(1, user=f"user {k}", search=search)
    assert len(model._judges()) == 8


def test_users_who_disagree_have_their_own_metrics():
    rng = np.random.default_rng(5)
    tastes = rng.integers(4, size=(2, N))
    items = np.concatenate([rng.normal(size=(4, 5))[taste] + 0.7 * rng.normal(size=(N, 5)) for taste in tastes], axis=1)
    search, mixed = FeedbackSearch(items), FeedbackSearch(items)
    for turn in range(8):
        for name, y in zip(("anna", "ben"), tastes, strict=True):
            session(16, user=name, search=search, y=y, seed=turn)
            session(16, search=mixed, y=y, seed=turn)
    own = [precision(search, y, user=name) for name, y in zip(("anna", "ben"), tastes, strict=True)]
    crossed = [precision(search, y, user=name) for name, y in zip(("ben", "anna"), tastes, strict=True)]
    assert np.mean(own) > np.mean([precision(mixed, y) for y in tastes]) + 0.01
    assert np.mean(own) > np.mean(crossed) + 0.02
    assert np.array_equal(search.metric_matrix("zoe"), search.metric_matrix())


# -- the log is the model ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [0, 6, 40, 69, 70])
def test_undo_gives_the_model_that_never_heard_it(gone):
    search = session(71)
    rest = [said for said in search.log if said.id != gone]
    assert search.undo(gone) == [gone]
    other = FeedbackSearch(X)
    for said in rest:
        other.tell(said)
    same(search, other)
    session(3, search=search, seed=9)
    session(3, search=other, seed=9)
    assert np.array_equal(search.metric_matrix(), other.metric_matrix())


def test_undo_of_a_user_and_of_a_time():
    search = FeedbackSearch(X)
    for turn in range(4):
        for name in ("anna", "ben"):
            session(6, user=name, search=search, seed=turn)
    kept = [said for said in search.log if said.user == "anna" or not 2 <= said.time < 4]
    search.undo(user="ben", since=2, until=4)
    assert search.log == kept
    other = FeedbackSearch(X)
    for said in kept:
        other.tell(said)
    same(search, other)
    search.undo(user="anna")
    search.undo(user="ben")
    assert np.array_equal(search.metric_matrix(), FeedbackSearch(X).metric_matrix())
    with pytest.raises(ValueError, match="undo what"):
        search.undo()
    with pytest.raises(ValueError, match="no statement 'x' to undo"):
        search.undo("x")


def test_undo_of_rows_that_are_no_items():
    """Random items that a row is compared with are those of the row, whatever was said before it."""
    search, other = FeedbackSearch(X), FeedbackSearch(X)
    for k in range(9):
        said = Statement(id=k, query=X[k] + 0.1, relevant=[k + 1])
        search.tell(said)
        if k != 2:
            other.tell(said)
    search.undo(2)
    same(search, other)


def test_reading_changes_nothing():
    """Not even the last bits, of matrices so large that read-outs of other learners follow the one before."""
    rows = np.random.default_rng(3).normal(size=(N, 60))
    read, unread = FeedbackSearch(rows), FeedbackSearch(rows)
    for k in range(37):
        said = Statement(id=k, query=k, relevant=[k + 1], irrelevant=[k + 2], user=("anna", None)[k % 2])
        read.tell(said)
        unread.tell(said)
        read.search(k, 5, user="anna")
    for user in (None, "anna"):
        assert np.array_equal(read.metric_matrix(user), unread.metric_matrix(user))


@pytest.mark.parametrize("sizes", [(1,) * 75, (75,), (3, 40, 0, 32), (7, 26, 42)])
def test_telling_many_is_telling_one_after_the_other(sizes):
    said, search, start = session(75, user="anna").log, FeedbackSearch(X), 0
    for size in sizes:
        assert search.tell_all(said[start : start + size]) == list(range(start, start + size))
        start += size
    one_by_one = FeedbackSearch(X)
    for each in said:
        one_by_one.tell(each)
    same(search, one_by_one)
    assert np.array_equal(search.metric_matrix("anna"), one_by_one.metric_matrix("anna"))
    with pytest.raises(ValueError, match="no items"):
        search.tell_all([Statement(id="new", query=0, relevant=[1]), Statement(id="bad", query=0, relevant=[N])])
    with pytest.raises(ValueError, match="with other content"):
        search.tell_all([Statement(id="a", query=0, relevant=[1]), Statement(id="a", query=0, relevant=[2])])
    same(search, one_by_one)


def test_the_metric_as_it_was():
    search, matrices = FeedbackSearch(X), []
    for said in session(75, user="anna").log:
        matrices.append(search.metric_matrix("anna"))
        search.tell(said)
    for n in (0, 1, 4, 31, 32, 33, 70, 74):
        assert np.array_equal(search.metric_matrix("anna", after=n), matrices[n])
    assert np.array_equal(search.metric_matrix(after=75), search.metric_matrix())


def test_preparing_may_be_left_for_later(monkeypatch):
    monkeypatch.setattr("paloma.feedback._near.EXACT_WORK", 0)
    said, renewed = session(40, user="anna").log, []
    monkeypatch.setattr("paloma.feedback._near.Near.renew", lambda *given: renewed.append(given))
    search = FeedbackSearch(X)
    search.tell_all(said[:20])
    assert len(renewed) == 1
    search.tell_all(said[20:], prepare=False)
    assert len(renewed) == 1
    search.prepare()
    search.prepare()
    assert len(renewed) == 2


def test_states_are_kept_the_farther_apart_the_farther_back():
    search = FeedbackSearch(X[:, :2])
    triples = [(k % N, (k + 1) % N, (k + 2) % N) for k in range(3000)]
    said = [Statement(id=k, query=a, relevant=[b], irrelevant=[c]) for k, (a, b, c) in enumerate(triples)]
    for k in range(0, 3000, 100):
        search.tell_all(said[k : k + 100])
    numbers = np.array([state.n for state in search._model.kept])
    assert numbers[0] == 0
    assert numbers[-1] == 2944
    assert len(numbers) <= 20
    gaps, behind = np.diff(numbers), 3000 - numbers[1:]
    assert (gaps <= np.maximum(0.25 * behind, 2 * LONG_PAGE)).all()


def test_a_state_in_a_file_goes_on_to_the_bit(tmp_path):
    search = session(40, user="anna")
    session(30, user="eve", invert=True, search=search)
    path = os.path.join(tmp_path, "state.paloma")
    paloma.save(search.state, path)
    session(9, search=search, seed=3)
    again = FeedbackSearch(X)
    again.resume(search.log, paloma.load(path))
    same(again, search)
    for user in (None, "anna", "eve"):
        assert np.array_equal(again.metric_matrix(user), search.metric_matrix(user))
    session(40, search=search, seed=4, user="anna")
    session(40, search=again, seed=4, user="anna")
    same(again, search)
    assert again.undo(3) == search.undo(3)
    same(again, search)
    with pytest.raises(ValueError, match="of another log"):
        FeedbackSearch(X).resume(search.log[:10], paloma.load(path))


def test_a_long_log_fits_into_a_file(tmp_path):
    said = [Statement(id=k, query=k % N, relevant=[(k + 1) % N], time=float(k), user="u" * 99) for k in range(15_000)]
    search = FeedbackSearch(X[:, :2])
    search._model.log.extend(said)  # not learned: this is about the size of the file
    paloma.save(search, tmp_path / "long.paloma")
    assert (tmp_path / "long.paloma").stat().st_size > 1 << 21


def test_a_file_holds_the_log(tmp_path):
    search = FeedbackSearch(X, [f"item {k}" for k in range(N)], lam=0.7)
    for k in range(PAGE + 9):
        search.mark(f"item {k}", [f"item {k + 1}"], [f"item {k + 2}"], user="anna" if k % 3 else None, time=k)
    search.mark(X[4] + 1.0, ["item 3"])
    path = os.path.join(tmp_path, "feedback.paloma")
    paloma.save(search, path)
    again = paloma.load(path)
    same(again, search)
    assert again.search("item 3", 5, user="anna")[1] == search.search("item 3", 5, user="anna")[1]
    assert again.mark("item 0", ["item 1"]) == search.mark("item 0", ["item 1"])
    same(pickle.loads(pickle.dumps(search)), search)


def test_what_is_only_near_is_compared_with_random_items():
    lesson = lesson_of(Statement(id=0, query=0, relevant=[1, 2]), int, N)
    assert lesson.implied
    assert lesson.triplets[:, :2].tolist() == [[0, 1], [0, 2]]
    assert lesson.triplet_weight.sum() == pytest.approx(IMPLIED)
    search = FeedbackSearch(X)
    for k in range(PAGE):
        search.mark(k, [k + 1])
    assert search.quality().n_judged == 0


# -- reading -----------------------------------------------------------------------------------------------------------


def test_many_items_are_ranked_among_candidates(monkeypatch):
    search = session(40)
    exact, plain = search.search(3, 10), search.search(3, 10, feedback=False)
    monkeypatch.setattr("paloma.feedback._near.EXACT_WORK", 0)
    monkeypatch.setattr("paloma.feedback._near.MIN_CANDIDATES", 60)
    distances, ids = search.search(3, 10)
    assert ids == exact[1]
    assert distances == pytest.approx(exact[0])
    assert search.search(3, 10, feedback=False)[1] == plain[1]
    assert search.search(3, 10, metric=search.metric_matrix())[1] == exact[1]
    session(40, search=search, seed=1)
    monkeypatch.setattr("paloma.feedback._near.EXACT_WORK", 1e9)
    exact = search.search(3, 10)
    monkeypatch.setattr("paloma.feedback._near.EXACT_WORK", 0)
    assert search.search(3, 10)[1] == exact[1]
    with pytest.raises(ValueError, match="read-only"):
        search.X[0, 0] = 1.0


def test_explanations_add_up():
    search = session(40)
    found = search.explain(0, 1)
    difference = X[0] - X[1]
    assert found.now == pytest.approx(difference @ search.metric_matrix() @ difference)
    assert found.features.sum() == pytest.approx(found.now)
    assert found.features_before == pytest.approx(difference**2 * FeedbackSearch(X).metric_matrix()[0, 0])
    everything = search.explain(0, 1, n_directions=D)
    assert everything.along.sum() == pytest.approx(found.now)
    assert "without feedback" in str(found)


def every_lesson(own, grades, others):
    """(row, other, weight) of every triplet of one anchor, written down one by one."""
    halves = [0.5 * grade for grade in grades or [1.0] * len(own)]
    low, span = min(halves), (max(halves) - min(halves)) or 1.0
    out = [(row, other, 0.5 + 0.5 * (g - low) / span) for row, g in zip(own, halves, strict=True) for other in others]
    mine = [*zip(own, halves, strict=True)]
    return out + [(row, other, 0.5 * (g - less) / span) for row, g in mine for other, less in mine if g > less]


@pytest.mark.parametrize(("n", "m"), [(3, 4), (9, 30), (20, 0)])
@pytest.mark.parametrize("graded", [False, True])
def test_the_triplets_of_long_lists_are_evenly_spaced_among_all_of_them(n, m, graded):
    own, others = [*range(1, 1 + n)], [*range(50, 50 + m)]
    grades = [k % 4 for k in own] if graded else []
    all_of_them = every_lesson(own, grades, others)
    if not all_of_them:
        return
    lesson = lesson_of(Statement(id=0, query=0, relevant=own, irrelevant=others, grades=grades), int, N)
    chosen = [all_of_them[int(k)] for k in np.linspace(0, len(all_of_them) - 1, min(len(all_of_them), MAX_TAUGHT))]
    assert lesson.triplets[:, 1:].tolist() == [list(each[:2]) for each in chosen]
    weight = np.array([each[2] for each in chosen])
    assert np.allclose(lesson.triplet_weight / lesson.triplet_weight.sum(), weight / weight.sum())


def test_a_statement_of_thousands_of_items_is_learned_at_once():
    rng = np.random.default_rng(0)
    search = FeedbackSearch(rng.normal(size=(6000, 4)))
    search.label(range(6000), np.arange(6000) % 2)  # 5e10 triplets, of which MAX_TAUGHT are learned
    search.mark(0, range(1, 3000), range(3000, 6000), grades=range(1, 3000))
    search.together(range(3000))
    search.label(range(6000), np.arange(6000) % 3000)
    assert len(search.log) == 4
    assert np.isfinite(search.metric_matrix()).all()
