"""What a new user stumbles over: each test is one story that used to end badly.

The list that they come from, by its numbers, with the test of each ([tables]: tests/test_everyday_tables.py,
[errors]: tests/test_everyday_errors.py):

 1. test_a_class_that_first_comes_by_update_is_predicted
 2. test_feedback_is_obeyed_at_once_and_spares_the_rest
 3. test_the_score_of_a_learner_does_not_flatter
 4. test_later_items_reuse_the_balance_of_the_first, test_vectors_of_another_state_of_the_metric_are_told
 5. test_a_parameter_of_a_fitted_metric_takes_effect_at_the_next_fit
 6. test_an_index_over_a_learner_that_has_not_learned_starts_at_its_initial_metric
 7. test_the_first_line_comes_before_anything_slow, test_reading_a_long_table_says_how_far_it_is,
    test_mining_and_learning_say_how_much_time_is_left [tables]
 8. test_a_classifier_learns_a_stream_as_its_metric_does, test_weights_of_rows_are_factors_of_their_votes,
    test_n_neighbors_are_compared_without_learning_again, test_a_stale_classifier_says_so
 9. test_an_index_gives_back_what_was_added
10. test_labels_that_are_no_classes_are_told [errors]
11. test_signatures_are_readable
12. test_missing_values_are_dropped_or_filled_in, test_bad_lines_are_skipped_and_counted [tables]
13. test_columns_that_are_meant_are_named [tables]
14. test_compressed_and_feather_tables_and_sparse_rows_are_read [tables],
    test_too_many_features_name_the_way_out [errors]
15. test_info_says_what_its_mean_loss_covers
16. test_update_makes_the_same_kind_of_model_as_fit
17. test_ids_of_an_index_come_from_a_column [tables]
18. test_verbose_says_what_runs_at_once_and_off_a_terminal_too, test_compiling_is_announced,
    test_verbose_on_a_terminal_shows_a_bar_of_its_own_line
19. test_the_first_example_of_the_readme_scales_columns_of_different_units
20. test_the_report_says_what_was_run_and_nothing_else, test_the_command_reports_and_resumes (tests/test_reproduce.py)
21. test_few_queries_get_no_figure (tests/test_gallery.py)
22. tests/test_pretrained.py
23. test_saving_into_a_missing_folder_names_the_folder, test_a_learner_says_who_predicts,
    test_a_column_of_text_is_named, test_a_class_instead_of_an_instance_is_told [errors]
24. test_the_local_part_is_kept_by_search_vectors_and_says_so
"""

import doctest
import inspect
import io
import json
import pydoc
import re
import sys
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

import paloma
from helpers.cli import NAMES, X, Y, run
from paloma._progress import narrated
from paloma.cli._batches import Batch
from paloma.cli._writers import write
from paloma.neighbors.voters import in_random_order
from paloma.workflow import train, update
from same import assert_same

NEW = Y == "red"


def three_classes(seed=0, n=240):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + 3 * np.eye(4)[y], y


# -- rows of a stream vote ---------------------------------------------------------------------------------------------


def test_a_class_that_first_comes_by_update_is_predicted(tmp_path):
    known, later, model = tmp_path / "known.csv", tmp_path / "later.csv", tmp_path / "model.paloma"
    first, rest = np.flatnonzero(~NEW[:200]), np.arange(100, 250)
    write(Batch(X[first], Y[first], NAMES), known, "label")
    write(Batch(X[rest], Y[rest], NAMES), later, "label")
    write(Batch(X[250:], Y[250:], NAMES), tmp_path / "test.csv", "label")
    run("fit", known, "-o", model, "-q")
    run("update", model, later, "-q")
    predicted = np.array(run("predict", model, tmp_path / "test.csv").stdout.split())
    assert (predicted[NEW[250:]] == "red").mean() > 0.6
    shown = run("info", model).stdout
    assert f"{len(first) + 150}, for voting and search, 150 of them from updates" in shown


def test_a_classifier_learns_a_stream_as_its_metric_does():
    rows, y = three_classes()
    model = paloma.MetricKNeighborsClassifier(paloma.LODML(random_state=0)).fit(rows[:100], y[:100])
    metric = paloma.LODML(random_state=0).fit(rows[:100], y[:100])
    for part in (slice(100, 150), slice(150, 240)):
        assert model.partial_fit(rows[part], y[part]) is model
        metric.partial_fit(rows[part], y[part])
    assert_same(model.metric_, metric)
    np.testing.assert_array_equal(model.row_numbers_, np.arange(240))
    by_hand = paloma.MetricKNeighborsClassifier(metric).fit(rows, y)
    for one, two in zip(model.kneighbors(rows + 0.1), by_hand.kneighbors(rows + 0.1), strict=True):
        np.testing.assert_array_equal(one, two)


