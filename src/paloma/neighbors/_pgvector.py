"""PostgreSQL with pgvector: search vectors in a table, found by SQL; exact by sequential scan, or HNSW (theory 11).

A publication is a number that all rows of a table carry. A refresh fills a new table and puts it in the old one's place
in one transaction, with a new number, so that a search notices when its metric and the table do not belong together.
The comment on the table ends with a revision, another number with every change, so that a writer notices another one.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Self

import numpy as np

from .. import _validation as check
from .._optional import optional
from .._reading import Balance
from .._typing import Array
from ._view import View, extent

# pgvector's limits on the type vector: what an HNSW index takes, and what a column holds.
INDEXABLE, STORABLE = 2000, 16000
MOST_EF_SEARCH = 1000
QUERIES_AT_A_TIME = 256
NEW = " new"
COMMENT = "search vectors of a paloma MetricIndex"


def _is_name(name: str) -> bool:
    """PostgreSQL cuts names at 63 bytes, and the suffix NEW must fit."""
    return 0 < len(name.encode()) <= 50 and "\0" not in name


@dataclass
class DatabaseSettings:
    """Where the table is and how it is searched; `publication` and `revision` are what this index wrote there last."""

    connection: Any = ""
    table: str | tuple[str, str] = "paloma_items"
    approximate: bool = False
    ef_search: int = 100
    replace: bool = False
    publication: int | None = None
    revision: int | None = None

    def __post_init__(self) -> None:
        check.check_count("ef_search", self.ef_search)
        names: list[Any] = [self.table] if isinstance(self.table, str) else list(self.table)
        if len(names) not in (1, 2) or not all(isinstance(name, str) and _is_name(name) for name in names):
            raise ValueError(f"table must be a name of at most 50 bytes or a pair (schema, name), got {self.table!r}.")
        self.table = names[0] if len(names) == 1 else (names[0], names[1])

    def beyond(self, width: int) -> str:
        """In words, the limit that vectors of this width exceed; "" if they fit."""
        limit, what = (INDEXABLE, "an HNSW index takes") if self.approximate else (STORABLE, "a column holds")
        return f"{what} at most {limit:,} in pgvector" if width > limit else ""

    def name(self, suffix: str = "") -> Any:
        """The quoted name of the table, or of its companion."""
        *schema, table = (self.table,) if isinstance(self.table, str) else self.table
        return optional("psycopg", "pgvector").sql.Identifier(*schema, table + suffix)

    def name_in_query(self) -> Any:
        """The same for a statement with parameters, where psycopg reads % as the beginning of one."""
        return sql().SQL(self.name().as_string().replace("%", "%%"))

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A connection that knows pgvector; what is done with it is kept if the block ends without an error."""
        psycopg = optional("psycopg", "pgvector")
        register = optional("pgvector.psycopg", "pgvector").register_vector
        connect = self.connection if callable(self.connection) else lambda: psycopg.connect(self.connection)
        with connect() as connection:
            if not connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
                connection.execute("CREATE EXTENSION vector")
            register(connection)
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor in one transaction; a server that is not there is said in one sentence."""
        psycopg = optional("psycopg", "pgvector")
        try:
            with self.opened() as connection, connection.cursor() as cursor:
                yield cursor
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            reason = " ".join(str(error).split())
            advice = "" if self.connection else ". Name a server by connection=, or connect() after load"
            raise ConnectionError(
                f"MetricIndex: PostgreSQL cannot be reached, and nothing was changed: {reason}{advice}"
            ) from error


class Superseded(RuntimeError):
    """The table belongs to another publication than the items that were to be searched."""


class Database:
    """Items as rows (id, publication, vector) of a table; values are formed directly from the rows held here."""

    def __init__(self, view: View, settings: DatabaseSettings, balance: Balance | None, extent: float) -> None:
        self.view, self.settings = view, settings
        self._balance, self._extent = balance, extent
        self._publication = settings.publication

    @classmethod
    def build(cls, view: View, settings: DatabaseSettings) -> Self:
        """Fill a new table and put it in the place of the one that this index wrote before."""
        vectors, balance, largest = _prepared(view, settings)
        publication = secrets.randbits(62)
        with settings.transaction() as cursor:
            _refuse_foreign(cursor, settings)
            create_table(cursor, settings, vectors.shape[1], "text" if view.shelf.ids.dtype.kind == "U" else "bigint")
            copy_rows(cursor, settings.name(NEW), view.shelf.ids.tolist(), publication, vectors)
            put_in_place(cursor, settings)
            revision = _revised(cursor, settings)
        settings.publication, settings.revision = publication, revision
        return cls(view, settings, balance, largest)

    @classmethod
    def restored(cls, view: View, settings: DatabaseSettings, memo: dict[str, Any]) -> Self:
        """The table as this index filled it before."""
        balance = memo["balance"]
        return cls(view, settings, None if balance is None else Balance(**balance), memo["extent"])

    def memo(self) -> dict[str, Any]:
        balance = self._balance
        plain = None if balance is None else {"center": balance.center, "spread": balance.spread, "phi": balance.phi}
        return {"balance": plain, "extent": self._extent}

    def revised(self, view: View, kept: Array) -> "Database":
        gone = np.setdiff1d(np.arange(len(self.view.shelf)), kept)
        new, largest = None, self._extent
        if len(kept) < len(view.shelf):
            plain = view.item_vectors(len(kept))
            new = plain if self._balance is None else self._balance.items(plain)
            largest = max(largest, extent(plain))
        with self.settings.transaction() as cursor:
            self._check_publication(cursor)
            if len(gone):
                query = sql().SQL("DELETE FROM {} WHERE id = ANY(%s)").format(self.settings.name_in_query())
                cursor.execute(query, [self.view.shelf.ids[gone].tolist()])
            if new is not None:
                ids = view.shelf.ids[len(kept) :].tolist()
                copy_rows(cursor, self.settings.name(), ids, self._publication, new)
            revision = _revised(cursor, self.settings)
        self.settings.revision = revision
        return Database(view, self.settings, self._balance, largest)

    def clear(self) -> None:
        """Drop the table: no items are left."""
        with self.settings.transaction() as cursor:
            self._check_publication(cursor)
            cursor.execute(sql().SQL("DROP TABLE {}").format(self.settings.name()))
        self.settings.publication = self.settings.revision = None

    def _check_publication(self, cursor: Any) -> None:
        """Lock the table and make sure that it is still the one this index wrote, with its items and no others."""
        if comment_on(cursor, self.settings) is None:
            raise Superseded(
                f"MetricIndex: the table {self.settings.table!r} no longer exists; refresh() writes it again."
            )
        cursor.execute(sql().SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(self.settings.name()))
        cursor.execute(
            sql().SQL("SELECT min(publication), max(publication), count(*) FROM {}").format(self.settings.name())
        )
        *publications, count = cursor.fetchone()
        self._check(np.array(publications))
        if count != len(self.view.shelf):
            raise Superseded(
                f"MetricIndex: the table {self.settings.table!r} has {count:,} items, but this index knows "
                f"{len(self.view.shelf):,}: another index or process changed it. Nothing was changed; load that index, "
                "or call refresh() on this one to write the table again."
            )
        if comment_on(cursor, self.settings) != _comment_of(self.settings.revision):
            raise Superseded(
                f"MetricIndex: another index or process changed items of the table {self.settings.table!r}. Nothing "
                "was changed; load that index, or call refresh() on this one to write the table again."
            )

    def _check(self, publications: Array) -> None:
        if (publications != self._publication).any():
            raise Superseded(
                f"MetricIndex: the table {self.settings.table!r} was rewritten by another index or process; load that "
                "index, or call refresh() on this one to write the table again."
            )

    def search(self, Q: Any, k: int) -> tuple[Array, Array]:
        if self._balance is not None:
            return self.view.best_of(Q, self.candidates(Q, min(2 * k, len(self.view.shelf)), k), k)
        values, places = self.view.certified(Q, k, self._rough, self._extent, np.float32)
        self._check_found(places, k)
        return values, places

    def candidates(self, Q: Any, n: int, least: int) -> Array:
        places = self._rough(self.view.query_vectors(Q), n)[1]
        self._check_found(places, least)
        return places

    def _check_found(self, places: Array, least: int) -> None:
        if ((places >= 0).sum(axis=1) < least).any():
            raise Superseded(
                f"MetricIndex: the table {self.settings.table!r} is missing items that the index contains."
            )

    def _rough(self, queries: Array, reach: int) -> tuple[Array, Array]:
        vectors = (queries if self._balance is None else self._balance.queries(queries)).astype(np.float32)
        values = np.full((len(vectors), reach), np.inf)
        places = np.full((len(vectors), reach), -1)
        with self.settings.transaction() as cursor:
            self._tune(cursor, reach)
            for a in range(0, len(vectors), QUERIES_AT_A_TIME):
                tile = slice(a, a + QUERIES_AT_A_TIME)
                self._ask(cursor, vectors[tile], values[tile], places[tile])
        return values, places

    def _tune(self, cursor: Any, reach: int) -> None:
        """With a graph: let it be used, and as widely as asked for."""
        if self._balance is not None:
            cursor.execute("SET LOCAL enable_seqscan = off")
            width = min(max(self.settings.ef_search, reach), MOST_EF_SEARCH)
            cursor.execute("SELECT set_config('hnsw.ef_search', %s, true)", [str(width)])

    def _ask(self, cursor: Any, vectors: Array, values: Array, places: Array) -> None:
        """Write what the table answers, a row for each query, into values and places."""
        query = sql().SQL(
            "SELECT q.number, i.id, i.publication, i.value FROM unnest(%s::vector[]) WITH ORDINALITY AS q(v, number) "
            "CROSS JOIN LATERAL (SELECT id, publication, embedding {near} q.v AS value FROM {table} "
            "ORDER BY embedding {near} q.v LIMIT %s) AS i ORDER BY q.number, i.value"
        )
        near = sql().SQL("<#>" if self._balance is None else "<->")
        try:
            named = query.format(near=near, table=self.settings.name_in_query())
            cursor.execute(named, [list(vectors), values.shape[1]])
        except optional("psycopg", "pgvector").errors.UndefinedTable as error:
            raise Superseded(f"MetricIndex: the table {self.settings.table!r} no longer exists.") from error
        numbers, ids, publications, found = (np.array(column) for column in zip(*cursor.fetchall(), strict=True))
        self._check(publications)
        ranks = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
        values[numbers - 1, ranks] = found
        places[numbers - 1, ranks] = self.view.shelf.places(ids)


def sql() -> Any:
    return optional("psycopg.sql", "pgvector")


def _prepared(view: View, settings: DatabaseSettings) -> tuple[Array, Balance | None, float]:
    """Vectors as the table holds them, how they are balanced if they are, and the largest norm before that."""
    vectors = view.item_vectors()
    largest, balance = extent(vectors), None
    if settings.approximate:
        balance = view.reader.balance(vectors)
        vectors = balance.items(vectors)
    if beyond := settings.beyond(vectors.shape[1]):
        raise ValueError(
            f"MetricIndex: the search vectors are {vectors.shape[1]:,} wide (features + classes + 3 or 4), and "
            f"{beyond}. Put a PCA in front of the learner; or keep all features with L2ODML and backend='exact', which "
            "needs no such vectors."
        )
    return vectors, balance, largest


def comment_on(cursor: Any, settings: DatabaseSettings) -> str | None:
    """The comment on the table, "" if it has none; None without a table."""
    name = settings.name().as_string(cursor.connection)
    cursor.execute("SELECT coalesce(obj_description(t), '') FROM to_regclass(%s) AS t WHERE t IS NOT NULL", [name])
    found = cursor.fetchone()
    return None if found is None else str(found[0])


def _refuse_foreign(cursor: Any, settings: DatabaseSettings) -> None:
    """Never write over a table that paloma did not make, and over another index's only if told to."""
    comment = comment_on(cursor, settings)
    if comment is None:
        return
    if not comment.startswith(COMMENT):
        raise ValueError(
            f"MetricIndex: the table {settings.table!r} exists and was not created by paloma; choose another name."
        )
    if settings.publication is None and not settings.replace:
        raise ValueError(
            f"MetricIndex: the table {settings.table!r} already exists and belongs to another index; choose another "
            "name, or set replace=True."
        )


