"""The fast paths of feedback: what they stand for, to the bit or to rounding."""

import numpy as np
import pytest

import paloma
from helpers.feedback import N, X, same, session
from paloma._compiled.codes import coded_values
from paloma._compiled.norms import side_norms
from paloma._core.choice import Choice
from paloma._core.locality import Locality
from paloma._core.measure import DISTANCE
from paloma._core.psd import Psd
from paloma._core.step import Step
from paloma.feedback import FeedbackSearch, FeedbackState, Statement
from paloma.feedback._guard import STRENGTHS
from paloma.feedback._metrics import Metrics
from paloma.feedback._model import FLOOR, LIFT, PAGE
from paloma.feedback._rows import Rows
from twins import neighbors as twin
from twins import stacked


@pytest.mark.parametrize("block", [3, 192])
def test_metrics_are_those_of_learning_one_triplet_after_the_other(monkeypatch, block):
    """U and L of each user against plain steps (theory 24), and arrays of the state before stay as they were."""
    monkeypatch.setattr("paloma.feedback._metrics.auto_blocks", lambda d, n_classes: (block, block))
    rng = np.random.default_rng(2)
    lam, margin, d = 0.6, 0.2, 70
    mu = 1.0 - lam
    choice = Choice(DISTANCE, Locality.per_class(lam), Step.parse("pa1", None), Psd("end"), 2.0, margin)
    users = ["anna", "", "ben", "anna"]
    U, own = np.eye(d), {"anna": np.eye(d), "ben": np.eye(d)}
    metrics = Metrics.start(d)
    for _ in range(3):
        gaps = (rng.normal(size=(12, d)) / 8).astype(np.float32)
        sides, weight = rng.permutation(12).reshape(6, 2), rng.uniform(0.1, 1.0, 6)
        before = metrics.shared.copy(), {name: matrix.copy() for name, matrix in metrics.own.items()}
        after = metrics.taught(choice, gaps, sides, weight, users, np.array([3, 3, 3, 3]))
        assert np.array_equal(metrics.shared, before[0])
        assert all(np.array_equal(metrics.own[name], matrix) for name, matrix in before[1].items())
        metrics = after
        who = np.repeat(users, 3)
        rows = gaps.astype(np.float64)
        for (i, j), w in zip(sides, weight, strict=True):
            outer = [np.outer(rows[k], rows[k]) for k in (i, j)]
            value = [lam * (U * o).sum() + mu * (own[who[k]] * o).sum() if who[k] else lam * (U * o).sum()
                     for k, o in zip((i, j), outer, strict=True)]  # fmt: skip
            parts = {}
            for k, o, sign in ((i, outer[0], 1.0), (j, outer[1], -1.0)):
                if who[k]:
                    parts[who[k]] = parts.get(who[k], 0.0) + sign * mu * o
            shared = lam * (outer[0] - outer[1])
            norm = (shared**2).sum() + sum((part**2).sum() for part in parts.values())
            tau = min(2.0 * w, max(margin + value[0] - value[1], 0.0) / norm)
            U -= tau * shared
            for name, part in parts.items():
                own[name] -= tau * part
    assert np.allclose(metrics.shared, U, atol=2e-5)
    for name, matrix in own.items():
        assert np.allclose(metrics.own[name], matrix, atol=2e-5)
        values, vectors = np.linalg.eigh(lam * U + mu * matrix)
        assert np.allclose(metrics.inside(name, lam), (vectors * np.maximum(values, 0.0)) @ vectors.T, atol=1e-4)


