"""Tables: every form gives the same rows, and what is wrong is named by row and column."""

import io
import os
import threading
from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp

from paloma.cli import _csv_rows
from paloma.cli._batches import Batch
from paloma.cli._columns import Wanted, plan
from paloma.cli._formats import batches, read_all, read_triplets
from paloma.cli._labels import LabelType
from paloma.cli._tail import Interrupt, follow
from paloma.cli._writers import write

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3)).round(3)
X[::3] = RNG.integers(-5, 5, (10, 3))
WORDS = np.array(["red", "green", "blue"])[RNG.integers(0, 3, 30)]
NUMBERS = RNG.integers(0, 3, 30)
NAMES = ["height", "width", "a, b"]


def labeled(batch, where="table"):
    return LabelType().of(batch, where)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".npz", ".svm"])
@pytest.mark.parametrize("y", [WORDS, NUMBERS, None], ids=["words", "numbers", "none"])
def test_written_and_read_again(suffix, y, tmp_path):
    path = tmp_path / f"table{suffix}"
    if suffix == ".svm" and y is WORDS:
        with pytest.raises(ValueError, match="requires numeric labels"):
            write(Batch(X, y, NAMES), path, "label")
        return
    write(Batch(X, y, NAMES), path, "label")
    found = read_all(str(path), Wanted(needed=y is not None))
    rows = found.X.toarray() if sp.issparse(found.X) else found.X
    np.testing.assert_array_equal(rows, X)
    assert sp.issparse(found.X) == (suffix == ".svm")
    if y is not None:
        np.testing.assert_array_equal(labeled(found), y)
    elif suffix != ".svm":
        assert found.y is None
    assert found.names == (None if suffix in (".npz", ".svm") else NAMES)


