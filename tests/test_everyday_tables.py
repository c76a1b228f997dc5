"""Tables as people have them: missing values, bad lines, compressed files, columns with other names, ids."""

import gzip
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import paloma
from helpers.cli import NAMES, X, Y, run
from paloma.cli._batches import Batch
from paloma.cli._columns import Wanted
from paloma.cli._csv_rows import csv_batches
from paloma.cli._writers import write
from same import assert_same

HOLES = ["a,b,c,d,label", *(f"{','.join(map(str, x))},{y}" for x, y in zip(X[:150].tolist(), Y[:150], strict=True))]
HOLES[3] = "1.0,,2.0,0.5,red"
HOLES[7] = "1.0,2.0,NA,?,blue"


def test_missing_values_are_dropped_or_filled_in(tmp_path):
    table, model = tmp_path / "holes.csv", tmp_path / "model.paloma"
    table.write_text("\n".join(HOLES))
    shown = run("fit", table, "-o", model, code=1).stderr
    assert "row 3, column 'b': the value is missing; fit and update accept --missing drop or mean" in shown
    shown = run("fit", table, "-o", model, "--missing", "drop").stderr
    assert "148 rows, 4 features" in shown
    assert "2 rows with missing values dropped" in shown
    run("fit", table, "-o", model, "-q", "--missing", "mean")
    made = paloma.load(model)
    assert type(made[0]).__name__ == "FillMissing"
    known = np.delete(X[:150], [2, 6], axis=0)
    assert made[0].means_[1] == pytest.approx((known[:, 1].sum() + 2.0) / 149)
    assert len(made[-1].labels_) == 150
    assert len(run("predict", model, table).stdout.split()) == 150  # later tables may have holes too
    assert run("fit", table, "-o", model, "--missing", "median", code=1).stderr.count(
        "must be one of error, drop, mean"
    )
    stream = tmp_path / "stream.paloma"
    run("update", stream, table, "-l", "ODML", "-q", "--missing", "mean")
    run("update", stream, table, "-q")
    assert paloma.load(stream)[-1].n_streamed_ == 300
    run("fit", table, "-o", model, "-q", "--missing", "drop")
    assert "belong to the model" in run("update", model, table, "--missing", "mean", code=1).stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("new.csv", "a,b,c,d,label\n1,2,3,4,\n4,3,2,1,red\n"),
        ("new.jsonl", '{"a": 1, "b": 2, "c": 3, "d": 4, "label": null}\n{"a": 4, "b": 3, "c": 2, "d": 1}\n'),
    ],
)
def test_queries_need_no_labels_in_their_label_column(name, text, tmp_path):
    table, model, queries = tmp_path / "rows.csv", tmp_path / "model.paloma", tmp_path / name
    table.write_text("\n".join(line for k, line in enumerate(HOLES) if k not in (3, 7)))
    run("fit", table, "-o", model, "-q")
    queries.write_text(text)
    assert len(run("predict", model, queries).stdout.split()) == 2
    assert len(run("search", model, queries, "--json").stdout.splitlines()) == 2
    assert "the value is missing" in run("update", model, queries, code=1).stderr


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".feather", ".npz"])
def test_missing_values_in_other_formats(suffix, tmp_path):
    table, model = tmp_path / f"holes{suffix}", tmp_path / "model.paloma"
    frame = pd.DataFrame(X[:150], columns=NAMES).assign(label=Y[:150])
    frame.loc[4, "c"] = np.nan
    if suffix == ".npz":
        np.savez(table, X=frame[NAMES].to_numpy(), y=Y[:150])
    elif suffix == ".jsonl":
        frame.to_json(table, orient="records", lines=True)
    else:
        getattr(frame, f"to_{suffix[1:]}")(table)
    run("fit", table, "-o", model, "-q", code=1)
    assert "149 rows" in run("fit", table, "-o", model, "--missing", "drop").stderr
    run("fit", table, "-o", model, "-q", "--missing", "mean")
    assert paloma.load(model)[0].means_[2] == pytest.approx(np.nanmean(frame["c"]))


