"""``paloma index``, ``search`` in an index and with a single row, ``eval --retrieval``."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import paloma
from paloma.cli import app
from paloma.estimators import learner_of
from paloma.evaluate import retrieval

RUNNER = CliRunner()
X, Y = paloma.datasets.load_letters(return_X_y=True)


def run(*arguments, code=0):
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    for name, rows in (("train", slice(0, 600)), ("more", slice(600, 700)), ("test", slice(700, 800))):
        np.savez(folder / f"{name}.npz", X=X[rows].astype(float), y=Y[rows])
    run("fit", folder / "train.npz", "-o", folder / "letters.paloma", "--quiet")
    run("index", folder / "letters.paloma", folder / "train.npz", "-o", folder / "letters.index")
    return folder


def test_an_index_holds_the_rows_and_what_prepares_them(folder):
    held = paloma.load(folder / "letters.index")
    assert len(held) == 600
    np.testing.assert_allclose(held.search(X[:5].astype(float), 1)[0], 0.0, atol=1e-6)
    result = run("index", folder / "letters.index", folder / "more.npz", "-o", folder / "both.index", "--refresh")
    assert "100 items added, 700 in" in result.stderr
    assert paloma.load(folder / "both.index").ids.tolist() == list(range(700))


def test_search_in_an_index_as_table_and_json(folder):
    lines = run("search", folder / "letters.index", folder / "test.npz", "-k", 4, "--json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    held = paloma.load(folder / "letters.index")
    values, ids = held.search(X[700:800].astype(float), 4)
    assert [[near["row"] for near in each["neighbors"]] for each in found] == ids.tolist()
    np.testing.assert_allclose([[near["value"] for near in each["neighbors"]] for each in found], values)
    assert found[0]["neighbors"][0]["label"] == Y[ids[0, 0]]
    table = run("search", folder / "letters.index", folder / "test.npz", "-k", 2).stdout
    assert all(word in table for word in ("query", "rank", "id", "label", "distance"))


def test_queries_have_names_and_long_ones_are_not_cut(folder):
    """In .npz files and tables; elsewhere than on a terminal a line is as long as its cells."""
    names = [f"asked/{'long-' * 20}{k}.png" for k in range(3)]
    np.savez(folder / "named.npz", X=X[700:703], name=names)
    header = ",".join([*(f"f{k}" for k in range(X.shape[1])), "name"])
    rows = [",".join([*map(str, x), name]) for x, name in zip(X[700:703].tolist(), names, strict=True)]
    (folder / "named.csv").write_text("\n".join([header, *rows]) + "\n")
    for table in ("named.npz", "named.csv"):
        lines = run("search", folder / "letters.index", folder / table, "--id", "name", "--json").stdout.splitlines()
        assert [json.loads(line)["query"] for line in lines] == names
        shown = run("search", folder / "letters.index", folder / table, "-k", 1, "--id", "name").stdout
        assert all(name in shown for name in names)
    refused = run("search", folder / "letters.index", folder / "named.npz", "--id", "file", code=1)
    assert "--id" in refused.stderr
    refused = run("search", folder / "letters.index", ",".join(map(str, X[3])), "--id", "name", code=1)
    assert "--id name names a column of a table; DATA is a row of numbers." in refused.stderr


def test_search_with_a_single_row(folder):
    row = ",".join(map(str, X[3]))
    one = json.loads(run("search", folder / "letters.index", row, "-k", 1, "--json").stdout)
    assert one["neighbors"][0]["row"] == 3
    assert run("search", folder / "letters.index", "1,2", code=1).stderr.count("\n") == 1
    refused = run("search", folder / "letters.index", row, "--items", folder / "train.npz", code=1)
    assert "--items requires a model" in refused.stderr


def test_retrieval(folder):
    arguments = ("eval", folder / "letters.paloma", folder / "test.npz", "--items", folder / "train.npz", "--retrieval")
    figures = json.loads(run(*arguments, "--json").stdout)
    model = paloma.load(folder / "letters.paloma")
    rows = [model[:-1].transform(X[part].astype(float)) for part in (slice(0, 600), slice(700, 800))]
    expected = retrieval(learner_of(model), rows[0], Y[:600], rows[1], Y[700:800])
    assert figures["mAP"] == pytest.approx(expected["mAP"])
    assert figures["precision@10"] > figures["euclid precision@10"]
    assert "mAP macro" in run(*arguments, "-k", 5).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--backend", "annoy"), "must be one of"),
        (("--set", "width=3"), "takes no options"),
        (("--set", "a"), "name=value"),
    ],
)
def test_bad_options(folder, arguments, message):
    result = run("index", folder / "letters.paloma", folder / "train.npz", "-o", folder / "x", *arguments, code=1)
    assert message in result.stderr
    assert not (folder / "x").exists()
