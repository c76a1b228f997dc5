"""The service under load: clients that search and mark at a given rate, or batches as fast as they are acknowledged.

- ``python -m benchmarks serve --seconds 300``: 20 searches and 200 statements a second by 16 clients; p99 of searches
  at most 50 ms, of statements 100 ms
- ``python -m benchmarks serve --batches --seconds 60``: batches of 64 by two clients; 1,000 durable statements a second
- ``python -m benchmarks serve --soak --seconds 3600``: 5 searches and 50 statements a second; memory is flat, p99 too

These are the defaults for `--seconds`; each one prints a table of goals, met or missed. There are 100,000 x 128 items
(`--items`, `--features`), and other rates for the first and the last (`--searches`, `--statements`, `--clients`). With
`--filled N`, N statements are said in batches before, so that a minute shows what a long log costs. The server is a
process of its own; the goals are for two cores that nothing else uses, clients included.

Requests leave at their times whether or not the ones before are answered; latencies count from then. Every search names
the last statement of its client, so that it waits until the model has heard it. The soak compares its last sixth with
its first one, and memory with what it was after the first one.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .timing import console, table

TOKEN = "a-token-for-benchmarks-0123456789"
CLASSES, BATCH = 50, 64


def rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes that a quarter of the features tell."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=n)
    centers = rng.normal(size=(CLASSES, d)) * (np.arange(d) < d // 4)
    return centers[y] + rng.normal(size=(n, d)), y


class Client:
    """One connection that is kept; requests of one client follow each other."""

    def __init__(self, port: int, number: int) -> None:
        self.port, self.name, self.seq, self.n = port, f"user{number % 8}", 0, 0
        self.lock, self.reader, self.writer = asyncio.Lock(), None, None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        async with self.lock:
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
            data = b"" if body is None else json.dumps(body).encode()
            self.writer.write(
                f"{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
                + data
            )
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            answer = json.loads(await self.reader.readexactly(length))
            return int(head.split()[1]), answer


class World:
    """What clients say, and how long answers take: (when it was due, kind, seconds)."""

    def __init__(self, y: np.ndarray, seed: int = 0) -> None:
        self.y, self.rng, self.n = y, np.random.default_rng(seed), 0
        self.members = [np.flatnonzero(y == c) for c in range(CLASSES)]
        self.taken: list[tuple[float, str, float]] = []
        self.errors: list[Any] = []

    def percentile(self, kind: str, q: float, since: float = 0.0, until: float = np.inf) -> float:
        """Milliseconds that q of 100 answers took at most."""
        found = [taken for due, other, taken in self.taken if other == kind and since <= due < until]
        return float(np.percentile(found, q)) * 1e3 if found else float("nan")

    def statement(self, user: str) -> dict[str, Any]:
        query = int(self.rng.integers(len(self.y)))
        right = [int(k) for k in self.rng.choice(self.members[self.y[query]], 5) if k != query]
        wrong = [int(k) for k in self.rng.integers(len(self.y), size=5) if self.y[k] != self.y[query]]
        self.n += 1
        return {"key": f"key-{os.getpid()}-{self.n:09d}", "kind": "mark", "user": user, "item": str(query),
                "relevant": [str(k) for k in dict.fromkeys(right)],
                "irrelevant": [str(k) for k in dict.fromkeys(wrong)]}  # fmt: skip

    def batch(self, user: str) -> list[dict[str, Any]]:
        """Statements that are said together."""
        return [self.statement(user) for _ in range(BATCH)]

    async def send(self, client: Client, kind: str, due: float) -> None:
        if kind == "search":
            item = str(int(self.rng.integers(len(self.y))))
            asked = client.ask("POST", "/search", {"item": item, "k": 10, "user": client.name, "after": client.seq})
        else:
            asked = client.ask("POST", "/statements", self.statement(client.name))
        status, told = await asked
        self.taken.append((due, kind, time.perf_counter() - due))
        if status not in (200, 201):
            self.errors.append((status, told))
        elif kind == "statement":
            client.seq = max(client.seq, told["seq"])


async def paced(port: int, y: np.ndarray, options: argparse.Namespace, server: "Process") -> list[list[str]]:
    """Requests at their times, by clients in turn."""
    world, clients = World(y), [Client(port, k) for k in range(options.clients)]
    for _ in range(5):  # loops are compiled or loaded, and the first search prepares others
        told = (await clients[0].ask("POST", "/statements/batch", {"statements": world.batch(clients[0].name)}))[1]
        await clients[0].ask("POST", "/search", {"item": "0", "after": told["seq"]})
    for k in range(options.filled // BATCH):
        await clients[0].ask("POST", "/statements/batch", {"statements": world.batch(clients[k % len(clients)].name)})
    await learned(clients[0])
    times = [(k / rate, kind) for kind, rate in (("search", options.searches), ("statement", options.statements))
             for k in range(int(rate * options.seconds))]  # fmt: skip
    start, waiting, sixth = time.perf_counter() + 0.5, set[asyncio.Task[None]](), options.seconds / 6
    cpu, memory = server.cpu(), [server.memory()]
    for number, (at, kind) in enumerate(sorted(times)):
        due = start + at
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if at >= len(memory) * sixth:
            memory.append(server.memory())
            search, statement = (world.percentile(each, 99, due - sixth) for each in ("search", "statement"))
            console.print(f"after {at:.0f} s: search p99 {search:.1f} ms, statement p99 {statement:.1f} ms, "
                          f"{memory[-1]:.0f} MB, {len(world.errors)} errors")  # fmt: skip
        task = asyncio.create_task(world.send(clients[number % len(clients)], kind, due))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    memory.append(server.memory())
    cpu, n = server.cpu() - cpu, len(times)
    await clients[0].ask("POST", "/search", {"item": "0", "after": max(client.seq for client in clients)})
    told = [[f"{kind} p50, p99", ", ".join(f"{world.percentile(kind, q):.1f} ms" for q in (50, 99))]
            for kind in ("search", "statement")]  # fmt: skip
    told.append(["CPU of the server", f"{1e3 * cpu / n:.1f} ms a request, {cpu / options.seconds:.2f} cores"])
    if options.soak:
        for kind in ("search", "statement"):
            first = world.percentile(kind, 99, until=start + sixth)
            last = world.percentile(kind, 99, since=start + 5 * sixth)
            told.append(
                goal(f"{kind} p99, last sixth / first", f"{last:.1f} / {first:.1f} ms", "1.2", last <= 1.2 * first)
            )
        grown = memory[-1] - memory[1]
        told.append(["memory for each statement since", f"{1e6 * grown / (options.statements * 5 * sixth):.0f} bytes"])
        told.append(
            goal("memory since the first sixth", f"{memory[1]:.0f} + {grown:.0f} MB", "5 %", grown <= 0.05 * memory[1])
        )
    else:
        told.append(["memory", f"{memory[0]:.0f} MB, {memory[-1]:.0f} MB at the end"])
        for kind, most in (("search", 50), ("statement", 100)):
            found = world.percentile(kind, 99)
            told.append(goal(f"{kind} p99", f"{found:.1f} ms", f"{most} ms", found <= most))
    return [*told, refused(world)]


async def batches(port: int, y: np.ndarray, options: argparse.Namespace, server: "Process") -> list[list[str]]:
    """Batches of 64, by two clients, as fast as they are acknowledged."""
    world, clients, n = World(y), [Client(port, k) for k in range(2)], 0
    begun, cpu = time.perf_counter(), server.cpu()

    async def tell(client: Client) -> None:
        nonlocal n
        while (due := time.perf_counter()) < begun + options.seconds:
            status, told = await client.ask("POST", "/statements/batch", {"statements": world.batch(client.name)})
            world.taken.append((due, "batch", time.perf_counter() - due))
            if status == 201:
                n, client.seq = n + BATCH, told["seq"]
            else:
                world.errors.append((status, told))

    await asyncio.gather(*(tell(client) for client in clients))
    rate = n / (time.perf_counter() - begun)
    await learned(clients[0])
    taken = time.perf_counter() - begun
    return [
        ["batch p50, p99", f"{world.percentile('batch', 50):.0f} ms, {world.percentile('batch', 99):.0f} ms"],
        ["learned", f"{n / taken:,.0f} statements/s"],
        ["CPU of the server", f"{1e3 * (server.cpu() - cpu) / n:.2f} ms a statement"],
        goal("durable", f"{rate:,.0f} statements/s", "1,000", rate >= 1000),
        refused(world),
    ]


async def learned(client: Client) -> None:
    """Wait until the model has heard everything."""
    while (health := (await client.ask("GET", "/health"))[1])["seq"] < health["acknowledged"]:
        await asyncio.sleep(0.1)


def goal(what: str, found: str, asked: str, met: bool) -> list[str]:
    """A row of the table."""
    return [what, found, asked, "met" if met else "missed"]


def refused(world: World) -> list[str]:
    """The row of errors, of which some are shown."""
    for error in world.errors[:3]:
        console.print(str(error))
    return goal("errors", f"{len(world.errors)} of {world.n:,} statements and all searches", "0", not world.errors)


class Process:
    """What the system knows of the server."""

    def __init__(self, pid: int) -> None:
        self.folder = Path(f"/proc/{pid}")

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        found = (self.folder / "stat").read_text().rpartition(")")[2].split()
        return (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """MB in memory."""
        return int((self.folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def main(arguments: Sequence[str] = ()) -> None:
    """Run the load."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks serve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, kind in (("searches", float), ("statements", float), ("seconds", float)):
        parser.add_argument(f"--{name}", type=kind)
    for name, value in (("items", 100_000), ("features", 128), ("clients", 16), ("filled", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.add_mutually_exclusive_group()
    for name in ("batches", "soak"):
        chosen.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    usual = (5.0, 50.0, 3600.0) if options.soak else (20.0, 200.0, 60.0 if options.batches else 300.0)
    for name, value in zip(("searches", "statements", "seconds"), usual, strict=True):
        setattr(options, name, value if getattr(options, name) is None else getattr(options, name))
    X, y = rows(options.items, options.features)
    if options.serve:
        from paloma.serve import Items, serve

        items = Items(X, [str(k) for k in range(len(X))])
        serve(options.serve, items, port=0, tokens={TOKEN: "admin"}, ready=lambda address: print(address, flush=True))
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks", "serve", "--serve", folder, "--items", str(options.items),
                   "--features", str(options.features)]  # fmt: skip
        begun = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline().rpartition(":")[2].partition("/")[0])
            console.print(f"{options.items:,} items taken in and served in {time.perf_counter() - begun:.1f} s")
            try:
                told = asyncio.run((batches if options.batches else paced)(port, y, options, Process(server.pid)))
            finally:
                server.terminate()
    what = (
        "batches of 64" if options.batches else f"{options.searches:g} searches/s, {options.statements:g} statements/s"
    ) + (f" after {options.filled:,} statements" if options.filled else "")
    table(f"{options.items:,} x {options.features} items, {what}, {options.seconds:g} s; load average of the machine "
          f"{os.getloadavg()[0]:.1f}", ["", "found", "goal", ""], [[*row, "", ""][:4] for row in told])  # fmt: skip
