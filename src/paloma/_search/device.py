"""Search on a torch device: tiles of one matrix product and a running top-k; values are formed again directly.

Queries and items are cut into tiles, so that never more than one tile of values is held.
"""

from typing import Any

import numpy as np

from .._device import precision, torch
from .._typing import Array
from .items import LocalItems
from .tiles import SPARE, Factors, certified

# Queries and items whose values are formed at a time.
QUERIES, ITEMS = 2048, 1 << 16
# Numbers that are gathered at a time to form values directly.
GATHERED = 1 << 27


def neighbors_by_class(
    X: Array, codes: Array, anchors: Array, n_targets: int, n_impostors: int, device: Any
) -> tuple[Array, Array, Array, Array, float]:
    """Euclidean neighbors of rows in their own class and in others, their squared distances, and the mean square.

    Nearest first, of equal ones the lower number; -1 and inf where there are fewer.
    """
    rows, of = torch.tensor(X, device=device), torch.tensor(codes, device=device)
    centered = rows - rows.mean(dim=0, dtype=torch.float64).to(rows.dtype)
    norms = centered.square().sum(dim=1)
    wanted = [min(k + SPARE[0], len(X)) for k in (n_targets, n_impostors)]
    found: list[tuple[Any, ...]] = []
    with precision():
        for a in range(0, len(anchors), QUERIES):
            who = torch.as_tensor(anchors[a : a + QUERIES], device=device)
            best = [_nobody(len(who), k, rows) for k in wanted]
            for b in range(0, len(rows), ITEMS):
                part = slice(b, b + ITEMS)
                values = norms[part] - 2.0 * (centered[who] @ centered[part].T)
                same = of[who][:, None] == of[part]
                values[who[:, None] == torch.arange(b, b + values.shape[1], device=device)] = torch.inf
                for kind, left_out in enumerate((~same, same)):
                    best[kind] = _merged(best[kind], values.masked_fill(left_out, torch.inf), b)
            sizes = (n_targets, n_impostors)
            exact = (_closest(rows, who, best[kind], k) for kind, k in enumerate(sizes))
            found.append(tuple(table.cpu().numpy() for pair in exact for table in pair))
    targets, reaches, impostors, distances = (np.concatenate(tables) for tables in zip(*found, strict=True))
    return targets, reaches, impostors, distances, float(norms.mean(dtype=torch.float64))


def _nobody(n: int, k: int, rows: Any) -> tuple[Any, Any]:
    """The best so far before anyone was seen: values, numbers."""
    return rows.new_full((n, k), torch.inf), torch.full((n, k), -1, device=rows.device)


def _merged(best: tuple[Any, Any], values: Any, start: int) -> tuple[Any, Any]:
    """The best of those so far and of a tile of items from number `start` on."""
    k = best[0].shape[1]
    near, places = torch.topk(values, min(k, values.shape[1]), dim=1, largest=False)
    both = torch.cat([best[0], near], dim=1), torch.cat([best[1], places + start], dim=1)
    kept, order = torch.topk(both[0], k, dim=1, largest=False)
    return kept, both[1].gather(1, order)


