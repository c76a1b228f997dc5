"""Requests that make no sense, or almost do: drawn from the service's own description, and from a corpus."""

import json
from typing import Any

from numpy.random import Generator

from paloma.serve._pictures import png

STRINGS = [
    "", " ", "\0", "a" * 201, "a" * 100_000, "digit-0001", "digit-0002", "digit-0003", "nobody", "../../etc/passwd",
    "%00", "\ud800", "\udfff\ud800", "\u202e", "𝔘𝔫𝔦", "é" * 199, "key-00000001", "fresh-key-{}", "mark", "compare",
    "together", "label", "now", "before", "start", "'; DROP TABLE entry; --", "<script>alert(1)</script>", "NaN",
    "null", "-1", "1e999",
]  # fmt: skip
NUMBERS = [
    0, -1, 1, 2, 10, 1000, 1001, 2**31, 2**53, 2**62, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e-320, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
OTHERS = [None, True, False, [], {}, [[]], [None], {"": None}, [[[[[[[[]]]]]]]]]
RAW = [
    b"", b"{", b"}", b"[", b"]", b"null", b"0", b'""', b'"x"', b"{}", b"[]", b"[1", b'{"a"', b'{"a":', b'{"a":1,}',
    b"\x00", b"\xff\xfe\x00", b"\xef\xbb\xbf{}", b"{'a':1}", b'{"k":NaN}', b'{"vector":[1e999]}',
    b'{"vector":[-Infinity]}',
    b"[" * 3000, b'{"a":' * 3000, b'{"item":"\\ud800"}', b'{"item":"' + b"\x80" * 10 + b'"}', b'{"k":1e400}',
    b'{"k":' + b"9" * 5000 + b"}", b'{"item":1,"item":2}', b"true", b"<xml/>", b"a=b&c=d",
]  # fmt: skip
PICTURES = [
    png(bytes(16), 4), b"\xff\xd8\xff\xff\xe0\x00\x02\xff\xc0\x00\x08\x08\x00\x09\x00\x09", b"\xff\xd8\xff\xe0\x00\x00",
    b"GIF89a\x01\x00\x01\x00", b"GIF89a\xff\xff\xff\xff", b"RIFF\0\0\0\0WEBPVP8 ", b"RIFF\0\0\0\0WEBPVP8X", b"<svg/>",
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xff\xff\xff\xff\xff\xff\xff",
]  # fmt: skip
HEADERS = [
    {}, {}, {}, {}, {}, {}, {"content_type": "text/plain"}, {"content_type": ""}, {"host": ""}, {"host": "a" * 5000},
    {"content_type": "application/json; charset=x"}, {"content_length": "-1"}, {"content_length": "9" * 20},
    {"content_length": "x"},
    {"origin": "http://evil.example"}, {"authorization": "Bearer " + "x" * 5000}, {"authorization": "Basic eDp5"},
    {"cookie": "paloma_session=" + "é" * 20}, {"cookie": ";;;=;\\"}, {"if_none_match": "\\"}, {"accept": "\x7f"},
]  # fmt: skip


class Malformed:
    """An endless supply. width : numbers of a vector that fits, which some have, so that some requests are good."""

    def __init__(self, schema: dict[str, Any], rng: Generator, width: int) -> None:
        self.schema, self.rng, self.width, self.n = schema, rng, width, 0
        self.routes = [(method.upper(), path, about) for path, methods in schema["paths"].items()
                       for method, about in methods.items()]  # fmt: skip

    def draw(self) -> tuple[str, str, bytes | None, dict[str, str]]:
        """Method, path, body, headers."""
        method, path, about = self._one(self.routes)
        if self.rng.random() < 0.03:
            method = self._one(["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "post", "X" * 50])
        for parameter in about.get("parameters", []):
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", self._word().replace("?", "").replace("#", ""))
        query = [f"{each['name']}={self._value(each['schema'])}" for each in about.get("parameters", [])
                 if each["in"] == "query" and self.rng.random() < 0.6]  # fmt: skip
        target = path + ("?" + "&".join(query) if query else "")
        kinds = list(about.get("requestBody", {}).get("content", {}))
        own = {"content_type": self._one(kinds)} if kinds and "application/json" not in kinds else {}
        return method, _plain(target), self._body(about), own | self._one(HEADERS)

    def _body(self, about: dict[str, Any]) -> bytes | None:
        if "requestBody" not in about:
            return None
        if self.rng.random() < 0.15:
            return self._one(RAW)
        if "application/json" not in about["requestBody"]["content"]:
            return self._one(PICTURES)[: self._one([None, 3, 15, 20])]
        body = self._value(about["requestBody"]["content"]["application/json"]["schema"], 0.0)
        text = json.dumps(body).encode()
        if self.rng.random() < 0.05:
            text = text[: int(self.rng.integers(len(text) + 1))]
        if self.rng.random() < 0.05 and text:
            place = int(self.rng.integers(len(text)))
            text = text[:place] + self.rng.bytes(1) + text[place + 1 :]
        return text

    def _value(self, schema: dict[str, Any], wrong: float = 0.12) -> Any:
        """A value of a schema, but for some that are anything."""
        if "$ref" in schema:
            schema = self.schema["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        if self.rng.random() < wrong:
            return self._anything()
        if "anyOf" in schema:
            return self._value(self._one(schema["anyOf"]))
        if "enum" in schema or "const" in schema:
            return self._one(schema.get("enum") or [schema["const"]])
        kind = schema.get("type")
        if kind == "object":
            fields, needed = schema.get("properties", {}), schema.get("required", [])
            out = {name: self._value(each) for name, each in fields.items()
                   if self.rng.random() < (0.97 if name in needed else 0.4)}  # fmt: skip
            if self.rng.random() < 0.08:
                out[self._word()] = self._anything()
            return out
        if kind == "array":
            if schema.get("items", {}).get("type") == "number" and self.rng.random() < 0.7:
                return self.rng.normal(size=self.width).round(3).tolist()
            return [self._value(schema.get("items", {})) for _ in range(int(self.rng.integers(5)))]
        if kind in ("integer", "number"):
            return int(self.rng.integers(30)) if self.rng.random() < 0.7 else self._one(NUMBERS)
        if kind == "string":
            return self._word()
        return None if kind == "null" else self._anything()

    def _anything(self) -> Any:
        return self._one([self._one(STRINGS), self._one(NUMBERS), self._one(OTHERS)])

    def _word(self) -> str:
        self.n += 1
        known = f"digit-{int(self.rng.integers(300)):04d}"
        return self._one([known, known, f"key-{self.n:08d}", self._one(STRINGS).replace("{}", str(self.n))])

    def _one(self, values: list[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]


def _plain(target: str) -> str:
    """A target that can be written into a request at all."""
    return target.encode("utf-8", "replace").decode("latin-1")


_GET, _POST, _HERE = b"GET / HTTP/1.1\r\n", b"POST /api/v1/search HTTP/1.1\r\n", b"Host: localhost\r\n"
_JSON, _CHUNKS = b"Content-Type: application/json\r\n", b"Transfer-Encoding: chunked\r\n"
LINES = [
    b"",
    b"\r\n\r\n",
    b"GET",
    b"GET /",
    b"GET / HTTP/9.9\r\n\r\n",
    _GET + b"\r\n",
    b"\x00" * 100,
    b"\x16\x03\x01\x02\x00",
    _GET + _HERE + b"Host: evil\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + _HERE + b"\r\n",
    _GET + _HERE + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    _POST + _HERE + _JSON + b"Content-Length: 5\r\n" + _CHUNKS + b"\r\n0\r\n\r\n",
    _POST + _HERE + _JSON + _CHUNKS + b"\r\nZZ\r\n",
    _POST + _HERE + b"Content-Length: -5\r\n\r\n",
    b"GET http://evil/ HTTP/1.1\r\nHost: evil\r\n\r\n",
    _GET + b"Host : localhost\r\n\r\n",
    b"GET / HTTP/1.1\nHost: localhost\n\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT localhost:1 HTTP/1.1\r\n" + _HERE + b"\r\n",
    b"GET /%zz%00 HTTP/1.1\r\n" + _HERE + b"\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\n" + _HERE + b"\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + _HERE + b"\r\n",
    _GET + _HERE + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n",
]
