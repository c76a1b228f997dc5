"""Candidates from a real PostgreSQL: the answers are those of memory, whatever happens to the database."""

import json
import logging
import time
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("apsw", reason="needs paloma[serve]")
pytest.importorskip("fastapi", reason="needs paloma[serve]")
psycopg = pytest.importorskip("psycopg", reason="needs paloma[pgvector]")

from helpers.cli import run  # noqa: E402
from helpers.postgres import started_server  # noqa: E402
from helpers.service import Service, feedback_round, some_digits  # noqa: E402
from paloma.serve import Database, _database, from_database  # noqa: E402

SECRET = "a-password-of-nobody"


@pytest.fixture(scope="module")
def postgres():
    with started_server() as started:
        yield started


@pytest.fixture(scope="module")
def address(postgres):
    """With a password, which this server does not ask for."""
    return postgres.get_uri().replace("//postgres:", f"//postgres:{SECRET}")


@pytest.fixture
def database(address, request):
    """A table of this test, whose name has to be quoted."""
    name = f"{request.node.name[:40]}%"
    yield Database(address, name)
    with psycopg.connect(address) as connection:
        connection.execute(psycopg.sql.SQL("DROP TABLE IF EXISTS {}").format(psycopg.sql.Identifier(name)))


@pytest.fixture
def both(tmp_path, database, monkeypatch):
    """The same items in two services, the second of which asks the database; what it writes is soon written again."""
    monkeypatch.setattr(_database, "_REST", 0.0)
    monkeypatch.setattr(_database, "_LAST", 0.5)
    monkeypatch.setattr(_database, "LEAST", 60)
    items = some_digits()
    services = [Service(tmp_path / "memory", items), Service(tmp_path / "database", items, database=database)]
    until(lambda: candidates(services[1]) == "database")
    yield services
    for service in services:
        service.close()


def until(true, seconds=20.0):
    """Wait until something is true."""
    stop = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < stop
        time.sleep(0.01)


def candidates(service):
    return service.nobody.ask("GET", "/api/v1/health")[1]["candidates"]


def n_found(service):
    return service.engine._served.table.n_searches


def up_to_date(service):
    """Whether the table holds what was learned last."""
    served = service.engine._served
    search, gone = served.findable()
    written = served.table.written
    return written is not None and written.of == (search, search.state, len(gone))


def rows_of(database):
    """{id: vector}"""
    query = psycopg.sql.SQL("SELECT id, embedding::text FROM {}").format(psycopg.sql.Identifier(database.table))
    with psycopg.connect(database.address) as connection:
        return {row[0]: np.array(json.loads(row[1])) for row in connection.execute(query).fetchall()}


@contextmanager
def reading(database):
    """A transaction that has read the table, so that no other can take its place."""
    with psycopg.connect(database.address) as reader:
        reader.execute(psycopg.sql.SQL("SELECT 1 FROM {}").format(psycopg.sql.Identifier(database.table)))
        yield


def same(both, path="/api/v1/search", **asked):
    """One question to both services: ids and scores agree."""
    answers = [service.admin.ask("POST", path, {"k": 10, **asked}) for service in both]
    assert [status for status, _ in answers] == [200, 200], answers
    lists = [[told[name] for name in sorted(told) if name != "seq"] for _, told in answers]
    for here, there in zip(*lists, strict=True):
        assert [each["id"] for each in here] == [each["id"] for each in there]
        assert np.allclose([each["score"] for each in here], [each["score"] for each in there], rtol=1e-9)
    return lists[0][0]


def test_answers_are_those_of_memory(both):
    memory, database = both
    vector = some_digits(310).vectors[305].tolist()
    for number in range(14):  # the last page is not full
        seqs = [feedback_round(service, number, number, ("anna", "ben")[number % 2]) for service in both]
        assert database.admin.ask("GET", f"/api/v1/quality?after={seqs[1]}")[0] == 200
        until(lambda: up_to_date(database))
        asked = [{"item": f"digit-{40 + number:04d}"}, {"items": ["digit-0003", "digit-0007"]}, {"vector": vector}]
        for query in asked:
            for user in ("anna", "ben", ""):
                same(both, **query, user=user, after=seqs[0])
    assert n_found(database) == 140  # 9 of `same` and one of `feedback_round`
    before = n_found(database)
    for metric in ("before", "start"):
        same(both, item="digit-0050", user="anna", metric=metric)
    assert n_found(database) == before + 1  # the start is another metric than the table's
    same(both, "/api/v1/compare", item="digit-0050", user="anna")
    for where in ({"label": "3"}, {"label": "none"}, {"color": "red"}):
        same(both, item="digit-0050", where=where, k=5)
    assert len(same(both, item="digit-0050", k=300)) == 299
    for service in both:
        told = service.admin.ask("POST", "/api/v1/undo", {"key": "undo-000001", "of_user": "ben"})[1]
        asked = service.admin.ask("GET", f"/api/v1/suggest?n=5&after={told['seq']}")[1]
        assert len(asked["items"]) == 5
    same(both, item="digit-0050", user="ben", after=told["seq"])
    assert memory.engine._served.table is None


