"""The guard along a stream of labeled rows: what arrives is judged before it is learned."""

import copy

import numpy as np
import pytest
from sklearn.datasets import load_digits

import paloma
from helpers import inside
from helpers.guarded import GUARDED, X, Y, ring, streamed
from paloma import LODML, LOSL, OASIS, ODML, MetricKNeighborsClassifier
from paloma._spaces.dense.space import Dense
from paloma._training.guard import (
    EAGER,
    LOCAL,
    MAX_CANDIDATES,
    MAX_EVIDENCE,
    MAX_JUDGED,
    cautious,
    gathered,
    scores,
    spaced,
)
from paloma._training.trainer import Trainer
from paloma.preprocessing import UnitRows
from same import assert_same


def test_a_stream_is_followed_as_evidence_grows():
    rows, y = ring(1200)
    few, many = LODML(random_state=0).partial_fit(rows[:6], y[:6]), streamed(LODML(random_state=0), rows, y)
    assert few.strength_ < 0.2
    assert few.strength_ < many.strength_ <= 1.0
    rows = np.random.default_rng(1).normal(size=(800, 20))
    clear, noise = (
        streamed(ODML(random_state=0), rows, y) for y in (rows[:, 0] > rows[:, 1], rows[:, 0] * 1e6 % 2 > 1)
    )
    assert noise.strength_ < clear.strength_


@pytest.mark.parametrize("kind", GUARDED)
def test_the_guard_of_a_stream_changes_the_read_out_alone(kind, tmp_path):
    model, plain = (streamed(kind(random_state=0, guard=guard), X, Y) for guard in ("auto", False))
    np.testing.assert_array_equal(model.shared_, plain.shared_)
    assert plain.strength_ == 1.0
    assert model.strength_ < 1.0
    paloma.save(model, tmp_path / "model.paloma")
    again = paloma.load(tmp_path / "model.paloma")
    for one in (model, again):
        streamed(one, X[::2], Y[::2])
    assert (again.strength_, again.local_share_) == (model.strength_, model.local_share_)
    np.testing.assert_array_equal(again.metric_matrix(), model.metric_matrix())


@pytest.mark.parametrize("kind", [LODML, LOSL])
def test_rows_are_judged_before_they_are_learned(kind):
    """The evidence is that of scores under the metric that does not know the rows yet, among the rows kept by then."""
    model = kind(random_state=0, reservoir_size=20)
    model.partial_fit(X[::2], Y[::2])
    plain = copy.deepcopy(model)
    inside.whole(plain).strength, inside.whole(plain).metric = (1.0, 1.0), None
    before, kept = inside.whole(model).evidence, inside.memory(model).sample(X)[0].copy()
    known, rows, truth = inside.labels_kept(model), X[1:60:2], Y[1:60:2]
    local, shared = (plain.pairwise_score(rows, kept, labels) for labels in (known, None))
    own = plain.pairwise_score(rows, rows).diagonal()
    inside.whole(plain).strength, inside.whole(plain).metric = (0.0, 0.0), None
    start = plain.pairwise_score(rows, rows).diagonal()
    tables = np.stack([plain.pairwise_score(rows, kept), shared, local])
    tables = tables**2 if kind is LODML else -tables
    found = scores(tables, known, truth, LOCAL, kind is LODML, None if kind is LODML else -np.stack([start, own]))
    model.partial_fit(rows, truth)
    assert inside.whole(model).judged == len(rows)
    np.testing.assert_allclose(inside.whole(model).evidence, gathered(before, found), atol=1e-4)
    growth = 1.0 + len(rows) / len(X[::2])  # of all rows so far, of which 20 of a class are kept
    after = cautious(inside.whole(model).evidence, LOCAL, growth=growth)
    assert (model.strength_, model.strength_ * model.local_share_) == pytest.approx(after)


@pytest.mark.parametrize("size", [1, 7, 50])
def test_ever_fewer_rows_of_a_stream_are_judged(size):
    rows, y = ring(900, d=3)
    model, judged = OASIS(random_state=0, reservoir_size=8), []
    for a in range(0, 900, size):
        model.partial_fit(rows[a : a + size], y[a : a + size])
        judged.append(inside.whole(model).judged)
    wanted = EAGER * np.log1p(np.arange(size, 900 + size, size)[: len(judged)] / EAGER)
    assert (np.array(judged) <= wanted + size).all()
    assert judged[-1] >= wanted[-1] - 2 * size
    assert inside.whole(model).evidence[0, 0] <= MAX_EVIDENCE


def test_rows_without_a_vote_of_their_class_are_no_evidence():
    model = LODML(random_state=0).partial_fit(X[:120], Y[:120])
    assert set(Y[:120]) == {0, 1}
    before = inside.whole(model).evidence
    model.partial_fit(X[140:160], Y[140:160])
    assert inside.whole(model).judged == 20
    np.testing.assert_array_equal(inside.whole(model).evidence, before)


def test_a_stream_whose_read_outs_are_costly_is_judged_by_halves(monkeypatch):
    monkeypatch.setattr("paloma._training.guard.SOLVED", 5.0)
    order = np.random.default_rng(0).permutation(len(Y))
    model = streamed(LODML(random_state=0), X[order], Y[order], size=1)
    assert 0 < inside.whole(model).judged < 25
    assert inside.whole(model).evidence[0, 0] > 80
    assert model.strength_ > 0.4


