"""What a service takes in: tables, arrays and folders, one request without a server, and the real one."""

import contextlib
import datetime
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

apsw = pytest.importorskip("apsw", reason="needs paloma[serve]")
pytest.importorskip("fastapi", reason="needs paloma[serve]")

from helpers.cli import run  # noqa: E402
from helpers.servers import TOKEN, Servers  # noqa: E402
from helpers.service import MARK, Service, some_digits  # noqa: E402
from paloma.datasets import embed  # noqa: E402
from paloma.serve import Items, answer, from_images, from_table, is_new  # noqa: E402
from paloma.serve._engine import Engine  # noqa: E402
from paloma.serve._journal import Journal  # noqa: E402


@pytest.fixture(scope="module")
def some():
    return some_digits()


@pytest.fixture
def service(tmp_path, some):
    service = Service(tmp_path / "served", some)
    yield service
    service.close()


def test_tables_arrays_and_folders_become_items(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("name,a,b,kind,note\nx,1,2,red,hello\ny,3,4,blue,there\n")
    items = from_table(table, "name", "kind", "note")
    assert items.ids == ["x", "y"]
    assert items.vectors.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert items.labels == ["red", "blue"]
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=[1, 2, 3])
    assert from_table(tmp_path / "t.npz").labels == ["1", "2", "3"]
    Image = pytest.importorskip("PIL.Image")
    (tmp_path / "p" / "cats").mkdir(parents=True)
    for k in range(3):
        Image.new("L", (20, 30), 80 * k).save(tmp_path / "p" / "cats" / f"{k}.png")
    assert from_images(tmp_path / "p").labels == ["cats"] * 3
    embed(tmp_path / "p", tmp_path / "p.npz", encoder=lambda pixels: pixels.mean(axis=(1, 2)), size=(8, 8))
    embedded = from_table(tmp_path / "p.npz", images=tmp_path / "p")
    assert embedded.ids == [f"cats/{k}.png" for k in range(3)]
    assert all(Path(picture.removeprefix("file:")).is_file() for picture in embedded.pictures)
    assert from_table(tmp_path / "p.npz", text="name").texts == embedded.ids
    with pytest.raises(ValueError, match=r"no array 'nome'. Its arrays: X, y, name"):
        from_table(tmp_path / "p.npz", "nome")
    with pytest.raises(ValueError, match=r"none of its items has a picture in .*--id"):
        from_table(tmp_path / "t.npz", images=tmp_path / "p")
    with pytest.raises(ValueError, match="no column 'nome'"):
        from_table(table, "nome")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_of_spreadsheets_become_items(tmp_path, delimiter):
    table = tmp_path / "t.csv"
    lines = ["name,a,b,note", "x,1,2,hello", "y,3,4,there"]
    table.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).replace(",", delimiter).encode())
    items = from_table(table, "name", text="note")
    assert items.ids == ["x", "y"]
    assert items.vectors.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_columns_are_taken_for_what_they_are(tmp_path):
    """Row numbers of pandas are none of the vector, ids are, and explanations call features by their columns."""
    table = tmp_path / "t.csv"
    table.write_text(",id,price,kind,weight\n0,12,1.5,red,3\n1,11,2.5,,4\n")
    items = from_table(table)
    assert items.ids == ["12", "11"]
    assert items.vectors.tolist() == [[1.5, 3.0], [2.5, 4.0]]
    assert items.features == ["price", "weight"]
    assert items.payload == [{"kind": "red"}, {"kind": ""}]
    assert from_table(table, "price").vectors.tolist() == [[12.0, 3.0], [11.0, 4.0]]
    (tmp_path / "u.csv").write_text("0,1\n5,6\n7,8\n")
    assert from_table(tmp_path / "u.csv").features == ["0", "1"]
    service = Service(tmp_path / "s", items)
    parts = service.admin.ask("POST", "/api/v1/explain", {"item": "11", "other": "12"})[1]["parts"]
    assert {part["name"] for part in parts} == {"price", "weight"}
    found = service.admin.ask("GET", "/api/v1/items?find=red")[1]["items"]
    assert [item["id"] for item in found] == ["12"]
    service.close()
    service = Service(tmp_path / "s")
    assert service.admin.ask("POST", "/api/v1/explain", {"item": "11", "other": "12"})[1]["parts"] == parts
    service.close()


