"""``paloma update`` from a pipe at d = 16: rows read, triplets learned, and whether memory stays flat."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from paloma.cli._columns import Wanted
from paloma.cli._formats import batches
from paloma.datasets import load_letters

from .timing import console, table, verdict

ROWS = 200_000


def stream(n: int) -> str:
    """n rows of the embedded Letters as CSV, over and over."""
    X, y = load_letters(return_X_y=True)
    lines = [",".join(map(str, row)) + f",{label}\n" for row, label in zip(X.astype(int).tolist(), y, strict=True)]
    header = ",".join(f"x{k}" for k in range(16)) + ",label\n"
    return header + "".join(lines[k % len(lines)] for k in range(n))


def reading(path: Path, n: int) -> float:
    """Rows read a second, without learning."""
    begin = time.perf_counter()
    seen = sum(len(batch) for batch in batches(str(path), Wanted(), size=1000) if batch is not None)
    assert seen == n
    return n / (time.perf_counter() - begin)


def updating(path: Path, model: Path, *options: str) -> tuple[dict[str, float], float]:
    """The figures of `paloma update` reading from a pipe, and the peak memory of its process in MiB."""
    command = [sys.executable, "-m", "paloma", "update", str(model), "--learner", "LODML", "--json", *options]
    with path.open("rb") as file, subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) as feeder:
        child = subprocess.Popen(command, stdin=feeder.stdout, stdout=subprocess.PIPE)
        assert child.stdout is not None
        figures = json.loads(child.stdout.read())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
    return figures, usage.ru_maxrss / 1024


def floats(path: Path, n: int) -> None:
    """A table of n rows of 16 floats in full precision."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join(f"x{k}" for k in range(16)) + ",label\n")
        for row, label in zip(rng.normal(size=(n, 16)).tolist(), rng.integers(0, 26, n).tolist(), strict=True):
            file.write(",".join(map(repr, row)) + f",{label}\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "short.csv").write_text(stream(ROWS // 10))
        (folder / "long.csv").write_text(stream(ROWS))
        floats(folder / "floats.csv", ROWS // 4)
        updating(folder / "short.csv", folder / "warm.paloma")
        _, small = updating(folder / "short.csv", folder / "short.paloma")
        figures, large = updating(folder / "long.csv", folder / "long.paloma")
        whole = reading(folder / "long.csv", ROWS)
        decimal = reading(folder / "floats.csv", ROWS // 4)
    body = [
        ["reading CSV of whole numbers, rows/s", f"{whole:,.0f}", verdict(whole, 50_000)],
        ["reading CSV of 17-digit numbers, rows/s", f"{decimal:,.0f}", verdict(decimal, 50_000)],
        ["the learning itself, triplets/s", f"{figures['triplets_per_second']:,.0f}",
         verdict(figures["triplets_per_second"], 1_000_000)],
        ["triplets per row", f"{figures['triplets_per_row']:.1f}", ""],
        ["rows/s in all: reading, forming triplets, learning, saving", f"{figures['rows_per_second']:,.0f}", ""],
        [f"peak memory after {ROWS:,} rows over {ROWS // 10:,}", f"{large / small:.3f} ({large:.0f} MiB)",
         verdict(large / small, 1.1, at_least=False)],
    ]  # fmt: skip
    table("paloma update from a pipe, Letters, d = 16, 26 classes", ["", "measured", "asked for"], body)
    console.print(f"peak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