def test_a_few_rows_do_not_overrule_what_triplets_taught():
    triplets = paloma.triplets.targets_impostors(X, Y, random_state=0)
    model = LODML(random_state=0).partial_fit(X, Y, triplets=triplets)
    before = model.strength_
    assert streamed(model, X[::20], Y[::20], size=3).strength_ == before > 0.5


def test_a_refused_batch_is_not_judged(monkeypatch):
    model = streamed(LOSL(random_state=0), X[:160:2], Y[:160:2], size=10)
    before = copy.deepcopy(model)

    def refuse(*_):
        raise ValueError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_learn_rows", refuse)
        with pytest.raises(ValueError, match="refused"):
            model.partial_fit(X[1:160:2], Y[1:160:2])
    assert_same(model, before)


def test_few_rows_of_a_stream_are_judged_among_many():
    codes = np.where(np.arange(3 * MAX_CANDIDATES) % 2, -1, 0)
    chosen, rows = spaced(codes)
    assert (codes[chosen] == 0).all()
    assert (len(chosen), len(rows)) == (MAX_CANDIDATES, MAX_JUDGED)
    assert chosen[0] == rows[0] == 0
    assert chosen[-1] == 3 * MAX_CANDIDATES - 2
    assert rows[-1] == MAX_CANDIDATES - 1
    assert MAX_CANDIDATES == 10 * MAX_JUDGED
    chosen, rows = spaced(codes[:100])
    np.testing.assert_array_equal(chosen, np.arange(0, 100, 2))
    np.testing.assert_array_equal(rows, np.arange(50))


@pytest.mark.parametrize("kind", [LOSL, OASIS, LODML, ODML])
def test_a_stream_does_not_fall_below_its_start(kind):
    digits, y = load_digits(return_X_y=True)
    rows = UnitRows().fit_transform(digits) if kind in (LOSL, OASIS) else digits / 4.0
    train, test = slice(0, 600), slice(600, None)
    triplets = paloma.triplets.targets_impostors(rows[train], y[train], random_state=0)
    start = kind(random_state=0, C=1e-12).partial_fit(rows[train], y[train], triplets=triplets)
    model, found = kind(random_state=0), []
    for chunk in np.split(triplets, [100, 300, 1000, 3000]):
        model.partial_fit(rows[train], y[train], triplets=chunk)
        found.append(MetricKNeighborsClassifier(model).fit(rows[train], y[train]).score(rows[test], y[test]))
    first = MetricKNeighborsClassifier(start).fit(rows[train], y[train]).score(rows[test], y[test])
    assert min(found) > first - 0.01
    assert found[-1] > first - 0.003


@pytest.mark.parametrize("name", ["LOSL", "OASIS", "L2OSL"])
def test_labels_of_a_stream_do_not_pull_a_similarity_below_its_start(name):
    """Unit rows of Letters, whose classes lie close together: followed in full, a similarity falls by .1 and more."""
    letters, labels = paloma.datasets.load_letters(return_X_y=True)
    rows, ends, found = UnitRows().fit_transform(letters), [30, 50, 100, 200, 400], []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(rows))
        train, test = order[:400], order[400:2000]
        model, begin = MetricKNeighborsClassifier(getattr(paloma, name)(random_state=0)), 0
        for end in ends:
            for a in range(begin, end, 10):
                model.partial_fit(rows[train[a : a + 10]], labels[train[a : a + 10]])
            begin = end
            start = copy.deepcopy(model)
            inside.whole(start.metric_).strength, inside.whole(start.metric_).metric = (0.0, 0.0), None
            found.append([each.refresh().score(rows[test], labels[test]) for each in (model, start)])
    gains = np.diff(np.reshape(found, (3, len(ends), 2)), axis=2).mean(axis=0)
    assert gains.max() < 0.005


@pytest.mark.parametrize("name", ["LODML", "LOSL", "ODML", "OASIS"])
def test_fewer_rows_than_features_are_judged_in_their_span(name, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 4
    rows = rng.normal(size=(60, 90)) + 2.0 * rng.normal(size=(4, 90))[y] * (np.arange(90) < 9)
    turned = Dense().turned(rows, 3)
    assert turned.shape == (60, 60)
    np.testing.assert_allclose(turned @ turned.T, rows @ rows.T, atol=1e-10)
    found = getattr(paloma, name)(random_state=0).fit(rows, y)
    monkeypatch.setattr(Dense, "turned", lambda self, X, n_classes: X)
    expected = getattr(paloma, name)(random_state=0).fit(rows, y)
    assert found.strength_ == pytest.approx(expected.strength_, abs=1e-12)
    np.testing.assert_allclose(found.metric_matrix(1), expected.metric_matrix(1), atol=1e-10)


def test_very_many_features_are_judged_in_their_strongest_directions():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(700, 40)) @ rng.normal(size=(40, 800)) + 0.01 * rng.normal(size=(700, 800))).astype("f4")
    turned = Dense().turned(rows, 3)
    assert turned.shape == (700, 480)
    assert turned.dtype == np.float32
    assert np.abs(turned @ turned.T - rows @ rows.T).max() < 1e-3 * (rows * rows).sum(axis=1).max()
    assert Dense().turned(rows[:, :600], 3).shape == (700, 600)
    assert Dense().turned(rows[:550], 3).shape == (550, 550)
