"""The journal of the service: what is acknowledged is on disk, whatever happens next."""

import pytest

apsw = pytest.importorskip("apsw", reason="needs paloma[serve]")

from helpers.disk import FailingSystem  # noqa: E402
from paloma.exceptions import ServiceError  # noqa: E402
from paloma.serve._journal import Conflict, Journal, New, Unsaved  # noqa: E402


def test_journal_keeps_order_keys_and_content(tmp_path):
    journal = Journal(tmp_path / "j.sqlite")
    entries = [journal.append(New(f"k{k}", "anna", {"kind": "mark", "n": k}, b"x" * k)) for k in range(50)]
    assert [future.result()[0].seq for future in entries] == list(range(1, 51))
    (again,) = journal.append(New("k7", "anna", {"kind": "mark", "n": 7}, b"x" * 7)).result()
    assert again == entries[7].result()[0]
    with pytest.raises(Conflict, match="used before"):
        journal.append(New("k7", "anna", {"kind": "mark", "n": 8}, b"x" * 7)).result()
    journal.close()
    with_more = Journal(tmp_path / "j.sqlite")
    assert [entry.body["n"] for entry in with_more.after(0)] == list(range(50))
    together = with_more.append(*(New(f"k{k}", "anna", {"kind": "mark", "n": k}, b"x" * k) for k in (49, 50, 50)))
    assert [entry.seq for entry in together.result()] == [50, 51, 51]
    with pytest.raises(Conflict, match="used before"):
        with_more.append(New("k51", "", {}), New("k51", "", {"another": 1})).result()
    assert with_more.append(New("k99", "", {"kind": "mark"})).result()[0].seq == 53
    assert [entry.seq for entry in with_more.before(50, 3)] == [49, 48, 47]
    with_more.close()


ERRORS = {"full": apsw.FullError("disk full"), "broken": apsw.IOError("broken")}


def disk_fails_at(path, system, at):
    """Whether a disk that fails at the at-th write, and goes on later, lost nothing; how often it refused."""
    journal, kept, refused = Journal(path, vfs=system.name), [], 0
    system.left, system.failures = at, 4
    for k in range(200):
        try:
            kept.append(journal.append(New(f"key-{k}", "", {"kind": "mark", "n": k})).result()[0].key)
        except Unsaved:
            refused += 1
        if refused and len(kept) > 2 and system.left < -system.failures:
            break
    system.left = None
    kept.append(journal.append(New("last", "", {"kind": "mark"})).result()[0].key)  # it goes on once the disk does
    journal.close()
    again = Journal(path)
    found = [entry.key for entry in again.after(0)]
    again.close()
    assert set(kept) <= set(found)
    assert len(found) == len(set(found))
    return refused


@pytest.mark.parametrize("kind", ERRORS)
def test_nothing_acknowledged_is_lost_when_the_disk_fails(tmp_path, kind):
    system = FailingSystem(f"failing-{kind}", ERRORS[kind])
    refused = [disk_fails_at(tmp_path / f"{at}.sqlite", system, at) for at in [*range(12), *range(12, 200, 17)]]
    assert all(refused)


@pytest.mark.long
@pytest.mark.parametrize("kind", ERRORS)
def test_the_disk_fails_at_each_of_the_first_200_writes(tmp_path, kind):
    system = FailingSystem(f"failing-each-{kind}", ERRORS[kind])
    refused = [disk_fails_at(tmp_path / f"{at}.sqlite", system, at) for at in range(200)]
    assert all(refused)


def test_what_is_no_journal_is_said_so(tmp_path):
    (tmp_path / "j.sqlite").write_bytes(b"something else, long enough to be a header of a database" * 50)
    with pytest.raises(ServiceError, match=r"j\.sqlite cannot be opened as a journal"):
        Journal(tmp_path / "j.sqlite")
    with pytest.raises(ServiceError, match="cannot be opened as a journal"):
        Journal(tmp_path / "no folder" / "j.sqlite")


def test_an_unsafe_sqlite_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.45.1")
    with pytest.raises(ServiceError, match="can lose committed data"):
        Journal(tmp_path / "j.sqlite")