def test_bad_lines_are_skipped_and_counted(tmp_path):
    model, lines = tmp_path / "model.paloma", [line for k, line in enumerate(HOLES) if k not in (3, 7)]
    lines[5], lines[9] = "1,2,3", "1,2,oops,4,red"
    shown = run("update", model, "-l", "ODML", "--skip-errors", 2, input="\n".join(lines)).stderr
    assert "2 invalid rows skipped" in shown
    assert len(paloma.load(model)[-1].labels_) == 146
    result = run("update", tmp_path / "other.paloma", "-l", "ODML", "--skip-errors", 1, input="\n".join(lines), code=1)
    assert "row 9, column 'c': 'oops' is not a number" in result.stderr
    objects = [json.dumps({"x": x, "label": y}) for x, y in zip(X[:40].tolist(), Y[:40].tolist(), strict=True)]
    objects[11] = "{oops"
    figures = run("update", tmp_path / "j.paloma", "-l", "ODML", "--skip-errors", 5, "--json", input="\n".join(objects))
    assert json.loads(figures.stdout)["rows_skipped"] == 1
    assert len(paloma.load(tmp_path / "j.paloma")[-1].labels_) == 39


def test_columns_that_are_meant_are_named(tmp_path):
    table, model = tmp_path / "wide.csv", tmp_path / "model.paloma"
    names = [f"x{k}" for k in range(20)]
    rng = np.random.default_rng(0)
    rows = [",".join(map(str, rng.normal(size=20).round(2))) + f",{'ab'[k % 2]},{k}" for k in range(30)]
    table.write_text("\n".join([",".join([*names, "Letter", "item_id"]), *rows]))
    shown = run("fit", table, "-o", model, "--label", "letter", code=1).stderr
    assert "there is no label column 'letter'. Did you mean 'Letter'?" in shown
    assert "'x0', 'x1'" in shown
    assert "'x18', 'x19', 'Letter', 'item_id' (22 in total)" in shown
    shown = run("fit", table, "-o", model, "--label", "Letter").stderr
    assert "30 rows, 21 features (x0, x1, x2, ..., x19, item_id); 2 classes in 'Letter'" in shown
    assert "'item_id' is another whole number in every row: if it is an id, leave it out with --drop item_id" in shown
    assert "item_id" not in run("fit", table, "-o", model, "--label", "Letter", "--drop", "item_id").stderr


def test_compressed_and_feather_tables_and_sparse_rows_are_read(tmp_path, files):
    train_file, _, model = files
    packed = tmp_path / "train.csv.gz"
    packed.write_bytes(gzip.compress(train_file.read_bytes()))
    run("fit", packed, "-o", model, "-q")
    from_csv = paloma.load(model)
    frame = pd.DataFrame(X[:200], columns=NAMES).assign(label=Y[:200])
    frame.to_feather(tmp_path / "train.feather")
    run("fit", tmp_path / "train.feather", "-o", model, "-q")
    assert_same(paloma.load(model)[-1].metric_, from_csv[-1].metric_)
    write(Batch(X[:200], (Y[:200] == "red").astype(int), NAMES), tmp_path / "train.svm", "label")
    run("fit", tmp_path / "train.svm", "-o", model, "-q")  # LODML takes dense rows, so they are made dense
    assert len(run("predict", model, tmp_path / "train.svm").stdout.split()) == 200
    (tmp_path / "train.npz.gz").write_bytes(b"")
    assert "unknown file format" in run("fit", tmp_path / "train.npz.gz", "-o", model, code=1).stderr


def test_sparse_rows_too_large_to_be_dense_name_the_way_out(tmp_path):
    table = tmp_path / "wide.svm"
    table.write_text("\n".join(f"{k % 2} {10_000_000 + k}:1" for k in range(40)))
    shown = run("fit", table, "-o", tmp_path / "m.paloma", code=1).stderr
    assert "sparse features are too large for this learner. Use --learner L2ODML" in shown