@pytest.mark.parametrize("written", ["[{}, {}]", "{{{},{}}}", "{} {}", "[{}  {}]"])
def test_vectors_may_be_written_in_a_cell(tmp_path, written):
    table = tmp_path / "t.csv"
    cells = [written.format(*pair) for pair in ((1, 2.5), (-3e2, 4))]
    table.write_text(f'name,v,price\nx,"{cells[0]}",7\ny,"{cells[1]}",\n')
    items = from_table(table, vectors="v")
    assert items.vectors.tolist() == [[1.0, 2.5], [-300.0, 4.0]]
    assert items.features == ["v 1", "v 2"]
    assert items.payload == [{"name": "x", "price": "7"}, {"name": "y", "price": ""}]


def test_what_parquet_leaves_out_and_what_it_shows(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "v": [[1.0, 2.0], [3.0, 4.0]],
        "label": ["x", None],
        "price": [1.5, None],
        "when": [datetime.date(2026, 1, 31), None],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    items = from_table(tmp_path / "t.parquet", label="label", vectors="v")
    assert items.labels == ["x", ""]
    assert items.payload == [{"price": 1.5, "when": "2026-01-31"}, {}]
    parquet.write_table(arrow.table({"id": ["a", None], "x": [1, 2]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="row 2 has no id"):
        from_table(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id,a,b\nx,1,2\ny,,3\n", "column 'a' has numbers, but none in row 2"),
        ("id,a,b\nx,1,2\ny, NA,3\n", "column 'a' has numbers, but none in row 2"),
        ("id;a;b\nx;1,5;2\ny;2;3\n", "column 'a' has decimal commas"),
        ("1,2,3\n4,5,6\n7,8,9\n", "its first line has numbers"),
        ('id,a\n"x"y,1\n', "line 2 cannot be read"),
        ("id,a\nx,1\ny,2\nx,3\n", "'x' repeats"),
        ("id,a,b\nx,1,2\ny,3\n", "row 2 has 2 cells"),
        ("id,a,b\nx,1,2,9\ny,3,4\n", "row 1 has 4 cells"),
        ("id,a,a\nx,1,2\n", "two columns have one name"),
        ("id,a\nx,1\n,2\n", "row 2 has no id"),
        ("id,a\nx,1\n" + 300 * "y" + ",2\n", "1 to 200 characters"),
        ("id,a\nx,1\ny,1e200\n", "row 2 has a missing or infinite number, or one beyond"),
        ("", "whose first line names its columns"),
        (b"id,a\n\xe4,1\n", "UTF-8"),
    ],
)
def test_tables_that_would_be_misread_are_refused(tmp_path, text, sentence):
    table = tmp_path / "t.csv"
    table.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=sentence):
        from_table(table, "id")


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"y": [1, 2]}, "3 vectors, but 2 labels"),
        ({"ids": ["a", "b"]}, "3 vectors, but 2 ids"),
        ({"X": np.eye(3) + 1j}, "real numbers, got complex128"),
        ({"X": np.eye(3).astype(str)}, "real numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, arrays, sentence):
    np.savez(tmp_path / "t.npz", **{"X": np.eye(3), **arrays})
    with pytest.raises(ValueError, match=sentence):
        from_table(tmp_path / "t.npz")


def test_files_that_are_broken_are_named(tmp_path):
    (tmp_path / "t.npz").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"t.npz is no .npz file"):
        from_table(tmp_path / "t.npz")
    Image = pytest.importorskip("PIL.Image")
    Image.new("L", (9, 9)).save(tmp_path / "1.png")
    (tmp_path / "2.png").write_bytes(b"nope")
    with pytest.raises(ValueError, match=r"2.png cannot be read as an image"):
        from_images(tmp_path)
    head = (tmp_path / "1.png").read_bytes()
    (tmp_path / "2.png").write_bytes(head[:16] + (1 << 15).to_bytes(4) * 2 + head[24:])
    with pytest.raises(ValueError, match=r"2.png cannot be read as an image"):
        from_images(tmp_path)


