"""A service without a server: an engine, its application, and a client for each scope."""

from pathlib import Path

from sklearn.datasets import load_digits

from helpers.asgi import Client
from paloma.serve import Items, digits
from paloma.serve._app import application
from paloma.serve._engine import Engine
from paloma.serve._safety import Keys, Rate, Safety
from paloma.serve._serve import LOCAL

SECRET = {scope: f"{scope}-0123456789abcdef" for scope in ("read", "feedback", "admin")}
MARK = {"kind": "mark", "item": "digit-0001", "relevant": ["digit-0011"]}


def some_digits(n: int = 300) -> Items:
    """The first digits."""
    every = digits()
    return Items(every.vectors[:n], every.ids[:n], every.labels[:n], pictures=every.pictures[:n])


class Service:
    """An engine, its application, and a client for each scope."""

    def __init__(self, folder: Path, items: Items | None = None, **options):
        self.engine = Engine(folder, items, **options)
        self.keys = Keys()
        for scope, token in SECRET.items():
            self.keys.add(token, scope)
        app = application(self.engine, self.keys, metrics=True)
        self.app = Safety(app, self.keys, LOCAL, Rate(1e9, 1e9))
        self.clients = {scope: Client(self.app, authorization=f"Bearer {token}") for scope, token in SECRET.items()}
        self.nobody = Client(self.app)
        self.admin = self.clients["admin"]

    def close(self):
        self.engine.close()
        for client in (*self.clients.values(), self.nobody):
            client.close()

    def say(self, number: int, **body):
        return self.admin.ask("POST", "/api/v1/statements", {"key": f"key-{number:08d}", **body})

    def near(self, item="digit-0005", user="", k=10, after=0, **more):
        asked = {"item": item, "k": k, "user": user, "after": after, **more}
        status, found = self.admin.ask("POST", "/api/v1/search", asked)
        assert status == 200, found
        return [each["id"] for each in found["results"]]

    def matrix(self, user=None):
        return self.engine._served._searching().metric_matrix(user)


def feedback_round(service, number, query, user="anna"):
    """Marks of one query's results, as somebody who knows the digits would give them."""
    y = load_digits().target
    near = service.near(f"digit-{query:04d}", user)
    right = [id for id in near if y[int(id[-4:])] == y[query]]
    body = {"kind": "mark", "item": f"digit-{query:04d}", "user": user, "relevant": right}
    status, told = service.say(number, **body, irrelevant=[id for id in near if id not in right])
    assert status == 201, told
    return told["seq"]
