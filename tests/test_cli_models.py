"""The commands that learn, measure and search; and the page that lists them all."""

import io
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import paloma
from helpers.cli import NAMES, X, Y, run
from paloma.cli import _reference, _report
from paloma.cli._batches import Batch
from paloma.cli._writers import write
from same import assert_same

ROOT = Path(__file__).resolve().parents[1]


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
    assert lines[0] == f"reading {train}"
    assert lines[1] == "200 rows, 4 features (a, b, c, d); 3 classes in 'label'"
    assert lines[2] == "LODML, 200 rows: looking for neighbors"
    assert re.fullmatch(r"LODML, [\d,]+ triplets, \d+ of 200 anchors have none", lines[3])
    lines = [line for line in lines[4:] if "compiles its loops" not in line]
    assert lines[0].split()[-2:] == ["triplets/s", "left"]
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
    assert figures["triplets_per_row"] == pytest.approx(figures["triplets"] / 200)
    assert result.stderr == ""
    figures = json.loads(run("eval", model, test, "--json").stdout)
    assert figures["accuracy"] == paloma.load(model).score(X[200:], Y[200:])
    assert 0.5 < figures["euclid"] <= 1
    (first, *_) = map(json.loads, run("predict", model, test, "--json").stdout.splitlines())
    assert first["row"] == 0
    assert first["label"] in first["shares"]
    expected = zip(paloma.load(model).classes_, paloma.load(model).predict_proba(X[200:201])[0], strict=True)
    assert first["shares"] == pytest.approx({str(label): p for label, p in expected if p > 1e-6}, abs=1e-6)


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
    assert result.stderr == "paloma: error: The model contains no rows to search. Provide labeled rows with --items.\n"
    with_items = run("predict", model, test, "--items", train, "-k", 5).stdout.split()
    run("fit", train, "-o", model, "-k", 5, "-q")
    assert run("predict", model, test).stdout.split() == with_items
    run("fit", train, "-o", model, "--metric-only", "-q", "--prepare", "none")
    figures = json.loads(run("eval", model, test, "--json").stdout)
    assert figures["leave_one_out_accuracy"] == paloma.load(model).leave_one_out_score(X[200:], Y[200:])
    assert "Provide labeled rows with --items" in run("eval", model, test, "-k", 5, code=1).stderr


def test_triplets(files, tmp_path):
    train, test, model = files
    triplets = np.random.default_rng(1).integers(0, 200, (500, 3))
    np.save(tmp_path / "t.npy", triplets)
    np.savetxt(tmp_path / "t.csv", triplets[:100] % 100, "%d", delimiter=",")
    run("fit", train, "-o", model, "--triplets", tmp_path / "t.npy", "--prepare", "none", "-q")
    metric = paloma.LODML(random_state=0).fit(X[:200], Y[:200], triplets=triplets)
    assert_same(paloma.load(model).metric_, metric)
    figures = json.loads(run("eval", model, test, "--triplets", tmp_path / "t.csv", "--json").stdout)
    assert figures["triplet_score"] == metric.triplet_score(X[200:], triplets[:100] % 100, Y[200:])
    lines = [json.dumps({"anchor": a, "positive": b, "negative": c}) for a, b, c in X[triplets].tolist()]
    (tmp_path / "points.jsonl").write_text("\n".join(lines))
    run("fit", tmp_path / "points.jsonl", "-o", model, "-q")
    assert_same(paloma.load(model).shared_, paloma.LODML(random_state=0).fit(None, triplets=X[triplets]).shared_)
    figures = json.loads(run("eval", model, tmp_path / "points.jsonl", "--json").stdout)
    assert figures["triplets"] == 500
    missing = run("fit", train, "-o", model, "--triplets", tmp_path / "none.npy", code=2)
    assert "none.npy does not exist" in " ".join(missing.stderr.split())


