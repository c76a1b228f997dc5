"""What learning changes: the one object behind a fitted learner."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._core.locality import FREE, Labels
from .._core.regions import Regions
from .._core.space import Beginning, Kept, Space
from .._core.stream import Counts
from .._reading import Balance, Reader
from .._reading.whiteners import Whitened, Whitener, on_whitened, whitened
from .._typing import Array, Rows
from .drift import Drift
from .reservoir import Reservoir
from .settings import Settings


@dataclass
class Model:
    """A space, and what is known beside it: classes, scale, randomness, memory, counters.

    whole : `fit` made it, from all rows at once. sparse : rows are CSR. from_labels : labels have formed triplets.
    whitener : what rows are multiplied by before they are learned; None: nothing (theory 21).
    strength : (s, t), how far the read-out follows what was learned (theory 22).
    judged, evidence : of a stream, how many rows were judged before they were learned, and the moments of their scores.
    threshold : of pairs, once some were learned. metric, balance : caches, empty as soon as learning goes on.
    """

    labels: Labels
    rng: np.random.Generator
    reservoir: Reservoir
    scale: Any
    whole: bool
    sparse: bool
    space: Space = None  # type: ignore[assignment]
    counts: Counts = field(default_factory=Counts)
    whitener: Whitener | None = None
    strength: tuple[float, float] = (1.0, 1.0)
    judged: int = 0
    evidence: Array | None = None
    from_labels: bool = False
    threshold: float | None = None
    regions: Regions | None = None
    drift: Drift = field(default_factory=Drift)
    metric: Any = field(default=None, repr=False)
    balance: Balance | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.know(self.labels)

    @contextmanager
    def unchanged_on_error(self) -> Iterator[None]:
        """Undo what a refused call did before it began to learn: scale, regions, randomness."""
        before, state = dict(vars(self)), self.rng.bit_generator.state
        before["regions"] = None if self.regions is None else self.regions.fork()
        try:
            yield
        except BaseException:
            vars(self).update(before)
            self.rng.bit_generator.state = state
            raise

    def begin(self, settings: Settings, X: Rows, triplets: Array | None, n_triplets: int | None = None) -> None:
        """Theta at its start, as whitened rows see it; n_triplets : how many there will be, if these are not all."""
        n = n_triplets or (0 if triplets is None else len(triplets))
        at = Beginning(X, triplets, n, self.scale, len(self.labels), self.rng, self.whole)
        self.space = on_whitened(settings.space, self.whitener, X.shape[1]).begin(settings.choice, at)

    def freeze(self, settings: Settings, X: Rows, triplets: Array, whitener: Whitener | None) -> None:
        """Once the first triplets form, fix the whitener and, from rows that it whitened, the scale; then begin."""
        if self.scale is None and len(triplets):
            inside = whitened(X, whitener)
            self.whitener, self.scale = whitener, settings.scaling.scale(inside, triplets)
            self.begin(settings, inside, triplets)

    def know(self, labels: Labels) -> None:
        """Take in more classes."""
        self.labels, self.counts.n_classes = labels, len(labels)

    def places(self, X: Rows, codes: Any) -> Any:
        """Where rows stand for the locality: the codes of their classes, or their regions."""
        return codes if self.regions is None else self.regions.places(X)

    def readout(self, settings: Settings) -> Any:
        """The metric in the units of X."""
        return self._read(settings)[1]

    def inside(self, settings: Settings) -> Any:
        """The metric of whitened rows."""
        return self._read(settings)[0]

    def _read(self, settings: Settings) -> tuple[Any, Any]:
        """Both, kept until learning goes on or another read-out is asked for."""
        choice, averaged = settings.choice, settings.averaging is not False
        key = (choice.psd, choice.locality, averaged, settings.project)
        if self.metric is None or self.metric[0] != key:
            made = self.space.readout(choice, self.counts, self.cone(settings), self.blend(settings), self.strength)
            self.metric = (key, (made, made if self.whitener is None else Whitened(made, self.whitener)))
        return self.metric[1]

    def blend(self, settings: Settings) -> float:
        """How far the averaged iterates are moved toward the last ones in a read-out."""
        return self.counts.blend() if settings.averaging is not False and self.counts.n_means else 1.0

    def cone(self, settings: Settings) -> str:
        """What the read-out makes p.s.d.: the paper's components, or the metrics themselves."""
        if settings.choice.psd.word not in self.space.at_readout:
            return ""
        if settings.project != "auto":
            return settings.project
        return "effective" if self.from_labels else "components"

    def token(self, settings: Settings) -> str:
        """A digest of everything that the read-out depends on."""
        choice, regions = settings.choice, None if self.regions is None else self.regions.n_regions
        how = (choice.psd.word, choice.locality.lam, settings.averaging is not False, self.cone(settings), regions)
        digest = hashlib.sha256()
        _feed(digest, (how, self.counts.seen, self.counts.n_means, self.strength, self.labels.labels.tolist()))
        _feed(
            digest,
            {
                "scale": np.ravel(1.0 if self.scale is None else self.scale),
                "whitener": None if self.whitener is None else self.whitener.parts(),
                "space": self.space.saved(),
            },
        )
        return digest.hexdigest()[:16]

    def reader(self, settings: Settings, owner: Any) -> Reader:
        """What reads this model as it is now; `owner` is the estimator, which checks rows."""
        return Reader(
            owner, settings.choice.measure, self.labels, self.regions, settings.unlabeled, self.space.dtype,
            self.reservoir.sample, lambda: self.readout(settings), lambda rows: self._refuse_huge(settings, rows),
            getattr(self.space, "training", None),
        )  # fmt: skip

    def _refuse_huge(self, settings: Settings, rows: Rows) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            inside = whitened(rows, self.whitener)
        settings.space.check_magnitude(settings.who, settings.choice, inside, self.space.factor)

    def drop_classes(self, codes: Array) -> None:
        """Forget these class codes; the others are renumbered, in the same order."""
        kept = np.setdiff1d(np.arange(len(self.labels)), codes)
        new_codes = np.full(len(self.labels), FREE, np.int32)
        new_codes[kept] = np.arange(len(kept))
        if self.regions is None:
            self.space.drop(new_codes)
        self.know(Labels(self.labels.labels[kept]))
        self.reservoir.drop(new_codes)
        self.drift.drop(new_codes)
        self.metric = self.balance = None

    def moved(self, settings: Settings, d: int) -> "Model":
        """The same model of d features as another representation, such as one on a device, holds it."""
        representation = on_whitened(settings.space, self.whitener, d)
        space = representation.restore(settings.choice, self.space.saved(), Kept(d, self.space.dtype, self.scale))
        return replace(self, space=space, metric=None, balance=None)

    def widened(self, d: int) -> "Model":
        """The same with more features: 0 in every row so far, so that the metric is the identity there."""
        if self.regions is not None:
            raise ValueError("A learner with regions has a fixed number of features.")
        out = copy(self)
        out.space, out.reservoir = self.space.widened(d), copy(self.reservoir)
        out.reservoir.widen(d)
        out.whitener = None if self.whitener is None else self.whitener.widened(d)
        out.metric = out.balance = None
        return out


def _feed(digest: Any, state: Any) -> None:
    """Add a state, as `Space.saved` gives it, to a digest."""
    if isinstance(state, dict):
        for name in sorted(state):
            digest.update(name.encode())
            _feed(digest, state[name])
    elif isinstance(state, list | tuple):
        for part in state:
            _feed(digest, part)
    elif sp.issparse(state):
        rows = sp.csr_matrix(state, copy=True)
        rows.sum_duplicates()
        _feed(digest, (*rows.shape, rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)))
    elif isinstance(state, np.ndarray) and state.dtype != object:
        digest.update(repr((state.dtype.str, state.shape)).encode())
        digest.update(np.ascontiguousarray(state).data)
    else:
        digest.update(repr(state.item() if isinstance(state, np.generic) else state).encode())
