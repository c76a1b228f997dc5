"""The distinct pairs of many blocks (theory 10), found on the device at once, with one look from the host."""

from dataclasses import dataclass
from typing import Any

from ..._device import torch
from ..._typing import Array


@dataclass(frozen=True)
class Order:
    """Rows sorted by the slot of their class, -1 first; keys of pairs begin with the candidate's place in it."""

    slots: Any  # of each row, int32
    rows: Any  # by slot
    rank: Any  # place of each row

    @classmethod
    def of(cls, slots: Array, device: Any) -> "Order":
        on_device = torch.as_tensor(slots, device=device)
        rows = torch.argsort(on_device, stable=True)
        rank = torch.empty_like(rows)
        rank[rows] = torch.arange(len(rows), device=device)
        return cls(on_device, rows, rank)


@dataclass(frozen=True)
class Pairs:
    """Distinct (anchor, candidate) pairs of consecutive blocks, those of a block sorted by slot.

    members : (n, 2), the pairs of each triplet, counted from the first of its block.
    edges : where the pairs of each block begin, and the end of the last; on the host.
    runs, run_edges : (slot, first, count) of each run of pairs of one slot, counted likewise; those of each block.
    uses, use_edges : of each pair the members that name it, as places in `members` flattened, in order.
    """

    anchors: Any
    candidates: Any
    slots: Any
    members: Any
    edges: list[int]
    runs: Any
    run_edges: list[int]
    uses: Any
    use_edges: Any


def pairs_of(triplets: Any, order: Order, sizes: list[int]) -> Pairs:
    """The pairs of blocks of these sizes, in triplets (n, 3) on the device."""
    device, n_rows, n_blocks = triplets.device, len(order.rank), len(sizes)
    block = torch.repeat_interleave(torch.arange(n_blocks, device=device), torch.tensor(sizes, device=device))
    keys = (block[:, None] * n_rows + order.rank[triplets[:, 1:]]) * n_rows + triplets[:, :1]
    distinct, inverse, counts = torch.unique(keys.reshape(-1), return_inverse=True, return_counts=True)
    places, anchors = distinct // n_rows, distinct % n_rows
    of_block = places // n_rows
    candidates = order.rows[places % n_rows]
    slots = order.slots[candidates]
    bounds = torch.arange(n_blocks + 1, device=device)
    edges = torch.searchsorted(of_block, bounds)
    members = inverse.reshape(-1, 2) - edges[block][:, None]
    uses = torch.argsort(inverse, stable=True)
    use_edges = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    width = len(order.rank) + 2
    run_keys, run_counts = torch.unique_consecutive(of_block * width + slots + 1, return_counts=True)
    run_blocks, run_ends = run_keys // width, run_counts.cumsum(0)
    first = run_ends - run_counts - edges[run_blocks]
    runs = torch.stack([run_keys % width - 1, first, run_counts], dim=1).to(torch.int32)
    run_edges = torch.searchsorted(run_blocks, bounds)
    on_host = torch.stack([edges, run_edges]).tolist()
    return Pairs(
        anchors, candidates, slots, members.to(torch.int32), on_host[0], runs, on_host[1], uses.to(torch.int32),
        use_edges.to(torch.int32),
    )  # fmt: skip
