"""Learning on shards: accuracy against one machine, rounds until K shards get there, and a large file on few workers.

``python -m benchmarks distributed``; environment: PARTS (accuracy, rounds, large), SETS, ROWS (2,000,000), PALOMA_DATA.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

import paloma
from paloma.distributed import _fit as inside
from paloma.distributed import connected, fit
from paloma.distributed._runner import Here
from paloma.distributed._shards import shards_of
from paloma.distributed._survey import Survey

from .accuracy import split
from .memory import status
from .timing import console, table, threads, verdict

WIDTH, CLASSES = 128, 10


def rows_of(name: str) -> list[np.ndarray]:
    """Training rows, labels, test rows, labels: cifar10 by its own split and as it is, the others 70/30."""
    data = paloma.datasets.load(name)
    X, y = np.asarray(data.data, np.float32), np.asarray(data.target)
    if name != "cifar10":
        return split(name, X, y, 0.7, 0)
    return [X[data.train_idx], y[data.train_idx], X[data.test_idx], y[data.test_idx]]


def chunked(X: np.ndarray, y: np.ndarray, n_shards: int) -> tuple:
    """Shuffled rows in so many chunks."""
    import dask.array as da

    order = np.random.default_rng(0).permutation(len(X))
    sizes = tuple(map(len, np.array_split(order, n_shards)))
    return da.from_array(X[order], chunks=(sizes, X.shape[1])), y[order]


def scored(metric, a, ya, b, yb) -> float:
    return float(paloma.MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(a, ya).score(b, yb))


def accuracy(names: list[str]) -> None:
    """Eight shards after the default number of rounds, and the learner on one machine."""
    body = []
    for name in names:
        parts = rows_of(name)
        one = scored(paloma.LODML(random_state=0).fit(*parts[:2]), *parts)
        eight = scored(fit(paloma.LODML(random_state=0), *chunked(*parts[:2], 8)), *parts)
        body.append([name, f"{one:.4f}", f"{eight:.4f}", f"{eight - one:+.4f}", verdict(eight - one, -0.003)])
        console.print(" ".join(body[-1]))
    table("LODML, 3-NN accuracy: one machine, and 8 shards after 8 rounds", ["", "one", "8 shards", "", "asked"], body)


def curve(parts: list[np.ndarray], n_shards: int, rounds: int) -> list[float]:
    """Test accuracy after each round; the bits are those of a cluster."""
    survey = Survey.of(paloma.LODML(random_state=0), Here(), shards_of(*chunked(*parts[:2], n_shards), 1), 0.05)
    across = n_shards > 1
    run = inside._Fit(survey, (inside.plans_across if across else inside.plans_within)(survey), across)
    learner, out = run._start(), []
    for number in range(1, rounds + 1):
        learner, _ = run._round(learner, None, number)
        out.append(scored(learner, *parts))
    return out


def rounds(names: list[str], n_rounds: int = 12) -> None:
    """Simulation of K shards."""
    shown = [1, 2, 3, 4, 6, 8, 10, 12]
    for name in names:
        parts, body = rows_of(name), []
        one = scored(paloma.LODML(random_state=0).fit(*parts[:2]), *parts)
        for k in (1, 2, 4, 8, 16, 32):
            found = curve(parts, k, n_rounds)
            body.append([f"{k} shards", *(f"{found[r - 1]:.4f}" for r in shown)])
            console.print(name, *body[-1])
        table(f"{name}: LODML after each round; one machine {one:.4f}", ["round", *map(str, shown)], body)


def write(folder: Path, n: int) -> tuple[Path, Path]:
    """n rows of ten overlapping classes, by pieces."""
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, WIDTH))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int32, (n,))
    rng = np.random.default_rng(0)
    centers = 0.35 * rng.standard_normal((CLASSES, WIDTH), dtype=np.float32)
    weights = np.exp(-np.arange(WIDTH) / 40).astype(np.float32)
    for a in range(0, n, 50_000):
        part = slice(a, min(a + 50_000, n))
        y[part] = rng.integers(0, CLASSES, part.stop - a)
        X[part] = weights * (centers[y[part]] + rng.standard_normal((part.stop - a, WIDTH), dtype=np.float32))
    X.flush()
    y.flush()
    return folder / "X.npy", folder / "y.npy"


def peak(dask_worker) -> float:
    """Peak memory of a worker process, MB."""
    return status("VmHWM") / 1024


def measured(client, X: Path, y: Path, shard_rows: int, n_rounds: int) -> tuple[float, float, float, int]:
    """Seconds in all and per round, triplets per round, and the number of shards; within shards."""
    begin = time.perf_counter()
    settings = {"rounds": n_rounds, "mining": "within", "held_out": 0.0, "shard_rows": shard_rows}
    model = fit(paloma.LODML(random_state=0), X, y, client=client, **settings)
    total = time.perf_counter() - begin
    each = float(np.median([row["seconds"] for row in model.rounds_]))
    return total, each, model.rounds_[-1]["triplets"], model.n_triplets_


def large(n: int, shard_rows: int = 32_768) -> None:
    """A file that no worker holds whole, on workers of 1 GB, beside one process on a part of it."""
    with tempfile.TemporaryDirectory() as name:
        folder, small = Path(name), Path(name) / "small"
        small.mkdir()
        part = write(small, 6 * shard_rows)
        whole = write(folder, n)
        with threads(1):
            warm()
            alone = measured(None, *part, shard_rows, 2)
        body = [["one process", "6", *figures(alone)]]
        for workers in (1, 2):
            with connected(workers=workers, memory="1GB") as client:
                client.run(warm)
                both = measured(client, *part, shard_rows, 2)
                body.append([f"{workers} workers", "6", *figures(both)])
        console.print(*body, sep="\n")
        speed = both[2] / both[1] / (alone[2] / alone[1])
        overall = alone[0] / both[0]
        with connected(workers=2, memory="1GB") as client:
            client.run(warm)
            all_rows = measured(client, *whole, shard_rows, 2)
            peaks = client.run(peak)
            shards = -(-n // shard_rows)
            body.append([f"2 workers, {n:,} rows", f"{shards}", *figures(all_rows)])
        rate = all_rows[2] / all_rows[1] / (alone[2] / alone[1])
        title = f"LODML, {WIDTH} columns, float32, shards of {shard_rows:,} rows; BLAS: one thread each"
        table(title, ["", "shards", "seconds in all", "a round", "triplets per second of a round"], body)
        largest = max(peaks.values())
        body = [
            ["speed of a round, 2 workers / one process", f"{speed:.2f}", verdict(speed, 1.6)],
            ["the whole fit, mining included", f"{overall:.2f}", verdict(overall, 1.6)],
            [f"speed of a round with {n:,} rows", f"{rate:.2f}", verdict(rate, 1.6)],
            ["peak memory of a worker, MB", f"{largest:.0f}", verdict(largest, 1000, at_least=False)],
        ]
        table("Two workers of 1 GB", ["", "", "asked for"], body)


def figures(found: tuple[float, float, float, int]) -> list[str]:
    total, each, triplets, _ = found
    return [f"{total:.1f}", f"{each:.1f}", f"{triplets / each:,.0f}"]


def warm() -> None:
    """Compile, or load, what learning needs."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, WIDTH)).astype(np.float32)
    paloma.LODML(n_epochs=1, random_state=0).fit(X, rng.integers(0, CLASSES, 400))


def main() -> None:
    chosen = os.environ.get("PARTS", "accuracy,rounds,large").split(",")
    local = "letters,cifar10,banking77" if os.environ.get("PALOMA_DATA") else "letters"
    names = os.environ.get("SETS", local).split(",")
    with threads(1):
        if "accuracy" in chosen:
            accuracy(names)
        if "rounds" in chosen:
            rounds(names)
    if "large" in chosen:
        large(int(os.environ.get("ROWS", "2000000")))
