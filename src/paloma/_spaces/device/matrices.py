"""U and the stack of L as tensors on a device; `paloma._spaces.dense.matrices` is the same in NumPy."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._device import torch
from ..._typing import Array
from ..dense.matrices import Matrices

# Numbers that symmetrizing or projecting a stack may hold at a time beside it.
AT_A_TIME = 1 << 27


@dataclass
class DeviceMatrices:
    """A class whose slot is -1 was never updated: its L is still the start.

    stale : of symmetric matrices only the upper triangle, by tiles, is up to date.
    """

    start: Any
    shared: Any
    stack: Any
    mean: tuple[Any, Any] | None
    slots: Array
    n_slots: int
    symmetric: bool
    stale: bool = False

    @classmethod
    def of(cls, host: Matrices, device: Any) -> "DeviceMatrices":
        """The matrices of the host, copied."""
        host.catch_up()
        host.symmetrize()

        def sent(array: Array) -> Any:
            return torch.tensor(array, device=device)

        n = host.n_slots
        mean = None if host.mean is None else (sent(host.mean[0]), sent(host.mean[1][:n]))
        return cls(
            sent(host.start), sent(host.shared), sent(host.stack[:n]), mean, host.slots.copy(), n, host.symmetric
        )

    def host(self) -> Matrices:
        """The same on the host."""
        self.symmetrize()
        n, out = self.n_slots, Matrices(_array(self.start), self.symmetric)
        out.shared, out.stack, out.slots, out.n_slots = _array(self.shared), _array(self.stack[:n]), self.slots, n
        out.pending = np.ones(n)
        out.mean = None if self.mean is None else (_array(self.mean[0]), _array(self.mean[1][:n]))
        return out

    def slots_of(self, codes: Array) -> Array:
        """Slot of each class code; -1 for none."""
        known = (codes >= 0) & (codes < len(self.slots))
        out = np.full(codes.shape, -1, np.int32)
        out[known] = self.slots[codes[known]]
        return out

    def allocate(self, codes: Array) -> None:
        """Give each of these distinct class codes a matrix of its own, at the start."""
        new = codes[(codes >= 0) & (self.slots_of(codes) < 0)]
        if not len(new):
            return
        room = int(new.max()) + 1
        if room > len(self.slots):
            self.slots = np.concatenate([self.slots, np.full(room - len(self.slots), -1, np.int32)])
        n = self.n_slots + len(new)
        self.slots[new] = np.arange(self.n_slots, n)
        self.stack = self._taller(self.stack, n)
        if self.mean is not None:
            self.mean = (self.mean[0], self._taller(self.mean[1], n))
        self.n_slots = n

    def keep(self, kept: Array) -> None:
        """The matrices of these ascending slots, and no others."""
        if len(kept) == self.n_slots:
            return
        places = np.full(self.n_slots + 1, -1, np.int32)
        places[kept] = np.arange(len(kept))
        self.slots = places[self.slots]
        rows = torch.as_tensor(kept, device=self.stack.device)
        self.stack, self.n_slots = self.stack[rows], len(kept)
        if self.mean is not None:
            self.mean = (self.mean[0], self.mean[1][rows])

    def averages(self) -> tuple[Any, Any]:
        """The averaged iterates, which begin at the start."""
        if self.mean is None:
            self.mean = (self.start.clone(), self._taller(self.stack[:0], self.n_slots))
        return self.mean

    def average(self, rate: float) -> None:
        """Move the averaged iterates toward the current ones."""
        for mean, last in zip(self.averages(), (self.shared, self.stack), strict=True):
            mean.lerp_(last, rate)

    def project(self) -> None:
        """P_+ of U and of every L, in place."""
        self.symmetrize()
        self.shared = project(self.shared[None])[0]
        for part in self._parts():
            self.stack[part] = project(self.stack[part])

    def symmetrize(self) -> None:
        """Make the lower triangles whole again."""
        if self.stale:
            for shared, stack in ((self.shared, self.stack), *((self.mean,) if self.mean else ())):
                shared.copy_(_whole(shared))
                for part in self._parts():
                    stack[part] = _whole(stack[part])
        self.stale = False

    def _parts(self) -> list[slice]:
        step = max(1, AT_A_TIME // self.start.numel())
        return [slice(a, a + step) for a in range(0, self.n_slots, step)]

    def _taller(self, stack: Any, n: int) -> Any:
        out = self.start.new_empty((n, *self.start.shape))
        out[: len(stack)] = stack
        out[len(stack) :] = self.start
        return out


def project(stack: Any) -> Any:
    """P_+ of each matrix: the nearest p.s.d. one of its symmetric part; those that are p.s.d. stay as they are."""
    symmetric = (stack + stack.mT) / 2
    values, vectors = torch.linalg.eigh(symmetric)
    cut = (vectors * values.clamp(min=0.0)[:, None, :]) @ vectors.mT
    return torch.where((values[:, 0] >= 0.0)[:, None, None], symmetric, cut)


def _whole(upper: Any) -> Any:
    return upper.triu() + upper.triu(1).mT


def _array(tensor: Any) -> Array:
    return tensor.cpu().numpy().copy() if tensor.device.type == "cpu" else tensor.cpu().numpy()
