"""A fitted learner as a torch module: the same numbers as the learner, on any device, in any graph."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ._parts import SHARED, UNSEEN, Parts


class MetricModule(torch.nn.Module):
    """Scores, search vectors and the shared map of a fitted learner; made by `paloma.export.to_torch`.

    The matrices are buffers: they move with `to(device)` and are part of `state_dict`, but they are not trained.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.classes: list[Any] = parts.classes.tolist()
        self.is_distance, self.is_local = parts.is_distance, parts.is_local
        self.register_buffer("stack", torch.from_numpy(np.ascontiguousarray(parts.stack)))
        self.register_buffer("shares", torch.from_numpy(np.ascontiguousarray(parts.shares)))

    def places(self, y: Iterable[Any] | None, n: int = 0) -> torch.Tensor:
        """Places of items by their labels: -1 for a class never seen; without labels n times -2, the shared part."""
        if y is None:
            return torch.full((n,), SHARED, device=self.stack.device)
        known = {label: place for place, label in enumerate(self.classes)}
        values = [label.item() if hasattr(label, "item") else label for label in y]
        return torch.tensor([known.get(label, UNSEEN) for label in values], device=self.stack.device)

    def query(self, q: torch.Tensor) -> torch.Tensor:
        """Vectors whose inner products with those of `item` are minus squared distances, or similarities."""
        if not self.is_distance:
            return q
        forms = ((q @ self.stack) * q).sum(dim=2).T
        return torch.cat([q, forms, torch.ones_like(q[:, :1])], dim=1)

    def item(self, x: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        """Vectors of items at these places, see `places`; None: all under the shared part."""
        shares = self._shares(x, places)
        mapped = torch.empty_like(x)
        for row in shares.unique(dim=0):
            same = (shares == row).all(dim=1)
            mapped[same] = x[same] @ torch.tensordot(row, self.stack, dims=1).T
        if not self.is_distance:
            return mapped
        return torch.cat([2.0 * mapped, -shares, -(x * mapped).sum(dim=1, keepdim=True)], dim=1)

    def _shares(self, x: torch.Tensor, places: torch.Tensor | None) -> torch.Tensor:
        if not self.is_local:
            return self.shares.expand(len(x), -1)
        return self.shares[self.places(None, len(x)) if places is None else places]

    def transform(self, x: torch.Tensor) -> torch.Tensor:
        """Rows whose Euclidean distances are those of the shared part; distances only."""
        if not self.is_distance:
            raise TypeError("A similarity has no transform: its shared part is q^T U x, use query and item.")
        values, vectors = torch.linalg.eigh(self.stack[SHARED if self.is_local else 0])
        return x @ (vectors * values.clamp(min=0.0).sqrt())

    def forward(self, q: torch.Tensor, x: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        """(n_queries, n_items) scores, larger is more similar: those of `pairwise_score`."""
        values = self.query(q) @ self.item(x, places).T
        return values.sign() * values.abs().sqrt() if self.is_distance else values
