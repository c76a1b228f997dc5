"""pgvector against a real server, started here: same ids as the exact backend, nothing half-written, safe names."""

import pickle
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from helpers.cli import run
from helpers.index import CLASSES, MORE, SHARES, Y_MORE, Q, X, Y, agrees, fitted
from helpers.postgres import server
from paloma import L2ODML, LODML, LOSL, MetricIndex
from paloma.neighbors import _pgvector
from paloma.serve import from_database

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def uri():
    with server() as address:
        yield address


@pytest.fixture
def table(uri, request):
    """A name that would end a statement if it were not quoted; dropped at the end."""
    name = f'"; DROP TABLE {request.node.name[:25]};--'
    yield name
    with psycopg.connect(uri) as connection:
        connection.execute(psycopg.sql.SQL("DROP TABLE IF EXISTS {}").format(psycopg.sql.Identifier(name)))


def rows_of(uri, table):
    """{id: (publication, vector as text)}"""
    query = psycopg.sql.SQL("SELECT id, publication, embedding::text FROM {}").format(psycopg.sql.Identifier(table))
    with psycopg.connect(uri) as connection:
        return {row[0]: row[1:] for row in connection.execute(query).fetchall()}


def index_of(metric, uri, table, y=Y, **options):
    index = MetricIndex(metric, backend="pgvector", connection=uri, table=table, **options)
    index.add(X, y)
    return index


@pytest.mark.parametrize("y", CLASSES.values(), ids=CLASSES.keys())
@pytest.mark.parametrize("kind", [LODML, LOSL, L2ODML])
def test_sequential_scan_equals_the_definition(uri, table, kind, y):
    metric = fitted(kind, C=kind().C)
    index = index_of(metric, uri, table, y)
    for k in (1, 7, 60):
        agrees(index.search(Q, k), metric, X, y, k)
    assert sorted(rows_of(uri, table)) == list(range(60))


@pytest.mark.parametrize("approximate", [False, True])
def test_adding_removing_and_refreshing(uri, table, approximate):
    metric = fitted(C=0.01)
    exact = MetricIndex(metric)
    exact.add(X, SHARES)
    index = index_of(metric, uri, table, SHARES, approximate=approximate)
    for each in (exact, index):
        each.add(MORE, Y_MORE)
        each.remove(range(0, 100, 3))
    np.testing.assert_array_equal(index.search(Q, 5)[1], exact.search(Q, 5)[1])
    before = rows_of(uri, table)
    assert sorted(before) == exact.ids.tolist()
    metric.partial_fit(MORE, Y_MORE)
    assert rows_of(uri, table) == before
    np.testing.assert_array_equal(index.search(Q, 5)[1], exact.search(Q, 5)[1])
    live = [each.search(Q, 5, rerank="live", n_candidates=40)[1] for each in (exact, index)]
    np.testing.assert_array_equal(*live)
    for each in (exact, index):
        each.refresh()
    np.testing.assert_array_equal(index.search(Q, 5)[1], exact.search(Q, 5)[1])
    after = rows_of(uri, table)
    assert sorted(after) == sorted(before)
    assert not {row[0] for row in before.values()} & {row[0] for row in after.values()}
    assert index.recall(Q, 5) == 1.0
    index.remove(index.ids)
    with pytest.raises(psycopg.errors.UndefinedTable):
        rows_of(uri, table)


def test_graph_is_used_and_finds_nearly_all(uri, table):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 2000)
    rows = (rng.normal(size=(2000, 16)) + 2 * rng.normal(size=(10, 16))[y]).astype(np.float32)
    metric = LODML(random_state=0, n_epochs=1).fit(rows[:500], y[:500])
    index = MetricIndex(metric, backend="pgvector", connection=uri, table=table, approximate=True, ef_search=40)
    index.add(rows, y)
    plans = []

    class Watched(psycopg.Cursor):
        def execute(self, query, params=None, **options):
            if params is not None and "LATERAL" in str(query):
                super().execute(psycopg.sql.SQL("EXPLAIN ") + query, params)
                plans.extend(row[0] for row in self.fetchall())
            return super().execute(query, params, **options)

    index.connect(lambda: psycopg.connect(uri, cursor_factory=Watched))
    assert index.recall(rows[:50] + 0.1, 10) > 0.95
    assert any("Index Scan" in line and "embedding" in line for line in plans)


def test_words_as_ids_and_a_schema(uri):
    with psycopg.connect(uri) as connection:
        connection.execute('CREATE SCHEMA IF NOT EXISTS "our items"')
    metric, names = fitted(), np.array([f"item '{k}\\" for k in range(60)])
    index = MetricIndex(metric, backend="pgvector", connection=uri, table=("our items", "a.b"))
    index.add(X, Y, ids=names)
    np.testing.assert_array_equal(index.search(X, 1)[1][:, 0], names)
    index.remove([names[3]])
    assert names[3] not in index.search(X, 1)[1]
    index.remove(index.ids)


