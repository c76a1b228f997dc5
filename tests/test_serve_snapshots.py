"""Snapshots of the service: a restart learns only what was said since, and is a replay of everything, to the bit."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("apsw", reason="needs paloma[serve]")
pytest.importorskip("fastapi", reason="needs paloma[serve]")

from helpers.service import Service, some_digits
from paloma import load, save
from paloma.serve import _snapshots

USERS = ("", "anna", "ben")


@pytest.fixture(scope="module")
def some():
    return some_digits()


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(_snapshots, "EVERY", 24)


def talk(service, start, stop):
    """Statements of three users, in batches, so that they are learned as they come."""
    for a in range(start, stop, 7):
        said = [
            {"key": f"key-{k:08d}", "kind": "mark", "user": USERS[k % 3], "item": f"digit-{k % 300:04d}",
             "relevant": [f"digit-{(k + 10) % 300:04d}"], "irrelevant": [f"digit-{(k + 3) % 300:04d}"]}
            for k in range(a, min(a + 7, stop))
        ]  # fmt: skip
        status, told = service.admin.ask("POST", "/api/v1/statements/batch", {"statements": said})
        assert status == 201, told
        service.near(after=told["seq"])
    return told["seq"]


def bits(service):
    """All that was learned."""
    return [service.matrix(user or None) for user in (*USERS, "nobody who ever spoke")]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def files(folder):
    return sorted((folder / "snapshots").iterdir())


def reopened(folder, *, replayed=False):
    """Bits and history after a restart; `replayed`: without snapshots."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    if replayed:
        shutil.rmtree(copy / "snapshots")
    service = Service(copy)
    found = bits(service), service.admin.ask("GET", "/api/v1/statements?limit=999")[1]["statements"]
    service.close()
    shutil.rmtree(copy)
    return found


def test_a_restart_is_a_replay_to_the_bit(tmp_path, some, monkeypatch):
    folder = tmp_path / "s"
    service = Service(folder, some)
    talk(service, 0, 90)
    before = bits(service)
    service.engine._journal.close = lambda: None  # as if it was killed: nothing is written at the end
    service.engine._snapshots.write = lambda served: None
    service.close()
    assert len(files(folder)) == 2
    heard = []
    learn = _snapshots.Snapshots.heard
    monkeypatch.setattr(
        _snapshots.Snapshots, "heard", lambda self, n, served: (heard.append(n), learn(self, n, served))
    )
    from_snapshot, told = reopened(folder)
    assert heard[0] <= 24 + 32
    again, told_again = reopened(folder, replayed=True)
    assert heard[-1] == 90
    assert told == told_again
    assert same(from_snapshot, before)
    assert same(again, before)


def assert_opens_alike(folder, service, path, body):
    """After this request and a restart, with snapshots and by replay, the service is the same to the bit."""
    told = service.admin.ask("POST", path, body)[1]
    service.near(after=told["seq"])
    before = bits(service)
    service.close()
    assert same(reopened(folder)[0], before)
    assert same(reopened(folder, replayed=True)[0], before)


@pytest.mark.parametrize("gone", [3, 40, 88])
def test_undo_before_and_after_a_snapshot(tmp_path, some, gone):
    folder = tmp_path / "s"
    service = Service(folder, some)
    first = talk(service, 0, 90) - 89
    assert_opens_alike(folder, service, "/api/v1/undo", {"key": "undo-0000001", "statement": first + gone})


def test_a_snapshot_after_an_undo_is_used(tmp_path, some, monkeypatch):
    service, heard = Service(tmp_path / "s", some), []
    seq = talk(service, 0, 90)
    service.admin.ask("POST", "/api/v1/undo", {"key": "undo-0000001", "statement": seq - 50})
    talk(service, 90, 170)
    service.close()
    monkeypatch.setattr(_snapshots.Snapshots, "heard", lambda self, n, served: heard.append(n))
    Service(tmp_path / "s").close()
    assert heard[0] <= 24 + 32


def test_new_items_make_snapshots_of_fewer_useless(tmp_path, some):
    folder = tmp_path / "s"
    service = Service(folder, some)
    talk(service, 0, 60)
    new = {"id": "new", "vector": [1.0] * 64}
    assert_opens_alike(folder, service, "/api/v1/items", {"key": "add-000001", "items": [new]})


def test_what_is_no_good_snapshot_is_passed_over(tmp_path, some):
    folder = tmp_path / "s"
    service = Service(folder, some)
    talk(service, 0, 90)
    before = bits(service)
    service.close()
    newest = files(folder)[-1]
    good, whole = newest.read_bytes(), load(newest)
    assert whole.state.n == 80  # the last renewal
    for bad in (b"", good[:-1], good[: len(good) // 2], bytes([*good[:5000], good[5000] ^ 1, *good[5001:]])):
        newest.write_bytes(bad)
        assert same(reopened(folder)[0], before)
    for other in (
        replace(whole, made_by="another machine"),
        replace(whole, n_items=7),
        replace(whole, told=whole.told[::-1]),
    ):
        save(other, newest)
        assert same(reopened(folder)[0], before)
    for path in files(folder):
        path.write_bytes(b"nonsense")
    (folder / "snapshots" / ".left.0123.tmp").write_bytes(b"half a snapshot")
    again = Service(folder)
    assert same(bits(again), before)
    again.close()
    assert not list((folder / "snapshots").glob(".*"))


def test_a_disk_that_refuses_snapshots_costs_nothing_else(tmp_path, some, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_snapshots, "save", refuse)
    service = Service(tmp_path / "s", some)
    talk(service, 0, 90)
    before = bits(service)
    service.close()
    assert service.engine._snapshots.failed >= 2
    assert files(tmp_path / "s") == []
    assert same(reopened(tmp_path / "s")[0], before)
