"""The committed results are what the committed journal gives, and nothing by hand."""

from pathlib import Path

import pytest

from paloma.experiments._journal import Journal
from paloma.experiments._plan import TARGETS, plan
from paloma.experiments._report import write_report
from paloma.experiments.paper import SETS

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"


@pytest.fixture(scope="module")
def journal():
    return Journal(RESULTS / "journal.jsonl")


def test_the_report_follows_from_the_journal(journal, tmp_path):
    command = (RESULTS / "report.md").read_text().split("`")[1]
    write_report(journal, tmp_path, False, command)
    made = {path.name: path.read_text() for path in tmp_path.iterdir() if path.suffix in (".md", ".csv")}
    assert made
    assert made == {name: (RESULTS / name).read_text() for name in made}


def test_every_record_is_a_task_of_the_plan_with_its_versions(journal):
    planned = plan(TARGETS, list(SETS), None, False, 100)
    for record in journal.records.values():
        task = record["task"]
        assert task in planned or task["method"] in ("LMNN", "SCML") or task["kind"] == "speed"
        assert {"date", "numpy", "scikit-learn", "python", "seconds"} <= set(record["about"])


def test_the_page_is_whole(journal):
    page = (RESULTS / "report.html").read_text()
    assert page.endswith("</html>\n")
    assert f"{len(journal.records)} tasks" in page
