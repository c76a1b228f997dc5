"""A table of PostgreSQL whose vectors are items under one metric: the nearest ones are those of plain Euclid.

It is written whole and put in place in one transaction, with a new publication, as the table of a `MetricIndex` is, so
that its readers notice when it is not the one that their queries were mapped for. Anybody may read it.
"""

import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._optional import optional
from .._typing import Array
from ._pgvector import (
    MOST_EF_SEARCH,
    NEW,
    DatabaseSettings,
    Superseded,
    comment_on,
    copy_rows,
    create_table,
    put_in_place,
    sql,
)

# For connections that say nothing else: a server that does not answer is given up after some seconds.
_PATIENCE = {"connect_timeout": "3", "tcp_user_timeout": "5000"}
_SEARCH_PATIENCE = "SET statement_timeout = '3s'"
_LOCK_PATIENCE = "SET LOCAL lock_timeout = '500ms'"  # while a writer waits for a reader, others wait for the writer
COMMENT = "items of a paloma service under its metric, written by"


def address_parts(address: str) -> dict[str, str]:
    """What an address of PostgreSQL says, as psycopg takes it; one that would be misread is refused, and not repeated.

    >>> address_parts("postgresql://me@host/shop")
    {'user': 'me', 'dbname': 'shop', 'host': 'host'}
    """
    psycopg = optional("psycopg", "pgvector")
    try:
        found: dict[str, str] = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        found = {"port": "?"}
    port = found.get("port", "").replace(",", "")
    # A password with such a sign ends early, and the rest of it would be said in messages about hosts.
    if "@" in found.get("host", "") + found.get("dbname", "") or (port and not port.isdigit()):
        raise ValueError(
            "Expected an address of PostgreSQL, such as postgresql://user@host/database. What came is not repeated, "
            "because it may hold a password: in one, @ is written %40, / %2F, and % %25."
        )
    return found


class VectorTable:
    """Rows (id, publication, embedding), written by one owner.

    Parameters
    ----------
    address : as libpq takes it, `postgresql://user@host/database`. No message repeats its password.
    table : a name, or a pair (schema, name).
    owner : whose table it is: a table that somebody else wrote is left alone.
    graph : whether it gets an HNSW index, for very many items; otherwise every search reads all rows.
    """

    def __init__(self, address: str, table: str | tuple[str, str], owner: str, *, graph: bool = False) -> None:
        psycopg, given = optional("psycopg", "pgvector"), address_parts(address)
        self._password = given.get("password")
        self._settings = DatabaseSettings(lambda: psycopg.connect(**_PATIENCE | given), table, graph)
        self._owned = f"{COMMENT} {owner}"
        self._idle: deque[Any] = deque()
        self._query = (
            sql()
            .SQL("SELECT id, publication FROM {} ORDER BY embedding <-> %s LIMIT %s")
            .format(self._settings.name_in_query())
        )

    @property
    def most(self) -> int | None:
        """How many items can be asked for at a time; None: any number."""
        return MOST_EF_SEARCH if self._settings.approximate else None

    def check(self) -> None:
        """Refuse a table of somebody else."""
        with self._transaction() as cursor:
            self._refuse_foreign(cursor)

    def write(self, ids: list[str], vectors: Array) -> int:
        """Put a new table in the place of the one that was; its publication."""
        if beyond := self._settings.beyond(vectors.shape[1]):
            raise ValueError(f"Items have {vectors.shape[1]:,} numbers, and {beyond}.")
        publication = secrets.randbits(62)
        with self._transaction() as cursor:
            self._refuse_foreign(cursor)
            cursor.execute(_LOCK_PATIENCE)
            create_table(cursor, self._settings, vectors.shape[1], "text")
            copy_rows(cursor, self._settings.name(NEW), ids, publication, vectors)
            put_in_place(cursor, self._settings)
            named = sql().SQL("COMMENT ON TABLE {} IS {}")
            cursor.execute(named.format(self._settings.name(), sql().Literal(self._owned)))
        return publication

    def near(self, vector: Array, n: int, publication: int) -> list[str]:
        """Ids of the n nearest items of a publication, nearest first; a graph may find fewer."""
        psycopg = optional("psycopg", "pgvector")
        with self._in_words():
            try:
                found = self._asked(vector, n)
            except psycopg.errors.UndefinedTable:
                found = []
        if not found or any(row[1] != publication for row in found):
            raise Superseded(f"The table {self._settings.table!r} is gone, or was written by somebody else.")
        return [row[0] for row in found]

    def close(self) -> None:
        """Close connections that wait for the next search."""
        while self._idle:
            self._idle.pop().close()

    def _asked(self, vector: Array, n: int) -> list[Any]:
        """What the table answers, by a connection that was left open, unless the server has closed it since."""
        try:
            kept = self._idle.pop()
        except IndexError:
            return self._ask(self._connected(), vector, n)
        try:
            return self._ask(kept, vector, n)
        except optional("psycopg", "pgvector").OperationalError:
            self.close()  # the others are of the same server
            return self._ask(self._connected(), vector, n)

    def _ask(self, connection: Any, vector: Array, n: int) -> list[Any]:
        try:
            if self._settings.approximate:
                width = min(max(self._settings.ef_search, n), MOST_EF_SEARCH)
                connection.execute("SELECT set_config('hnsw.ef_search', %s, false)", [str(width)])
            found: list[Any] = connection.execute(self._query, [vector, n]).fetchall()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return found

    def _connected(self) -> Any:
        """A connection to search by. None of its statements is prepared, which poolers may not take."""
        connection = self._settings.connection()
        try:
            connection.autocommit, connection.prepare_threshold = True, None
            connection.execute(_SEARCH_PATIENCE)
            if self._settings.approximate:
                connection.execute("SET enable_seqscan = off")
            optional("pgvector.psycopg", "pgvector").register_vector(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._in_words(), self._settings.opened() as connection, connection.cursor() as cursor:
            yield cursor

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Whatever the server refuses, in one line without the password."""
        try:
            yield
        except optional("psycopg", "pgvector").Error as error:
            reason = " ".join(str(error).split())
            if self._password:
                reason = reason.replace(self._password, "...")
            raise ConnectionError(f"PostgreSQL did not do what was asked: {reason}") from None

    def _refuse_foreign(self, cursor: Any) -> None:
        """A table that is there must be the owner's own."""
        comment = comment_on(cursor, self._settings)
        if comment is not None and comment != self._owned:
            whose = "another service" if comment.startswith(COMMENT) else "something else"
            raise ValueError(
                f"The table {self._settings.table!r} exists and was written by {whose}; it is left alone. Name another."
            )