def test_streamed_rows_are_bounded_per_class_and_a_fair_sample():
    rows, y = three_classes(n=3000)
    model = paloma.MetricKNeighborsClassifier(paloma.ODML(random_state=0), streamed_rows=40)
    model.fit(rows[:60], y[:60])
    whole = paloma.MetricKNeighborsClassifier(model.metric_, streamed_rows=40).fit(rows[:60], y[:60])
    for a in range(60, 3000, 490):
        model.partial_fit(rows[a : a + 490], y[a : a + 490])
    assert model.n_streamed_ == 120
    np.testing.assert_array_equal(model.row_numbers_[:60], np.arange(60))
    np.testing.assert_array_equal(model.rows_, rows[model.row_numbers_])
    np.testing.assert_array_equal(model.labels_, y[model.row_numbers_])
    assert 1000 < model.row_numbers_[60:].mean() < 2000
    frozen = paloma.MetricKNeighborsClassifier(FrozenEstimator(whole.metric_), streamed_rows=40)
    frozen.fit(rows[:60], y[:60]).partial_fit(rows[60:], y[60:])
    np.testing.assert_array_equal(frozen.row_numbers_, model.row_numbers_)  # batches do not matter
    assert len(np.unique(in_random_order(np.arange(100_000)))) == 100_000
    window = paloma.MetricKNeighborsClassifier(paloma.ODML(memory="window"), streamed_rows=5).fit(rows[:60], y[:60])
    window.partial_fit(rows[60:], y[60:])
    assert window.row_numbers_[60:].min() > 2900


def test_a_classifier_that_begins_with_a_stream():
    rows, y = three_classes()
    model = paloma.MetricKNeighborsClassifier(paloma.LODML(random_state=0))
    model.partial_fit(rows[:1], y[:1], classes=[0, 1, 2])
    assert model.predict_proba(rows[:2]).shape == (2, 3)
    model.partial_fit(rows[1:150], y[1:150])
    assert model.score(rows[150:], y[150:]) > 0.9
    with pytest.raises(TypeError, match="classes so far are numbers"):
        model.partial_fit(rows[:2], ["a", "b"])
    assert model.classes_.tolist() == [0, 1, 2]


def test_a_file_keeps_streamed_rows_and_goes_on(tmp_path):
    rows, y = three_classes()
    model = train(paloma.LODML(random_state=0), rows[:100], y[:100])
    model[-1].set_params(streamed_rows=20)
    update(model, [(rows[100:180], y[100:180])], path=tmp_path / "model.paloma")
    again = paloma.load(tmp_path / "model.paloma")
    assert again[-1].n_streamed_ == model[-1].n_streamed_ > 40
    for each in (model, again):
        update(each, [(rows[180:], y[180:])])
    assert_same(again, model)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


def test_weights_of_rows_are_factors_of_their_votes(tmp_path):
    rows, y = np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([0, 1, 1, 0])
    metric = paloma.ODML(scale=None).fit(rows, y, triplets=[[0, 0, 0]])
    model = paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform")
    assert model.fit(rows, y).predict(X=[[0.9]])[0] == 1
    assert model.fit(rows, y, sample_weight=[5, 1, 1, 1]).predict([[0.9]])[0] == 0
    np.testing.assert_allclose(model.predict_proba([[0.9]]), [[5 / 7, 2 / 7]], atol=1e-8)
    paloma.save(model, tmp_path / "model.paloma")
    assert_same(paloma.load(tmp_path / "model.paloma"), model)
    np.testing.assert_array_equal(model.fit(rows, y, sample_weight=[0, 1, 1, 1]).row_numbers_, [1, 2, 3])
    with pytest.raises(ValueError, match="sample_weight must have one value for each of the 4 rows of X"):
        model.fit(rows, y, sample_weight=[1, 2])


