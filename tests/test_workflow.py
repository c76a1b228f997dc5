"""Whole workflows: what `train` assembles, that rows are mapped once, and what `update` saves."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import paloma
from paloma.cli import app
from paloma.workflow import build_index, evaluate, keep_rows, search, train, update
from same import assert_same

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 240)
X = 5 * RNG.normal(size=(240, 4)) + 8 * np.eye(4)[Y] + 100
TRIPLETS = RNG.integers(0, 240, (300, 3))


def names(model):
    return [type(step).__name__ for step in model] if isinstance(model, Pipeline) else type(model).__name__


@pytest.mark.parametrize(
    ("learner", "preprocessing", "expected"),
    [
        (paloma.ODML(), "auto", ["StandardScaler", "MetricKNeighborsClassifier"]),
        (paloma.OASIS(), "auto", ["StandardScaler", "UnitRows", "MetricKNeighborsClassifier"]),
        (paloma.ODML(), "maxabs", ["MaxAbsScaler", "MetricKNeighborsClassifier"]),
        (paloma.ODML(), PCA(2), ["PCA", "MetricKNeighborsClassifier"]),
        (paloma.ODML(), None, "MetricKNeighborsClassifier"),
    ],
)
def test_what_train_assembles(learner, preprocessing, expected, tmp_path):
    columns = {"features": list("abcd"), "label": "class"}
    model = train(learner, X, Y, preprocessing=preprocessing, columns=columns, path=tmp_path / "model.paloma")
    assert names(model) == expected
    assert not hasattr(learner, "classes_")
    loaded = paloma.load(tmp_path / "model.paloma")
    assert loaded.columns_ == columns
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_train_equals_the_same_steps_by_hand():
    rows = StandardScaler().fit_transform(X)
    metric = paloma.LODML(random_state=0).fit(rows, Y, triplets=TRIPLETS)
    model = train(paloma.LODML(random_state=0), X, Y, triplets=TRIPLETS, n_neighbors=5)
    assert_same(model[-1].metric_, metric)
    expected = paloma.MetricKNeighborsClassifier(metric, n_neighbors=5).fit(rows, Y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(rows))
    assert names(train(paloma.LODML(), X, Y, keep_rows=False)) == ["StandardScaler", "LODML"]
    assert names(train(paloma.LODML(), X, triplets=TRIPLETS)) == ["StandardScaler", "LODML"]
    assert names(train(paloma.LODML(), None, triplets=X[TRIPLETS])) == "LODML"


def test_rows_are_mapped_once(monkeypatch, tmp_path):
    calls = []
    for kind, name in ((StandardScaler, "transform"), (paloma.MetricKNeighborsClassifier, "refresh")):
        before = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *a, _do=before, _name=name: calls.append(_name) or _do(*a))
    np.savez(tmp_path / "rows.npz", X=X, y=Y)
    model = tmp_path / "model.paloma"
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "rows.npz"), "-o", str(model), "-q"])
    assert result.exit_code == 0, result.output
    assert sorted(calls) == ["transform"]
    calls.clear()
    update(paloma.load(model), [(X[:50], Y[:50]), None, (X[50:], Y[50:])], path=model)
    assert sorted(calls) == ["refresh", "transform", "transform"]


def test_update_saves_what_was_learned_before_a_refused_batch(tmp_path):
    path = tmp_path / "model.paloma"
    model = train(paloma.ODML(random_state=0), X[:100], Y[:100])
    expected = train(paloma.ODML(random_state=0), X[:100], Y[:100])[-1].metric_
    rows, points = model[0].transform(X), model[0].transform(X[TRIPLETS].reshape(-1, 4)).reshape(-1, 3, 4)
    with pytest.raises(ValueError, match="NaN"):
        update(model, [(X[100:], Y[100:]), {"X": None, "triplets": X[TRIPLETS]}, (X * np.nan, Y)], path=path)
    expected.partial_fit(rows[100:], Y[100:]).partial_fit(None, triplets=points)
    assert_same(paloma.load(path)[-1].metric_, expected)


def test_update_saves_nothing_after_an_interrupt(tmp_path):
    def batches():
        yield X, Y
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(paloma.ODML(random_state=0), batches(), path=tmp_path / "model.paloma")
    assert list(tmp_path.iterdir()) == []


def test_evaluate_and_search_agree_with_the_classifier():
    metric = train(paloma.LODML(random_state=0), X[:160], Y[:160], keep_rows=False)
    model = keep_rows(metric, X[:160], Y[:160], n_neighbors=5)
    for figures in (
        evaluate(model, X[160:], Y[160:]),
        evaluate(metric, X[160:], Y[160:], items=(X[:160], Y[:160]), n_neighbors=5),
    ):
        assert figures["accuracy"] == model.score(X[160:], Y[160:])
    assert evaluate(model, X[160:], Y[160:], n_neighbors=1)["neighbors"] == 1
    assert model[-1].n_neighbors == 5
    rows = metric[0].transform(X)
    assert evaluate(metric, X, Y)["leave_one_out_accuracy"] == metric[-1].leave_one_out_score(rows, Y)
    score = metric[-1].triplet_score(rows, TRIPLETS)
    assert evaluate(metric, X, triplets=TRIPLETS) == {"triplets": 300, "triplet_score": score}
    assert evaluate(metric, None, triplets=X[TRIPLETS])["triplet_score"] == pytest.approx(score)
    found, index = search(model, X[160:], k=4), build_index(model, X[:160], Y[:160])
    np.testing.assert_array_equal(found.ids, search(index, X[160:], k=4).ids)
    np.testing.assert_array_equal(found.labels, Y[found.ids])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: train(paloma.ODML(), X, Y, preprocessing="whiten"), "one of auto, standard, minmax, maxabs, unit"),
        (lambda: train(paloma.ODML(), None, triplets=X[TRIPLETS], preprocessing="unit"), "Use preprocessing=None"),
        (lambda: search(paloma.ODML().fit(X, Y), X), "keeps no rows"),
        (lambda: evaluate(paloma.ODML().fit(X, Y), X), "expected labels y or triplets"),
        (lambda: evaluate(paloma.ODML().fit(X, Y), X, Y, n_neighbors=5), "needs rows that vote"),
        (lambda: evaluate(paloma.ODML().fit(X, Y), X, Y, retrieval=True), "Pass items="),
        (lambda: keep_rows(build_index(paloma.ODML().fit(X, Y), X), X, Y), "got a MetricIndex"),
        (
            lambda: build_index(build_index(paloma.ODML().fit(X, Y), X), X, backend="faiss-flat"),
            "already has its backend",
        ),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert message in str(error.value)


def test_update_of_an_index_uses_its_preprocessing():
    index = build_index(train(paloma.ODML(random_state=0), X[:160], Y[:160]), X[:160], Y[:160])
    expected = train(paloma.ODML(random_state=0), X[:160], Y[:160])
    update(index, [(X[160:], Y[160:])])
    update(expected, [(X[160:], Y[160:])])
    assert_same(index.metric[-1], expected[-1].metric_)


def test_a_pipeline_of_ones_own_keeps_its_steps_and_their_names():
    rows = StandardScaler().fit_transform(X)
    own = Pipeline([("standard", StandardScaler()), ("nothing", "passthrough"), ("metric", paloma.ODML())]).fit(X, Y)
    kept = keep_rows(own, X, Y, n_neighbors=3)
    assert list(kept.named_steps) == ["standard", "nothing", "metrickneighborsclassifier"]
    expected = paloma.MetricKNeighborsClassifier(own[-1], n_neighbors=3).fit(rows, Y)
    np.testing.assert_array_equal(kept.predict(X), expected.predict(rows))
    np.testing.assert_array_equal(search(kept, X[:5]).ids, expected.kneighbors(rows[:5])[1])
    assert list(build_index(kept, X, Y).metric.named_steps) == ["standard", "nothing", "odml"]