def test_pictures_whose_names_no_page_could_ask_for_are_refused(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for name in ("a.png", "\udce4.png"):
        with (tmp_path / name).open("wb") as file:
            Image.new("L", (9, 9)).save(file, "png")
    with pytest.raises(ValueError, match="is not UTF-8"):
        from_images(tmp_path)


def test_items_are_taken_in_by_one_commit(tmp_path, monkeypatch):
    """So that a kill on the way does not leave a service of some of them."""
    monkeypatch.setattr("paloma.serve._items._PART", 100)
    sizes, append = [], Journal.append
    monkeypatch.setattr(Journal, "append", lambda self, *new: sizes.append(len(new)) or append(self, *new))
    Engine(tmp_path / "s", some_digits(250)).close()
    assert sizes == [3]


def test_vectors_however_far_away_leave_a_service_that_learns(tmp_path, some):
    service = Service(tmp_path / "s", some)
    for k in range(12):
        told = service.say(k, kind="mark", vector=[(-1) ** k * 1e100] * 64, relevant=["digit-0001"])
        assert told[0] == 201
        assert service.say(50 + k, **MARK, irrelevant=[f"digit-{k + 20:04d}"])[0] == 201
    assert service.near(after=told[1]["seq"])
    assert service.say(99, kind="mark", vector=[1e101] * 64, relevant=["digit-0001"])[0] == 422
    status, told = service.admin.ask("POST", "/api/v1/search", {"vector": [1e100] * 64})
    assert (status, "a query has numbers up to" in told["error"]) == (422, True)
    service.close()
    again = Service(tmp_path / "s")
    assert np.isfinite(again.matrix()).all()
    assert again.engine.health()["status"] == "ok"
    again.close()


def test_a_folder_is_new_until_it_holds_items(tmp_path, some):
    """A start that was killed before they were committed leaves a journal without any."""
    assert is_new(tmp_path / "s")
    Engine(tmp_path / "s").close()
    assert is_new(tmp_path / "s")
    Engine(tmp_path / "s", some).close()
    assert not is_new(tmp_path / "s")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "journal.sqlite").write_text("no journal" * 500)
    assert not is_new(tmp_path / "t")