def test_n_neighbors_are_compared_without_learning_again():
    rows, y = three_classes()
    model = paloma.MetricKNeighborsClassifier(paloma.LODML(random_state=0), weights="soft").fit(rows[:150], y[:150])
    seen = model.metric_.n_triplets_
    found = model.neighbor_scores(rows[150:], y[150:], (1, 4, 9))
    assert found == {k: model.set_params(n_neighbors=k).score(rows[150:], y[150:]) for k in (1, 4, 9)}
    assert model.metric_.n_triplets_ == seen
    with pytest.raises(ValueError, match="n_neighbors must be an integer of at most 150"):
        model.neighbor_scores(rows[150:], y[150:], (1, 151))


def test_a_stale_classifier_says_so():
    rows, y = three_classes()
    model = paloma.MetricKNeighborsClassifier(paloma.LODML(random_state=0).fit(rows[:150], y[:150])).fit(rows, y)
    assert model.updates_behind == 0
    before = model.kneighbors(rows[:5])[0]
    updates = model.metric_.n_updates_
    model.metric_.partial_fit(rows[150:], y[150:])
    assert model.updates_behind == model.metric_.n_updates_ - updates > 0
    np.testing.assert_array_equal(model.kneighbors(rows[:5])[0], before)
    assert model.refresh().updates_behind == 0


def test_a_parameter_of_a_fitted_metric_takes_effect_at_the_next_fit():
    rows, y = three_classes()
    metric = paloma.LODML(random_state=0).fit(rows, y)
    model = paloma.MetricKNeighborsClassifier(metric)
    assert model.fit(rows, y).metric_ is metric
    model.set_params(metric__verbose=0, metric__block_size=7)
    assert model.fit(rows, y).metric_ is metric
    model.set_params(metric__C=0.5, metric__block_size="auto").fit(rows, y)
    assert_same(model.metric_, paloma.LODML(C=0.5, random_state=0).fit(rows, y))
    frozen = paloma.MetricKNeighborsClassifier(FrozenEstimator(metric))
    with pytest.raises(ValueError, match="C of the frozen metric was changed since it learned"):
        frozen.fit(rows, y)
    metric.set_params(C=0.02)
    assert frozen.fit(rows, y).metric_.estimator is metric


def test_update_makes_the_same_kind_of_model_as_fit(files):
    train_file, test_file, model = files
    run("update", model, train_file, "-l", "LODML", "--batch", 60, "-q")
    made = paloma.load(model)
    assert [type(step).__name__ for step in made] == ["StandardScaler", "MetricKNeighborsClassifier"]
    assert made.columns_ == {"features": NAMES, "label": "label"}
    cuts = [0, 59, 119, 179, 200]  # the header is one of the first 60 lines
    scaler = StandardScaler().fit(X[:119])
    np.testing.assert_array_equal(made[0].mean_, scaler.mean_)
    metric = paloma.LODML(random_state=0)
    for a, b in pairwise(cuts):
        metric.partial_fit(scaler.transform(X[a:b]), Y[a:b])
    assert_same(made[-1].metric_, metric)
    run("update", model, test_file, "-q")
    assert "300, for voting and search, 300 of them from updates" in run("info", model).stdout
    few = model.with_name("few.paloma")
    run("update", few, "-l", "ODML", "-q", input="a,label\n1,x\n2,y\n3,x\n4,y\n")
    assert len(paloma.load(few)[-1].labels_) == 4
    bare = model.with_name("bare.paloma")
    run("update", bare, train_file, "-l", "ODML", "-q", "--prepare", "none", "--metric-only")
    assert type(paloma.load(bare)) is paloma.ODML