def create_table(cursor: Any, settings: DatabaseSettings, width: int, kind: str) -> None:
    query = sql().SQL("CREATE TABLE {} (id {} PRIMARY KEY, publication bigint NOT NULL, embedding vector({}) NOT NULL)")
    cursor.execute(query.format(settings.name(NEW), sql().SQL(kind), sql().Literal(width)))


def copy_rows(cursor: Any, name: Any, ids: list[Any], publication: int | None, vectors: Array) -> None:
    query = sql().SQL("COPY {} (id, publication, embedding) FROM STDIN WITH (FORMAT BINARY)").format(name)
    with cursor.copy(query) as copy:
        copy.set_types(["text" if isinstance(ids[0], str) else "int8", "int8", "vector"])
        for row in zip(ids, repeat(publication), vectors.astype(np.float32), strict=False):
            copy.write_row(row)


def put_in_place(cursor: Any, settings: DatabaseSettings) -> None:
    """Index the new table and give it the name of the old one."""
    if settings.approximate:
        cursor.execute(sql().SQL("CREATE INDEX ON {} USING hnsw (embedding vector_l2_ops)").format(settings.name(NEW)))
    table = settings.table if isinstance(settings.table, str) else settings.table[1]
    cursor.execute(sql().SQL("DROP TABLE IF EXISTS {}").format(settings.name()))
    cursor.execute(sql().SQL("ALTER TABLE {} RENAME TO {}").format(settings.name(NEW), sql().Identifier(table)))


def _revised(cursor: Any, settings: DatabaseSettings) -> int:
    """Mark the table as changed, by a new revision."""
    revision = secrets.randbits(62)
    query = sql().SQL("COMMENT ON TABLE {} IS {}")
    cursor.execute(query.format(settings.name(), sql().Literal(_comment_of(revision))))
    return revision


def _comment_of(revision: int | None) -> str:
    return f"{COMMENT}, revision {revision}"
