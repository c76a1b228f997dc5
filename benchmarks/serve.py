"""The service under load: clients that search and mark at a given rate, and batches as fast as they are acknowledged.

``python -m benchmarks serve [--items N] [--features D] [--searches RATE] [--statements RATE] [--clients N]
[--seconds S] [--batches] [--every S]``

Requests leave at their times whether or not the ones before are answered; latencies count from then. Every search names
the last statement of its client, so that it waits until the model has heard it. The server is a process of its own.
`--batches` measures durable statements in batches of 64 instead; `--every S` prints a line every S seconds, for soaks.
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
CLASSES = 50


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
    """What clients say, and how long answers take."""

    def __init__(self, y: np.ndarray, seed: int = 0) -> None:
        self.y, self.rng, self.n = y, np.random.default_rng(seed), 0
        self.members = [np.flatnonzero(y == c) for c in range(CLASSES)]
        self.taken: dict[str, list[float]] = {"search": [], "statement": []}
        self.errors: list[Any] = []

    def statement(self, user: str) -> dict[str, Any]:
        query = int(self.rng.integers(len(self.y)))
        right = [int(k) for k in self.rng.choice(self.members[self.y[query]], 5) if k != query]
        wrong = [int(k) for k in self.rng.integers(len(self.y), size=5) if self.y[k] != self.y[query]]
        self.n += 1
        return {"key": f"key-{os.getpid()}-{self.n:09d}", "kind": "mark", "user": user, "item": str(query),
                "relevant": [str(k) for k in dict.fromkeys(right)],
                "irrelevant": [str(k) for k in dict.fromkeys(wrong)]}  # fmt: skip

    async def send(self, client: Client, kind: str, due: float) -> None:
        if kind == "search":
            item = str(int(self.rng.integers(len(self.y))))
            asked = client.ask("POST", "/search", {"item": item, "k": 10, "user": client.name, "after": client.seq})
        else:
            asked = client.ask("POST", "/statements", self.statement(client.name))
        status, told = await asked
        self.taken[kind].append(time.perf_counter() - due)
        if status not in (200, 201):
            self.errors.append((status, told))
        elif kind == "statement":
            client.seq = max(client.seq, told["seq"])


async def loaded(port: int, y: np.ndarray, options: argparse.Namespace, pid: int) -> None:
    """Requests at their times, by clients in turn."""
    world, clients = World(y), [Client(port, k) for k in range(options.clients)]
    for _ in range(5):  # loops are compiled or loaded, and the first search prepares others
        said = [world.statement(clients[0].name) for _ in range(64)]
        told = (await clients[0].ask("POST", "/statements/batch", {"statements": said}))[1]
        await clients[0].ask("POST", "/search", {"item": "0", "after": told["seq"]})
    times = [(k / rate, kind) for kind, rate in (("search", options.searches), ("statement", options.statements))
             for k in range(int(rate * options.seconds))]  # fmt: skip
    start, waiting, shown = time.perf_counter() + 0.5, set[asyncio.Task[None]](), options.every
    for number, (at, kind) in enumerate(sorted(times)):
        due = start + at
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if options.every and at >= shown:
            shown += options.every
            line(f"after {at:.0f} s", world, pid)
            world.taken = {"search": [], "statement": []}
        task = asyncio.create_task(world.send(clients[number % len(clients)], kind, due))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    line("end", world, pid)
    begun = time.perf_counter()
    last = max(client.seq for client in clients)
    await clients[0].ask("POST", "/search", {"item": "0", "after": last})
    console.print(f"the model has heard everything {time.perf_counter() - begun:.2f} s later")


async def batches(port: int, y: np.ndarray, options: argparse.Namespace, pid: int) -> None:
    """Batches of 64, by two clients, as fast as they are acknowledged."""
    world, clients, n = World(y), [Client(port, k) for k in range(2)], 0
    begun = time.perf_counter()

    async def tell(client: Client) -> None:
        nonlocal n
        while time.perf_counter() < begun + options.seconds:
            due = time.perf_counter()
            said = [world.statement(client.name) for _ in range(64)]
            status, told = await client.ask("POST", "/statements/batch", {"statements": said})
            world.taken["statement"].append(time.perf_counter() - due)
            if status == 201:
                n, client.seq = n + 64, told["seq"]
            else:
                world.errors.append((status, told))

    await asyncio.gather(*(tell(client) for client in clients))
    taken = time.perf_counter() - begun
    line(f"{n / taken:,.0f} durable statements/s", world, pid)
    while True:
        health = (await clients[0].ask("GET", "/health"))[1]
        if health["seq"] >= health["acknowledged"]:
            break
        await asyncio.sleep(0.1)
    console.print(f"{n / (time.perf_counter() - begun):,.0f} learned/s: the model has heard everything "
                  f"{time.perf_counter() - begun - taken:.1f} s after the last one")  # fmt: skip


def line(what: str, world: World, pid: int) -> None:
    """Latencies so far, memory and time of the server, load of the machine."""
    body = []
    for kind, taken in world.taken.items():
        if taken:
            p50, p99, most = np.percentile(np.array(taken) * 1e3, [50, 99, 100])
            body.append([kind, f"{len(taken):,}", f"{p50:.1f}", f"{p99:.1f}", f"{most:.0f}"])
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    memory = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
    table(f"{what}: {len(world.errors)} errors; server {memory:.0f} MB, {seconds:.0f} s of CPU; load average "
          f"{os.getloadavg()[0]:.1f}", ["", "n", "p50 ms", "p99 ms", "max ms"], body)  # fmt: skip
    for error in world.errors[:3]:
        console.print(str(error))


def main(arguments: Sequence[str] = ()) -> None:
    """Run the load."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks serve")
    for name, kind, value in (
        ("items", int, 100_000), ("features", int, 128), ("searches", float, 20.0), ("statements", float, 200.0),
        ("clients", int, 16), ("seconds", float, 60.0), ("every", float, 0.0),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=kind, default=value)
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
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
                asyncio.run((batches if options.batches else loaded)(port, y, options, server.pid))
            finally:
                server.terminate()