# -- what a learner says of itself -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [paloma.LODML, paloma.LOSL, paloma.L2ODML, paloma.OKS])
def test_the_score_of_a_learner_does_not_flatter(kind):
    """Few rows vote for few: leave-one-out among 200 new rows knew more of them than a model of 40 rows can."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 8, 600)
    rows = rng.normal(size=(600, 6)) + 1.5 * rng.normal(size=(8, 6))[y]
    metric = kind(random_state=0).fit(rows[:40], y[:40])
    honest = paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(rows[:40], y[:40])
    assert metric.score(rows[40:], y[40:]) == pytest.approx(honest.score(rows[40:], y[40:]))
    assert metric.leave_one_out_score(rows[40:], y[40:]) > honest.score(rows[40:], y[40:])
    # a row that was learned from is not its own neighbor
    assert metric.score(rows[:40], y[:40]) == pytest.approx(metric.leave_one_out_score(rows[:40], y[:40]))
    strange = np.where(y == 7, 9, y)
    assert metric.score(rows[40:][y[40:] == 7], strange[40:][y[40:] == 7]) > 0.3  # class 9, never met, votes for itself
    bare = paloma.ODML().fit(rows, triplets=[[0, 1, 2]])
    with pytest.raises(ValueError, match="remembers 0 labeled rows that could vote"):
        bare.score(rows, y)


def test_later_items_reuse_the_balance_of_the_first(tmp_path):
    rows, y = three_classes()
    metric = paloma.LODML(random_state=0).fit(rows[:120], y[:120])
    first = metric.item_vectors(rows[:100], y[:100], for_graph=True)
    later = metric.item_vectors(0.5 * rows[100:], y[100:], for_graph=True)
    np.testing.assert_array_equal(metric.item_vectors(rows[:100], y[:100], for_graph=True), first)
    asked = metric.query_vectors(rows[:9], for_graph=True)
    direct = -metric.pairwise_score(rows[:9], np.concatenate([rows[:100], 0.5 * rows[100:]]), y)
    squares = np.square(asked[:, None] - np.concatenate([first, later])[None]).sum(axis=2)
    np.testing.assert_array_equal(np.argsort(squares, axis=1)[:, :10], np.argsort(direct, axis=1)[:, :10])
    paloma.save(metric, tmp_path / "metric.paloma")
    again = paloma.load(tmp_path / "metric.paloma")
    np.testing.assert_array_equal(again.item_vectors(rows[:100], y[:100], for_graph=True), first)
    with pytest.warns(UserWarning, match="140 of 140 items are farther out"):
        metric.item_vectors(100 * rows[100:], y[100:], for_graph=True)
    metric.item_vectors(100 * rows[100:], y[100:], for_graph="new")
    with pytest.raises(ValueError, match="for_graph must be one of True, False, 'new'"):
        metric.item_vectors(rows, y, for_graph="old")


def test_vectors_of_another_state_of_the_metric_are_told(tmp_path):
    rows, y = three_classes()
    metric = paloma.LODML(random_state=0).fit(rows[:120], y[:120])
    token = metric.state_token_
    metric.item_vectors(rows, y, token=token)
    paloma.save(metric, tmp_path / "metric.paloma")
    assert paloma.load(tmp_path / "metric.paloma").state_token_ == token
    metric.query_vectors(rows, token=token)
    metric.partial_fit(rows[120:], y[120:])
    for call in (metric.query_vectors, metric.item_vectors):
        with pytest.raises(ValueError, match="made in another state of the metric"):
            call(rows, token=token)
    other = paloma.LODML(random_state=1).fit(rows[:120], y[:120])
    assert len({token, metric.state_token_, other.state_token_}) == 3


# -- an index from the first day on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", paloma.estimators.__all__)
def test_an_index_over_a_learner_that_has_not_learned_starts_at_its_initial_metric(name):
    rows, y = three_classes()
    index = paloma.MetricIndex(getattr(paloma, name)(random_state=0))
    with pytest.raises(ValueError, match="The index is empty"):
        index.search(rows[:1], k=1)
    index.add(rows[:100], y[:100])
    found = index.search(rows[100:], k=5)[1]
    if hasattr(index.metric, "pair_distance"):
        direct = np.square(rows[100:, None] - rows[None, :100]).sum(axis=2)
        np.testing.assert_array_equal(found, np.argsort(direct, axis=1, kind="stable")[:, :5])
    index.metric.partial_fit(rows[:100], y[:100])
    assert index.refresh().search(rows[100:], k=5)[1].shape == found.shape


def test_an_index_gives_back_what_was_added(tmp_path):
    rows, y = three_classes()
    model = train(paloma.ODML(random_state=0), rows, y, keep_rows=False)
    index = paloma.MetricIndex(model)
    index.add(rows[:3], y[:3], ids=["a", "b", "c"], payload=["first", {"title": "second"}, None])
    index.add(rows[3:5], ids=["d", "e"])
    np.testing.assert_allclose(index.vectors_of(["c", "a"]), model[0].transform(rows[[2, 0]]))
    assert index.vectors_of([["a"], ["b"]]).shape == (2, 1, 4)
    assert index.labels_of(["b", "d"]).tolist() == [y[1], None]
    assert index.payload_of(["b", "e", "a"]).tolist() == [{"title": "second"}, None, "first"]
    paloma.save(index.remove(["a"]), tmp_path / "index.paloma")
    again = paloma.load(tmp_path / "index.paloma")
    assert again.payload_of(again.ids).tolist() == [{"title": "second"}, None, None, None]
    for bad, match in (([1], "one entry for each of the 2 rows"), ([1, {2}], "what JSON can hold")):
        with pytest.raises((ValueError, TypeError), match=match):
            index.add(rows[5:7], ids=["f", "g"], payload=bad)
    with pytest.raises(ValueError, match="not in the index: 'a'"):
        index.vectors_of(["a"])


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("kind", [
    paloma.LODML, paloma.ODML, paloma.LOSL, paloma.SLMOML, paloma.OKS, paloma.L2ODML, paloma.L2OSL, paloma.OMDML,
])  # fmt: skip
def test_feedback_is_obeyed_at_once_and_spares_the_rest(kind, fitted):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    rows = rng.normal(size=(400, 10)) + 1.7 * np.eye(10)[y]
    metric = kind(random_state=0)
    if fitted:
        metric.fit(rows[:300], y[:300])
    index = paloma.MetricIndex(metric)
    index.add(rows[:300], y[:300])

    def accuracy():
        return (index.labels_of(index.search(rows[300:], 1)[1][:, 0]) == y[300:]).mean()

    before, clicks = accuracy(), 0
    for q in range(300, 400):  # the first item is of another class: click on the first one that is not
        near = index.search(rows[q : q + 1], 10)[1][0]
        right = near[index.labels_of(near) == y[q]]
        if index.labels_of(near)[0] == y[q] or not len(right) or clicks == 5:
            continue
        assert index.feedback(rows[q], nearer=right[0], farther=near[0])
        order = index.search(rows[q : q + 1], 300)[1][0].tolist()
        assert order.index(right[0]) < order.index(near[0])
        assert not index.feedback(rows[q], nearer=int(right[0]), farther=near[0])
        clicks += 1
    assert clicks == 5
    assert index.updates_behind == 0
    assert accuracy() > before - 0.05


def test_feedback_that_cannot_be_obeyed_changes_nothing():
    rows, y = three_classes()
    index = paloma.MetricIndex(paloma.LODML(random_state=0).fit(rows, y))
    index.add(rows, y)
    token = index.metric.state_token_
    with pytest.raises(ValueError, match="Nothing was changed"):
        index.feedback(0, nearer=7, farther=0)
    with pytest.raises(ValueError, match="not in the index: 999"):
        index.feedback(0, nearer=999, farther=1)
    with pytest.raises(ValueError, match="nearer must be the id of an item or a row"):
        index.feedback(0, nearer=rows[:2], farther=1)
    with pytest.raises(ValueError, match="index is empty"):
        paloma.MetricIndex(paloma.LODML()).feedback(0, nearer=1, farther=2)
    assert index.metric.state_token_ == token
    assert index.updates_behind == 0


@pytest.mark.parametrize("kind", ["LODML", "LOSL", "L2ODML", "L2OSL", "OMDML"])
def test_feedback_is_obeyed_even_if_the_guard_follows_nothing_that_was_learned(kind):
    """Learning begins again from the start, where the read-out is."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 6))
    learner = getattr(paloma, kind)(random_state=0).partial_fit(rows, triplets=[[0, 1, 2]])
    assert learner.strength_ == 0.0
    index = paloma.MetricIndex(learner)
    index.add(rows)
    near = index.search(rows[:1], 3)[1][0]
    assert not index.feedback(0, nearer=near[1], farther=near[2])
    assert index.feedback(0, nearer=near[2], farther=near[1])
    found = index.search(rows[:1], 80)[1][0].tolist()
    assert found.index(near[2]) < found.index(near[1])
    assert index.metric.strength_ == 1.0


