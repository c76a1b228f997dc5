"""Statements for a database that searches vectors."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _validation as check
from ..estimators import bare_learner, reader_of
from ..neighbors import INDEXABLE, STORABLE

DIALECTS = ("pgvector",)


@dataclass(frozen=True)
class Statements:
    """What to run: `create` once, `insert` for each item, `search` for each query.

    Attributes
    ----------
    create : makes the table; nothing else is needed.
    insert : parameters (id, vector of the item).
    search : parameters (vector of the query, number of items); gives (id, value), nearest first. The value is the
        squared distance or minus the similarity; with a graph, only the order counts.
    width : length of the vectors.
    """

    create: str
    insert: str
    search: str
    width: int


def statements(model: Any, dialect: str, table: str, for_graph: bool) -> Statements:
    """See `paloma.export.to_sql`."""
    check.check_word("dialect", dialect, DIALECTS)
    learner = bare_learner(model)
    reader = reader_of(learner)
    width = reader.query_vectors(np.zeros((1, reader.n_features), reader.dtype)).shape[1] + for_graph
    limit = INDEXABLE if for_graph else STORABLE
    if width > limit:
        raise ValueError(
            f"{reader.who}: the vectors are {width:,} wide, and pgvector takes at most {limit:,} here. Put a PCA in "
            "front of the learner."
        )
    name = '"' + table.replace('"', '""') + '"'
    create = "CREATE EXTENSION IF NOT EXISTS vector;\n"
    create += f"CREATE TABLE {name} (id bigint PRIMARY KEY, embedding vector({width}) NOT NULL);"
    if for_graph:
        create += f"\nCREATE INDEX ON {name} USING hnsw (embedding vector_l2_ops);"
    near, quoted = "<->" if for_graph else "<#>", name.replace("%", "%%")
    return Statements(
        create,
        f"INSERT INTO {quoted} (id, embedding) VALUES (%s, %s)",
        f"SELECT id, embedding {near} %s AS value FROM {quoted} ORDER BY value LIMIT %s",
        width,
    )
