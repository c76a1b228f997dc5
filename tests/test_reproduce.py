"""paloma reproduce: the journal, the runner, the plan, and the report from whatever there is."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.slow_tasks import go
from paloma.cli import app
from paloma.experiments import _figures, _tables, paper
from paloma.experiments._findings import findings
from paloma.experiments._journal import Journal
from paloma.experiments._plan import TARGETS, cost, plan, title
from paloma.experiments._report import write_report
from paloma.experiments.reproduce import reproduce

EVERYTHING = plan(TARGETS, list(paper.SETS), None, False, 0)


def tasks(folder, n=6, **more):
    return [{"n": k, "trace": str(folder / "trace"), **more} for k in range(n)]


def traces(folder):
    return sorted(int(line) for line in (folder / "trace").read_text().split())


# -- the journal ---------------------------------------------------------------------------------------------


def test_a_line_cut_off_by_a_kill_is_dropped(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.add({"n": 1}, 1.5, {})
    journal.add({"n": 2}, 2.5, {})
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    again = Journal(path)
    assert path.read_bytes() == whole[:-7]  # reading changes nothing: another process may be writing
    assert {"n": 1} in again
    assert {"n": 2} not in again
    again.add({"n": 2}, 3.5, {})
    assert [json.loads(line)["result"] for line in path.read_text().splitlines()] == [1.5, 3.5]
    assert Journal(path).get({"n": 2}) == 3.5


@pytest.mark.parametrize("text", ["no json\n", "[1]\n", '{"result": 1}\n', '{"task": 1, "result": 1}\n'])
def test_other_files_are_no_journal(tmp_path, text):
    (tmp_path / "journal.jsonl").write_text(text)
    with pytest.raises(ValueError, match="is not a journal of paloma reproduce"):
        Journal(tmp_path / "journal.jsonl")


# -- the runner ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_results_do_not_depend_on_the_number_of_processes(tmp_path, workers, capsys):
    journal = go(tmp_path, tasks(tmp_path), workers)
    assert [journal.get(task)["square"] for task in tasks(tmp_path)] == [0, 1, 4, 9, 16, 25]
    assert traces(tmp_path) == list(range(6))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert re.fullmatch(r"\[6/6\] number \d; about 0 s left", lines[-1])
    about = next(iter(journal.records.values()))["about"]
    assert set(about) == {"seconds", "date", "python", "paloma", "numpy", "scipy", "scikit-learn", "numba"}


def test_nothing_is_computed_twice(tmp_path):
    go(tmp_path, tasks(tmp_path, 3), 1)
    go(tmp_path, tasks(tmp_path, 6), 1)
    assert traces(tmp_path) == list(range(6))


def test_a_failure_does_not_stop_the_others_and_is_tried_again(tmp_path):
    some = tasks(tmp_path, 3)
    some[1]["fails"] = True
    for attempt in (1, 2):
        with pytest.raises(RuntimeError, match=r"1 of \d tasks failed.*number 1: ValueError: asked to fail"):
            go(tmp_path, some, 1)
        assert traces(tmp_path).count(1) == attempt
    assert traces(tmp_path).count(2) == 1


def test_killed_and_started_again(tmp_path):
    """A kill that nothing can catch loses what was running and nothing else."""
    command = [sys.executable, str(Path(__file__).parent / "helpers" / "slow_tasks.py"), str(tmp_path)]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "TASK_SECONDS": "0.4"})
    path = tmp_path / "journal.jsonl"
    while not (path.exists() and path.read_text().count("\n") >= 2):
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = path.read_text()
    whole = before[: before.rindex("\n") + 1]
    go(tmp_path, tasks(tmp_path), 1)
    after = path.read_text()
    assert after.startswith(whole)
    assert sorted(json.loads(line)["task"]["n"] for line in after.splitlines()) == list(range(6))
    assert len(json.loads(f"[{whole.strip().replace(chr(10), ',')}]")) >= 2


# -- the plan ------------------------------------------------------------------------------------------------


def test_tasks_are_distinct_and_have_a_price_and_a_name():
    assert len({json.dumps(task, sort_keys=True) for task in EVERYTHING}) == len(EVERYTHING)
    assert all(cost(task) > 0 and title(task) for task in EVERYTHING)
    assert {task["kind"] for task in EVERYTHING} == {"table2", "fig4", "fig5", "fig6"}


def test_comparable_sets_come_first_with_ten_runs():
    table2 = [task for task in EVERYTHING if task["kind"] == "table2"]
    first, others = table2[:440], table2[440:]
    assert [task["set"] for task in first[::22]] == ["letters", "yaleb"] * 10
    for part in (first, others):  # one run of every set before the second of any
        assert [task["seed"] for task in part] == sorted(task["seed"] for task in part)
    assert not {"letters", "yaleb"} & {task["set"] for task in others}


def test_figures_6_and_7_are_the_same_tasks():
    assert plan(["fig6"], ["pets"], None, True, 0) == plan(["fig7"], ["pets"], None, True, 0)


def test_quick_and_full_results_never_mix(tmp_path):
    quick, full = plan(["table2"], ["letters"], None, True, 0), plan(["table2"], ["letters"], None, False, 0)
    assert not any(task in full for task in quick)
    journal = Journal(tmp_path / "j")
    journal.add(quick[0], _result(0.5), {"date": "2026-01-01", "seconds": 1.0})
    assert not _tables.Results(journal, False).all
    assert len(_tables.Results(journal, True).all) == 1


# -- what the paper prints -----------------------------------------------------------------------------------


def test_table_2_of_the_paper():
    assert len(paper.TABLE2) == 15 * 4
    assert paper.TABLE2["letters", 30, "LODML"] == paper.Printed(94.46, 0.23)
    assert paper.TABLE2["yaleb", 30, "LOSL"] == paper.Printed(88.84, 1.05)
    assert paper.TABLE2["pets", 70, "OASIS"] == paper.Printed(64.10, 1.79)
    for cell in paper.COPIED:
        assert paper.TABLE2[cell] == paper.TABLE2["letters", cell[1], "ODML"]  # theory E16
    assert set(paper.SETS) - {name for name, _, _ in paper.TABLE2} == {"cub200"}


# -- the whole, on a small set -------------------------------------------------------------------------------


def _result(accuracy):
    return {
        "accuracy": accuracy, "power": 0.5, "kappa": 0.5, "rate": 0.01, "n_train": 70, "n_test": 30, "fit": 1.0,
        "search": 0.1, "tune": 2.0,
    }  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder of data with one small set under a name of the paper's."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(22), 14)
    X = 0.8 * rng.normal(size=(22, 20))[y] + rng.normal(size=(len(y), 20))
    np.savez(folder / "caltech101_small.npz", X=X.astype(np.float16), y=y)
    return folder


@pytest.fixture(scope="module")
def output(home, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALOMA_DATA", str(home))
        reproduce("table2", output=folder, sets=["caltech101_10"], quick=True, workers=1)
        reproduce("all", output=folder, sets=["caltech101_20"], quick=True, workers=1)
    return folder


class Links(HTMLParser):
    """Everything that a page would load."""

    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_is_one_well_formed_page_that_loads_nothing(output):
    page, links = (output / "report.html").read_text(), Links()
    links.feed(page)
    assert links.open == []
    assert len(links.found) == 6  # Table 2, two of Figure 4, Figures 5 to 7
    for link in links.found:
        assert link.startswith("data:image/svg+xml;base64,")
        assert base64.b64decode(link.partition(",")[2]).lstrip().startswith(b"<?xml")
    for text in ("98.03 ± 0.31", "A quick run", '<span class="paper">98.28 ± 0.28</span></td>'):
        assert text in page


def test_the_report_says_what_was_run_and_nothing_else(output):
    text = (output / "report.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| Caltech101, 10 classes | 30"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert re.fullmatch(r"\d\d\.\d\d \(1\)|100\.00 \(1\)", cells[3])
    assert cells[2] == "no, other encoder"
    assert cells[4] == "98.03 ± 0.31"
    for other in ("| Letters", "| YaleFaceB", "| Caltech256", "LMNN", "SCML"):
        assert other not in text
    assert "–" not in (output / "table2-ours.csv").read_text()
    assert f"`paloma reproduce all --sets caltech101_20 --quick --seed 0 -o {output}`" in text
    assert "Made 20" in text
    assert "numpy" in text


def test_files_of_the_report(output):
    names = {path.name for path in output.iterdir()}
    assert {"journal.jsonl", "report.md", "report.html", "runs.csv", "table2-ours.csv", "fig7.svg"} <= names
    lines = (output / "runs.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 22
    assert "accuracy" in lines[0]
    body = (output / "projection.csv").read_text().splitlines()
    assert [line.split(",")[-7] for line in body[1:]] == ["LODML", "L2ODML", "LOSL", "L2OSL"]


def test_learning_curves(output):
    results = _tables.Results(Journal(output / "journal.jsonl"), True)
    for method in ("LODML", "ODML", "LOSL", "OASIS"):
        (run,) = results.of("fig4", method=method)
        assert run["seen"][-1] == 4 * run["one_pass"]
        assert all(loss > 0 for loss in run["loss"])
        assert len(run["accuracy"]) == len(run["loss"]) == len(run["seen"])
        assert 0.2 < run["accuracy"][-1] <= 1  # of twenty classes


def test_times_of_dual_random_projection_are_split(output):
    results = _tables.Results(Journal(output / "journal.jsonl"), True)
    (full,), (projected,) = (results.of("fig6", method=name) for name in ("LODML", "L2ODML"))
    assert full["projection"] == 0 < projected["projection"]
    assert full["d"] == projected["d"] == 20
    assert min(projected[part] for part in ("mining", "learning", "recovery", "search")) >= 0


def test_paired_tests_use_the_runs_that_both_have(tmp_path):
    journal = Journal(tmp_path / "j")
    common = {"kind": "table2", "set": "letters", "percent": 70, "rows": "ours", "quick": False}
    about = {"date": "2026-01-01", "seconds": 1.0, "numpy": "2"}
    for seed, (local, shared) in enumerate([(0.95, 0.93), (0.96, 0.94), (0.97, 0.96)]):
        journal.add({**common, "method": "LODML", "seed": seed}, _result(local), about)
        if seed < 2:
            journal.add({**common, "method": "ODML", "seed": seed}, _result(shared), about)
    (row,) = _tables.local_global(_tables.Results(journal, False)).rows
    assert row[3:5] == ["LODML − ODML", "+2.00"]
    assert row[-1] == "2"
    journal.add({**common, "set": "yaleb", "percent": 30, "method": "LODML", "seed": 0}, _result(0.9), about)
    asked = _tables.asked_for(_tables.Results(journal, False)).rows
    assert asked == [
        ["Letters", "70", "LODML", "96.00 ± 1.00 (3)", "96.59", "MISSED"],
        ["YaleFaceB", "30", "LODML", "90.00 (1)", "88.84", "met"],  # not ODML's copied 92.79
    ]
    written = {path.name for path in write_report(journal, tmp_path / "report", False, "paloma reproduce")}
    assert "table2-ours.csv" in written


def test_findings_name_every_exception(tmp_path):
    journal = Journal(tmp_path / "j")
    common = {"kind": "table2", "rows": "ours", "quick": False}
    cells = {
        ("letters", 30): {"LODML": 0.96, "ODML": 0.95, "LOSL": 0.90, "OASIS": 0.93, "Euclid": 0.92},
        ("pets", 70): {"LODML": 0.91, "ODML": 0.92, "LOSL": 0.94, "OASIS": 0.93, "Euclid": 0.90},
    }
    for (name, percent), row in cells.items():
        for method, accuracy in row.items():
            for seed in range(3):
                task = {**common, "set": name, "percent": percent, "method": method, "seed": seed}
                journal.add(task, _result(accuracy + 0.001 * seed * (seed + len(method))), {})
    said = findings(_tables.Results(journal, False))
    assert said[0] == (
        "Comparable cells at or above the paper's best of their row: 1 of 2. Not: Letters 30% LOSL (90.57 ± 0.60 (3) "
        "against 94.46)."
    )
    assert said[1].startswith("LODML at or above ODML, our preprocessing: 1 of 2 cells, beyond chance in 1; beyond")
    assert "Not: Oxford Cats&Dogs 70% (-0.90 points)." in said[1]
    assert said[3] == (
        "LODML and LOSL above Euclid, whose whitening is chosen in the same way: 3 of 4 cells. Not: LOSL on Letters "
        "30% (-2.20 points)."
    )
    assert len(said) == 4
    assert findings(_tables.Results(Journal(tmp_path / "none"), False)) == []


def test_without_matplotlib_there_are_tables(output, tmp_path, monkeypatch):
    def missing(module, extra):
        raise ImportError(module)

    monkeypatch.setattr(_figures, "optional", missing)
    paths = write_report(Journal(output / "journal.jsonl"), tmp_path, True, "paloma reproduce")
    assert not any(path.suffix == ".svg" for path in paths)
    assert "No pictures" in (tmp_path / "report.md").read_text()


# -- the command ---------------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_the_command_reports_and_resumes(output, home, monkeypatch):
    monkeypatch.setenv("PALOMA_DATA", str(home))
    before = (output / "journal.jsonl").read_text()
    result = run("table2", "--quick", "--sets", "caltech101_10", "-o", output, "--workers", 1)
    assert result.exit_code == 0, result.output
    assert result.stdout.split()[-2:] == [str(output / "report.md"), str(output / "report.html")]
    assert "Table 2: classification rate in %" in result.stdout
    shown = [[cell.strip() for cell in line.strip("│").split("│")] for line in result.stdout.splitlines()]
    assert ["the paper", "", "98.03", "97.21", "98.28", "98.28", "", ""] in shown
    assert f"--sets caltech101_10 --quick --seed 0 -o {output}`" in (output / "report.md").read_text()
    assert (output / "journal.jsonl").read_text() == before


def test_a_report_of_nothing(tmp_path):
    assert run("--report-only", "-o", tmp_path).exit_code == 0
    assert "holds no results yet" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table3"], "Unknown target 'table3'; choose one of table2"),
        (["all", "--sets", "mnist"], "Unknown data set 'mnist'; choose from: letters, yaleb"),
        (["all", "--sets", "caltech256_10"], "Unknown data set 'caltech256'"),
        (["all", "--sets", "pets"], "Unknown data set 'pets'"),
    ],
)
def test_refusals(tmp_path, monkeypatch, arguments, message):
    monkeypatch.delenv("PALOMA_DATA", raising=False)
    result = run(*arguments, "-o", tmp_path)
    assert result.exit_code == 1
    assert message in result.stderr
