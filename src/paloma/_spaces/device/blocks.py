"""How matrices on a device take a stream of triplets: the exact blocked algorithm of theory 10.

`Plain` uses torch's operations, one product for each class, and the compiled sweep on the host: it runs on any device.
`Grouped` is for GPUs: one grouped product for the values of all pairs under M_c = lam U + mu L_c and one for all moves,
of which U's is the sum, both on upper triangles alone if matrices are symmetric; and the sweep in panels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._compiled import groups as compiled
from ..._compiled import steps
from ..._compiled.sweep import sweep
from ..._core.choice import Choice
from ..._core.loop import Averages
from ..._core.stream import Stream, aggressiveness, margins_of
from ..._device import has_triton, tf32_allowed, torch
from ..._typing import Array
from .matrices import DeviceMatrices
from .pairs import Order, Pairs, pairs_of


@dataclass
class Block:
    """One block: its pairs as rows l_r and r_r (the same tensor if symmetric), and its part of a chunk.

    The elementwise product of the Gram matrices is <phi_r, phi_s>.
    """

    number: int  # in its chunk
    left: Any
    right: Any
    left_gram: Any
    right_gram: Any
    slots: Any
    members: Any
    part: slice  # triplets, counted from the first of the chunk
    runs: slice  # of the chunk's
    pairs: slice  # of the chunk's

    def __len__(self) -> int:
        return len(self.slots)


@dataclass
class Chunk:
    """Consecutive blocks that are planned together: their triplets, and what steps and gaps come out.

    slopes, caps, tiling : what `Grouped` needs beside; see `_linear` and `_tiles`.
    """

    triplets: Any
    pairs: Pairs
    margins: Any
    C: Any
    norms: Any
    taus: Any
    gaps: Any
    slopes: Any = None
    caps: Any = None
    tiling: Any = None


@dataclass
class Plain:
    """Products by torch, one for each class; the sweep by the compiled loop of the host."""

    choice: Choice
    matrices: DeviceMatrices
    stream: Stream
    X: Any
    order: Order

    # -- a chunk -----------------------------------------------------------------------------------------------------

    def chunk(self, start: int, sizes: list[int]) -> Chunk:
        """Blocks of these sizes, from triplet number `start` on."""
        stop, device = start + sum(sizes), self.X.device
        triplets = torch.as_tensor(np.ascontiguousarray(self.stream.triplets[start:stop]), device=device)
        margins = torch.as_tensor(margins_of(self.choice, self.stream, start, stop), device=device)
        C = torch.as_tensor(aggressiveness(self.choice, self.stream, start, stop), device=device)
        taus, gaps = torch.empty_like(margins), torch.empty_like(margins)
        norms = self.norms(triplets, start, stop)
        return Chunk(triplets, pairs_of(triplets, self.order, sizes), margins, C, norms, taus, gaps)

    def norms(self, triplets: Any, start: int, stop: int) -> Any:
        """What the sweep needs of the squared norms: (n_d, n_+, n_-) of each triplet."""
        return self.choice.measure.norms(self.stream.X, self.stream.triplets[start:stop], self.stream.factor)

    def learn(self, chunk: Chunk, edges: list[int], averages: list[Averages], after: Callable[[int], None]) -> None:
        """The blocks of a chunk, triplets edges[b] to edges[b + 1] each, with the averages due inside each of them.

        `after` is told the end of each block.
        """
        matrices = self.matrices
        for number, stop in enumerate(edges[1:]):
            block = self.prepared(chunk, number, edges)
            net = self.steps(chunk, block, self.values(chunk, block))
            if averages[number]:
                self.average(chunk, block, averages[number])
            self.move(chunk, block, net, matrices.shared, matrices.stack)
            after(stop)

    def average(self, chunk: Chunk, block: Block, averages: Averages) -> None:
        """Averages taken inside a block, which are sums of the same pairs (theory 15 V); before the matrices move.

        The k-th one, with rate r_k after the first e_k triplets, has the weight b_k = r_k prod_{l > k} (1 - r_l) in the
        end, and its iterate lacks the steps from e_k on: the step of triplet t counts with the sum of b_k over e_k > t.
        """
        kept, counted = 1.0, np.zeros(block.part.stop - block.part.start)
        for end, rate in reversed(averages):
            counted[:end] += rate * kept
            kept *= 1.0 - rate
        shared, stack = self.matrices.averages()
        shared.lerp_(self.matrices.shared, 1.0 - kept)
        stack.lerp_(self.matrices.stack, 1.0 - kept)
        steps = chunk.taus[block.part] * torch.as_tensor(counted, device=self.X.device)
        self.move(chunk, block, self.net(chunk, block, steps), shared, stack)

    def results(self, chunk: Chunk) -> Callable[[], tuple[Array, Array]]:
        """What gives steps and gaps on the host, once they are there."""
        return lambda: (chunk.taus.cpu().numpy(), chunk.gaps.cpu().numpy())

    # -- a block -----------------------------------------------------------------------------------------------------

    def prepared(self, chunk: Chunk, number: int, edges: list[int]) -> Block:
        """What a block needs that does not depend on the matrices: its rows, and their Gram matrices."""
        pairs, part = chunk.pairs, slice(*edges[number : number + 2])
        here, runs = slice(*pairs.edges[number : number + 2]), slice(*pairs.run_edges[number : number + 2])
        left, right = self.factors(pairs.anchors[here], pairs.candidates[here])
        left_gram = left @ left.T
        right_gram = left_gram if right is left else right @ right.T
        members = pairs.members[part]
        return Block(number, left, right, left_gram, right_gram, pairs.slots[here], members, part, runs, here)

    def factors(self, anchors: Any, candidates: Any) -> tuple[Any, Any]:
        """Rows l_r and r_r with phi_r = l_r r_r^T (theory 0)."""
        factor = self.stream.factor
        if self.choice.measure.is_distance:
            rows = (self.X[anchors] - self.X[candidates]).mul_(factor)
            return rows, rows
        return self.X[anchors].mul_(factor), self.X[candidates].mul_(factor)

    def values(self, chunk: Chunk, block: Block) -> Any:
        """<M_c(r), phi_r> of each pair, float64."""
        lam, mu = self.choice.locality.lam, self.choice.locality.mu
        out = lam * _forms(block.left, self.matrices.shared, block.right)
        if mu:
            for slot, first, count in chunk.pairs.runs[block.runs].tolist():
                if slot >= 0:
                    part = slice(first, first + count)
                    out[part] += mu * _forms(block.left[part], self.matrices.stack[slot], block.right[part])
        return out

    def steps(self, chunk: Chunk, block: Block, values: Any) -> Any:
        """Fills steps and gaps of the block; returns the net step of each pair."""
        left, right = block.left_gram, block.right_gram
        n, part, choice = block.part.stop - block.part.start, block.part, self.choice
        taus, gaps, net = np.empty(n), np.empty(n), np.zeros(len(block))
        left_host = left.cpu().numpy()
        sweep(
            compiled.Triplets(
                block.members.cpu().numpy(), chunk.margins[part].cpu().numpy(), chunk.C[part].cpu().numpy(),
                chunk.norms[part],
            ),
            compiled.Pairs(
                left_host, left_host if right is left else right.cpu().numpy(), block.slots.cpu().numpy(),
                values.cpu().numpy(),
            ),
            choice.locality.kernel, choice.measure.sign, choice.step.rule, compiled.Out(taus, gaps, net),
        )  # fmt: skip
        chunk.taus[part] = torch.as_tensor(taus)
        chunk.gaps[part] = torch.as_tensor(gaps)
        return torch.as_tensor(net, dtype=self.X.dtype, device=left.device)

    def net(self, chunk: Chunk, block: Block, steps: Any) -> Any:
        """Net step of each pair: the steps of triplets that name it as positive, minus those that do as negative."""
        members, weights, n = block.members.cpu().numpy(), steps.cpu().numpy(), len(block)
        net = np.bincount(members[:, 0], weights, n) - np.bincount(members[:, 1], weights, n)
        return torch.as_tensor(net, dtype=self.X.dtype, device=self.X.device)

    def move(self, chunk: Chunk, block: Block, net: Any, shared: Any, stack: Any) -> None:
        """U and L_c take the net steps of their pairs."""
        lam, mu, sign = self.choice.locality.lam, self.choice.locality.mu, self.choice.measure.sign
        scaled = block.left * net[:, None]
        if lam:
            shared.addmm_(scaled.T, block.right, alpha=-sign * lam)
        if mu:
            for slot, first, count in chunk.pairs.runs[block.runs].tolist():
                if slot >= 0:
                    part = slice(first, first + count)
                    stack[slot].addmm_(scaled[part].T, block.right[part], alpha=-sign * mu)


def _forms(left: Any, matrix: Any, right: Any) -> Any:
    return (left @ matrix).mul_(right).sum(dim=1, dtype=torch.float64)


# Triplets that one program sweeps at a time, how many of them in registers, its warps. (All measured on an H200.)
PANEL, WIDTH, WARPS = 256, 32, 8
# Tile of pairs and triplets in which steps are spread to the values.
SPREAD_ROWS, SPREAD_DEPTH = 32, 128
# Tiles of the values, by the mean number of pairs of a class in a block: rows, depth.
HEIGHTS = ((20, 16, 32), (40, 32, 16), (1 << 60, 64, 16))
TILE, MOVE_DEPTH = 64, 16
# Groups that the moves of many classes are cut into, each of which has a part of what moves U.
GROUPS = 8
# With fewer classes than this share of the pairs, M_c is formed for each block, which saves the product with U.
FORMED = 0.02


@dataclass
class Grouped(Plain):
    """Triton kernels for all of it but the Gram matrices; float64 matrices take torch's products."""

    def __post_init__(self) -> None:
        from . import kernels

        choice, device = self.choice, self.X.device
        rule, locality = choice.step.rule, choice.locality
        self.kernels = kernels
        self.grouped = bool(locality.mu) and self.X.dtype == torch.float32
        numbers = [locality.kernel.lam2, locality.kernel.mu2, rule.first or 0.0, self.stream.factor]
        self.constants = torch.tensor(numbers, dtype=torch.float64, device=device)
        self.most = torch.cuda.get_device_properties(device).multi_processor_count
        self.planning = torch.cuda.Stream(device)
        self.planning.wait_stream(torch.cuda.current_stream(device))
        self.arrived, self.met = torch.zeros(1, dtype=torch.int32, device=device), 0
        self.kind = {steps.RAMP: 1, steps.RESCALED: 2, steps.LOGISTIC: 3}.get(rule.code, 0)

    @cached_property
    def corners(self) -> Any:
        """(row, column) of each tile of a matrix, of a symmetric one in the upper triangle."""
        starts = range(0, self.X.shape[1], TILE)
        tiles = [(a, b) for a in starts for b in starts if b >= a or not self.matrices.symmetric]
        return torch.tensor(tiles, dtype=torch.int32, device=self.X.device)

    @cached_property
    def parts(self) -> Any:
        """Where each group of runs puts its part of what moves U; what no tile covers stays 0."""
        d = self.X.shape[1]
        return torch.zeros((GROUPS, d, d), dtype=torch.float32, device=self.X.device)

    @cached_property
    def formed(self) -> Any:
        """Room for M_c of all slots, and lam U as that of pairs without a class."""
        d = self.X.shape[1]
        return torch.empty((self.matrices.n_slots + 1, d, d), dtype=torch.float32, device=self.X.device)

    def norms(self, triplets: Any, start: int, stop: int) -> Any:
        """N of each triplet."""
        out = torch.empty(len(triplets), dtype=torch.float64, device=triplets.device)
        d, width = self.X.shape[1], 1024
        self.kernels.squared_norms[(len(triplets),)](
            self.X, triplets, self.order.slots, out, d, self.constants, self.choice.measure.is_distance, width
        )
        return out

    def chunk(self, start: int, sizes: list[int]) -> Chunk:
        """Planned on a stream of its own, while the chunk before is still being learned."""
        with torch.cuda.stream(self.planning):
            chunk = super().chunk(start, sizes)
            chunk.slopes, chunk.caps = _linear(self.choice.step.rule, chunk.norms, chunk.C)
            chunk.tiling = _tiles(chunk.pairs) if self.grouped else None
        torch.cuda.current_stream(self.X.device).wait_stream(self.planning)
        return chunk

    def results(self, chunk: Chunk) -> Callable[[], tuple[Array, Array]]:
        taus, gaps = (out.to("cpu", non_blocking=True) for out in (chunk.taus, chunk.gaps))
        done = torch.cuda.current_stream(self.X.device).record_event()

        def get(chunk: Chunk = chunk) -> tuple[Array, Array]:  # holds the chunk's memory until all of it was used
            done.synchronize()
            return taus.numpy(), gaps.numpy()

        return get

    def factors(self, anchors: Any, candidates: Any) -> tuple[Any, Any]:
        if self.choice.measure.is_distance:
            rows = self._gathered(anchors, candidates, True)
            return rows, rows
        return self._gathered(anchors, anchors, False), self._gathered(candidates, candidates, False)

    def _gathered(self, first: Any, second: Any, difference: bool) -> Any:
        n, d = len(first), self.X.shape[1]
        out = torch.empty((n, d), dtype=self.X.dtype, device=self.X.device)
        width = 1024
        self.kernels.gather_rows[(n, -(-d // width))](self.X, first, second, out, d, self.constants, difference, width)
        return out

    def values(self, chunk: Chunk, block: Block) -> Any:
        if not self.grouped:
            return super().values(chunk, block)
        lam, mu, n_slots = self.choice.locality.lam, self.choice.locality.mu, self.matrices.n_slots
        if n_slots <= FORMED * len(block):
            self.kernels.form[(len(self.corners), n_slots + 1)](
                self.matrices.shared, self.matrices.stack, self.formed, self.corners, self.X.shape[1], n_slots, lam, mu,
                TILE,
            )  # fmt: skip
            return self._tiled_values(chunk, block, self.formed, n_slots)
        local = mu * self._tiled_values(chunk, block, self.matrices.stack, -1)
        return local + lam * _forms(block.left, self._whole_shared(), block.right) if lam else local

    def _whole_shared(self) -> Any:
        """U, both triangles."""
        upper = self.matrices.shared
        return upper.triu() + upper.triu(1).T if self.matrices.stale else upper

    def _tiled_values(self, chunk: Chunk, block: Block, stack: Any, free: int) -> Any:
        (all_tiles, edges, height, depth), d = chunk.tiling, self.X.shape[1]
        tiles = all_tiles[slice(*edges[block.number : block.number + 2])]
        n_columns = -(-d // TILE)
        out = torch.empty((len(block), -(-n_columns // 2)), dtype=torch.float64, device=self.X.device)
        self.kernels.pair_values[(len(tiles), out.shape[1])](
            block.left, block.right, stack, tiles, out, d, n_columns, free, self.matrices.symmetric, height, TILE,
            depth, _products(), num_warps=4, num_stages=3,
        )  # fmt: skip
        return out.sum(dim=1)

    def steps(self, chunk: Chunk, block: Block, values: Any) -> Any:
        left, right = block.left_gram, block.right_gram
        part, n, n_pairs, sign = block.part, block.part.stop - block.part.start, len(block), self.choice.measure.sign
        taus, gaps, device = chunk.taus[part], chunk.gaps[part], self.X.device
        n_panels, per_panel = -(-n // PANEL), PANEL // 32
        products = torch.empty((n_panels * PANEL, PANEL), dtype=torch.float64, device=device)
        same, constants = right is left, self.constants
        self.kernels.panel_products[(n_panels, per_panel, per_panel)](
            left, right, block.members, block.slots, products, n_pairs, n, constants, same, PANEL, 32
        )
        programs = min(-(-n_pairs // SPREAD_ROWS), self.most)
        self.kernels.sweep[(programs,)](
            products, values, left, right, block.members, block.slots, chunk.margins[part], chunk.slopes[part],
            chunk.caps[part], chunk.norms[part], taus, gaps, self.arrived, self.met, n, n_pairs, sign, constants,
            self.kind, same, PANEL, WIDTH, SPREAD_ROWS, SPREAD_DEPTH, num_warps=WARPS,
        )  # fmt: skip
        self.met += 2 * programs * (n_panels - 1)
        return self.net(chunk, block, taus)

    def net(self, chunk: Chunk, block: Block, steps: Any) -> Any:
        n_pairs, device = len(block), self.X.device
        net = torch.empty(n_pairs, dtype=self.X.dtype, device=device)
        edges = chunk.pairs.use_edges[block.pairs.start : block.pairs.stop + 1]
        self.kernels.net_steps[(-(-n_pairs // 64),)](steps, chunk.pairs.uses, edges, net, n_pairs, block.part.start, 64)
        return net

    def move(self, chunk: Chunk, block: Block, net: Any, shared: Any, stack: Any) -> None:
        if not self.grouped:
            super().move(chunk, block, net, shared, stack)
            return
        lam, mu, sign = self.choice.locality.lam, self.choice.locality.mu, self.choice.measure.sign
        runs, parts = chunk.pairs.runs[block.runs], self.parts
        scaled = block.left * net[:, None]
        self.kernels.move[(len(self.corners), GROUPS)](
            scaled, block.right, stack, parts, runs, self.corners, self.X.shape[1], len(runs),
            -(-len(runs) // GROUPS), sign * mu, TILE, TILE, MOVE_DEPTH, _products(), num_warps=4, num_stages=3,
        )  # fmt: skip
        if lam:
            shared.sub_(parts.sum(dim=0), alpha=sign * lam)
        self.matrices.stale = self.matrices.symmetric


def _products() -> str:
    """How Triton multiplies float32."""
    return "tf32" if tf32_allowed() else "ieee"


def _linear(rule: Any, norms: Any, C: Any) -> tuple[Any, Any]:
    """Slope and cap of each triplet's step, min(cap, gap slope) for most rules (theory 1); 0 where no step is taken."""
    slope, cap = 1.0 / norms, C
    if rule.code == steps.PA2:
        slope = 1.0 / (norms + 0.5 / C)
    if rule.code == steps.SMOOTH:
        slope = 1.0 / (norms + rule.first / C)
    if rule.code in (steps.PA, steps.PA2):
        cap = torch.full_like(C, torch.inf)
    if rule.code == steps.RESCALED:
        cap = C * rule.first * rule.second
    alive = (norms > 0.0) & (C > 0.0)
    return torch.where(alive, slope, 0.0), torch.where(alive, cap, 0.0)


def _tiles(pairs: Pairs) -> tuple[Any, list[int], int, int]:
    """Runs cut into tiles (slot, first, count) of a height that suits them, those of each block, height and depth."""
    mean = len(pairs.slots) / len(pairs.runs)
    height, depth = next((height, depth) for most, height, depth in HEIGHTS if mean <= most)
    slot, first, count = pairs.runs.unbind(1)
    cut = (count + height - 1) // height
    ends = cut.cumsum(0)
    edges = torch.cat([ends.new_zeros(1), ends])[pairs.run_edges].tolist()
    run = torch.repeat_interleave(torch.arange(len(cut), device=cut.device), cut, output_size=edges[-1])
    done = (torch.arange(edges[-1], device=cut.device) - (ends - cut)[run]) * height
    tiles = torch.stack([slot[run], first[run] + done, (count[run] - done).clamp(max=height)], dim=1)
    return tiles.to(torch.int32).contiguous(), edges, height, depth


def way_of(choice: Choice, matrices: DeviceMatrices, stream: Stream, X: Any, slots: Array) -> Plain:
    """How this stream is learned on the device of X; `slots` of each row's class."""
    kind = Grouped if X.device.type == "cuda" and has_triton() else Plain
    return kind(choice, matrices, stream, X, Order.of(slots, X.device))
