"""Items as a service takes them in: an id, a vector, and what people see of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._typing import Array

_PART = 1000  # items of one entry of the journal
# What ids and vectors may be.
LONGEST_ID, LARGEST = 200, 1e100


@dataclass(frozen=True)
class Items:
    """Rows and what belongs to them. A picture is `"pixels:HEX"`, gray and square, or `"file:PATH"`.

    features : names of the numbers of a row, by which explanations call them.

    Examples
    --------
    >>> items = Items(np.eye(2), ["a", "b"], labels=["x", "y"])
    >>> [told for _, told in items.parts()]
    [[{'id': 'a', 'label': 'x'}, {'id': 'b', 'label': 'y'}]]
    """

    vectors: Array
    ids: list[str]
    labels: list[str] | None = None
    texts: list[str] | None = None
    pictures: list[str] | None = None
    payload: list[dict[str, Any]] = field(default_factory=list)
    features: list[str] | None = None

    def __post_init__(self) -> None:
        if self.features is not None and not self.ids:
            raise ValueError("Items: features has names, but vectors has no rows whose numbers they could be names of.")

    def parts(self) -> Iterator[tuple[bytes, list[dict[str, Any]]]]:
        """Stretches of items as the journal keeps them: rows as bytes, everything else as plain values."""
        for a in range(0, len(self.ids), _PART):
            part = range(a, min(a + _PART, len(self.ids)))
            yield rows_to_bytes(self.vectors[a : a + _PART]), [self._told(k) for k in part]

    def _told(self, k: int) -> dict[str, Any]:
        lists = {"label": self.labels, "text": self.texts, "picture": self.pictures, "payload": self.payload}
        return {"id": self.ids[k], **{name: values[k] for name, values in lists.items() if values and values[k]}}


def rows_to_bytes(rows: Array) -> bytes:
    """Rows of a journal entry: float64, little-endian."""
    return np.ascontiguousarray(rows, "<f8").tobytes()


def rows_from_bytes(data: bytes, n: int) -> Array:
    """The rows of a journal entry."""
    return np.frombuffer(data, "<f8").reshape(n, -1).astype(np.float64)


def digits() -> Items:
    """scikit-learn's 1,797 handwritten digits: pixels as vectors, and pictures of them."""
    from sklearn.datasets import load_digits

    found = load_digits()
    names = [f"digit-{k:04d}" for k in range(len(found.data))]
    pictures = [f"pixels:{pixels(255.0 - 15.9 * row)}" for row in found.data]
    labels = [str(y) for y in found.target]
    return Items(found.data, names, labels, pictures=pictures, features=places_of_pixels(8))


def places_of_pixels(side: int) -> list[str]:
    """Names of the features of small square pictures."""
    return [f"row {k // side + 1}, column {k % side + 1}" for k in range(side * side)]


def pixels(gray: Array) -> str:
    """Gray values from 0 to 255 as hexadecimal digits."""
    return gray.clip(0, 255).astype(np.uint8).tobytes().hex()