def _closest(rows: Any, who: Any, best: tuple[Any, Any], k: int) -> tuple[Any, Any]:
    """The k nearest of each anchor's candidates, by squared distances formed from differences in float64."""
    numbers = torch.where(torch.isfinite(best[0]), best[1], -1).sort(dim=1).values
    values = torch.empty(numbers.shape, dtype=torch.float64, device=rows.device)
    step = max(1, GATHERED // (numbers.shape[1] * rows.shape[1]))
    for a in range(0, len(who), step):
        part = slice(a, a + step)
        apart = rows[numbers[part]].double() - rows[who[part]][:, None]
        values[part] = apart.square().sum(dim=2)
    values[numbers < 0] = torch.inf
    values, order = values.sort(dim=1, stable=True)
    return numbers.gather(1, order)[:, :k], values[:, :k]


class DeviceItems(LocalItems):
    """Items under the metrics of their classes, held and searched on a device; rows come and answers go as in NumPy."""

    def __init__(self, metric: Any, X: Array, codes: Array, device: Any) -> None:
        self.device = device
        self._held: dict[int, Any] = {}
        super().__init__(metric, X, codes)

    def _sent(self, rows: Array) -> Any:
        return torch.tensor(rows, device=self.device)

    def _matrix(self, code: int) -> Any:
        if code not in self._held:
            self._held[code] = self._sent(self.metric.matrix(code))  # type: ignore[attr-defined]
        return self._held[code]

    def _map(self, X: Array, codes: Array) -> tuple[Factors, Array]:
        self.rows = self._sent(X)
        rows = self.rows if self.center is None else self.rows - self._sent(self.center)
        mapped = torch.empty_like(rows)
        with precision():
            for code, numbers in self._groups(codes):
                mapped[numbers] = rows[numbers] @ self._matrix(code).T
        if not self.metric.symmetric:
            return (mapped,), np.zeros(len(codes))
        return (mapped,), (rows * mapped).sum(dim=1, dtype=torch.float64).cpu().numpy()

    def _extent(self, mapped: Factors) -> float:
        return float(mapped[0].square().sum(dim=1, dtype=torch.float64).max().sqrt())

    def _groups(self, codes: Array) -> list[tuple[int, Any]]:
        """(code, numbers) of each distinct code."""
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
        numbers = torch.as_tensor(order, device=self.device)
        ends = [*starts[1:].tolist(), len(order)]
        return [(int(codes[order[a]]), numbers[a:b]) for a, b in zip(starts.tolist(), ends, strict=True)]

    def revised(self, X: Array, codes: Array, kept: Array) -> "DeviceItems":
        return DeviceItems(self.metric, X, codes, self.device)

    def search(self, Q: Any, k: int, own: Array | None = None) -> tuple[Array, Array]:
        Q = self._like_items(Q)

        def rough(part: Array, reach: int) -> tuple[Array, Array, Array]:
            return self._nearest(Q[part], reach, None if own is None else own[part])

        return certified(Q, k, self.X.shape[0] - (own is not None), rough, self._direct)

    def candidates(self, Q: Any, n: int) -> Array:
        return self._nearest(self._like_items(Q), n, None)[1]

    def _nearest(self, Q: Array, k: int, own: Array | None) -> tuple[Array, Array, Array]:
        """Values, items, and a bound on the rounding error of the values for each query."""
        symmetric, eps = self.metric.symmetric, float(np.finfo(self.X.dtype).eps) * np.sqrt(self.X.shape[1])
        constants, columns = self._sent(self.constants).to(self.rows.dtype), self._sent(self.columns).long()
        found: list[tuple[Array, ...]] = []
        with precision():
            for a in range(0, len(Q), QUERIES):
                rows = self._sent(self._centered(Q[a : a + QUERIES]))
                forms = self._forms(rows) if symmetric else None
                best = _nobody(len(rows), k, rows)
                for b in range(0, len(self.rows), ITEMS):
                    part = slice(b, b + ITEMS)
                    values = rows @ self.mapped[0][part].T
                    values = values.mul_(-2.0).add_(constants[part]) if symmetric else values.neg_()
                    if forms is not None:
                        values += forms[:, columns[part]]
                    if own is not None:
                        mine = torch.as_tensor(own[a : a + QUERIES], device=self.device) - b
                        there = torch.nonzero((mine >= 0) & (mine < values.shape[1]))[:, 0]
                        values[there, mine[there]] = torch.inf
                    best = _merged(best, values, b)
                if forms is not None:
                    error = eps * (forms.abs().max(dim=1).values.sqrt() + self.extent) ** 2
                else:
                    error = eps * rows.square().sum(dim=1).sqrt() * self.extent
                found.append((best[0].double().cpu().numpy(), best[1].cpu().numpy(), error.double().cpu().numpy()))
        values, ids, errors = (np.concatenate(tables) for tables in zip(*found, strict=True))
        return values, ids, errors

    def _forms(self, rows: Any) -> Any:
        """q^T M_c q of each query and each distinct class."""
        return torch.stack([((rows @ self._matrix(int(c))) * rows).sum(dim=1) for c in self.distinct], dim=1)

    def _direct(self, Q: Array, ids: Array) -> Array:
        flat = torch.as_tensor(ids.ravel(), device=self.device)
        left, right = self._sent(Q).repeat_interleave(ids.shape[1], dim=0), self.rows[flat]
        if self.metric.symmetric:
            left = right = left - right
        values = torch.empty(len(flat), dtype=torch.float64, device=self.device)
        with precision():
            for code, numbers in self._groups(self.codes[ids.ravel()]):
                forms = (left[numbers] @ self._matrix(code)) * right[numbers]
                values[numbers] = forms.sum(dim=1, dtype=torch.float64)
        out = values.cpu().numpy().reshape(ids.shape)
        return out if self.metric.symmetric else -out

    def rough_values(self, Q: Any, out: Array) -> None:
        self._on_host().rough_values(Q, out)

    def all_values(self, Q: Any) -> Array:
        return self._on_host().all_values(Q)

    def _on_host(self) -> LocalItems:
        """For tables of all values, which end up there."""
        return LocalItems(self.metric, self.X, self.codes)
