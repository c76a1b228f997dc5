"""How a learner passes over data: scale, triplets from labels, epochs, the memory of a stream.

`paloma.estimators.base.Learner` is the public half; a model (`_model.py`) is what the passes change.
"""

from abc import abstractmethod
from copy import copy
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
from .._regions import Regions
from .._representation import SHARED
from ..triplets import Mined, Near, Reservoir, evenly, near, neighbour_triplets
from ._input import Checked
from ._model import Model
from ._pairs import middle, pair_stream, start_values
from ._parameters import Parameters
from ._scoring import Scoring

Array = NDArray[Any]
# Class-free triplets are formed around at most so many rows without labels, drawn anew each time.
MAX_FREE_ANCHORS = 4000


def labelled_rows(X: Any, codes: Array) -> tuple[Any, Array]:
    """Rows that have a class, and their codes; X itself where all have."""
    known = codes >= 0
    return (X, codes) if known.all() else (X[known], codes[known])


def stacked(first: Any, second: Any) -> Any:
    """Rows of both, dense or CSR."""
    return sp.vstack([first, second], "csr") if sp.issparse(second) else np.concatenate([first, second])


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
        if getattr(self, "regions", None) is not None:
            model.regions = Regions(self.regions, self.soft_regions, int(rng.integers(2**31)))
            if whole:
                model.regions.learn(X, whole)
        self._model = model.begin(partial(self._start, X.shape[1], X.dtype), X, triplets)

    def _scale_of(self, X: Any, triplets: Array | None) -> float | None:
        if self.scale is None:
            return 1.0
        if triplets is None or not len(triplets):
            return None
        scale = self._measure.scale(X, triplets)
        check.check_magnitude(self, X, 1.0 / scale)
        check.check_units(self, scale, X.dtype)
        return scale

    def _check_magnitude(self, X: Any, factor: Any) -> None:
        check.check_magnitude(self, X, factor)

    def _freeze_scale(self, X: Any, triplets: Array) -> None:
        """Learn the scale when the first triplets form; the model has not moved before."""
        model = self._model
        if model.scale is None and len(triplets):
            model.scale = self._scale_of(X, triplets)
            model.begin(partial(self._start, X.shape[1], X.dtype), X, triplets)

    def _stream(self, data: Checked, X: Any, codes: Any, given: Array) -> Stream:
        """Triplets, or pairs as triplets, ready to be learnt; the first pairs fix the threshold."""
        model, codes = self._model, self._places(X, codes)
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
            plain = isinstance(self.init, str)
            start = None if plain else self._start(X.shape[1], X.dtype, 1.0)
            values = start_values(self._measure, X, pairs, start) * (model.factor**2 if plain else 1.0)
            soft = codes is not None and codes.ndim == 2
            free = np.full(len(pairs), FREE) if codes is None else codes[pairs[:, 1]]
            values *= 1.0 if soft else np.where(free >= 0, 1.0, self._locality().lam)
            model.threshold = middle(self._measure, values, targets, self.margin)
        return model.threshold or 0.0

    def _pass(
        self, parts: Parts, stream: Stream, averaging: bool, advance: Any = None, *, codes: Array | None = None,
        quiet: Array | None = None,
    ) -> Tally:  # fmt: skip
        """One pass over a stream; with class codes, triplets enter the drift signals (`quiet`: see `Drift`)."""
        model = self._model
        if codes is None:
            return model.learn(parts, stream, averaging, self.block_size, advance)
        stream.gaps = np.full(len(stream.triplets), np.nan)
        tally = model.learn(parts, stream, averaging, self.block_size, advance)
        rows = stream.triplets[:, 1] if stream.about is None else stream.about
        model.drift.add(codes[rows], stream.gaps, parts.margin, quiet)
        stream.gaps = None
        return tally

    def _mining_rows(self, X: Any) -> Any:
        """X as triplets are mined in it."""
        return X

    def _mine(self, X: Any, codes: Any, anchors: Array | None = None) -> Mined:
        """Triplets from labels; rows without a label take no part."""
        return self._near(X, codes, anchors).mined()

    def _near(self, X: Any, codes: Any, anchors: Array | None = None) -> Near:
        """Targets and impostors of the labelled rows, or of `anchors` among them."""
        settings = (self.n_targets, self.n_impostors, self.impostor_margin)
        known = np.flatnonzero(codes >= 0)
        if len(known) == len(codes):
            return near(X, codes, *settings, anchors)
        found = near(X[known], codes[known], *settings, None if anchors is None else np.searchsorted(known, anchors))
        return found.renumbered(known)

    def _averaging(self, *, given: bool, passes: int) -> bool:
        return bool(self.average) if self.average != "auto" else not (given and passes == 1)

    def _epochs(self, parts: Parts, stream: Stream, mined: Mined | None, averaging: bool, codes: Array | None) -> None:
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
                if mined is not None and codes is not None:
                    mined = self._next_triplets(parts, stream, mined, codes, anchors, epoch)
                tally = self._pass(
                    parts, stream, averaging, lambda n, loss: advance(n, f"loss {loss:.3f}"),
                    codes=None if epoch else codes,
                    quiet=None if epoch or mined is None else self._quiet(mined, codes, anchors),
                )  # fmt: skip
                self.loss_ = tally.loss / max(tally.triplets, 1)
                self.n_iter_ = epoch + 1
                if held is not None:
                    score = self._held_out_score(stream, held)
                    if score <= best:
                        break
                    best = score

    def _next_triplets(
        self, parts: Parts, stream: Stream, mined: Mined, codes: Array, anchors: Array | None, epoch: int
    ) -> Mined:
        """Put an epoch's triplets from labels, given and found, into the stream; class-free ones are learnt at once."""
        semi, again, confidence = self._semi(), self.remine and epoch > 0, None
        if epoch and (codes < 0).any():
            if semi.neighbours:
                self._learn_neighbours(parts, stream.X, np.flatnonzero(codes < 0))
            if semi.labels:
                places = self._places(stream.X, codes)
                filled, confidence = semi.accept(self._metric(), stream.X, codes, places, self._model.rng)
                if anchors is not None:
                    anchors = np.union1d(anchors, np.flatnonzero((codes < 0) & (filled >= 0)))
                codes, again = filled, True
                stream.codes = self._places(stream.X, codes)
        if again:
            mined = self._mine((self._remining_rows if self.remine else self._mining_rows)(stream.X), codes, anchors)
        stream.triplets = self._drawn(mined, codes)
        if confidence is not None:
            stream.weight = semi.weights(stream.triplets, confidence)
        return mined

    def _learn_neighbours(self, parts: Parts, X: Any, rows: Array) -> None:
        """A pass over class-free triplets of some rows without labels."""
        model = self._model
        anchors = model.rng.permutation(rows)[:MAX_FREE_ANCHORS]
        triplets = neighbour_triplets(X, np.sort(anchors), model.rng, self.n_targets)
        triplets = triplets[model.rng.permutation(len(triplets))]
        weight = np.full(len(triplets), self._semi().neighbour_weight)
        model.learn(parts, Stream(X, triplets, None, model.factor, weight), True, self.block_size)

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
        """Mined triplets in random order; balanced: as many anchors as there are, drawn evenly across classes."""
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
        X, labelled = labelled_rows(rows, codes)
        old, old_codes = model.reservoir.sample(X)
        pool, pool_codes, confidence = stacked(old, X), np.concatenate([old_codes, labelled]), None
        if (codes < 0).any() and model.seen:
            pool, pool_codes, confidence = self._with_unlabelled(parts, pool, pool_codes, rows[codes < 0])
        tally, anchors = Tally(), np.arange(len(old_codes), len(pool_codes))
        if self.balanced and len(old_codes):
            anchors = np.union1d(anchors, evenly(old_codes, len(anchors), model.rng))
        if len(anchors) and (pool_codes != pool_codes[0]).any():
            mined = self._mine(self._mining_rows(pool), pool_codes, anchors)
            self._freeze_scale(pool, mined.triplets)
            model.from_labels = True
            triplets = mined.shuffled(model.rng)
            averaging = self._averaging(given=False, passes=1)
            weight = None if confidence is None else self._semi().weights(triplets, confidence)
            stream = Stream(pool, triplets, self._places(pool, pool_codes), model.factor, weight)
            quiet = self._quiet(mined, pool_codes, anchors)
            tally = self._pass(parts, stream, averaging, codes=pool_codes, quiet=quiet)
        model.reservoir.add(X, labelled, model.rng)
        return tally

    def _with_unlabelled(self, parts: Parts, pool: Any, codes: Array, free: Any) -> tuple[Any, Array, Array | None]:
        """Rows without labels in a stream: those labelled with confidence join the pool, for this call only."""
        semi, known = self._semi(), len(codes)
        rows = stacked(pool, free)
        if semi.neighbours:
            self._learn_neighbours(parts, rows, np.arange(known, rows.shape[0]))
        if not semi.labels:
            return pool, codes, None
        codes = np.concatenate([codes, np.full(rows.shape[0] - known, FREE, np.int32)])
        codes, confidence = semi.accept(self._metric(), rows, codes, self._places(rows, codes), self._model.rng)
        kept = np.flatnonzero(codes >= 0)
        return rows[kept], codes[kept], confidence[kept]

    def _remember(self, X: Any, codes: Array) -> None:
        """Offer labelled rows to the reservoir."""
        self._model.reservoir.add(*labelled_rows(X, codes), self._model.rng)

    def _places(self, X: Any, codes: Any) -> Any:
        """Where rows stand for the locality: the codes of their classes, or their regions."""
        return codes if self._model.regions is None else self._model.regions.places(X)

    def _widen(self, d: int) -> None:
        """More features: 0 in every row so far, so that the metric is the identity there."""
        if not isinstance(self.init, str):
            raise ValueError(f"{check.name_of(self)} takes new features only with init='identity'.")
        model = copy(self._model)
        model.reservoir = copy(model.reservoir)
        model.widen(d)
        self._model, self.n_features_in_ = model, d

    def _local_order(self) -> Array:
        """Codes in the order of `local_`: sorted labels, or regions."""
        model = self._model
        return model.labels.order if model.regions is None else np.arange(model.regions.n_regions)

    def _check_more_rows(self, X: Any) -> None:
        """Check rows that learning goes on with, before anything changes."""

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