def test_ids_of_an_index_come_from_an_array(tmp_path, files):
    train_file, _, model = files
    run("fit", train_file, "-o", model, "-q", "--metric-only")
    table, index = tmp_path / "items.npz", tmp_path / "items.index"
    np.savez(table, X=X[200:], y=Y[200:], name=[f"cats/{k}.png" for k in range(100)], few=np.arange(3))
    run("index", model, table, "-o", index, "--id", "name")
    assert paloma.load(index).ids[:2].tolist() == ["cats/0.png", "cats/1.png"]
    assert "there is no column 'nam'" in run("index", model, table, "-o", index, "--id", "nam", code=1).stderr
    assert (
        "one id per row, an array of shape (100,), got shape (3,)"
        in run("index", model, table, "-o", index, "--id", "few", code=1).stderr
    )
    np.save(tmp_path / "items.npy", X[200:])
    assert (
        "the columns have no names"
        in run("index", model, tmp_path / "items.npy", "-o", index, "--id", "name", code=1).stderr
    )


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_ids_of_an_index_come_from_a_column(suffix, tmp_path, files):
    train_file, _, model = files
    run("fit", train_file, "-o", model, "-q")
    table, index = tmp_path / f"items{suffix}", tmp_path / "items.index"
    frame = pd.DataFrame(X[200:], columns=NAMES).assign(label=Y[200:], key=[f"item {k}" for k in range(100)])
    if suffix == ".jsonl":
        frame.to_json(table, orient="records", lines=True)
    else:
        getattr(frame, f"to_{suffix[1:]}")(table, index=False)
    run("index", model, table, "-o", index, "--id", "key")
    built = paloma.load(index)
    assert built.ids[:2].tolist() == ["item 0", "item 1"]
    found = json.loads(run("search", index, ",".join(map(str, X[203])), "-k", 1, "--json").stdout)
    assert found["neighbors"][0]["row"] == "item 3"
    assert "Did you mean 'key'?" in run("index", model, table, "-o", index, "--id", "Key", code=1).stderr
    shown = run("search", index, "1,2,3", code=1).stderr
    assert "DATA is a row of 3 numbers; the model takes 4 (a, b, c, d)." in shown
    whole = tmp_path / "whole.csv"
    frame.assign(key=range(500, 600)).to_csv(whole, index=False)
    run("index", model, whole, "-o", index, "--id", "key")
    assert paloma.load(index).ids[0] == 500


def test_reading_a_long_table_says_how_far_it_is(files, monkeypatch):
    train_file, _, model = files
    monkeypatch.setattr("paloma.cli._formats.PATIENCE", 0.0)
    monkeypatch.setattr("paloma.cli._formats.MANY", 10)
    shown = run("fit", train_file, "-o", model).stderr
    assert shown.startswith(f"reading {train_file}\n")
    assert f"reading {train_file}: 200 rows, 100%" in shown
    assert f"`paloma update train.paloma {train_file} --learner LODML` learns it in one pass while it is read" in shown
    assert "reading" not in run("fit", train_file, "-o", model, "-q").stderr