# -- errors that say what to do ----------------------------------------------------------------------------------------


def test_a_row_of_a_frame_is_a_query_of_feedback():
    rows, y = three_classes()
    frame = pd.DataFrame(rows, columns=NAMES)
    index = paloma.MetricIndex(train(paloma.LODML(random_state=0), frame, y, keep_rows=False))
    index.add(frame, y)
    first, second = index.search(frame[5:6] + 0.5, 2)[1][0]
    assert index.feedback(frame.iloc[5] + 0.5, nearer=second, farther=first)
    assert index.search(frame[5:6] + 0.5, 1)[1][0, 0] == second


@pytest.mark.parametrize("name", [n for n in paloma.__all__ if inspect.isclass(getattr(paloma, n))])
def test_signatures_are_readable(name):
    shown = pydoc.plain(pydoc.render_doc(getattr(paloma, name)))
    assert "ArrayLike" in shown
    assert "numpy._typing" not in shown


def test_the_local_part_is_kept_by_search_vectors_and_says_so():
    assert "item_vectors" in paloma.LODML.__doc__
    assert "item_vectors" in paloma.LODML.transform.__doc__
    rows, y = three_classes()
    metric = paloma.LODML(random_state=0, C=0.3, guard=False).fit(rows, y)
    products = metric.query_vectors(rows[:5]) @ metric.item_vectors(rows, y).T
    np.testing.assert_allclose(-products, metric.pairwise_score(rows[:5], rows, y) ** 2, atol=1e-9)
    shared = np.linalg.norm(metric.transform(rows[:5])[:, None] - metric.transform(rows)[None], axis=2)
    assert not np.allclose(shared**2, -products, rtol=0.01, atol=0.01)


