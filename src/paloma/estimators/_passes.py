"""How a learner passes over data: scale, triplets from labels, epochs, the memory of a stream.

`paloma.estimators.base.Learner` is the public half; a model (`_model.py`) is what the passes change.
"""

from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .. import _validation as check
from .._locality import FREE, Labels
from .._parts import Parts, Stream, Tally
from .._progress import progress
from .._representation import SHARED
from ..triplets import Mined, Reservoir, mine
from ._input import Checked
from ._model import Model
from ._pairs import middle, pair_stream, start_values
from ._parameters import Parameters
from ._scoring import Scoring

Array = NDArray[Any]


def labelled_rows(X: Any, codes: Array) -> tuple[Any, Array]:
    """Rows that have a class, and their codes; X itself where all have."""
    known = codes >= 0
    return (X, codes) if known.all() else (X[known], codes[known])


class Passes(Scoring, Parameters):
    """What `fit` and `partial_fit` are made of."""

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)))

    def _labelled(self, y: Array) -> Array:
        return y if self.unlabeled is None else y[y != self.unlabeled]

    def _codes(self, labels: Labels, y: Any) -> Any:
        """Class codes of labels, FREE for the unlabelled; None without labels."""
        if y is None:
            return None
        codes = labels.codes(y)
        return codes if self.unlabeled is None else np.where(y != self.unlabeled, codes, FREE).astype(np.int32)

    def _begin(
        self, X: Any, labels: Labels, rng: np.random.Generator, triplets: Array | None, whole: bool = False
    ) -> None:
        """A new model; `whole`: X holds all rows that learning will see for now."""
        scale = self._scale_of(X, triplets)
        window = self.memory == "window" or (self.memory == "auto" and self.forget > 0)
        model = self._new_model(labels, rng, Reservoir(self.reservoir_size, window), scale)
        model.whole, model.sparse = whole, sp.issparse(X)
        self._model = model.begin(partial(self._start, X.shape[1], X.dtype), X, triplets)

    def _scale_of(self, X: Any, triplets: Array | None) -> float | None:
        if self.scale is None:
            return 1.0
        if triplets is None or not len(triplets):
            return None
        scale = self._measure.scale(X, triplets)
        check.check_magnitude(self, X, 1.0 / scale)
        return scale

    def _freeze_scale(self, X: Any, triplets: Array) -> None:
        """Learn the scale when the first triplets form; the model has not moved before."""
        model = self._model
        if model.scale is None and len(triplets):
            model.scale = self._scale_of(X, triplets)
            model.begin(partial(self._start, X.shape[1], X.dtype), X, triplets)

    def _stream(self, data: Checked, X: Any, codes: Any, given: Array) -> Stream:
        """Triplets, or pairs as triplets, ready to be learnt; the first pairs fix the threshold."""
        model = self._model
        if data.pairs is None or data.targets is None:
            return Stream(X, given, codes, model.factor, data.weight)
        threshold = self._threshold(X, codes, data.pairs, data.targets)
        return pair_stream(self._measure, X, codes, data.pairs, data.targets, threshold, model.factor, data.weight)

    def _threshold(self, X: Any, codes: Any, pairs: Array, targets: Array) -> float:
        """b: as given, or found from the first pairs and then kept."""
        model = self._model
        if self.pair_threshold != "auto":
            return float(self.pair_threshold)
        if model.threshold is None and len(pairs):
            start = None if isinstance(self.init, str) else self._start(X.shape[1], X.dtype, 1.0)
            values = model.factor**2 * start_values(self._measure, X, pairs, start)
            free = np.full(len(pairs), FREE) if codes is None else codes[pairs[:, 1]]
            values *= np.where(free >= 0, 1.0, self._locality().lam)
            model.threshold = middle(self._measure, values, targets, self.margin)
        return model.threshold or 0.0

    def _pass(
        self, parts: Parts, stream: Stream, averaging: bool, advance: Any = None, *, first: bool = True,
        quiet: Array | None = None,
    ) -> Tally:  # fmt: skip
        """One pass over a stream; triplets met for the first time enter the drift signals (`quiet`: see `Drift`)."""
        model = self._model
        if not first or stream.codes is None:
            return model.learn(parts, stream, averaging, self.block_size, advance)
        stream.gaps = np.full(len(stream.triplets), np.nan)
        tally = model.learn(parts, stream, averaging, self.block_size, advance)
        model.drift.add(stream.codes[stream.triplets[:, 1]], stream.gaps, parts.margin, quiet)
        stream.gaps = None
        return tally

    def _mine(self, X: Any, codes: Any, anchors: Array | None = None) -> Mined:
        """Triplets from labels; rows without a label take no part."""
        settings = (self.n_targets, self.n_impostors, self.impostor_margin)
        known = np.flatnonzero(codes >= 0)
        if len(known) == len(codes):
            return mine(X, codes, *settings, anchors)
        mined = mine(X[known], codes[known], *settings, None if anchors is None else np.searchsorted(known, anchors))
        mined.triplets = known[mined.triplets]
        return mined

    def _averaging(self, *, given: bool, passes: int) -> bool:
        return bool(self.average) if self.average != "auto" else not (given and passes == 1)

    def _epochs(self, parts: Parts, stream: Stream, mined: Mined | None, averaging: bool) -> None:
        """n_epochs passes: mined triplets in a new order each time, given ones in their own."""
        held, anchors = None, None
        if self.early_stopping and len(np.unique(stream.triplets[:, 0])) > 1:
            anchors = self._training_anchors(np.unique(stream.triplets[:, 0]))
            held, mined, stream = self._hold_out(stream, mined, anchors)
        best = -np.inf
        title = f"{check.name_of(self)}, {len(stream.triplets):,} triplets"
        if mined is not None:
            title += f", {mined.n_alone + mined.n_unopposed:,} of {mined.n_anchors:,} anchors have none"
        with progress(title, self.n_epochs * len(stream.triplets), self.verbose > 0) as advance:
            for epoch in range(self.n_epochs):
                if mined is not None:
                    if self.remine and epoch:
                        mined = self._mine(self._remining_rows(stream.X), stream.codes, anchors)
                    stream.triplets = self._drawn(mined, stream.codes)
                tally = self._pass(
                    parts, stream, averaging, lambda n, loss: advance(n, f"loss {loss:.3f}"), first=epoch == 0,
                    quiet=None if mined is None else self._quiet(mined, stream.codes, anchors),
                )  # fmt: skip
                self.loss_ = tally.loss / max(tally.triplets, 1)
                self.n_iter_ = epoch + 1
                if held is not None:
                    score = self._held_out_score(stream, held)
                    if score <= best:
                        break
                    best = score

    def _training_anchors(self, anchors: Array) -> Array:
        """The anchors that are learnt from; a random part is kept back for early stopping."""
        n_held = min(int(np.ceil(self.validation_fraction * len(anchors))), len(anchors) - 1)
        return np.sort(self._model.rng.permutation(anchors)[n_held:])

    def _hold_out(self, stream: Stream, mined: Mined | None, kept: Array) -> tuple[Array, Mined | None, Stream]:
        """Split triplets by their anchors."""
        train = np.isin(stream.triplets[:, 0], kept)
        held = stream.triplets[~train]
        if mined is not None:
            mined = Mined(stream.triplets[train], mined.n_anchors, mined.n_alone, mined.n_unopposed)
        weight = None if stream.weight is None else stream.weight[train]
        return held, mined, Stream(stream.X, stream.triplets[train], stream.codes, stream.factor, weight)

    def _drawn(self, mined: Mined, codes: Array | None) -> Array:
        """Mined triplets in random order; balanced: as many anchors, drawn evenly across classes."""
        return mined.shuffled(self._model.rng, codes if self.balanced else None)

    def _quiet(self, mined: Mined, codes: Any, anchors: Array | None) -> Array:
        """For each class code, how many triplets its anchors (default: all rows) might have formed and did not."""
        classes = codes if anchors is None else codes[anchors]
        n_anchors = np.bincount(classes[classes >= 0])
        formed = np.bincount(codes[mined.triplets[:, 0]], minlength=len(n_anchors))
        return np.maximum(n_anchors * self.n_targets * self.n_impostors - formed, 0)

    def _learn_rows(self, parts: Parts, rows: Any, codes: Array) -> Tally:
        """One pass over labelled rows: triplets inside the batch and with the reservoir, then into the reservoir."""
        model = self._model
        X, codes = labelled_rows(rows, codes)
        old, old_codes = model.reservoir.sample(X)
        pool = sp.vstack([old, X], "csr") if sp.issparse(X) else np.concatenate([old, X])
        pool_codes = np.concatenate([old_codes, codes])
        tally = Tally()
        if len(codes) and (pool_codes != pool_codes[0]).any():
            anchors = np.arange(len(old_codes), len(pool_codes))
            mined = self._mine(pool, pool_codes, anchors)
            self._freeze_scale(pool, mined.triplets)
            model.from_labels = True
            triplets = self._drawn(mined, pool_codes)
            averaging = self._averaging(given=False, passes=1)
            stream, quiet = Stream(pool, triplets, pool_codes, model.factor), self._quiet(mined, pool_codes, anchors)
            tally = self._pass(parts, stream, averaging, quiet=quiet)
        model.reservoir.add(X, codes, model.rng)
        return tally

    def _remember(self, X: Any, codes: Array) -> None:
        """Offer labelled rows to the reservoir."""
        self._model.reservoir.add(*labelled_rows(X, codes), self._model.rng)

    def _places(self, X: Any, codes: Any) -> Any:
        """Where rows stand for the locality: the codes of their classes."""
        return codes

    def _widen(self, d: int) -> None:
        """More features: 0 in every row so far, so that the metric is the identity there."""
        if not isinstance(self.init, str):
            raise ValueError(f"{check.name_of(self)} takes new features only with init='identity'.")
        self._model.widen(d)
        self.n_features_in_ = d

    def _local_order(self) -> Array:
        """Class codes in the order of `local_`: sorted labels."""
        return self._model.labels.order

    @abstractmethod
    def _check_held(self, d: int) -> None:
        """Check the parameters of the representation against the number of features."""

    @abstractmethod
    def _new_model(self, labels: Labels, rng: np.random.Generator, reservoir: Reservoir, scale: float | None) -> Model:
        """The representation axis: how the matrices are held."""

    @abstractmethod
    def _remining_rows(self, X: Array) -> Array:
        """X as the current shared metric sees it, for a Euclidean search."""

    def _held_out_score(self, stream: Stream, held: Array) -> float:
        """Fraction of held-out triplets ranked right by the current read-out."""
        codes = stream.codes
        candidates = np.full(held[:, 1:].shape, SHARED, np.int32) if codes is None else codes[held[:, 1:]]
        return self._ranked_right(stream.X, held, candidates)
