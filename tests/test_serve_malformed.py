"""Requests that make no sense: refused, without a crash, an error of ours, or memory that is lost."""

import gc
import socket
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("apsw", reason="needs paloma[serve]")
pytest.importorskip("fastapi", reason="needs paloma[serve]")

from helpers.malformed import LINES, Malformed
from helpers.servers import TOKEN, Servers
from helpers.service import Service, some_digits

MB = 1 << 20


def resident():
    """Bytes of this process in memory."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def hammered(folder, n, seed):
    """Statuses of n malformed requests, and how much memory they cost beyond the first tenth."""
    service = Service(folder, some_digits())
    drawn = Malformed(service.admin.ask("GET", "/api/v1/openapi.json")[1], np.random.default_rng(seed), 64)
    statuses, before = Counter(), 0
    for k in range(n):
        if k == n // 10:
            before = resident()
        method, target, body, headers = drawn.draw()
        status, answer, _ = service.admin.answer(method, target, raw=body, **headers)
        assert status < 500 or status == 503, (method, target, body, headers, answer)
        statuses[status] += 1
    grown = resident() - before
    assert service.admin.ask("GET", "/api/v1/health")[0] == 200
    assert service.near()
    last = service.engine.seq
    service.close()
    again = Service(folder)
    assert again.engine.seq == last
    again.close()
    return statuses, grown


def test_2000_malformed_requests(tmp_path):
    statuses, grown = hammered(tmp_path / "s", 2000, 0)
    assert {200, 201, 404, 415, 421, 422} <= set(statuses)  # some are good, or the others would be too simple
    assert statuses[422] > 300
    assert grown < 50 * MB


@pytest.mark.long
def test_20000_malformed_requests(tmp_path):
    statuses, grown = hammered(tmp_path / "s", 20_000, 1)
    assert statuses[422] > 3000
    assert grown < 50 * MB


def test_what_is_no_request_at_all(tmp_path):
    servers = Servers(tmp_path / "s")
    servers.start()
    for line in LINES:
        with socket.create_connection(("127.0.0.1", servers.port), timeout=2) as connection:
            connection.settimeout(0.3)
            try:
                connection.sendall(line)
                answer = connection.recv(100)
            except OSError:
                answer = b""
        assert not answer.startswith(b"HTTP/1.1 5"), (line[:80], answer)
    with socket.create_connection(("127.0.0.1", servers.port), timeout=20) as connection:
        connection.sendall(
            f"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    servers.kill()
    servers.close()
