"""The journal of the service: what is acknowledged is on disk, whatever happens next."""

import pytest

apsw = pytest.importorskip("apsw", reason="needs paloma[serve]")

from helpers.disk import FailingSystem  # noqa: E402
from paloma.exceptions import ServiceError  # noqa: E402
from paloma.serve._journal import Conflict, Journal, Unsaved  # noqa: E402


def test_journal_keeps_order_keys_and_content(tmp_path):
    journal = Journal(tmp_path / "j.sqlite")
    entries = [journal.append(f"k{k}", "anna", {"kind": "mark", "n": k}, b"x" * k) for k in range(50)]
    assert [future.result().seq for future in entries] == list(range(1, 51))
    again = journal.append("k7", "anna", {"kind": "mark", "n": 7}, b"x" * 7).result()
    assert again == entries[7].result()
    with pytest.raises(Conflict, match="used before"):
        journal.append("k7", "anna", {"kind": "mark", "n": 8}, b"x" * 7).result()
    journal.close()
    with_more = Journal(tmp_path / "j.sqlite")
    assert [entry.body["n"] for entry in with_more.after(0)] == list(range(50))
    assert with_more.append("k99", "", {"kind": "mark"}).result().seq == 51
    assert [entry.seq for entry in with_more.before(50, 3)] == [49, 48, 47]
    with_more.close()


@pytest.mark.parametrize("error", [apsw.FullError("disk full"), apsw.IOError("broken")])
def test_nothing_acknowledged_is_lost_when_the_disk_fails(tmp_path, error):
    system = FailingSystem(f"failing-{type(error).__name__}", error)
    told, refused = [], 0
    for at in range(0, 60, 3):
        path = tmp_path / f"{at}.sqlite"
        journal = Journal(path, vfs=system.base_name or f"failing-{type(error).__name__}")
        system.left, system.failures = at, 4
        kept = []
        for k in range(12):
            try:
                kept.append(journal.append(f"key-{k}", "", {"kind": "mark", "n": k}).result().key)
            except Unsaved:
                refused += 1
        system.left = None
        assert journal.append("last", "", {"kind": "mark"}).result()  # it goes on once the disk does
        journal.close()
        found = [entry.key for entry in Journal(path).after(0)]
        assert set(kept) <= set(found)
        assert len(found) == len(set(found))
        told += kept
    assert told
    assert refused


def test_an_unsafe_sqlite_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.45.1")
    with pytest.raises(ServiceError, match="can lose committed data"):
        Journal(tmp_path / "j.sqlite")