def test_info_says_what_its_mean_loss_covers(files):
    train_file, test_file, model = files
    run("fit", train_file, "-o", model, "-q", "--prepare", "none")
    metric = paloma.load(model).metric_
    for text in test_file.read_text().splitlines()[1:4]:
        run("update", model, "-q", input=f"a,b,c,d,label\n{text}\n")
    shown = json.loads(run("info", model, "--json").stdout)
    after = paloma.load(model).metric_
    assert after.n_triplets_ > metric.n_triplets_
    first_met = int(shown["loss_of"].split()[0].replace(",", ""))
    assert first_met > after.n_triplets_ - metric.n_triplets_  # not only those of the last call
    assert shown["loss"] > 0.05
    assert f"mean loss   {shown['loss']:.4f} of {first_met:,} triplets when first met" in run("info", model).stdout


def test_verbose_says_what_runs_at_once_and_off_a_terminal_too(capsys, monkeypatch):
    rows, y = three_classes()
    paloma.LODML(random_state=0, block_size=200).fit(rows, y)  # compiles
    monkeypatch.setattr("paloma._progress.PAUSE", 0.0)
    monkeypatch.setattr("paloma._progress.SHORTEST", 0.0)
    monkeypatch.setattr("paloma._search.tiles.MANY_TILES", 0)
    monkeypatch.setattr("paloma._search.euclid.SMALL_DATA", 0)  # as if there were many
    capsys.readouterr()
    paloma.LODML(random_state=0, verbose=1, block_size=200).fit(rows, y)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "LODML, 240 rows: looking for neighbors",
        "comparing 240 rows with each other",
        "comparing 240 rows with each other: 100%",
    ]
    assert re.fullmatch(r"LODML, [\d,]+ triplets, \d+ of 240 anchors have none", lines[3])
    assert re.fullmatch(r"LODML: \d+%, about \d+ s left, loss 0.\d+", lines[5])
    assert lines[-1].startswith("LODML: 100%, about 0 s left")
    paloma.LODML(random_state=0).fit(rows, y)
    assert capsys.readouterr().err == ""


def test_verbose_on_a_terminal_shows_a_bar_of_its_own_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    rows, y = three_classes()
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    paloma.LODML(random_state=0, verbose=1).fit(rows, y)
    shown = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", sys.stderr.getvalue())
    assert "LODML, 240 rows: looking for neighbors\n" in shown
    assert re.search(r"━{30} (\d+)/\1 ", shown)


def test_compiling_is_announced(capsys, monkeypatch):
    def twice(x):
        return 2 * x

    twice.__module__ = "paloma.somewhere"
    monkeypatch.setattr("paloma._progress._said", {})
    with narrated(True):
        numba.njit(twice)(1)
        numba.njit(lambda x: x)(1)  # not ours
    assert capsys.readouterr().err == "paloma compiles its loops for this kind of data: once, for a few seconds.\n"
    with narrated(False):
        numba.njit(twice)(1.0)
    assert capsys.readouterr().err == ""


def test_the_first_example_of_the_readme_scales_columns_of_different_units():
    page = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    example = doctest.DocTestParser().get_doctest(page.split("```python")[1].split("```")[0], {}, "ten lines", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(example, clear_globs=False).failed == 0
    model = example.globs["model"]
    assert [type(step).__name__ for step in model] == ["StandardScaler", "MetricKNeighborsClassifier"]
    assert model.score(example.globs["X_test"], example.globs["y_test"]) > 0.95
    assert len(example.examples) <= 10
