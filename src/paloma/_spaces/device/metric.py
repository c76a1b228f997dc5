"""The read-out of dense matrices whose eigenproblems and searches run on a device."""

from collections.abc import Hashable
from typing import Any

from ..._core.locality import Locality
from ..._device import torch
from ..._search.device import DeviceItems
from ..._search.items import LocalItems
from ..._typing import Array, Rows
from ..dense.matrices import Matrices
from ..dense.metric import DenseMetric
from .matrices import project


class DeviceMetric(DenseMetric):
    """Matrices on the host, made p.s.d. and searched with on a device."""

    def __init__(
        self, device: Any, state: Matrices, locality: Locality, cone: str, blend: float, factor: float,
        strength: tuple[float, float],
    ) -> None:  # fmt: skip
        super().__init__(state, locality, cone, blend, factor, strength, self._project)
        self.device = device

    def _project(self, _: Hashable, matrix: Array) -> Array:
        return project(torch.tensor(matrix, device=self.device)[None])[0].cpu().numpy()

    def items(self, X: Rows, codes: Array, by: Any = None) -> LocalItems:
        if codes.ndim == 2:
            return LocalItems(self, X, codes, by)
        return DeviceItems(by or self, X, codes, self.device)
