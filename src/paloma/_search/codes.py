"""Rows in one byte per feature: what may be nearest is found by reading a quarter of float32's memory."""

from dataclasses import dataclass

import numpy as np

from .._compiled.codes import coded_values
from .._typing import Array

_CHUNK = 4096  # rows that are coded at a time
_LARGEST = 127


@dataclass
class Codes:
    """Rows around a center: whole numbers, times the scale of the row, times the step of the feature.

    A step is the mean deviation of a feature, so that those that vary little keep their digits; a row far out is coarse
    alone.
    """

    codes: Array
    scales: Array
    center: Array
    steps: Array

    @classmethod
    def of(cls, rows: Array) -> "Codes":
        """All rows, around their mean."""
        center = rows.mean(axis=0, dtype=np.float64)
        parts = (np.abs(rows[a : a + _CHUNK] - center).sum(axis=0) for a in range(0, len(rows), _CHUNK))
        steps = sum(parts, np.zeros(rows.shape[1])) / max(len(rows), 1)
        return cls(*_coded(rows, center, steps), center, steps)

    def revised(self, kept: Array, new: Array) -> "Codes":
        """Those numbered `kept`, in this order, and then new rows, with the same center and steps."""
        codes, scales = _coded(new, self.center, self.steps)
        both = np.concatenate([self.codes[kept], codes]), np.concatenate([self.scales[kept], scales])
        return Codes(*both, self.center, self.steps)

    def values(self, vector: Array, constants: Array) -> Array:
        """constant - 2 <row - center, vector> of each row, roughly, in float32."""
        return coded_values(self.codes, self.scales, (self.steps * vector).astype(np.float32), constants)


def _coded(rows: Array, center: Array, steps: Array) -> tuple[Array, Array]:
    codes, scales = np.empty(rows.shape, np.int8), np.empty(len(rows), np.float32)
    inverse = 1.0 / np.where(steps > 0, steps, 1.0)
    for a in range(0, len(rows), _CHUNK):
        units = (rows[a : a + _CHUNK] - center) * inverse
        largest = np.abs(units).max(axis=1, initial=0.0)
        scales[a : a + _CHUNK] = largest / _LARGEST
        codes[a : a + _CHUNK] = np.rint(units * (_LARGEST / np.where(largest > 0, largest, 1.0))[:, None])
    return codes, scales


def smallest(values: Array, n: int) -> Array:
    """Numbers of the n smallest values, in ascending order."""
    n = min(len(values), n)
    return np.sort(np.argpartition(values, n - 1)[:n])