def test_info(files, tmp_path):
    train, _, model = files
    run("fit", train, "-o", model, "--set", "C=0.05", "-q")
    metric = paloma.load(model)[-1].metric_
    shown = run("info", model, "--classes", 2, "--picture", tmp_path / "model.png").stdout
    for text in ("StandardScaler > MetricKNeighborsClassifier", "LODML(C=0.05", f"{metric.n_triplets_:,} triplets",
                 "3: blue, green, red", "4: a, b, c, d", "rows        200"):  # fmt: skip
        assert text in shown
    assert shown.count("█") >= 3
    assert (tmp_path / "model.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(run("info", model, "--json", "--classes", 1).stdout)
    shared, strongest = found["parts"]
    np.testing.assert_allclose(shared["spectrum"], np.linalg.eigvalsh(metric.shared_)[::-1])
    moved = [np.linalg.norm(part - np.eye(4)) for part in metric.local_]
    assert strongest["name"] == metric.classes_[np.argmax(moved)]
    assert strongest["heaviest"][0][0] == NAMES[np.diag(metric.metric_matrix(strongest["name"])).argmax()]


def test_info_prints_a_card(files, tmp_path):
    model = files[2]
    run("fit", files[0], "-o", model)
    text = run("info", model, "--card").stdout
    assert f"# {model.name}" in text
    assert "| Learner | LODML, a distance |" in text
    assert "library_name: paloma" in text


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
    assert "names none of the 200 rows" in run("convert", train, tmp_path / "x.csv", "--rows", "500:600", code=1).stderr
    assert "unknown output format" in run("convert", train, tmp_path / "x.doc", code=1).stderr


def test_sparse_rows(tmp_path):
    rows = np.where(np.abs(X) > 1, X, 0.0)
    numbers = np.unique(Y, return_inverse=True)[1]
    rows[250:, 3] = 0.0  # the second table does not name the last column
    train, test, model = tmp_path / "train.svm", tmp_path / "test.svm", tmp_path / "model.paloma"
    write(Batch(rows[:250], numbers[:250]), train, "label")
    write(Batch(rows[250:], numbers[250:]), test, "label")
    run("fit", train, "-o", model, "-l", "LOSL", "-q")
    assert run("predict", model, test).stdout.split() == paloma.load(model).predict(rows[250:]).astype(str).tolist()
    run("fit", train, "-o", model, "-l", "LODML", "-q")  # few enough to be made dense
    assert len(run("predict", model, test).stdout.split()) == len(rows) - 250


def test_a_model_fitted_in_python_on_a_frame(files):
    pandas = pytest.importorskip("pandas")
    _, test, model = files
    frame = pandas.DataFrame(X[:200], columns=NAMES)[["d", "a", "c", "b"]]
    paloma.save(paloma.MetricKNeighborsClassifier(paloma.ODML(random_state=0)).fit(frame, Y[:200]), model)
    expected = paloma.load(model).predict(pandas.DataFrame(X[200:], columns=NAMES)[["d", "a", "c", "b"]])
    result = run("predict", model, test)
    assert result.stdout.split() == expected.tolist()
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learner", "LMNN"], "Unknown learner 'LMNN'. Known learners: "),
        (["--set", "D=1"], "--set D=1: expected name=value with a parameter of LODML: C, "),
        (["--set", "C"], "--set C: expected name=value"),
        (["--set", "C=-1"], "C must be a number in (0, inf], got -1."),
        (["--label", "color"], "no label column 'color'. Select it with --label. Columns: 'a', 'b'"),
        (["--drop", "a,b,c,d"], "no feature columns"),
    ],
)
def test_wrong_options_of_fit(arguments, message, files):
    train, _, model = files
    result = run("fit", train, "-o", model, *arguments, code=1)
    assert message in result.stderr.splitlines()[-1]
    assert result.stderr.count("error") == 1
    assert not model.exists()


