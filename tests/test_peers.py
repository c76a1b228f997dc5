"""The bench of the peers: every result is a line, nothing is measured twice, and the page says what the lines say."""

import csv
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import accuracy, peers, peers_call, peers_methods, peers_page

from helpers.peers import STAND_IN
from paloma.evaluate import retrieval

ROOT = Path(__file__).parents[1]
METRIC_LEARN = (
    STAND_IN
    + """

class LMNN(StandIn):
    pass


class SCML_Supervised(StandIn):
    def fit(self, X, y):
        raise ValueError("no basis, said the stand-in")
"""
)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A call of the benchmark on a small set, with a stand-in for metric-learn and no other package of a peer."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 15)
    np.savez(tmp_path / "caltech101.npz", X=rng.normal(size=(8, 12))[y] + rng.normal(size=(len(y), 12)), y=y)
    (tmp_path / "mlpack.py").write_text("raise ImportError('mlpack is not here')\n")
    monkeypatch.setenv("PALOMA_DATA", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PEERS_PYTHON", sys.executable)

    def run(methods, *options, seconds=0.0):
        (tmp_path / "metric_learn.py").write_text(METRIC_LEARN.format(seconds=seconds))
        path = tmp_path / "out" / "peers.csv"
        peers.main(["--sets", "caltech101", "--methods", methods, "--csv", str(path), *options])
        return path, list(peers.Results(path).lines.values())

    return run


def test_each_fit_is_a_line_and_a_second_run_measures_only_what_is_missing(bench):
    path, lines = bench("euclid,lodml,losl,logistic,svc-rbf,lmnn", "--seeds", "1")
    assert [line["method"] for line in lines] == ["euclid", "lodml", "losl", "logistic", "svc-rbf", "lmnn"]
    for line in lines:
        assert line["outcome"] == "done"
        assert line["rows"] == "84"
        assert all(0 < float(line[figure]) <= 1 for figure in ("accuracy", "map", "p10"))
    before = path.read_text()
    assert bench("euclid,lodml,lmnn", "--seeds", "1")[0].read_text() == before
    bench("euclid,lmnn", "--seeds", "2")
    after = path.read_text()
    assert after.startswith(before)
    assert [line["seed"] for line in csv.DictReader(after[len(before) :].splitlines(), peers.FIELDS)] == ["1", "1"]


def test_a_multiple_of_the_identity_is_the_euclidean_distance(bench):
    lines = {line["method"]: line for line in bench("euclid-vote,lmnn", "--seeds", "1")[1]}
    for figure in ("accuracy", "map", "p10"):
        assert lines["lmnn"][figure] == lines["euclid-vote"][figure]
    X, y = accuracy.rows_of("caltech101")
    a, ya, b, yb = accuracy.split("caltech101", X, y, 0.7, 0)
    known = retrieval(None, a, ya, b, yb)
    assert float(lines["lmnn"]["map"]) == pytest.approx(known["mAP"], abs=1e-4)
    assert float(lines["lmnn"]["p10"]) == pytest.approx(known["precision@10"], abs=1e-4)


def test_all_methods_have_the_same_rows_at_most_so_many(bench):
    lines = bench("lda,lmnn", "--seeds", "1", "--rows", "50")[1]
    assert [line["rows"] for line in lines] == ["50", "50"]


def test_a_method_over_the_limit_is_reported_and_tried_again_only_with_a_larger_one(bench):
    path, lines = bench("lmnn", "--seeds", "2", "--limit", "2", seconds=60)
    assert [(line["seed"], line["outcome"]) for line in lines] == [("0", "over 2 s")]
    assert "| LMNN, metric-learn | over 2\u00a0s |" in peers_page.grid(lines, "accuracy")
    before = path.read_text()
    assert bench("lmnn", "--seeds", "2", "--limit", "1")[0].read_text() == before
    _, lines = bench("lmnn", "--seeds", "1", "--limit", "60")
    assert [line["outcome"] for line in lines] == ["done"]


def test_what_runs_here_is_bounded_too():
    def forever():
        while True:
            pass

    with pytest.raises(peers_call.OverLimit):
        peers_call.forked(forever, 1)
    with pytest.raises(peers_call.Failed, match="ZeroDivisionError"):
        peers_call.forked(lambda: 1 / 0, 10)


def test_a_method_that_fails_is_a_line_and_one_without_its_package_says_why(bench, capsys):
    _, lines = bench("scml,lmnn-mlpack", "--seeds", "1")
    assert [line["outcome"] for line in lines] == ["failed: ValueError: no basis, said the stand-in"]
    assert "| SCML, metric-learn | failed |" in peers_page.grid(lines, "accuracy")
    assert "lmnn-mlpack: skipped, mlpack is not here." in capsys.readouterr().out


def test_without_the_environment_and_with_an_unknown_method_it_says_so(bench, capsys, monkeypatch):
    monkeypatch.setenv("PEERS_PYTHON", "nowhere")
    assert bench("lmnn", "--seeds", "1")[1] == []
    assert "make bench-peers builds one" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        bench("lmmn")
    assert "unknown method 'lmmn'" in capsys.readouterr().err


def test_parameters_are_chosen_on_training_rows_alone():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = (rng.normal(size=(3, 5))[y] + rng.normal(size=(90, 5))).astype(np.float32)
    split = peers_methods.Split(X[:60], y[:60], X[60:], y[60:])
    other = peers_methods.Split(X[:60], y[:60], X[60:] + 9, y[60:][::-1].copy())
    for method in ("euclid", "logistic", "linear-svc", "svc-rbf"):
        found = [peers_methods.METHODS[method](part).chosen for part in (split, other)]
        assert found[0] == found[1] != ""


def line(**fields):
    common = {"set": "letters", "rows": "10", "method": "lodml", "seed": "0", "outcome": "done", "date": "2026-01-01"}
    return {**dict.fromkeys(peers.FIELDS, ""), **common, **fields}


def test_a_cell_has_mean_deviation_and_the_number_of_seeds_if_they_are_few():
    two = [line(accuracy="0.9", seconds="20"), line(accuracy="0.8", seconds="30", seed="1")]
    assert peers_page.cell(two, "accuracy") == ".850 ± .071 (2)"
    assert peers_page.cell([line(accuracy="1.0")] * 5, "accuracy") == "1.000 ± .000"
    assert peers_page.cell([], "accuracy") == "–"
    assert peers_page.cell(two[:1], "map") == "–"


def test_seconds_are_those_of_the_first_seed_whatever_other_machines_needed():
    elsewhere = line(accuracy="0.8", seconds="3", seed="1")
    assert peers_page.cell([elsewhere, line(accuracy="0.9", seconds="20")], "seconds") == "20.0"
    assert peers_page.cell([line(seconds="0.251", tuning="1.26")], "seconds") == "0.25 + 1.3"
    assert peers_page.cell([line(outcome="over 120 s"), elsewhere], "seconds") == "over 120 s"
    assert peers_page.cell([line(outcome="over 120 s"), elsewhere], "accuracy") == ".800 (1)"
    assert peers_page.cell([elsewhere], "seconds") == "–"


def test_differences_are_taken_seed_by_seed():
    ours = [line(accuracy="0.8"), line(accuracy="0.7", seed="1"), line(accuracy="0.1", seed="2")]
    other = [line(accuracy="0.82", method="lda"), line(accuracy="0.74", method="lda", seed="1")]
    assert peers_page.cell(other, "difference", ours) == "**+3.0 ± 1.4** (2)"
    assert peers_page.cell(ours[1:2], "difference", other) == "−4.0 (1)"
    assert peers_page.cell(other, "difference", ours[2:]) == "–"
    table = peers_page.grid([*ours, *other], "difference")
    assert "| LDA |" in table
    assert "LODML" not in table


def test_every_method_has_a_title():
    assert set(peers_page.TITLES) == set(peers.ALL)


def test_the_page_says_what_the_committed_lines_say():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    lines = list(peers.Results(ROOT / "docs" / "results" / "peers.csv").lines.values())
    assert peers_page.inside(page) == peers_page.tables(lines)


def test_the_sentences_of_the_page_follow_from_the_committed_lines():
    """Each statement under "What they say" that compares figures."""
    found = {}
    for fit in peers.Results(ROOT / "docs" / "results" / "peers.csv").lines.values():
        if fit["outcome"] == "done":
            found.setdefault((fit["set"], fit["rows"] == "8251", fit["method"]), {})[fit["seed"]] = fit

    def ahead(method, name, figure="accuracy", other="lodml", all_rows=False):
        one, two = found[name, all_rows, method], found[name, all_rows, other]
        return 100 * np.mean([float(one[s][figure]) - float(two[s][figure]) for s in set(one) & set(two)])

    def seconds(method, name):
        fit = found[name, False, method]["0"]
        return float(fit["seconds"]) + float(fit["tuning"])

    names = sorted({name for name, _, _ in found})
    assert ahead("logistic", "pets") > 0
    assert max(abs(ahead("logistic", name)) for name in ("caltech101", "cifar10")) < 0.5
    assert -1 < ahead("logistic", "cub200", all_rows=True) < -0.5
    assert abs(ahead("lda", "cub200")) < 0.5
    assert max(seconds("logistic", name) for name in names) < 10
    assert -1.2 < ahead("logistic", "banking77") < -0.8
    assert max(ahead("logistic", name) for name in ("cub200", "yaleb", "letters")) < -1.5
    assert min(ahead("svc-rbf", name) for name in ("cifar10", "coil20")) > 0.2
    assert max(ahead("svc-rbf", name) for name in ("cub200", "letters", "yaleb")) < -0.5
    assert max(abs(ahead("svc-rbf", name)) for name in set(names) - {"cub200", "letters", "yaleb"}) < 0.5

    assert max(seconds("lda-knn", name) for name in names) < 0.1
    assert all(abs(ahead("lda-knn", name)) < 1 for name in ("yaleb", "pets", "caltech101", "cifar10", "coil20"))
    assert max(ahead("lda-knn", name) for name in ("cub200", "letters", "banking77")) < -1
    assert min(ahead("lda-knn", name, "map") for name in ("yaleb", "cifar10", "coil20")) > 10
    assert min(ahead("lda-knn", name, "map") for name in ("pets", "caltech101", "banking77")) > 1
    assert min(ahead("lda-knn", name, "p10") for name in ("yaleb", "coil20")) > 1
    assert max(ahead("lda-knn", name, "p10") for name in set(names) - {"yaleb", "coil20"}) < 0.5
    metrics = (
        "euclid",
        "cosine",
        "euclid-vote",
        "lda-knn",
        "nca",
        "nca-sgd",
        "proxy-anchor",
        "lmnn",
        "lmnn-mlpack",
        "scml",
    )
    for name in names:
        for metric in (*metrics, "odml", "lodml", "oasis", "losl"):
            if (name, False, metric) in found:
                assert ahead("logistic", name, "map", metric) > 0
    for name in names:
        for metric in metrics:
            if (name, False, metric) in found:
                assert min(ahead(metric, name), ahead(metric, name, other="odml")) < 0.5
    assert min(seconds("nca", "letters"), seconds("nca-sgd", "letters")) > 10 * seconds("lodml", "letters")
    assert max(abs(ahead("losl", name)) for name in ("pets", "cifar10", "coil20")) < 0.2
    assert all(-0.5 < ahead("losl", name) < 0 for name in ("banking77", "caltech101"))
    assert max(ahead("losl", name) for name in ("letters", "yaleb", "cub200")) < -1
    slow = [(name, method) for name, _, method in found if method in ("lmnn", "lmnn-mlpack", "scml", "lgmlvq")]
    assert max(ahead(method, name) for name, method in slow) < 0.2
    times = [seconds(method, name) / seconds("lodml", name) for name, method in slow]
    assert min(times) > 5
    assert np.median(times) > 10
    within = {method: {name for name, other in slow if other == method} for _, method in slow}
    assert within["lmnn"] == {"letters"}
    assert within["lmnn-mlpack"] == {"letters", "yaleb", "coil20"}
    assert within["lgmlvq"] == set(names) - {"caltech101", "cub200", "banking77"}
    assert within["scml"] == set(names)
    assert len(found["cub200", False, "scml"]) == 4
    assert min(ahead("scml", name) for name in ("pets", "coil20")) > -0.5
    for name in ("yaleb", "caltech101", "cifar10", "banking77"):
        assert -2 < ahead("scml", name) < -0.9
    assert -7 < ahead("scml", "cub200") < -6
    scml = [float(fit["accuracy"]) for fit in found["letters", False, "scml"].values()]
    assert (min(scml), max(scml)) == pytest.approx((0.69, 0.89), abs=0.005)
    for name in names:
        assert (ahead("scml", name, "map") > 0) == (name in ("yaleb", "pets", "cifar10", "coil20", "banking77"))
        assert (ahead("scml", name, "p10") > 0) == (name in ("yaleb", "coil20"))
    assert max(abs(ahead("lgmlvq", name)) for name in ("yaleb", "coil20")) < 0.2
    assert max(ahead("lgmlvq", name) for name in ("letters", "pets", "cifar10")) < -1


def test_the_seed_that_no_choice_has_seen_says_what_the_page_says():
    found = {}
    for fit in peers.Results(ROOT / "docs" / "results" / "peers-check.csv").lines.values():
        assert fit["seed"] == "90"
        found[fit["set"], fit["method"]] = 100 * float(fit["accuracy"])
    said = {"letters": 18.5, "yaleb": 4.1, "cub200": 1.9, "banking77": 1.5, "caltech101": 0.8, "pets": 0.2}
    for name, points in {**said, "coil20": 0.0, "cifar10": -0.2}.items():
        assert found[name, "lodml"] - found[name, "logistic"] == pytest.approx(points, abs=0.06)
