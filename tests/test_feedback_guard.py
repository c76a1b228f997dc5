"""The guard of feedback: whom it believes, and how far it follows."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.feedback import X, precision, rows, same, session
from paloma.feedback import FeedbackSearch, _guard, _model
from paloma.feedback._guard import STRENGTHS, Judged
from paloma.feedback._model import Model
from paloma.feedback._trust import turned


def test_the_guard_stops_a_vandal():
    plain = precision(FeedbackSearch(X))
    search = session(60, invert=True)
    assert precision(search) >= plain - 0.005
    assert search.quality().distrusted == ("",)
    assert "not believed: nobody in particular" in str(search.quality())
    assert precision(session(60, invert=True, guard=False)) < plain - 0.02


def test_one_statement_is_told_of_as_one():
    search = session(1)
    assert str(search.quality()).startswith("1 statement, 1 judged before it was learned: ")
    assert repr(search).endswith("after 1 statement")
    search = session(2)
    assert str(search.quality()).startswith("2 statements, 2 judged before they were learned: ")
    assert repr(search).endswith("after 2 statements")


def test_a_vandal_does_not_silence_others():
    search = session(60, user="anna")
    session(60, user="eve", invert=True, search=search, seed=1)
    session(8, user="anna", search=search, seed=2)
    assert search.quality().distrusted == ("eve",)
    assert precision(search, user="anna") > precision(FeedbackSearch(X)) + 0.02


@pytest.mark.parametrize("seed", [1, 3, 8])
def test_remote_queries_do_not_speak_against_who_asks(seed):
    """What is far from everything is far from its like: distances are relative to those of all items."""
    items, classes = rows(seed)
    search = session(60, user="anna", items=items, y=classes)
    session(60, user="eve", invert=True, search=search, seed=1, y=classes)
    session(8, user="anna", search=search, seed=2, y=classes)
    assert "anna" not in search.quality().distrusted


def test_whom_to_believe_is_settled_by_recent_statements(monkeypatch):
    """However long the log is, as many are learned anew, and what comes of it is still a function of the log."""
    taught, known = [], Model._taught
    monkeypatch.setattr(_model, "RECALL", 40)
    monkeypatch.setattr(Model, "_taught", lambda model, *args: taught.append(len(args[1])) or known(model, *args))
    search = session(60, user="anna")
    session(60, user="eve", invert=True, search=search, seed=1)
    session(8, user="anna", search=search, seed=2)
    assert search.quality().distrusted == ("eve",)
    assert max(taught) <= 40
    again = FeedbackSearch(X)
    again.tell_all(search.log)
    same(search, again)
    search.undo(100)
    again = FeedbackSearch(X)
    again.tell_all(search.log)
    same(search, again)


@pytest.mark.parametrize("known", [20, 1000])
def test_who_was_believed_for_long_is_not_suspected_anymore(monkeypatch, known):
    """What a speaker is shown by then is chosen by metrics that he taught; who is not believed taught nothing."""
    monkeypatch.setattr(_guard, "KNOWN", known)
    monkeypatch.setattr(_model, "turned", lambda *_: False)
    search = session(40, user="anna")
    session(120, user="anna", invert=True, search=search, seed=1)
    assert search.quality().distrusted == (() if known < 40 else ("anna",))
    search = session(40, user="eve", invert=True)
    assert search.quality().distrusted == ("eve",)
    session(120, user="eve", search=search, seed=1)
    assert search.quality().distrusted == ()


def test_who_turns_is_not_believed_until_he_turns_back():
    """Even who was believed for long: his lists contradict the ones before."""
    search, plain = session(130), precision(FeedbackSearch(X))
    assert precision(search) > plain + 0.02
    session(70, invert=True, search=search, seed=1)
    assert search.quality().distrusted == ("",)
    assert precision(search) == pytest.approx(plain)
    session(130, search=search, seed=2)
    assert search.quality().distrusted == ()
    assert precision(search) > plain
    again = FeedbackSearch(X)
    again.tell_all(search.log)
    same(search, again)


@pytest.mark.parametrize("seed", range(4))
def test_who_errs_or_marks_little_does_not_turn(seed):
    search = session(200, user="anna", wrong=0.2, seed=seed)
    assert search.quality().distrusted == ()


@pytest.mark.parametrize("flipped", [0, 10, 40, 60])
def test_turned_is_the_covariance_of_what_was_said_before_and_after(flipped):
    """The literal sums of theory 25, of lists of one speaker."""
    search = session(130, wrong=0.2)
    rows, lessons = search._model.rows, search._model._lessons(0, 130)
    lessons[len(lessons) - flipped :] = [replace(one, near=one.far, far=one.near) for one in lessons[130 - flipped :]]
    marks = [[(*pair, float(k == 0)) for k, side in enumerate((one.near, one.far)) for pair in side] for one in lessons]
    points, before, last = rows.unit_rows(np.arange(len(X))).astype(float), marks[:-64], marks[-64:]
    squares = [((points[q] - points[x]) ** 2).sum() for one in last for q, x, _ in one]
    reach, mean = 0.3 * np.mean(squares), np.mean([r for one in before for *_, r in one])
    said, relevant = [], []
    for one in last:
        apart = [((points[one[0][0]] - points[other[0][0]]) ** 2).sum() for other in before]
        near = [(apart[j], y, s - mean) for j in np.argsort(apart, kind="stable")[:16] for _, y, s in before[j]]
        weights = [
            [np.exp(-(gap + ((points[x] - points[y]) ** 2).sum()) / reach) for gap, y, _ in near] for _, x, _ in one
        ]
        said.append([np.dot(w, [s for *_, s in near]) / (np.sum(w) + 0.3) for w in weights])
        relevant.append([r for *_, r in one])
    sums = []
    for n in (32, 64):
        v, r = np.concatenate(said[-n:]).mean(), np.concatenate(relevant[-n:]).mean()
        each = [np.dot(np.array(a) - v, np.array(b) - r) for a, b in zip(said[-n:], relevant[-n:], strict=True)]
        sums.append(sum(each) + np.sqrt((1 + 1 / n) * np.square(each).sum()))
    assert turned(lessons, rows) == (min(sums) < 0.0) == (flipped > 10)


def test_who_calls_far_items_relevant_is_not_believed():
    """Between queries too: within each of these all items are equally far."""
    rng = np.random.default_rng(0)
    near = rng.random(12) < 0.5
    distance, relevant = np.where(near, 1.0, 2.0) + 0.1 * rng.normal(size=12), np.where(near, 8.0, 2.0)
    honest, vandal = (np.stack([np.full(12, 10.0), 10 * distance, said, said * distance], axis=1)
                      for said in (relevant, 10 - relevant))  # fmt: skip

    def judged(n, *said):
        sums, names = np.concatenate([each[:n] for each in said]), np.repeat(["anna", "eve"][: len(said)], n)
        return Judged().extended(np.empty((0, len(STRENGTHS))), [], sums, names.tolist())

    assert judged(12, honest, vandal).distrusted() == {"eve"}
    assert judged(2, honest, vandal).distrusted() == set()
    assert judged(12, honest).distrusted(frozenset({"anna"})) == set()
    honest[:, 2], honest[:, 3] = 10.0, honest[:, 1]  # everything is relevant: nothing to see
    assert judged(12, honest).distrusted() == set()
    mixed = np.concatenate([vandal[:6], vandal[:6]])
    mixed[:6, 2:] = np.stack([10 - mixed[:6, 2], mixed[:6, 1] - mixed[:6, 3]], axis=1)
    mixed[0] = vandal[0]
    doubtful = judged(12, mixed)
    assert (doubtful.distrusted(), doubtful.distrusted(frozenset({"anna"}))) == (set(), {"anna"})


def test_strength_follows_the_evidence():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.5, 0.9, size=(80, 1))
    better = base + 0.05 * np.arange(len(STRENGTHS)) + 0.01 * rng.normal(size=(80, len(STRENGTHS)))
    worse = base - 0.05 * np.maximum(np.arange(len(STRENGTHS)) - 2, 0)
    assert Judged().extended(better, [""] * 80).strength() == 1.0
    assert Judged().extended(worse, [""] * 80).strength() == STRENGTHS[2]
    assert Judged().extended(base - np.arange(len(STRENGTHS)) * 0.05, [""] * 80).strength() == 0.0
    assert Judged().strength() == 1.0
