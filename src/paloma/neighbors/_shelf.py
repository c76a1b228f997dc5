"""Items as plain data: rows, ids of the user's own, and shares of classes. A shelf never changes; a new one is made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from .. import _validation as check
from .._core.locality import Labels
from .._reading import Reader
from .._rows import stacked
from .._typing import Array

_NOTHING = "null"


@dataclass(frozen=True)
class Shelf:
    """n items.

    X : (n, d) rows, dense or CSR.
    ids : (n,) whole numbers or strings, all different.
    shares : (n, 1 + n_labels) CSR; column 0 is "no class", column 1 + j the class `labels.labels[j]`; rows sum to 1.
    next_id : the next id that is given by default; larger than any whole number that was ever an id.
    payload : (n,) what users attached to the items, as JSON; None: nothing to any of them.
    """

    X: Any
    ids: Array
    shares: sp.csr_matrix
    labels: Labels
    next_id: int = 0
    payload: Array | None = None

    @classmethod
    def empty(cls, next_id: int = 0) -> Self:
        return cls(np.empty((0, 0)), np.empty(0, np.int64), sp.csr_matrix((0, 1)), Labels(), next_id)

    def __len__(self) -> int:
        return len(self.ids)

    def checked(self) -> Self:
        """This shelf, if its parts fit together: they may come from a file."""
        n, shape = len(self), (len(self), 1 + len(self.labels))
        fits = isinstance(self.shares, sp.csr_matrix) and self.shares.shape == shape and self.X.shape[0] == n
        if not (fits and self.ids.ndim == 1 and len(np.unique(as_ids(self.ids))) == n and type(self.next_id) is int):
            raise ValueError("The items of an index do not fit together.")
        if self.payload is not None and self.payload.shape != (n,):
            raise ValueError("The payload of an index does not fit its items.")
        if n and not (np.allclose(self.shares.sum(axis=1), 1.0) and (np.diff(self.shares.indptr) > 0).all()):
            raise ValueError("The class shares of an index do not sum to 1.")
        return self

    @cached_property
    def _order(self) -> Array:
        return np.argsort(self.ids, kind="stable")

    def places(self, ids: Array) -> Array:
        """Number of each id on the shelf; -1 where there is none."""
        if not len(self) or ids.dtype.kind == "O" or (ids.dtype.kind == "U") != (self.ids.dtype.kind == "U"):
            return np.full(len(ids), -1)
        near = self._order[np.minimum(np.searchsorted(self.ids, ids, sorter=self._order), len(self) - 1)]
        return np.where(self.ids[near] == ids, near, -1)

    def added(self, reader: Reader, X: Any, y: Any, ids: Any, payload: Any = None) -> Shelf:
        """This shelf and more items, after every check."""
        rows = reader.rows(X)
        rows = rows.copy() if len(self) == 0 else check.of_kind(rows, sp.issparse(self.X))
        if len(self) and rows.shape[1] != self.X.shape[1]:
            raise ValueError(f"X has {rows.shape[1]} features, but the items of the index have {self.X.shape[1]}.")
        n = rows.shape[0]
        labels, shares = self._shares(reader, y, n)
        new = self._new_ids(ids, n)
        numbers, payload = new.dtype.kind != "U", self._payload(payload, n)
        if not len(self):
            return Shelf(rows, new, shares, labels, self._after(new), payload)
        if numbers == (self.ids.dtype.kind == "U"):
            kinds = ("numbers", "strings") if numbers else ("strings", "numbers")
            raise TypeError(
                f"MetricIndex: ids must all have the same type: got {kinds[0]}, but the ids so far are {kinds[1]}."
            )
        old = sp.csr_matrix((self.shares.data, self.shares.indices, self.shares.indptr), (len(self), shares.shape[1]))
        ids, shares = np.concatenate([self.ids, new]), sp.vstack([old, shares], "csr")
        return Shelf(stacked([self.X, rows]), ids, shares, labels, self._after(new), payload)

    def _payload(self, payload: Any, n: int) -> Array | None:
        """The payload of these items and of n new ones."""
        if payload is None and self.payload is None:
            return None
        held = np.full(len(self), _NOTHING, object) if self.payload is None else self.payload
        values = [None] * n if payload is None else list(payload)
        if len(values) != n:
            raise ValueError(
                f"MetricIndex: payload must have one entry for each of the {n} rows of X, got {len(values)}."
            )
        try:
            texts = [json.dumps(value, allow_nan=False) for value in values]
        except (TypeError, ValueError) as error:
            raise TypeError(f"MetricIndex: payload must be what JSON can hold: {error}.") from None
        new = np.empty(n, object)
        new[:] = texts
        return np.concatenate([held, new])

    def _after(self, new: Array) -> int:
        return self.next_id if new.dtype.kind == "U" else max(self.next_id, int(new.max(initial=-1)) + 1)

    def _new_ids(self, ids: Any, n: int) -> Array:
        if ids is None:
            if self.ids.dtype.kind == "U" and len(self):
                raise ValueError("MetricIndex: the ids so far are strings, so new items need explicit ids.")
            if self.next_id + n > np.iinfo(np.int64).max:
                raise ValueError(
                    "MetricIndex: no default ids are left, because an id close to 2**63 was given; pass ids."
                )
            return np.arange(self.next_id, self.next_id + n, dtype=np.int64)
        new = as_ids(ids)
        if new.shape != (n,):
            raise ValueError(
                f"MetricIndex: ids must have one entry for each of the {n} rows of X, got shape {new.shape}."
            )
        distinct, counts = np.unique(new, return_counts=True)
        if len(distinct) < n:
            raise ValueError(f"MetricIndex: ids must be unique; duplicates: {listed(distinct[counts > 1])}.")
        known = self.places(new) >= 0
        if known.any():
            raise ValueError(
                f"MetricIndex: already in the index: {listed(new[known])}. Remove them first, or pass other ids."
            )
        return new

    def _shares(self, reader: Reader, y: Any, n: int) -> tuple[Labels, sp.csr_matrix]:
        """Classes of new items as shares: one label each, a matrix of shares over classes_, or none."""
        if y is None:
            return self.labels, self._one_each(np.full(n, -1), len(self.labels))
        if np.ndim(y) == 2 and np.shape(y)[1] > 1:
            return self._soft(reader, np.asarray(y, np.float64), n)
        y = check.check_labels(reader.owner, y, n)
        reader.codes(y, n)
        labels = self.labels.extended(y)
        return labels, self._one_each(labels.codes(y), len(labels))

    @staticmethod
    def _one_each(codes: Array, n_labels: int) -> sp.csr_matrix:
        return sp.csr_matrix((np.ones(len(codes)), codes + 1, np.arange(len(codes) + 1)), (len(codes), n_labels + 1))

    def _soft(self, reader: Reader, y: Array, n: int) -> tuple[Labels, sp.csr_matrix]:
        classes = reader.labels.sorted
        if y.shape != (n, len(classes)):
            raise ValueError(
                f"MetricIndex: y as class shares must have shape ({n}, {len(classes)}), one column for each of the "
                f"metric's classes_, got {y.shape}."
            )
        if not (np.isfinite(y).all() and (y >= 0).all() and np.allclose(y.sum(axis=1), 1.0, rtol=0, atol=1e-6)):
            raise ValueError("MetricIndex: class shares must be nonnegative and sum to 1 in each row.")
        labels = self.labels.extended(classes)
        shares = sp.csr_matrix(y / y.sum(axis=1, keepdims=True))
        columns = labels.codes(classes)[shares.indices] + 1
        return labels, sp.csr_matrix((shares.data, columns, shares.indptr), (n, len(labels) + 1))

    def found(self, ids: Any) -> Array:
        """Numbers of these ids, each once; all must be on the shelf."""
        given = np.unique(as_ids(ids))
        places = self.places(given)
        if (places < 0).any():
            raise ValueError(f"MetricIndex: not in the index: {listed(given[places < 0])}.")
        return places

    def taken(self, kept: Array) -> Shelf:
        """The items numbered `kept`."""
        payload = None if self.payload is None else self.payload[kept]
        return replace(self, X=self.X[kept], ids=self.ids[kept], shares=self.shares[kept], payload=payload)

    def payload_of(self, places: Array) -> Array:
        """What was attached to each item."""
        texts = [_NOTHING] * len(places) if self.payload is None else self.payload[places]
        out = np.empty(len(places), object)
        for k, text in enumerate(texts):
            out[k] = json.loads(text)
        return out

    def labels_of(self, places: Array) -> Array:
        """Label of each item, that of its largest share; None if it has no class."""
        largest = np.asarray(self.shares[places].argmax(axis=1)).ravel()
        names = np.array([None, *self.labels.labels.tolist()], dtype=object)
        return names[largest]


def as_ids(ids: ArrayLike | Iterable[Any]) -> Array:
    """Whole numbers as int64, or strings; a set, a list, an array or a single id."""
    if isinstance(ids, set | frozenset):
        ids = sorted(ids, key=lambda value: (isinstance(value, str), value))
    array = np.atleast_1d(np.asarray(ids if hasattr(ids, "dtype") else np.array(ids, object)))
    if array.dtype.kind == "O":
        values = array.tolist()
        if len({isinstance(value, str) for value in array.ravel()}) > 1:
            raise TypeError("MetricIndex: ids must all be integers or all be strings, got both.")
        array = check.as_array("MetricIndex", values, "ids must be integers or strings, one for each item")
    if not array.size:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iuU":
        raise TypeError(f"MetricIndex: ids must be integers or strings, got dtype {array.dtype}.")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise ValueError("MetricIndex: ids must fit into signed 64-bit integers.")
    return array if array.dtype.kind == "U" else array.astype(np.int64)


def listed(ids: Array, most: int = 5) -> str:
    """A few ids in words."""
    shown = ", ".join(repr(i) for i in ids[:most].tolist())
    return shown if len(ids) <= most else f"{shown} and {len(ids) - most} more"