def test_the_table_follows_what_is_learned_and_taken_back(both, database):
    service = both[1]
    start = rows_of(database)
    assert len(start) == 300
    first = feedback_round(service, 0, 0)
    for number in range(1, 12):
        last = feedback_round(service, number, number)
    service.near(after=last)
    until(lambda: up_to_date(service))
    learned, matrix = rows_of(database), service.matrix()
    one, two = "digit-0008", "digit-0009"
    assert not np.allclose(learned[one], start[one])
    gap = np.subtract(*[service.engine._served.items.row(id) for id in (one, two)])
    assert np.linalg.norm(learned[one] - learned[two]) == pytest.approx(np.sqrt(gap @ matrix @ gap), rel=1e-5)
    back = service.admin.ask("POST", "/api/v1/models/rollback", {"key": "back-000001", "seq": first - 1})[1]["seq"]
    service.near(after=back)
    until(lambda: up_to_date(service))
    assert all(np.allclose(row, start[id]) for id, row in rows_of(database).items())
    with psycopg.connect(database.address) as connection:
        query = "SELECT id FROM {0} ORDER BY embedding <-> (SELECT embedding FROM {0} WHERE id = 'digit-0005') LIMIT 11"
        found = connection.execute(psycopg.sql.SQL(query).format(psycopg.sql.Identifier(database.table))).fetchall()
    assert [row[0] for row in found][1:] == service.near("digit-0005")


def test_items_come_and_go(both, database):
    service = both[1]
    new = {"id": "mine", "vector": (some_digits().vectors[5] + 0.01).tolist(), "payload": {"color": "red"}}
    with reading(database):
        for each in both:
            seq = each.admin.ask("POST", "/api/v1/items", {"key": "add-000001", "items": [new]})[1]["seq"]
        found = n_found(service)
        assert same(both, item="digit-0005", after=seq)[0]["id"] == "mine"
        assert n_found(service) == found + 1
        assert "mine" not in rows_of(database)
    until(lambda: "mine" in rows_of(database))
    assert same(both, item="digit-0005", where={"color": "red"})[0]["id"] == "mine"
    for each in both:
        gone = {"key": "gone-000001", "ids": ["mine", "digit-0011"]}
        seq = each.admin.ask("POST", "/api/v1/items/remove", gone)[1]["seq"]
    same(both, item="digit-0005", after=seq)
    until(lambda: len(rows_of(database)) == 299)
    same(both, item="digit-0005")


def test_a_database_that_dies_and_comes_back(both, postgres, database, caplog):
    service = both[1]
    before, answers = n_found(service), []
    postgres.stop()
    try:
        for number in range(3):
            same(both, item=f"digit-{number:04d}")
        answers += [service.nobody.answer("GET", "/api/v1/health")]
        assert candidates(service) == "memory"
        assert answers[0][0] == 200
        assert n_found(service) == before
        for each in both:
            seq = feedback_round(each, 0, 0)
        same(both, item="digit-0005", user="anna", after=seq)
        time.sleep(0.6)  # it is asked again in the meantime
    finally:
        postgres.ensure_postgres_running()
    until(lambda: candidates(service) == "database")
    same(both, item="digit-0005", user="anna")
    assert n_found(service) == before + 1
    answers += [service.admin.answer("GET", f"/api/v1/{path}") for path in ("metrics", "version", "health", "quality")]
    assert b"paloma_database_searches_total" in answers[1][1]
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warned) == 2, warned
    assert "memory" in warned[0]
    assert "again" in warned[1]
    assert SECRET not in caplog.text
    assert not any(SECRET.encode() in body for _, body, _ in answers)
    assert SECRET not in repr(database)


def test_a_connection_that_the_server_closed_is_not_missed(both, database):
    service = both[1]
    service.near()
    with psycopg.connect(database.address) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                           "AND backend_type = 'client backend'")  # fmt: skip
    before = n_found(service)
    same(both, item="digit-0005")
    assert n_found(service) == before + 1


