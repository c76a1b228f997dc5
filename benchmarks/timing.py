"""Timing and printing that the benchmarks share."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

console = Console(width=132)


def seconds(function: Callable[[], Any], repeat: int = 3) -> float:
    """Median wall time of a call, after one call that is not counted."""
    function()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def gemm_rate(dtype: Any, n: int = 2000) -> float:
    """Floating-point operations a second of a large matrix product, in this process with this number of threads."""
    a = np.random.default_rng(0).normal(size=(n, n)).astype(dtype)
    return 2 * n**3 / seconds(lambda: a @ a)


@contextmanager
def threads(n: int | None) -> Iterator[None]:
    """Run with n BLAS and OpenMP threads; None: all."""
    with threadpool_limits(limits=n):
        yield


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    out = Table(title=title, title_justify="left")
    for column in columns:
        out.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        out.add_row(*row)
    console.print(out)


def verdict(value: float, target: float, at_least: bool = True) -> str:
    """The target, and whether it was met."""
    met = value >= target if at_least else value <= target
    return f"{'>=' if at_least else '<='} {target:g} {'met' if met else 'MISSED'}"