def test_a_copy_finds_its_table_again(uri, table):
    metric = fitted(C=0.01)
    for approximate in (False, True):
        index = index_of(metric, uri, table, SHARES, approximate=approximate, replace=True)
        index.add(MORE + 3.0, Y_MORE)  # the center of the items moves, that of the published vectors must not
        index.remove(range(20))
        assert uri not in repr(index.__paloma_state__())
        twin = pickle.loads(pickle.dumps(index)).connect(uri)
        np.testing.assert_array_equal(twin.search(Q, 9)[1], index.search(Q, 9)[1])
        twin.add(MORE[:1], Y_MORE[:1])
        index.refresh()
        with pytest.raises(RuntimeError, match="another index or process"):
            twin.search(Q, 2)
        with pytest.raises(RuntimeError, match="another index or process"):
            twin.add(MORE[:1], Y_MORE[:1])


def test_readers_see_whole_states_while_one_writer_refreshes(uri, table):
    metric = fitted(C=0.003)
    index, twin = index_of(metric, uri, table), MetricIndex(metric)
    twin.add(X, Y)
    states, done, seen, problems = [twin.search(Q, 5)[1]], threading.Event(), [], []

    def read():
        while not done.is_set() or not seen:
            try:
                seen.append(index.search(Q, 5)[1])
            except Exception as error:  # told to the test, which fails on it
                problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for part in np.array_split(np.arange(40), 6):
        metric.partial_fit(MORE[part], Y_MORE[part])
        for each in (twin, index):
            each.refresh()
        states.append(twin.search(Q, 5)[1])
        for each in (twin, index):
            each.add(MORE[part], Y_MORE[part])
        states.append(twin.search(Q, 5)[1])
    done.set()
    reader.join()
    assert problems == []
    assert all(any((found == state).all() for state in states) for found in seen)


# --- what goes wrong --------------------------------------------------------------------------------------


def test_a_database_that_is_down_says_so_and_changes_nothing(uri, table):
    metric = fitted(C=0.01)
    index = index_of(metric, uri, table)
    before, rows = index.search(Q, 5)[1], rows_of(uri, table)
    index.connect("host=/no-such-socket dbname=none")
    for call in (
        lambda: index.search(Q, 5),
        lambda: index.add(MORE, Y_MORE),
        lambda: index.remove([1, 2]),
        lambda: index.remove(index.ids),
        index.refresh,
    ):
        with pytest.raises(
            ConnectionError, match=r"PostgreSQL cannot be reached, and nothing was changed: .*no-such-socket"
        ):
            call()
    assert len(index) == 60
    assert index.connect(uri).add(MORE[:1]).tolist() == [60]
    index.remove([60])
    np.testing.assert_array_equal(index.search(Q, 5)[1], before)
    assert rows_of(uri, table) == rows
    empty = MetricIndex(metric, backend="pgvector", connection="host=/no-such-socket")
    with pytest.raises(ConnectionError):
        empty.add(X, Y)
    assert len(empty) == 0