def test_norms_of_sides_are_those_of_outer_products():
    """Also of differences that are almost the same, or the opposite of each other."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(8, 70)).astype(np.float32)
    rows[1], rows[3] = rows[0] * np.float32(1.0 + 1e-5), -rows[2] * np.float32(1.0 + 1e-5)
    sides = np.array([(i, j) for i in range(8) for j in range(8) if i != j])
    outer = [np.outer(row, row) for row in rows.astype(np.float64)]
    expected = [[((outer[i] - outer[j]) ** 2).sum(), (outer[i] ** 2).sum(), (outer[j] ** 2).sum()] for i, j in sides]
    assert np.allclose(side_norms(rows, sides), expected, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("user", ["anna", ""])
def test_one_statement_is_learned_as_its_triplets_one_by_one(user):
    rng, d = np.random.default_rng(4), 6
    locality = Locality.per_class(0.4)
    choice = Choice(DISTANCE, locality, Step.parse("pa1", None), Psd("end"), 2.0, 0.2)
    gaps = (rng.normal(size=(9, d)) / 2).astype(np.float32)
    sides, weight = np.array([(a, b) for a in range(4) for b in range(4, 9)]), rng.uniform(0.1, 1.0, 20)
    found = Metrics.start(d).told(choice, np.eye(d, dtype=np.float32), gaps, sides, weight, user)
    rows, triplets = np.concatenate([np.zeros((1, d)), gaps]), np.insert(sides + 1, 0, 0, axis=1)
    classes = np.full((20, 2), 0 if user else -1)
    U, L, taus, *_ = stacked.run("distance", rows, triplets, classes, 0.4, 0.6, 2.0, margin=0.2, weights=weight)
    assert np.count_nonzero(taus) > 3
    assert np.allclose(found.shared, U, atol=1e-5)
    assert list(found.own) == ([user] if user else [])
    assert not user or np.allclose(found.own[user], L[0], atol=1e-5)


@pytest.mark.parametrize("d", [5, 70])
def test_one_statement_is_learned_as_one_of_many(d):
    """The compiled loop of one statement against the common one; what no triplet moves stays the same object."""
    rng = np.random.default_rng(3)
    choice = Choice(DISTANCE, Locality.per_class(0.4), Step.parse("pa1", None), Psd("end"), 2.0, 0.2)
    root = rng.normal(size=(d, d)).astype(np.float32) / np.float32(np.sqrt(d))
    one, other = Metrics.start(d), Metrics.start(d)
    for user in ("anna", "", "ben", "anna"):
        gaps = (rng.normal(size=(9, d)) / 4).astype(np.float32)
        sides, weight = np.array([(a, b) for a in range(4) for b in range(4, 9)]), rng.uniform(0.1, 1.0, 20)
        before = one.shared.copy(), {name: matrix.copy() for name, matrix in one.own.items()}
        after = one.told(choice, root, gaps, sides, weight, user)
        other = other.taught(choice, gaps @ root, sides, weight, [user], np.array([9]))
        assert np.array_equal(one.shared, before[0])
        assert all(np.array_equal(one.own[name], matrix) for name, matrix in before[1].items())
        one = after
        assert list(one.own) == list(other.own)
        for mine, its in zip((one.shared, *one.own.values()), (other.shared, *other.own.values()), strict=True):
            assert np.array_equal(mine, mine.T)
            assert np.allclose(mine, its, atol=5e-6)
    assert not np.allclose(one.shared, np.eye(d))
    assert one.told(choice, root, gaps, sides, np.zeros(20), "carl") is one


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scatters_and_differences_are_those_of_rows(monkeypatch, dtype):
    """In chunks, of items alone and with a query that is none; items give the same bits beside such a query."""
    monkeypatch.setattr("paloma.feedback._rows.CHUNK", 7)
    rng, items = np.random.default_rng(6), X.astype(dtype)
    rows, query = Rows(items, list(range(N))), tuple(rng.normal(size=X.shape[1]).tolist())
    pairs, weight = rng.integers(0, N, (30, 2)), rng.random(30)
    before = rows.unit_differences(pairs)
    pairs[4, 0] = rows.number(query)
    anchors = items[pairs[:, 0]].astype(np.float64)
    anchors[4] = query
    gaps = (anchors - items[pairs[:, 1]]) / np.sqrt(rows.spread)
    found = rows.unit_differences(pairs)
    assert found.dtype == np.float32
    assert np.allclose(found, gaps, atol=1e-5)
    assert np.array_equal(np.delete(found, 4, axis=0), np.delete(before, 4, axis=0))
    assert np.allclose(rows.scatter(pairs, weight), (gaps * weight[:, None]).T @ gaps, rtol=1e-5, atol=1e-4)


def test_a_form_is_its_matrix():
    search = session(45, user="anna")
    gaps = X[:30] - X[30:60]
    for user in ("anna", None):
        for strength in STRENGTHS:
            form = search._model.form(user, strength)
            matrix = form.matrix()
            assert np.allclose(form.image(gaps[0]), matrix @ gaps[0], rtol=1e-12)
            assert np.allclose(form.values(gaps), ((gaps @ matrix) * gaps).sum(axis=1), rtol=1e-12)
            typical = 2.0 * (matrix * np.cov(X.T, bias=True)).sum()
            assert typical == pytest.approx(1.0, rel=1e-4)  # a little was added to the scatter


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e12])
def test_coded_candidates_are_the_nearest(monkeypatch, dtype, unit):
    """Under the metric of the page, whatever the units; one feature is constant."""
    monkeypatch.setattr("paloma.feedback._near.EXACT_WORK", 0)
    monkeypatch.setattr("paloma.feedback._near.MIN_CANDIDATES", 40)
    items = np.column_stack([X, np.full(N, 3.0)]).astype(dtype) * np.dtype(dtype).type(unit)
    search = session(32, search=FeedbackSearch(items))  # the page is full: its metric is the newest one
    metric = search.metric_matrix()
    for query in range(0, N, 7):
        gaps = items.astype(np.float64) - items[query].astype(np.float64)
        values = ((gaps @ metric) * gaps).sum(axis=1)
        values[query] = np.inf
        nearest = np.argsort(values, kind="stable")[:10]
        distances, ids = search.search(query, 10)
        assert ids == nearest.tolist()
        assert np.allclose(distances, np.sqrt(values[nearest]), rtol=1e-9, atol=0.0)


def test_products_of_coded_rows():
    rng = np.random.default_rng(0)
    codes, vector = rng.integers(-127, 128, (50, 37)).astype(np.int8), rng.normal(size=37).astype(np.float32)
    constants, scales = rng.normal(size=50).astype(np.float32), rng.random(50).astype(np.float32)
    arguments = codes, scales, vector, constants
    assert np.allclose(coded_values(*arguments), twin.coded_values(*arguments), atol=1e-3)


def many(n):
    """Statements of users of whom some speak in a page and others do not."""
    rng, said = np.random.default_rng(4), []
    for k in range(n):
        query, *others = (int(item) for item in rng.choice(N, 5, replace=False))
        user = (None, "anna", "ben", f"guest {k // 100}")[int(rng.integers(4))]
        said.append(Statement(id=k, query=query, relevant=others[:2], irrelevant=others[2:], user=user))
    return said


@pytest.mark.parametrize("gone", [2, 1290, 1420])
def test_undo_beyond_the_last_renewal_with_users(gone):
    """Long pages, learned in one call."""
    said, search, other = many(1450), FeedbackSearch(X), FeedbackSearch(X)
    search.tell_all(said)
    search.search(3)
    search.undo(gone)
    for each in said:
        if each.id != gone:
            other.tell(each)
    same(search, other)
    for user in ("anna", "ben", "guest 0", "guest 14"):
        assert np.array_equal(search.metric_matrix(user), other.metric_matrix(user))


def test_what_was_not_judged_again_is_not_missed(tmp_path):
    """Of a log that is heard at once only the last statements are judged; what follows, and what was, are the same."""
    said, path = many(1450), tmp_path / "state.paloma"
    search, other = FeedbackSearch(X), FeedbackSearch(X)
    search.tell_all(said)
    for each in said:
        other.tell(each)
    same(search, other)
    assert len(search.curve(2000)) < len(other.curve(2000))
    assert np.array_equal(search.curve(2000)[-100:], other.curve(2000)[-100:])
    incomplete = [state.n for state in search._model.kept if not state.judged.complete]
    assert incomplete
    for n in (incomplete[0], incomplete[-1], incomplete[-1] + 5):
        assert np.array_equal(search.metric_matrix(after=n), other.metric_matrix(after=n))
    paloma.save(search.state, path)
    again = FeedbackSearch(X)
    again.resume(search.log, paloma.load(path))
    same(again, other)
    for gone in (incomplete[-1] + 3, 1400, 900):
        search.undo(gone)
        other.undo(gone)
        same(search, other)


def test_what_left_the_cone_is_lifted(monkeypatch):
    """So that reading what was learned later solves no eigenproblem."""

    def smallest():
        search = FeedbackSearch(X, guard=False)
        search.tell_all(many(LIFT))
        learned = search.state.learned
        spoke = {said.user for said in search.log} - {None}
        return learned, [np.linalg.eigvalsh(each)[0] for each in (learned.shared, *map(learned.own.get, spoke))]

    learned, found = smallest()
    assert min(found) > 0.0
    assert np.isclose(found, FLOOR, atol=1e-5).any()
    monkeypatch.setattr("paloma.feedback._model.FLOOR", -1e6)
    other, raw = smallest()
    assert min(raw) < 0.0
    assert not np.array_equal(learned.shared, other.shared)


def test_items_mapped_once_are_differences_mapped(monkeypatch):
    """In a long log, to rounding; items may lie far from the origin."""
    said, far = many(1450), X + 1e3
    search = FeedbackSearch(far)
    search.tell_all(said)
    monkeypatch.setattr("paloma.feedback._model.MAPPED", 0)
    other = FeedbackSearch(far)
    other.tell_all(said)
    assert not np.array_equal(search.metric_matrix(), other.metric_matrix())
    for user in (None, "anna"):
        assert np.allclose(search.metric_matrix(user), other.metric_matrix(user), atol=1e-4)


def test_states_share_what_did_not_move():
    search = session(80, user="anna")  # the start is taken anew here, and next after 160
    before = search.state
    session(PAGE, user="ben", search=search)
    assert (before.n, search.state.n) == (80, 96)
    assert search.state.learned.own["anna"] is before.learned.own["anna"]
    assert set(search.state.learned.own) == {"anna", "ben"}
    assert "ben" not in before.learned.own


def test_a_damaged_state_is_refused(tmp_path):
    plain = session(40, user="anna").state.__paloma_state__()
    wrong = {
        "own": plain["own"][:, :2],
        "shared": plain["shared"][:2],
        "users": ["anna", "anna"],
        "root": plain["root"][:2],
        "lam": 2.0,
        "strength": 0.3,
        "scores": plain["scores"][1:],
        "sizes": plain["sizes"][1:],
        "counts": np.zeros(1, np.int64),
    }
    assert FeedbackState.__paloma_restore__(plain).n == 40
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=r"of other kinds or shapes|lam must"):
            FeedbackState.__paloma_restore__({**plain, name: value})