@pytest.mark.parametrize(("place", "message"), [("nowhere/model.paloma", "does not exist"), (".", "is a folder")])
def test_where_to_write_is_checked_before_anything_is_learned(place, message, files, monkeypatch):
    monkeypatch.setattr(paloma.LODML, "fit", lambda *_, **__: pytest.fail("learned first"))
    for arguments in (("fit", files[0]), ("predict", files[2], files[1])):
        found = run(*arguments, "-o", files[0].parent / place, code=2)
        assert message in " ".join(found.output.replace("│", " ").split())


def test_a_damaged_model(files):
    train, test, model = files
    run("fit", train, "-o", model, "-q")
    model.write_bytes(model.read_bytes()[:-1])
    result = run("predict", model, test, code=1)
    assert result.stderr.startswith(f"paloma: error: {model} is damaged")


# -- the documents ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    f"typer=={version('typer')}\n" not in (ROOT / "constraints.txt").read_text(),
    reason="each version of typer words its help in another way",
)
def test_the_reference_is_the_help():
    """Run ``python -m paloma.cli._reference > docs/cli.md`` after a change."""
    assert (ROOT / "docs" / "cli.md").read_text() == _reference.page()


def test_every_command_shows_an_example():
    page = _reference.page()
    assert page.count("Example:") == page.count("\n## paloma ")


HOSTILE = np.array(["[/a]", "red\x1b[2J\x07", "[bold]", "a\nb\u202e"])


@pytest.fixture
def hostile(tmp_path):
    """A model whose labels are markup and control characters, and rows to search for."""
    y = HOSTILE[np.arange(200) % 4]
    model = paloma.train(paloma.LODML(random_state=0), X[:200] + 3 * (y[:, None] == HOSTILE), y)
    paloma.save(model, tmp_path / "model.paloma")
    write(Batch(X[:8] + 3 * (y[:8, None] == HOSTILE), None, NAMES), tmp_path / "rows.csv", "label")
    return tmp_path / "model.paloma", tmp_path / "rows.csv"


def test_markup_in_labels_is_printed_as_it_is(hostile):
    shown = run("search", *hostile, "-k", 1).stdout
    assert "[/a]" in shown
    assert "[bold]" in shown


def test_control_characters_of_labels_do_not_reach_the_terminal(hostile, monkeypatch):
    model, rows = hostile
    for shown in (run("search", model, rows, "-k", 1), run("info", model)):
        assert r"red\x1b[2J\x07" in shown.stdout
        assert r"a\nb\u202e" in shown.stdout
        assert not set("\x1b\x07\u202e") & set(shown.stdout)
    assert "\x1b" in run("predict", model, rows).stdout  # into a pipe or a file: the label itself
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", terminal)
    with _report.writing(None) as lines:
        lines(f"{label}\n" for label in HOSTILE)
    assert terminal.getvalue().split("\n") == ["[/a]", r"red\x1b[2J\x07", "[bold]", r"a\nb\u202e", ""]
    failed = run("fit", "no\x1bsuch.csv", "-o", model, code=1)
    assert failed.stderr == "reading no\\x1bsuch.csv\npaloma: error: File no\\x1bsuch.csv does not exist.\n"


@pytest.mark.parametrize("command", [["search"], ["search", "--json"], ["predict"], ["eval"], ["info"]])
def test_a_closed_standard_output_is_said_in_one_line(command, files, tmp_path):
    model = tmp_path / "model.paloma"
    run("fit", files[0], "-o", model, "-q")
    data = [] if command == ["info"] else [files[1]]
    arguments = [sys.executable, "-m", "paloma", command[0], model, *data, *command[1:]]
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    assert closed.returncode == 1
    assert closed.stderr == "paloma: error: standard output is closed, so the result cannot be written.\n"


def test_too_many_neighbors_are_refused_before_learning(files, monkeypatch):
    monkeypatch.setattr(paloma.LODML, "fit", None)
    refused = run("fit", files[0], "-o", files[2], "-k", 500, code=1)
    assert "n_neighbors=500 is more than the n_samples = 200 rows of X" in refused.stderr
