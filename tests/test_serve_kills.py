"""Servers that are killed, and clients that try again: nothing acknowledged is lost, nothing is said twice."""

import http.client
import json
import threading
import time

import numpy as np
import pytest

pytest.importorskip("apsw", reason="needs paloma[serve]")
pytest.importorskip("fastapi", reason="needs paloma[serve]")

from helpers.servers import POINTS, TOKEN, Servers
from helpers.service import Service
from paloma.serve._journal import Journal

USERS = ("", "anna", "ben")
HEADERS = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}


class Teller(threading.Thread):
    """A client that says one batch after the other, and each until it is acknowledged, with the same keys."""

    def __init__(self, name, servers):
        super().__init__(daemon=True)
        self.label, self.servers = name, servers
        self.ends, self.acknowledged, self.refused, self.number = threading.Event(), {}, [], 0

    def run(self):
        while not self.ends.is_set():
            body, keys = self.batch()
            while not self.ends.is_set() and not self.say(body, keys):
                time.sleep(0.01)
            time.sleep(0.02)  # so that restarts do not spend their time on a long log

    def batch(self, n=8):
        said = []
        for _ in range(n):
            k, self.number = self.number, self.number + 1
            said.append({"key": f"{self.label}-{k:08d}", "kind": "mark", "user": USERS[k % 3],
                         "item": f"digit-{k % 300:04d}", "relevant": [f"digit-{(k + 10) % 300:04d}"],
                         "irrelevant": [f"digit-{(k + 3) % 300:04d}"]})  # fmt: skip
        return json.dumps({"statements": said}), [each["key"] for each in said]

    def say(self, body, keys):
        connection = http.client.HTTPConnection("127.0.0.1", self.servers.port, timeout=20)
        try:
            connection.request("POST", "/api/v1/statements/batch", body, HEADERS)
            answer = connection.getresponse()
            told = json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if answer.status != 201:
            self.refused.append((answer.status, told))
            return False
        self.acknowledged.update(zip(keys, told["statements"], strict=True))
        return True


def killed(folder, n, seed):
    """Kill a server n times, at random times and at named points; how many statements were acknowledged meanwhile."""
    rng, servers, points, point = np.random.default_rng(seed), Servers(folder), [], ""
    tellers = [Teller(f"teller-{k}", servers) for k in range(3)]
    servers.start()
    for teller in tellers:
        teller.start()
    for turn in range(n):
        if servers.pid and servers.alive() and turn % 2 == 0:
            time.sleep(rng.uniform(0.0, 0.3))
            servers.kill()
            points.append("any time")
        else:
            stop = time.monotonic() + 2.0
            while servers.alive() and time.monotonic() < stop:
                time.sleep(0.005)
            points.append(point if not servers.alive() else "any time")
            servers.kill()
        point = POINTS[turn // 2 % len(POINTS)] if turn % 2 == 0 else ""
        servers.start(point, int(rng.integers(1, {"write": 40, "synced": 12, "note": 12, "learn": 12}.get(point, 4))))
        if not servers.port:
            assert servers.ended() == 9
            points.append(point)
            servers.start()
    time.sleep(0.3)
    for teller in tellers:
        teller.ends.set()
    for teller in tellers:
        teller.join()
    servers.kill()
    servers.close()
    acknowledged = {key: seq for teller in tellers for key, seq in teller.acknowledged.items()}
    check(folder, acknowledged)
    assert [each for teller in tellers for each in teller.refused] == []
    return len(acknowledged), points


def check(folder, acknowledged):
    """0 lost, 0 twice, and the state after a restart is a replay, to the bit."""
    journal = Journal(folder / "journal.sqlite")
    found = {entry.key: entry.seq for entry in journal.after(0)}
    assert journal.last == len(found)
    journal.close()
    assert acknowledged.items() <= found.items()
    bits = []
    for _ in range(2):
        service = Service(folder)
        assert service.engine.seq == len(found)
        bits.append([service.matrix(user) for user in (None, "anna", "ben")])
        service.close()
        for path in (folder / "snapshots").iterdir():
            path.unlink()
    assert all(np.array_equal(one, other) for one, other in zip(*bits, strict=True))


def test_20_kills(tmp_path):
    acknowledged, points = killed(tmp_path / "s", 20, 0)
    assert acknowledged >= 200
    assert len(set(points)) >= 5


@pytest.mark.long
def test_200_kills(tmp_path):
    acknowledged, points = killed(tmp_path / "s", 200, 1)
    assert acknowledged >= 5000
    assert set(points) == {"any time", *POINTS}
