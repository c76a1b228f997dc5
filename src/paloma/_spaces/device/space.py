"""Dense matrices on a torch device: learned there, and brought to the host when something else is asked of them."""

from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, Self

import numpy as np

from ..._core.choice import Choice
from ..._core.loop import cuts, due
from ..._core.space import Beginning, Kept, Space
from ..._core.stream import AVERAGE_EVERY, Counts, Pass, Stream, Tally
from ..._device import precision, torch
from ..._progress import report
from ..._search.device import neighbors_by_class
from ..._typing import Array, Rows
from ..dense import Dense, DenseSpace
from ..dense.blocks import auto_blocks
from .blocks import PANEL, Grouped, way_of
from .matrices import DeviceMatrices
from .metric import DeviceMetric

# Triplets whose blocks are planned together, and after which the host looks at what came out.
CHUNK = 1 << 16
# Distinct pairs of a block on a GPU; twice as many from so many classes on, whose matrices cost more to touch.
GPU_PAIRS, MANY = 2048, 64
# Triplets that tell how many pairs a triplet brings.
HEAD = 1024


@dataclass
class DeviceSpace(Space):
    """A dense space whose matrices are learned on a device.

    dense : the same on the host; out of date while `ahead`. held : the matrices on the device, None if they are not.
    rows : the X that was last learned from, and its copy on the device.
    """

    dense: DenseSpace
    device: Any
    held: DeviceMatrices | None = None
    ahead: bool = False
    rows: tuple[Array, Any] | None = field(default=None, repr=False)

    @property
    def dtype(self) -> Any:
        return self.dense.dtype

    @property
    def factor(self) -> Any:
        return self.dense.factor

    # -- between host and device -----------------------------------------------------------------------------------

    def on_host(self) -> DenseSpace:
        """The space on the host, up to date."""
        if self.ahead and self.held is not None:
            self.dense.matrices, self.ahead = self.held.host(), False
        return self.dense

    def on_device(self) -> DeviceMatrices:
        """The matrices on the device, up to date."""
        if self.held is None:
            self.held = DeviceMatrices.of(self.dense.matrices, self.device)
        return self.held

    def _changed(self) -> DenseSpace:
        """The space on the host, about to change: the copy on the device is let go."""
        dense, self.held = self.on_host(), None
        return dense

    def _rows(self, X: Array) -> Any:
        """X on the device, sent once for all passes of a call."""
        if self.rows is None or self.rows[0] is not X:
            self.rows = (X, torch.tensor(X, device=self.device))
        return self.rows[1]

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, choice: Choice, stream: Stream, counts: Counts, how: Pass) -> Tally:
        """See `Space`. Out of memory, nothing has changed."""
        if not len(stream.triplets):
            return Tally()
        current = not self.ahead
        try:
            with precision():
                return self._learn(choice, stream, how)
        except torch.OutOfMemoryError:
            if current:
                self.held, self.ahead = None, False
            self.rows = None
            raise MemoryError(self._too_large(stream)) from None

    def _learn(self, choice: Choice, stream: Stream, how: Pass) -> Tally:
        seen, rate, X, matrices = how.seen, how.rate, self._rows(stream.X), self.on_device()
        n_before, slots = matrices.n_slots, self._slots(choice, stream)
        way, self.ahead = way_of(choice, matrices, stream, X, slots), True
        size = self._size(choice, stream, how.block, isinstance(way, Grouped))
        every = choice.psd.every  # averages are taken of what was projected: then blocks end where one is due
        rhythm = [every, AVERAGE_EVERY] if every and rate else [every] if every else []

        def in_rhythm(before: int, stop: int) -> None:
            if every and (before + stop) % every == 0:
                matrices.project()
            if every and rate and (before + stop) % AVERAGE_EVERY == 0:
                matrices.average(rate(before + stop))

        tally, moved, begin = Tally(), np.zeros(matrices.n_slots + 1, bool), perf_counter()

        def take_in(first: int, last: int, results: Any) -> None:
            nonlocal begin
            taus, gaps = results()
            moved[slots[stream.triplets[first:last, 1:][taus != 0]]] = True
            for out, found in ((stream.tau, taus), (stream.gaps, gaps)):
                if out is not None:
                    out[first:last] = found
            loss, updates = float(np.maximum(gaps, 0.0).sum()), int(np.count_nonzero(taus))
            tally.add(last - first, loss, updates)
            begin = report(last - first, loss, updates, begin)
            if how.advance:
                how.advance(last - first, loss / (last - first))

        waiting: list[tuple[int, int, Any]] = []
        for bounds in _chunks(list(cuts(len(stream.triplets), size, rhythm, seen))):
            first, last = bounds[0][0], bounds[-1][1]
            chunk = way.chunk(first, [stop - start for start, stop in bounds])
            inside = [due(rate, seen + a, seen + b) if rate and not every else [] for a, b in bounds]
            way.learn(chunk, [0, *(stop - first for _, stop in bounds)], inside, partial(in_rhythm, seen + first))
            waiting.append((first, last, way.results(chunk)))
            if len(waiting) > 1:
                take_in(*waiting.pop(0))
        take_in(*waiting[0])
        moved[:n_before] = True
        matrices.keep(np.flatnonzero(moved[: matrices.n_slots]))  # new classes that no step has moved have no matrix
        return tally

    def _too_large(self, stream: Stream) -> str:
        d = stream.X.shape[1]
        n_classes = 0 if stream.codes is None else int(stream.codes.max(initial=-1)) + 1
        matrices = (n_classes + 1) * d * d * stream.X.dtype.itemsize / 2**30
        return (
            f"{self.device} has no room left: U and the matrices of {n_classes} classes of {d} features take "
            f"{matrices:.1f} GiB, their averages as much again, and the rows {stream.X.nbytes / 2**30:.1f} GiB. Use "
            "float32, average=False, a smaller block_size, fewer features, or device=None."
        )

    def _slots(self, choice: Choice, stream: Stream) -> Array:
        """Slot of each row's class, -1 for none; every class of the stream gets one."""
        if stream.codes is None or not choice.locality.is_local:
            return np.full(stream.X.shape[0], -1, np.int32)
        matrices, present = self.on_device(), np.zeros(int(stream.codes.max(initial=-1)) + 2, bool)
        present[stream.codes[stream.triplets[:, 1:]]] = True
        matrices.allocate(np.flatnonzero(present[:-1]))
        return matrices.slots_of(stream.codes)

    def _size(self, choice: Choice, stream: Stream, block: int | str, grouped: bool) -> int:
        """Triplets of a block: so many that its pairs are a good number."""
        if block != "auto":
            return int(block)
        head = stream.triplets[:HEAD]
        pairs = np.unique(head[:, :1] * np.int64(len(stream.X)) + head[:, 1:]).size / len(head)
        if grouped:
            wanted = GPU_PAIRS if self.on_device().n_slots <= MANY else 2 * GPU_PAIRS
            return max(PANEL, int(wanted / pairs) // PANEL * PANEL)
        return max(1, int(auto_blocks(stream.X.shape[1], 1)[0] / pairs))

    # -- reading ---------------------------------------------------------------------------------------------------

    def readout(
        self, choice: Choice, counts: Counts, cone: str, blend: float, strength: tuple[float, float] = (1.0, 1.0)
    ) -> DeviceMetric:
        dense = self.on_host()
        return DeviceMetric(self.device, dense.matrices, choice.locality, cone, blend, dense.factor, strength)

    def last(self, choice: Choice, n_classes: int) -> Any:
        return self.on_host().last(choice, n_classes)

    def saved(self) -> dict[str, Any]:
        return self.on_host().saved()

    # -- what may happen to it ---------------------------------------------------------------------------------------

    def close(self) -> None:
        self.rows = None

    def adopt(self, blend: float) -> None:
        self._changed().adopt(blend)

    def drop(self, new_codes: Array) -> None:
        self._changed().drop(new_codes)

    def widened(self, d: int) -> "DeviceSpace":
        return DeviceSpace(self.on_host().widened(d), self.device)

    def fork(self, counts: Counts) -> Self:
        return replace(self, dense=self.on_host().fork(counts), held=None, ahead=False, rows=None)

    def mixed(self, forks: list[Self], weights: Array, counts: Counts) -> Self:
        dense = self.on_host().mixed([fork.on_host() for fork in forks], weights, counts)
        return replace(self, dense=dense, held=None, ahead=False, rows=None)

    def joined(self, fork: Self, choice: Choice, counts: Counts) -> Self:
        dense = self.on_host().joined(fork.on_host(), choice, counts)
        return replace(self, dense=dense, held=None, ahead=False, rows=None)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles and deep copies hold the matrices of the host alone."""
        self.on_host()
        return {**vars(self), "held": None, "ahead": False, "rows": None, "device": str(self.device)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({**state, "device": torch.device(state["device"])})


def _chunks(bounds: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Blocks in groups of about CHUNK triplets."""
    out: list[list[tuple[int, int]]] = []
    for start, stop in bounds:
        if not out or stop - out[-1][0][0] > CHUNK:
            out.append([])
        out[-1].append((start, stop))
    return out


@dataclass(frozen=True)
class OnDevice(Dense):
    """Dense matrices on a torch device, given by its name."""

    decays = False

    device: str = "cuda"

    @property
    def search(self) -> Any:
        return partial(neighbors_by_class, device=self.device)

    @property
    def cannot(self) -> dict[str, str]:
        return {"soft regions": "{who}: soft_regions=True is not available on a device; use device=None."}

    def adapted(self, who: str, choice: Choice) -> Choice:
        return on_device(who, choice)

    def check_magnitude(self, who: str, choice: Choice, X: Rows, factor: Any) -> None:
        _refuse_sparse(who, X)
        super().check_magnitude(who, choice, X, factor)

    def scale(self, who: str, choice: Choice, X: Rows, triplets: Array) -> Any:
        _refuse_sparse(who, X)
        return super().scale(who, choice, X, triplets)

    def begin(self, choice: Choice, at: Beginning) -> DeviceSpace:  # type: ignore[override]
        return DeviceSpace(super().begin(choice, at), torch.device(self.device))

    def restore(self, choice: Choice, state: dict[str, Any], kept: Kept) -> DeviceSpace:  # type: ignore[override]
        return DeviceSpace(super().restore(choice, state, kept), torch.device(self.device))


def on_device(who: str, choice: Choice) -> Choice:
    """The choice, if a device can learn it."""
    if choice.psd.sequential:
        raise ValueError(
            f"{who}: psd={choice.psd.word!r} solves an eigenproblem for each triplet and is not available on a "
            "device; use psd='end', a number of triplets, or device=None."
        )
    if choice.forget:
        raise ValueError(f"{who} cannot forget on a device and only supports forget=0 there; use device=None.")
    return choice


def _refuse_sparse(who: str, X: Rows) -> None:
    if not isinstance(X, np.ndarray):
        raise TypeError(f"{who}: a device takes dense rows; pass X.toarray(), or use device=None.")