def test_a_reader_who_does_not_end_holds_nobody_up(both, database, caplog):
    service = both[1]
    with reading(database):
        for each in both:
            seq = feedback_round(each, 0, 0)
        until(lambda: caplog.records)
        before = n_found(service)
        same(both, item="digit-0005", user="anna", after=seq)
        assert n_found(service) == before + 1
        assert "not up to date" in caplog.text
        assert not up_to_date(service)
    until(lambda: up_to_date(service))


def test_a_view_keeps_the_table_as_it_is(both, database, caplog):
    service, table = both[1], psycopg.sql.Identifier(database.table)
    with psycopg.connect(database.address) as connection:
        connection.execute(psycopg.sql.SQL("CREATE VIEW seen AS SELECT id FROM {}").format(table))
    service.near(after=feedback_round(service, 0, 0))
    until(lambda: caplog.records)
    assert "view seen depends on table" in caplog.text
    assert candidates(service) == "database"
    with psycopg.connect(database.address) as connection:
        connection.execute("DROP VIEW seen")
    until(lambda: up_to_date(service))


def test_a_table_that_is_dropped_is_written_again(both, database):
    service = both[1]
    with psycopg.connect(database.address) as connection:
        connection.execute(psycopg.sql.SQL("DROP TABLE {}").format(psycopg.sql.Identifier(database.table)))
    same(both, item="digit-0005")
    until(lambda: candidates(service) == "database")
    same(both, item="digit-0005")


def test_a_restart_finds_its_table_and_no_other_service_does(tmp_path, database):
    first = Service(tmp_path / "s", some_digits(), database=database)
    until(lambda: candidates(first) == "database")
    first.close()
    second = Service(tmp_path / "s", database=database)
    until(lambda: candidates(second) == "database")
    with pytest.raises(ValueError, match="written by another service; it is left alone"):
        Service(tmp_path / "other", some_digits(), database=database)
    second.close()
    with psycopg.connect(database.address) as connection:
        table = psycopg.sql.Identifier(database.table)
        connection.execute(psycopg.sql.SQL("COMMENT ON TABLE {} IS NULL").format(table))
    with pytest.raises(ValueError, match="written by something else; it is left alone"):
        Service(tmp_path / "s", database=database)


def test_a_service_starts_without_its_database(tmp_path, caplog):
    database = Database(f"postgresql://nobody:{SECRET}@127.0.0.1:1/none")
    service = Service(tmp_path / "s", some_digits(), database=database)
    assert len(service.near()) == 10
    until(lambda: caplog.records)
    assert candidates(service) == "memory"
    service.close()
    assert "127.0.0.1" in caplog.text
    assert SECRET not in caplog.text


def test_a_graph_finds_nearly_all(tmp_path, address):
    service = Service(tmp_path / "s", some_digits(), database=Database(address, "graph", graph=True))
    until(lambda: candidates(service) == "database")
    exact = Service(tmp_path / "m", some_digits())
    found = [len({*service.near(f"digit-{k:04d}")} & {*exact.near(f"digit-{k:04d}")}) for k in range(20)]
    assert np.mean(found) > 9.5
    assert n_found(service) == 20
    for each in (service, exact):
        each.close()


@pytest.mark.parametrize("address", [
    f"postgresql://me:{SECRET}@ho st:x/", f"postgresql://me:x@{SECRET}@host/shop", f"postgresql://me:{SECRET}/x@host/shop",
    f"postgresql://me:1/{SECRET}@host/shop", f"postgresql://me:x%{SECRET}@host/shop", f"host=h password='{SECRET}",
])  # fmt: skip
def test_an_address_that_would_be_misread_is_not_repeated(tmp_path, address):
    for call in (Database(address).opened, lambda owner: from_database(address, owner, "vectors")):
        with pytest.raises(ValueError, match="Expected an address of PostgreSQL") as refused:
            call("me")
        assert SECRET not in str(refused.value)
        assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_the_command(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    assert "--search-in" in run("serve", "--search-table", "t", "-p", "0", code=1).output
    told = run("serve", address, "--table", "t", "--get", "/api/v1/version", "--vectors", "v", code=1).output
    assert "no table 't'" in told
    assert SECRET not in told
    (tmp_path / "items.csv").write_text("x,y\n1,2\n3,4\n")
    assert run("serve", "items.csv", "--state", "s", "--get", "/api/v1/version").output
    told = run("serve", address, "--table", "t", "--state", "s", "--get", "/api/v1/version").output
    assert "the table t is not read" in told
    assert SECRET not in told