def test_the_first_line_comes_before_anything_slow():
    """What `fit` and `update` need for their first line imports no library of numbers."""
    code = (
        "import sys; import paloma.cli; from paloma.cli._report import Learning, reading; "
        "Learning().say(reading('-')); print({'numpy', 'scipy', 'sklearn', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "reading standard input\n"
    assert done.stdout == "set()\n"


def test_mining_and_learning_say_how_much_time_is_left(files, monkeypatch):
    train_file, _, model = files
    for name in ("paloma.cli._report.PAUSE", "paloma._progress.SHORTEST"):
        monkeypatch.setattr(name, 0.0)
    monkeypatch.setattr("paloma._search.tiles.MANY_TILES", 0)
    monkeypatch.setattr("paloma._search.euclid.SMALL_DATA", 0)  # as if there were many
    monkeypatch.setattr("paloma._search.tiles.ITEM_TILE", 50)
    run("fit", train_file, "-o", model, "-q", "--set", "block_size=20")  # compiles
    lines = run("fit", train_file, "-o", model, "--set", "block_size=20").stderr.splitlines()
    start = lines.index("comparing 200 rows with each other")
    assert re.fullmatch(r"  70%, about \d+ s left", lines[start + 1])
    header = next(k for k, line in enumerate(lines) if line.endswith("triplets/s     left"))
    assert all(re.search(r" \d+ s$", line) for line in lines[header + 4 : -3])
    long = train_file.with_name("long.csv")  # more than is read at a time
    write(Batch(np.tile(X, (10, 1)), np.tile(Y, 10), NAMES), long, "label")
    lines = run("update", model, long).stderr.splitlines()
    assert lines[0] == f"reading {long}"
    assert re.search(r" \d+ s$", lines[-2])


def test_settings_are_written_as_python_json_or_a_shell_writes_them(files):
    train_file, _, model = files
    for text, value in (("False", False), ("false", False), ("TRUE", True)):
        run("fit", train_file, "-o", model, "-q", "--set", f"guard={text}", "--set", "scale=null")
        metric = paloma.load(model)[-1].metric_
        assert metric.guard is value
        assert metric.scale is None


def test_tables_as_spreadsheets_and_pandas_write_them(files, tmp_path):
    train_file, test_file, model = files
    run("fit", train_file, "-o", model, "-q")
    comma, index, bare = tmp_path / "comma.csv", tmp_path / "index.csv", tmp_path / "bare.csv"
    frame = pd.DataFrame(X[:200], columns=NAMES).assign(label=Y[:200])
    frame.to_csv(comma, sep=";", decimal=",", index=False)
    shown = run("fit", comma, "-o", model, code=1).stderr
    assert "row 1, column 'a': '" in shown
    assert "has a decimal comma; write decimal points" in shown
    frame.to_csv(index)  # the index is a column without a name
    run("fit", index, "-o", tmp_path / "index.paloma", "-q")
    assert_same(paloma.load(tmp_path / "index.paloma"), paloma.load(model))
    bare.write_text("\n".join(test_file.read_text().splitlines()[1:]))
    shown = run("predict", model, bare, code=1).stderr
    assert (
        "bare.csv has no header, so that its columns have no names; those of the model do ('a', 'b', 'c', 'd')" in shown
    )
    assert "is a folder. `paloma embed` makes a table" in run("fit", tmp_path, "-o", model, code=1).stderr
    frame[frame.label == "red"].to_csv(bare, index=False)
    assert "; 1 class in 'label'" in run("fit", bare, "-o", model, code=1).stderr


def test_text_in_another_encoding_names_the_file(tmp_path):
    table = tmp_path / "latin.csv"
    table.write_bytes("höhe,label\n1,a\n2,b\n".encode("latin-1"))
    shown = run("fit", table, "-o", tmp_path / "m.paloma", code=1).stderr
    assert f"{table} is not text in UTF-8" in shown
    assert "Save it as UTF-8 first." in shown


@pytest.mark.parametrize("indexed", [False, True])
def test_names_that_are_numbers_are_no_row(indexed, tmp_path):
    table, queries, model = tmp_path / "rows.csv", tmp_path / "queries.csv", tmp_path / "model.paloma"
    frame = pd.DataFrame(X[:100])
    frame.assign(label=Y[:100]).to_csv(table, index=indexed)
    frame.to_csv(queries, index=indexed)
    run("fit", table, "-o", model, "-q")
    assert len(run("predict", model, queries).stdout.split()) == 100
    frame.assign(**{"4": Y[:100]}).to_csv(table, index=indexed)  # a label that is a number, too
    run("fit", table, "-o", model, "-q", "--label", "4")
    assert len(paloma.load(model)[-1].labels_) == 100
    [batch] = csv_batches([["0,1\n", "1,0\n"]], Wanted(needed=False), "rows")
    assert batch.X.tolist() == [[0, 1], [1, 0]]  # of two columns it may be a row


def test_labels_with_leading_zeros_are_names(tmp_path):
    table, model = tmp_path / "rows.csv", tmp_path / "model.paloma"
    codes = np.array(["007", "07", "10"])[np.arange(150) % 3]
    pd.DataFrame(X[:150], columns=NAMES).assign(label=codes).to_csv(table, index=False)
    run("fit", table, "-o", model, "-q")
    assert paloma.load(model)[-1].classes_.tolist() == ["007", "07", "10"]
    run("fit", table, "-o", model, "-q", "--label-type", "int")
    assert paloma.load(model)[-1].classes_.tolist() == [7, 10]


def test_a_missing_label_is_not_to_be_filled_in(tmp_path):
    table, model = tmp_path / "rows.csv", tmp_path / "model.paloma"
    table.write_text("\n".join([*HOLES[:3], "1,2,3,4,"]))
    shown = run("fit", table, "-o", model, "--missing", "mean", code=1).stderr
    assert "row 3, column 'label': the value is missing; fit, update and index accept --missing drop." in shown