def test_the_command_says_which_items_are_served(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, first in (("a", 1), ("b", 5)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "items.csv").write_text(f"x,y\n{first},2\n3,4\n")
    asked = ("--get", "/api/v1/version")
    assert "not read" not in run("serve", "a/items.csv", *asked).output
    told = run("serve", "b/items.csv", *asked).output
    assert "items.served has items already, so b/items.csv is not read; --state names another folder." in told
    assert "not read" not in run("serve", "b/items.csv", "--state", "other", *asked).output


def test_questions_are_about_items_that_are_there(service):
    gone = [f"digit-{k:04d}" for k in range(300) if k % 50]
    status, _ = service.admin.ask("POST", "/api/v1/items/remove", {"key": "key-remove", "ids": gone})
    assert status == 201
    for k in range(3):
        seq = service.say(k, kind="mark", item="digit-0000", relevant=["digit-0050"])[1]["seq"]
        status, found = service.admin.ask("GET", f"/api/v1/suggest?n=3&after={seq}")
        assert status == 200
        assert found["query"]["id"] not in gone
        assert len(found["items"]) == 3


def test_one_request_without_a_server(tmp_path, some):
    status, body = answer(tmp_path / "s", "/api/v1/items?limit=1", some)
    assert status == 200
    assert json.loads(body)["items"][0]["id"] == "digit-0000"
    assert answer(tmp_path / "s", "/api/v1/nowhere")[0] == 404


def test_ids_may_be_paths_of_files(tmp_path):
    """As they are in a folder of pictures with folders in it; the page writes the slash as %2F."""
    Image = pytest.importorskip("PIL.Image")
    (tmp_path / "p" / "cats").mkdir(parents=True)
    for k in range(2):
        Image.new("L", (20, 30), 80 * k).save(tmp_path / "p" / "cats" / f"{k}.png")
    status, body = answer(tmp_path / "s", "/api/v1/items/cats%2F1.png/picture", from_images(tmp_path / "p"))
    assert (status, body) == (200, (tmp_path / "p" / "cats" / "1.png").read_bytes())
    assert json.loads(answer(tmp_path / "s", "/api/v1/items/cats/1.png")[1])["id"] == "cats/1.png"
    assert answer(tmp_path / "s", "/api/v1/items/cats%2F2.png/picture")[0] == 404


def test_an_id_may_end_as_the_way_to_a_picture_does(tmp_path):
    """The slash before what stands for the picture is a plain one, that of an id is %2F."""
    shown = Items(np.eye(2), ["cat", "cat/picture"], labels=["one", "two"], pictures=["pixels:00", "pixels:ff"])
    assert answer(tmp_path / "s", "/api/v1/items/cat", shown)[0] == 200
    one, two = (answer(tmp_path / "s", f"/api/v1/items/{id}/picture") for id in ("cat", "cat%2Fpicture"))
    assert one[0] == two[0] == 200
    assert one[1] != two[1]
    status, body = answer(tmp_path / "s", "/api/v1/items/cat%2Fpicture")
    assert (status, json.loads(body)["label"]) == (200, "two")


def test_features_without_rows_are_refused():
    with pytest.raises(ValueError, match="vectors has no rows"):
        Items(np.empty((0, 2)), [], features=["a", "b"])


def test_a_folder_to_ask_must_be_there(tmp_path, monkeypatch):
    """Else a typing error would be answered from scikit-learn's digits, and kept."""
    monkeypatch.chdir(tmp_path)
    told = run("serve", "--state", "typo", "--get", "/api/v1/version", code=1).output
    assert "--get: typo holds no items. Name a folder that was served, or a SOURCE of items." in told
    assert not (tmp_path / "typo").exists()


def test_the_client_of_the_documentation(tmp_path):
    text = (Path(__file__).parents[1] / "docs" / "service-clients.md").read_text(encoding="utf-8")
    client, use = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found = {}
    exec(client, found)
    servers = Servers(tmp_path / "s")
    servers.start()
    address = use.replace("http://127.0.0.1:8321", f"http://127.0.0.1:{servers.port}")
    exec(address.replace("a token of at least 16 bytes", TOKEN), found)
    search = found["search"]
    search.undo(found["seq"])
    near = search.near("digit-0001")
    assert len(near) == 10
    seq = search.mark("digit-0001", right=near[:2], wrong=near[-1:])
    assert search.near("digit-0001") != near
    search.undo(seq)
    assert search.near("digit-0001") == near
    assert search.near("digit-0001", label="1", k=3)
    with pytest.raises(ValueError, match="no item 'nobody'"):
        search.near("nobody")
    servers.kill()
    servers.close()


def test_the_real_server_on_loopback(tmp_path):
    """One command, a login, a page, a statement, and Ctrl-C; it listens on loopback."""
    command = [sys.executable, "-m", "paloma", "serve", "--state", str(tmp_path / "s"), "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        host, _, path = server.stderr.readline().split()[1].removeprefix("http://").partition("/")
        assert host.startswith("127.0.0.1:")
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.request("GET", f"/{path}")
        answered = connection.getresponse()
        answered.read()
        cookie = answered.getheader("set-cookie").partition(";")[0]
        body = json.dumps({"key": "key-00000001", **MARK})
        connection.request("POST", "/api/v1/statements", body, {"content-type": "application/json", "cookie": cookie})
        answered = connection.getresponse()
        assert answered.status == 201
        assert json.loads(answered.read())["seq"] == 3
        connection.request("GET", "/", headers={"cookie": cookie})
        answered = connection.getresponse()
        assert b"paloma" in answered.read()
        connection.close()
        with socket.create_connection(host.split(":"), timeout=60) as endless:  # a head of one header that goes on
            endless.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nName: ")
            with contextlib.suppress(ConnectionError):
                for _ in range(64):
                    endless.sendall(b"x" * 65_536)
            told = b""
            with contextlib.suppress(ConnectionError):
                told = endless.recv(65_536)
            assert told == b"" or told.startswith(b"HTTP/1.1 400")
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_closes_its_journal(tmp_path, end):
    (tmp_path / "t.csv").write_text("id,a\nx,1\ny,2\n")
    command = [sys.executable, "-m", "paloma", "serve", "t.csv", "--state", "s", "-p", "0", "--host", "0.0.0.0"]
    with subprocess.Popen(
        [*command, "--token", f"admin={TOKEN}"], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as server:
        try:
            assert "http://127.0.0.1:" in server.stderr.readline()  # an address that a browser can open
            server.send_signal(end)
            assert server.wait(60) == 0, server.stderr.read()
        finally:
            server.kill()
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["journal.sqlite", "lock", "snapshots"]
