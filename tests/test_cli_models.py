"""The commands that learn, measure and search; streams and signals; and the page that lists them all."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import paloma
from paloma.cli import _reference, app
from paloma.cli._columns import Batch
from paloma.cli._writers import write
from same import assert_same

ROOT = Path(__file__).resolve().parents[1]
RNG = np.random.default_rng(0)
Y = np.array(["red", "green", "blue"])[RNG.integers(0, 3, 300)]
X = (RNG.normal(size=(300, 4)) + 2 * (Y[:, None] == np.array(["red", "green", "blue", "none"]))).round(3)
NAMES = ["a", "b", "c", "d"]


def run(*arguments, code=0, **options):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], **options)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def files(tmp_path):
    """Two tables, and the path of a model."""
    write(Batch(X[:200], Y[:200], NAMES), tmp_path / "train.csv", "label")
    write(Batch(X[200:], Y[200:], NAMES), tmp_path / "test.csv", "label")
    return tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "model.paloma"


@pytest.mark.parametrize("learner", paloma.estimators.__all__)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz", ".parquet"])
def test_from_a_table_to_predictions(learner, suffix, tmp_path):
    train, test, model = tmp_path / f"train{suffix}", tmp_path / f"test{suffix}", tmp_path / "model.paloma"
    write(Batch(X[:200], Y[:200], NAMES), train, "label")
    write(Batch(X[200:], None, NAMES), test, "label")
    run("fit", train, "-o", model, "--learner", learner.lower(), "--quiet", "--set", "n_epochs=1")
    expected = paloma.load(model).predict(X[200:])
    assert (expected == Y[200:]).mean() > 0.6
    assert run("predict", model, test).stdout.split() == expected.tolist()


def test_fit_equals_the_library(files):
    train, _, model = files
    run("fit", train, "-o", model, "--prepare", "none", "--set", "C=0.05", "--set", "psd=never", "--seed", 3)
    metric = paloma.LODML(C=0.05, psd="never", random_state=3).fit(X[:200], Y[:200])
    assert_same(paloma.load(model).metric_, metric)


@pytest.mark.parametrize(
    ("learner", "steps"), [("ODML", ["StandardScaler"]), ("OASIS", ["StandardScaler", "UnitRows"])]
)
def test_what_is_done_to_the_rows_first(learner, steps, files):
    train, _, model = files
    run("fit", train, "-o", model, "-l", learner, "-q")
    assert [type(step).__name__ for _, step in paloma.load(model).steps[:-1]] == steps
    result = run("fit", train, "-o", model, "--prepare", "whiten", code=1)
    assert "--prepare must be one of auto, none, standard, minmax, maxabs, unit, got 'whiten'" in result.stderr


def test_the_table_while_learning(files):
    train, _, model = files
    result = run("fit", train, "-o", model)
    lines = result.stderr.splitlines()
    assert lines[0].split("  ")[-1].strip() == "triplets/s"
    seen = [int(line.split()[0].replace(",", "")) for line in lines[1:-2]]
    metric = paloma.load(model)[-1].metric_
    assert seen == sorted(seen)
    assert seen[-1] == metric.n_triplets_
    mean_loss, since_last, updates, rate = (float(cell.replace(",", "")) for cell in lines[-3].split()[1:])
    assert 0 < mean_loss < 2
    assert 0 < since_last < 2
    assert updates == pytest.approx(100 * metric.n_updates_ / metric.n_triplets_, abs=0.06)
    assert rate > 0
    assert result.stdout == ""


def test_figures_for_scripts(files):
    train, test, model = files
    result = run("fit", train, "-o", model, "--json")
    figures = json.loads(result.stdout)
    assert figures["rows"] == 200
    assert figures["triplets"] == paloma.load(model)[-1].metric_.n_triplets_
    assert figures["triplets_a_row"] == pytest.approx(figures["triplets"] / 200)
    assert result.stderr == ""
    figures = json.loads(run("eval", model, test, "--json").stdout)
    assert figures["accuracy"] == paloma.load(model).score(X[200:], Y[200:])
    assert 0.5 < figures["euclid"] <= 1
    (first, *_) = map(json.loads, run("predict", model, test, "--json").stdout.splitlines())
    assert first["row"] == 0
    assert first["label"] in first["shares"]
    assert sum(first["shares"].values()) == pytest.approx(1)


def test_search(files):
    train, test, model = files
    run("fit", train, "-o", model, "--prepare", "none", "-q")
    values, ids = paloma.load(model).kneighbors(X[200:], 4)
    found = list(map(json.loads, run("search", model, test, "-k", 4, "--json").stdout.splitlines()))
    assert [[near["row"] for near in result["neighbors"]] for result in found] == ids.tolist()
    assert [result["neighbors"][0]["value"] for result in found] == values[:, 0].tolist()
    assert found[7]["neighbors"][0]["label"] == Y[ids[7, 0]]
    table = run("search", model, test, "-k", 2, "--limit", 3).stdout
    assert table.count("│") == 6 * 6
    assert "distance" in table
    assert f"{values[0, 0]:.4f}" in table


def test_a_metric_without_rows(files):
    train, test, model = files
    run("fit", train, "-o", model, "--metric-only", "-q")
    result = run("predict", model, test, code=1)
    assert result.stderr == ("paloma: error: The model keeps no rows to search in; give labelled rows with --items.\n")
    with_items = run("predict", model, test, "--items", train, "-k", 5).stdout.split()
    run("fit", train, "-o", model, "-k", 5, "-q")
    assert run("predict", model, test).stdout.split() == with_items
    run("fit", train, "-o", model, "--metric-only", "-q", "--prepare", "none")
    figures = json.loads(run("eval", model, test, "--json").stdout)
    assert figures["leave_one_out_accuracy"] == paloma.load(model).score(X[200:], Y[200:])


def test_triplets(files, tmp_path):
    train, test, model = files
    triplets = RNG.integers(0, 200, (500, 3))
    np.save(tmp_path / "t.npy", triplets)
    np.savetxt(tmp_path / "t.csv", triplets[:100] % 100, "%d", delimiter=",")
    run("fit", train, "-o", model, "--triplets", tmp_path / "t.npy", "--prepare", "none", "-q")
    metric = paloma.LODML(random_state=0).fit(X[:200], Y[:200], triplets=triplets)
    assert_same(paloma.load(model).metric_, metric)
    figures = json.loads(run("eval", model, test, "--triplets", tmp_path / "t.csv", "--json").stdout)
    assert figures["ranked_right"] == metric.triplet_score(X[200:], triplets[:100] % 100, Y[200:])
    lines = [json.dumps({"anchor": a, "positive": b, "negative": c}) for a, b, c in X[triplets].tolist()]
    (tmp_path / "points.jsonl").write_text("\n".join(lines))
    run("fit", tmp_path / "points.jsonl", "-o", model, "-q")
    assert_same(paloma.load(model).shared_, paloma.LODML(random_state=0).fit(None, triplets=X[triplets]).shared_)
    figures = json.loads(run("eval", model, tmp_path / "points.jsonl", "--json").stdout)
    assert figures["triplets"] == 500


def test_info(files, tmp_path):
    train, _, model = files
    run("fit", train, "-o", model, "--set", "C=0.05", "-q")
    metric = paloma.load(model)[-1].metric_
    shown = run("info", model, "--classes", 2, "--picture", tmp_path / "model.png").stdout
    for text in ("StandardScaler > MetricKNeighborsClassifier", "LODML(C=0.05", f"{metric.n_triplets_:,} triplets",
                 "3: blue, green, red", "4: a, b, c, d", "rows kept   200"):  # fmt: skip
        assert text in shown
    assert shown.count("█") >= 3
    assert (tmp_path / "model.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(run("info", model, "--json", "--classes", 1).stdout)
    shared, strongest = found["parts"]
    np.testing.assert_allclose(shared["spectrum"], np.linalg.eigvalsh(metric.shared_)[::-1])
    moved = [np.linalg.norm(part - np.eye(4)) for part in metric.local_]
    assert strongest["name"] == metric.classes_[np.argmax(moved)]
    assert strongest["heaviest"][0][0] == NAMES[np.diag(metric.metric_matrix(strongest["name"])).argmax()]


def test_convert(files, tmp_path):
    train, _, model = files
    run("convert", "letters", tmp_path / "letters.csv", "--rows", "10:20")
    assert len((tmp_path / "letters.csv").read_text().splitlines()) == 11
    run("convert", train, tmp_path / "train.parquet")
    run("convert", tmp_path / "train.parquet", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == train.read_text()
    run("fit", train, "-o", model, "--prepare", "none", "-q")
    run("convert", model, tmp_path / "matrices.npz")
    with np.load(tmp_path / "matrices.npz") as arrays:
        np.testing.assert_array_equal(arrays["metrics"][1], paloma.load(model).metric_.metric_matrix("green"))
    assert "from:to" in run("convert", train, tmp_path / "x.csv", "--rows", "a:b", code=1).stderr
    assert "unknown kind of file to write" in run("convert", train, tmp_path / "x.doc", code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learner", "LMNN"], "Unknown learner 'LMNN'; known are "),
        (["--set", "D=1"], "--set D=1: expected name=value with a parameter of LODML: C, "),
        (["--set", "C"], "--set C: expected name=value"),
        (["--set", "C=-1"], "C must be a number in (0, inf], got -1."),
        (["--label", "colour"], "no label column 'colour'; name it with --label. The columns are 'a', 'b'"),
        (["--drop", "a,b,c,d"], "no feature columns beside the label"),
    ],
)
def test_wrong_options_of_fit(arguments, message, files):
    train, _, model = files
    result = run("fit", train, "-o", model, *arguments, code=1)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not model.exists()


def test_a_damaged_model(files):
    train, test, model = files
    run("fit", train, "-o", model, "-q")
    model.write_bytes(model.read_bytes()[:-1])
    result = run("predict", model, test, code=1)
    assert result.stderr.startswith(f"paloma: error: {model} is damaged")


# -- streams ---------------------------------------------------------------------------------------------------


def test_update_equals_the_library(files):
    train, test, model = files
    text = train.read_text()
    result = run("update", model, "--learner", "LODML", "--batch", 51, input=text)
    metric = paloma.LODML(random_state=0).partial_fit(X[:50], Y[:50])  # the header is one of the first 51 lines
    for a in range(50, 200, 51):
        metric.partial_fit(X[a : min(a + 51, 200)], Y[a : min(a + 51, 200)])
    found = paloma.load(model)
    assert found.columns_ == {"features": NAMES, "label": "label"}
    assert_same(found._model, metric._model)
    assert "200 rows" in result.stderr
    run("update", model, test, "--batch", 50, "--json")
    for part in (slice(200, 249), slice(249, 299), slice(299, 300)):
        metric.partial_fit(X[part], Y[part])
    assert_same(paloma.load(model)._model, metric._model)


def test_update_of_a_classifier_brings_its_rows_under_the_new_metric(files):
    train, test, model = files
    run("fit", train, "-o", model, "-q")
    before = paloma.load(model)
    run("update", model, test, "-q", "--batch", 1000)
    after = paloma.load(model)
    metric = before[-1].metric_.partial_fit(before[0].transform(X[200:]), Y[200:])
    assert_same(after[-1].metric_._model, metric._model)
    again = paloma.MetricKNeighborsClassifier(metric).fit(before[0].transform(X[:200]), Y[:200])
    for one, two in zip(after[-1].kneighbors(X), again.kneighbors(X), strict=True):
        np.testing.assert_array_equal(one, two)


def test_update_with_json_lines_of_both_kinds(tmp_path):
    model = tmp_path / "model.paloma"
    rows = [{"x": x, "label": y} for x, y in zip(X[:60].tolist(), Y[:60].tolist(), strict=True)]
    points = {"anchor": X[0].tolist(), "positive": X[1].tolist(), "negative": X[2].tolist()}
    triplets = [{**points, "classes": [Y[1], Y[2]], "weight": 0.5}, {**points, "classes": [Y[1], Y[2]]}]
    run("update", model, "-l", "ODML", input="\n".join(map(json.dumps, rows + triplets)))
    metric = paloma.ODML(random_state=0).partial_fit(X[:60], Y[:60])
    classes = np.array([[Y[1], Y[1], Y[2]]] * 2)
    metric.partial_fit(None, classes, triplets=X[[[0, 1, 2]] * 2], triplet_weight=[0.5, 1.0])
    assert_same(paloma.load(model)._model, metric._model)


def test_update_without_a_model(tmp_path):
    result = run("update", tmp_path / "none.paloma", input="a,label\n1,x\n", code=1)
    assert "none.paloma" in result.stderr


def test_an_error_in_a_stream_keeps_what_was_learnt_before(files):
    train, _, model = files
    result = run("update", model, "-l", "ODML", "--batch", 101, input=train.read_text() + "1,2,oops,4,red\n", code=1)
    assert "standard input, row 201, column 'c': 'oops' is not a number" in result.stderr
    metric = paloma.ODML(random_state=0).partial_fit(X[:100], Y[:100])
    assert_same(paloma.load(model)._model, metric._model)


def following(model, save_every):
    """`paloma update` that waits for rows on standard input."""
    command = [sys.executable, "-m", "paloma", "update", str(model), "-l", "ODML", "--patience", "0.1"]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*command, "--save-every", save_every], **pipes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves(number, files):
    train, _, model = files
    command = [
        sys.executable,
        "-m",
        "paloma",
        "update",
        str(model),
        "-l",
        "ODML",
        "--save-every",
        "0",
        "--patience",
        "0.1",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdin.write(train.read_text())
        process.stdin.flush()
        assert "mean loss" in process.stderr.readline()
        time.sleep(0.5)
        assert not model.exists()
        os.kill(process.pid, number)
        shown = process.stderr.read()
        assert process.wait() == 128 + number
    assert "Traceback" not in shown
    assert_same(paloma.load(model)._model, paloma.ODML(random_state=0).partial_fit(X[:200], Y[:200])._model)


def test_a_silent_stream_is_saved(files):
    train, _, model = files
    command = [
        sys.executable,
        "-m",
        "paloma",
        "update",
        str(model),
        "-l",
        "ODML",
        "--save-every",
        "0.1",
        "--patience",
        "0.1",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdin.write(train.read_text())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not model.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        found = paloma.load(model)
        process.stdin.close()
        process.stdin = None
        assert process.wait() == 0
    assert_same(found._model, paloma.ODML(random_state=0).partial_fit(X[:200], Y[:200])._model)


def test_who_reads_us_may_stop(files):
    train, _, model = files
    run("fit", train, "-o", model, "-q")
    command = f"{sys.executable} -m paloma search {model} {train} --json | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert json.loads(result.stdout)["query"] == 0
    assert result.stderr == ""


# -- the documents ---------------------------------------------------------------------------------------------


def test_the_reference_is_the_help():
    """Run ``python -m paloma.cli._reference > docs/cli.md`` after a change."""
    assert (ROOT / "docs" / "cli.md").read_text() == _reference.page()


def test_every_command_shows_an_example():
    page = _reference.page()
    assert page.count("Example:") == page.count("\n## paloma ")