@pytest.mark.parametrize("call", ["add", "refresh"])
def test_a_connection_lost_in_the_middle_leaves_all_as_it_was(uri, table, call, monkeypatch):
    metric = fitted(C=0.01)
    index = index_of(metric, uri, table)
    before, rows = index.search(Q, 5)[1], rows_of(uri, table)
    metric.partial_fit(MORE, Y_MORE)
    whole = _pgvector.copy_rows

    def half(cursor, name, ids, publication, vectors):
        whole(cursor, name, ids[: len(ids) // 2], publication, vectors[: len(ids) // 2])
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    monkeypatch.setattr(_pgvector, "copy_rows", half)
    with pytest.raises(ConnectionError, match="nothing was changed"):
        index.add(MORE, Y_MORE) if call == "add" else index.refresh()
    monkeypatch.undo()
    assert rows_of(uri, table) == rows
    assert len(index) == 60
    np.testing.assert_array_equal(index.search(Q, 5)[1], before)
    assert index.updates_behind > 0
    agrees(index.refresh().search(Q, 5), metric, X, Y, 5)


def test_tables_of_others_are_left_alone(uri, table):
    with psycopg.connect(uri) as connection:
        connection.execute(psycopg.sql.SQL("CREATE TABLE {} (a int)").format(psycopg.sql.Identifier(table)))
    for options in ({}, {"replace": True}):
        with pytest.raises(ValueError, match="was not created by paloma"):
            index_of(fitted(), uri, table, **options)
    with psycopg.connect(uri) as connection:
        connection.execute(psycopg.sql.SQL("DROP TABLE {}").format(psycopg.sql.Identifier(table)))
    first = index_of(fitted(), uri, table)
    with pytest.raises(ValueError, match=r"belongs to another index; .* replace=True"):
        index_of(fitted(), uri, table)
    index_of(fitted(), uri, table, replace=True)
    with pytest.raises(RuntimeError, match="another index or process"):
        first.search(Q, 2)


@pytest.mark.parametrize(("approximate", "d", "limit"), [(True, 1996, "2,000"), (False, 16000, "16,000")])
def test_too_many_dimensions(uri, table, approximate, d, limit):
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(12, d)).astype(np.float32), np.arange(12) % 3
    metric = L2ODML(random_state=0, rank=4, n_components=4).fit(rows, y)
    index = MetricIndex(metric, backend="pgvector", connection=uri, table=table, approximate=approximate)
    with pytest.raises(ValueError, match=f"at most {limit} in pgvector. Put a PCA .* L2ODML"):
        index.add(rows, y)
    assert len(index) == 0


@pytest.mark.parametrize("name", ["", "a" * 51, ("a", "b", "c"), 7, "a\0b"])
def test_names_that_no_table_has(name):
    with pytest.raises((ValueError, TypeError)):
        MetricIndex(fitted(), backend="pgvector", table=name)


def test_connections_may_come_from_a_pool(uri, table):
    given = []

    @contextmanager
    def connection():
        with psycopg.connect(uri) as one:
            given.append(one)
            yield one

    index = MetricIndex(fitted(), backend="pgvector", connection=connection, table=table)
    index.add(X, Y)
    index.search(Q, 3)
    assert len(given) == 2


@pytest.mark.parametrize("name", ["100%", "%s", "%(a)s %%"])
def test_percent_signs_in_the_name_of_a_table(uri, name):
    metric = fitted(C=0.01)
    index = index_of(metric, uri, name)
    index.add(MORE, Y_MORE)
    index.remove(range(60, 100))
    agrees(index.search(Q, 5), metric, X, Y, 5)
    index.remove(index.ids)


def test_two_indexes_on_one_table_do_not_add_to_each_other(uri, table):
    index = index_of(fitted(C=0.01), uri, table)
    twin = pickle.loads(pickle.dumps(index)).connect(uri)
    assert twin.add(MORE[:1], Y_MORE[:1]).tolist() == [60]
    rows = rows_of(uri, table)
    for call in (lambda: index.add(MORE[1:2], Y_MORE[1:2]), lambda: index.remove([3]), lambda: index.remove(index.ids)):
        with pytest.raises(RuntimeError, match="has 61 items, but this index knows 60: another index or process"):
            call()
    assert len(index) == 60
    assert rows_of(uri, table) == rows
    assert index.refresh().add(MORE[1:2], Y_MORE[1:2]).tolist() == [60]


def test_an_equal_number_of_other_items_is_noticed(uri, table):
    """As many items added as removed by another index: the number of items told nothing."""
    index = index_of(fitted(C=0.01), uri, table)
    other = pickle.loads(pickle.dumps(index)).connect(uri)
    other.remove(other.ids[:1])
    other.add(MORE[:1], Y_MORE[:1], ids=[10_000])
    for change in (lambda: index.add(MORE[:1], Y_MORE[:1]), lambda: index.remove(index.ids[1:2])):
        with pytest.raises(RuntimeError, match="another index or process changed items of the table"):
            change()
    assert index.refresh().search(X[:1], 1)[0][0, 0] == pytest.approx(0.0, abs=1e-6)


# -- items of a service ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vector(3)", "float8[]"])
def test_a_service_takes_its_items_from_a_table(uri, kind):
    with psycopg.connect(uri) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("DROP TABLE IF EXISTS shop")
        connection.execute(f"CREATE TABLE shop (sku text, title text, price float8, embedding {kind})")
        for k in range(4):
            row = str([float(k), 0.5, -1.0]).translate({} if kind.startswith("v") else {91: 123, 93: 125})
            connection.execute("INSERT INTO shop VALUES (%s, %s, %s, %s)",
                               [f"s{k}", f"title {k}", k if k else float("nan"), row])  # fmt: skip
    items = from_database(uri, "public.shop", "embedding", "sku", text="title")
    assert items.ids == ["s0", "s1", "s2", "s3"]
    assert items.texts[2] == "title 2"
    assert items.payload == [{}, {"price": 1.0}, {"price": 2.0}, {"price": 3.0}]
    assert np.array_equal(items.vectors, [[k, 0.5, -1.0] for k in range(4)])
    with pytest.raises(ValueError, match="no table 'shops'"):
        from_database(uri, "shops", "embedding")
    with pytest.raises(ValueError, match="no column 'embeddings'"):
        from_database(uri, "shop", "embeddings")
    with pytest.raises(ValueError, match="no lists of numbers in 'title'"):
        from_database(uri, "shop", "title")
    with pytest.raises(ConnectionError, match="cannot be reached"):
        from_database("postgresql://nobody@127.0.0.1:1/none", "shop", "embedding")


def test_the_command_serves_a_table(uri, tmp_path, monkeypatch):
    pytest.importorskip("fastapi", reason="needs paloma[serve]")
    monkeypatch.chdir(tmp_path)
    with psycopg.connect(uri) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("DROP TABLE IF EXISTS things")
        connection.execute("CREATE TABLE things AS SELECT k AS id, ARRAY[k, k * k]::vector(2) AS place "
                           "FROM generate_series(1, 5) AS k")  # fmt: skip
    table = ("serve", uri, "--table", "things")
    assert '"id":"3"' in run(*table, "--vectors", "place", "--id", "id", "--get", "/api/v1/items/3").output
    assert (tmp_path / "things.served" / "journal.sqlite").exists()
    assert "--vectors" in run(*table, "--state", "other", "--get", "/api/v1/version", code=1).output