def test_npy_with_labels(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", NUMBERS)
    (tmp_path / "y.txt").write_text("\n".join(WORDS) + "\n")
    source = str(tmp_path / "X.npy")
    np.testing.assert_array_equal(read_all(source, Wanted(), tmp_path / "y.npy").y, NUMBERS)
    np.testing.assert_array_equal(read_all(source, Wanted(), tmp_path / "y.txt").y, WORDS)
    with pytest.raises(ValueError, match=r"contains no labels\. Provide them with --labels"):
        read_all(source, Wanted())
    np.save(tmp_path / "y.npy", NUMBERS[:-1])
    with pytest.raises(ValueError, match="29 labels for 30 rows"):
        read_all(source, Wanted(), tmp_path / "y.npy")
    for name in ("rows.csv", "rows.parquet", "letters", "-"):  # it was not looked at
        with pytest.raises(ValueError, match=r"the labels of .* are a column: use --label"):
            read_all(name, Wanted(), tmp_path / "y.npy")


def test_data_sets_by_name():
    found = read_all("letters", Wanted())
    assert found.X.shape == (20000, 16)
    assert found.names[0] == "x-box"


def test_columns_are_found_by_name(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,b,color,a\nk1,1,red,2\nk2,3,blue,4\n")
    found = read_all(str(path), Wanted("color", True, None, ("id",)))
    assert (found.names, found.X.tolist(), found.y.tolist()) == (["b", "a"], [[1, 2], [3, 4]], ["red", "blue"])
    assert read_all(str(path), Wanted("none", False, ["a", "b"])).X.tolist() == [[2, 1], [4, 3]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x;y;color\n1;2;a\n\n3;4;b", [[1, 2], [3, 4]]),
        ("\ufeffx\ty\tcolor\n1\t2\t'a\n3\t4\tb\n", [[1, 2], [3, 4]]),
        ('"x","y","color"\n" 1",2,"a,""b"\n3,4,b\n', [[1, 2], [3, 4]]),
        ("x,y,color\r\n1,2,a\r\n3,4,b\r\n", [[1, 2], [3, 4]]),
        (f"x,y,color\n1,2,{'long' * 40}\n3,4,b\n", [[1, 2], [3, 4]]),
        ("0,1,color\n1,2,a\n3,4,b\n", [[1, 2], [3, 4]]),
    ],
    ids=["semicolons", "tabs and a mark", "quotes", "returns", "long labels", "numbered columns"],
)
def test_dialects(text, expected, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    found = read_all(str(path), Wanted("color"))
    assert found.X.tolist() == expected
    assert all(label in text.replace('""', '"') for label in found.y)


def test_columns_without_names_are_numbered(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("T,2,8\nI,5,12\n")
    found = read_all(str(path), Wanted("0"))
    assert (found.names, found.X.tolist(), found.y.tolist()) == (["1", "2"], [[2, 8], [5, 12]], ["T", "I"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,label\n1,2,x\n3,,y\n", "row 2, column 'b': the value is missing"),
        ("a,b,label\n1,2,x\n3,NA,y\n", "row 2, column 'b': 'NA' is not a number; ignore the column with --drop"),
        ("a,b,label\n1,nan,x\n", "row 1, column 'b': nan is not finite"),
        ("a,b,label\n1,2,x\n1,2,x\n1,-inf,x\n", "row 3, column 'b': -inf is not finite"),
        ('a,b,label\n1,2,"x"\n"1",oops,x\n', "row 2, column 'b': 'oops' is not a number"),
        ("a,b,label\n1,2,x\n1,2,\n", "row 2, column 'label': the value is missing"),
        ("a,b,label\n1,2,x\n1,2,3,x\n", "row 2: found 4 cells, expected 3"),
        ("a,b,label\n1,2,x\n1,2\n", "row 2: found 2 cells, expected 3"),
        ("a,b,color\n1,2,x\n", "no label column 'label'. Select it with --label. Columns: 'a', 'b', 'color'"),
        ("a,a,label\n1,2,x\n", "column 'a' occurs more than once"),
        ("label\nx\n", "no feature columns"),
        ("a,label\n", "contains no rows"),
        ("", "contains no rows"),
    ],
)
def test_wrong_csv(text, message, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        read_all(str(path), Wanted())
    assert f"{path}" in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "label": "x"}\n{"a": null, "label": "x"}\n', "row 2, column 'a': the value is missing"),
        ('{"a": 1, "label": "x"}\n{"a": "1", "label": "x"}\n', "row 2, column 'a': "),
        ('{"a": 1, "label": "x"}\n{"label": "x"}\n', "row 2, column 'a': the value is missing"),
        ('{"a": 1, "label": "x"}\n{"a": 2}\n', "row 2, column 'label': the value is missing"),
        ('{"a": 1, "label": "x"}\n{"a": true, "label": "x"}\n', "row 2, column 'a'"),
        ('{"a": 1, "label": "x"}\n{"a": Infinity, "label": "x"}\n', "row 2, column 'a': inf is not finite"),
        ('{"x": [1, 2], "label": "x"}\n{"x": [1], "label": "x"}\n', "row 2: found 1 values, expected 2"),
        ('{"x": [1, "u"], "label": "x"}\n', "row 1, column 'x[1]': 'u' is not a number"),
        ('{"a": 1, "label": "x"}\n{"a": 1', "row 2: invalid JSON"),
        ("[1, 2]\n", "row 1: expected one JSON object per line, got list"),
        ('{"anchor": [1], "positive": [2], "negative": [3, 4]}\n', "rows 1 to 1: a triplet requires three lists"),
        ('{"anchor": [1], "positive": [2]}\n', "rows 1 to 1: a triplet requires three lists"),
        (
            '{"anchor": [1], "positive": [2], "negative": [3], "classes": ["a"]}\n',
            "must have classes [positive,",
        ),
    ],
)
def test_wrong_json_lines(text, message, tmp_path):
    path = tmp_path / "table.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        read_all(str(path), Wanted())
    assert message in str(error.value)


def test_triplets_as_json_lines(tmp_path):
    path = tmp_path / "table.jsonl"
    line = '{"anchor": [1, 2], "positive": [3, 4], "negative": [5, 6], "classes": ["a", "b"], "weight": 0.5}\n'
    path.write_text(line * 2)
    found = read_all(str(path), Wanted())
    assert found.triplets
    assert found.X.shape == (2, 3, 2)
    assert found.classes.tolist() == [["a", "a", "b"]] * 2
    assert found.weight.tolist() == [0.5, 0.5]


def test_wrong_parquet(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "table.parquet"
    parquet.write_table(arrow.table({"a": [1.0, None], "label": ["x", "y"]}), path)
    with pytest.raises(ValueError, match="row 2, column 'a': the value is missing"):
        read_all(str(path), Wanted())
    parquet.write_table(arrow.table({"a": ["u", "v"], "label": ["x", "y"]}), path)
    with pytest.raises(ValueError, match="row 1, column 'a': 'u' is not a number"):
        read_all(str(path), Wanted())
    parquet.write_table(arrow.table({"a": [[1.0, 2.0], [3.0]], "label": ["x", "y"]}), path)
    with pytest.raises(ValueError, match="row 2, column 'a': found 1 values, expected 2"):
        read_all(str(path), Wanted())
    parquet.write_table(arrow.table({"a": [[1.0, 2.0], [3.0, 4.0]], "label": ["x", "y"]}), path)
    assert read_all(str(path), Wanted()).X.tolist() == [[1, 2], [3, 4]]
    parquet.write_table(arrow.table({"a": [1, 2], "label": ["x", None]}), path)
    with pytest.raises(ValueError, match="row 2, column 'label': the value is missing"):
        read_all(str(path), Wanted())


def test_other_files(tmp_path):
    for name, message in (("none.csv", "does not exist"), ("model.pkl", "unknown file format. Known formats: .csv")):
        path = tmp_path / name
        if name == "model.pkl":
            path.touch()
        with pytest.raises((ValueError, OSError), match=message):
            read_all(str(path), Wanted())
    np.save(tmp_path / "bad.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"expected a numeric array of shape \(n, d\), got shape \(3,\)"):
        read_all(str(tmp_path / "bad.npy"), Wanted(needed=False))
    (tmp_path / "t.csv").write_text("1,2\n3,4,5\n")
    with pytest.raises(ValueError, match="expected three comma-separated row numbers per line"):
        read_triplets(tmp_path / "t.csv")


def test_the_fast_parser_equals_the_slow_one():
    lines = [",".join(map(repr, row)) + f",{label}\n" for row, label in zip(X.tolist(), WORDS, strict=True)]
    columns = _csv_rows.plan([*"abc", "label"], Wanted(), "x")
    fast, slow = _csv_rows._fast(lines, columns, ","), _csv_rows._slow(lines, columns, ",", 1, "x", Wanted())
    for one, two in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_type_of_labels_is_kept_over_batches():
    kind = LabelType()
    assert kind.of(Batch(X[:2], np.array(["1", "2"])), "t").tolist() == [1, 2]
    with pytest.raises(ValueError, match="t, row 8: label 'b' is not a number, but earlier labels are"):
        kind.of(Batch(X[:2], np.array(["1", "b"]), None, 7), "t")
    kind = LabelType("auto", np.array(["1", "a"]))
    assert kind.of(Batch(X[:2], np.array([1, 2])), "t").tolist() == ["1", "2"]
    assert LabelType("float").of(Batch(X[:1], np.array(["1.5"])), "t").tolist() == [1.5]
    with pytest.raises(ValueError, match="--label-type must be one of auto, int, float, str, got 'date'"):
        LabelType("date")


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_blocks_of_a_stream_do_not_depend_on_how_bytes_arrive(step):
    text = "".join(f"zeile ä {k}\n" for k in range(95)).encode() + b"last"
    reading, writing = os.pipe()

    def feed():
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for a in range(0, len(text), step):
                pipe.write(text[a : a + step])

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(reading, "rb") as pipe:
        blocks = list(follow(pipe, 10, 30.0, Interrupt()))
    thread.join()
    assert [len(block) for block in blocks] == [10] * 9 + [6]
    assert "\n".join(line for block in blocks for line in block) == text.decode()


def test_a_silent_stream_gives_what_there_is():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        blocks = follow(pipe, 10, 0.01, Interrupt())
        assert next(blocks) == []
        os.write(writing, b"a\nb\nc")
        assert next(blocks) == ["a", "b"]
        os.close(writing)
        assert next(blocks) == ["c"]
        assert list(blocks) == []


def test_standard_input_by_its_first_character(monkeypatch):
    for text in ("a,label\n1,x\n2,y\n", '\n{"a": 1, "label": "x"}\n{"a": 2, "label": "y"}\n'):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        (found,) = [batch for batch in batches("-", Wanted()) if batch is not None]
        assert (found.X.tolist(), found.y.tolist()) == ([[1], [2]], ["x", "y"])


@pytest.mark.parametrize("first", [1, 3, 9])
def test_a_byte_order_mark_on_standard_input_is_no_part_of_a_name(first):
    text = "\ufeffheight,label\n1.5,red\n".encode()
    read, write_end = os.pipe()
    with os.fdopen(read, "rb") as pipe:
        os.write(write_end, text[:first])
        os.write(write_end, text[first:])
        os.close(write_end)
        (block,) = follow(pipe, 10, 30.0, Interrupt())
    assert block == ["height,label", "1.5,red"]


def test_reading_a_header_takes_time_in_proportion_to_its_columns():
    names = [f"column {k}" for k in range(100_000)]
    wanted = Wanted("column 5", features=names[::-1][:-6], drop=("column 7",))
    begin = perf_counter()
    found = plan(names, wanted, "table")
    plan(names, Wanted("column 5", drop=tuple(names[10:])), "table")
    assert perf_counter() - begin < 5.0
    assert found.feature_names == names[::-1][:-6]


def test_dropping_a_column_that_is_missing_is_refused(tmp_path):
    for suffix in (".csv", ".jsonl", ".parquet"):
        path = tmp_path / f"table{suffix}"
        write(Batch(X, WORDS, NAMES), path, "label")
        assert read_all(str(path), Wanted(drop=("width",))).names == ["height", "a, b"]
        with pytest.raises(ValueError, match=r"no column 'weight'\. Did you mean 'height'\? Columns: 'height'"):
            read_all(str(path), Wanted(drop=("width", "weight")))
    (tmp_path / "lists.jsonl").write_text('{"x": [1.0, 2.0], "label": "red"}\n')
    write(Batch(X, NUMBERS, NAMES), tmp_path / "table.npz", "label")
    for name in ("table.npz", "lists.jsonl"):
        with pytest.raises(ValueError, match="--drop: the columns have no names"):
            read_all(str(tmp_path / name), Wanted(drop=("width",)))
