"""The whole public protocol of a learner. A learner itself is a choice of parts (see distance.py and similarity.py)."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._locality import FREE, Labels
from .._parts import Parts, Stream, Tally
from .._progress import progress
from .._representation import SHARED
from ..triplets import Mined, Reservoir, mine
from ._model import Model
from ._parameters import Parameters
from ._scoring import Scoring

Array = NDArray[Any]


@dataclass
class Checked:
    """Input that passed every check."""

    X: Any
    y: Array | None
    triplets: Array | None
    weight: Array | None


def _labelled_rows(X: Any, codes: Array) -> tuple[Any, Array]:
    """Rows that have a class, and their codes; X itself where all have."""
    known = codes >= 0
    return (X, codes) if known.all() else (X[known], codes[known])


class Learner(Scoring, Parameters):
    """Learning, and learned attributes; what reads a model is in `Scoring`."""

    # -- learning --------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None = None,
        *,
        triplets: ArrayLike | None = None,
        triplet_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from labels, or from triplets, forgetting what was learnt before.

        Parameters
        ----------
        X : (n, d) rows, or None when `triplets` holds points.
        y : (n,) labels. Without triplets they give them (target neighbours times impostors); with triplets they give
            the classes of the positive and the negative row, and without y triplets are class-free.
        triplets : (m, 3) row numbers (anchor, positive, negative), learnt in this order once an epoch; or, with X None,
            points (m, 3, d), with y of shape (m, 3) if they have classes.
        triplet_weight : (m,) multiplies C; only with triplets.
        """
        with check.unchanged_on_error(self):
            parts = self._parts()
            data = self._checked(X, y, triplets, triplet_weight, reset=True)
            labels = Labels() if data.y is None else Labels().extended(self._labelled(data.y))
            if data.triplets is None and len(labels) < 2:
                raise ValueError(
                    f"{check.name_of(self)} learns from rows of at least 2 classes, got {len(labels)} class"
                    f"{'' if len(labels) == 1 else 'es'}."
                )
            codes = self._codes(labels, data.y)
            rng = self._generator()
            mined, first = None, data.triplets
            self.__dict__.pop("mined_", None)
            if first is None:
                mined = self._mine(data.X, codes)
                first = mined.triplets
                self.mined_ = mined.summary()
            self._begin(data.X, labels, rng, first, whole=True)
            self._model.from_labels = mined is not None
            averaging = self._averaging(given=mined is None, passes=self.n_epochs)
            self._epochs(parts, Stream(data.X, first, codes, self._model.factor, data.weight), mined, averaging)
            if codes is not None:
                self._model.reservoir.add(*_labelled_rows(data.X, codes), rng)
            self._publish()
        return self

    def partial_fit(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None = None,
        *,
        triplets: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        triplet_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn in one pass from more rows or triplets, going on from where learning stopped.

        Labelled rows form triplets among themselves and with a bounded reservoir of earlier rows. A new class starts at
        the identity; `classes` may announce classes to come.
        """
        fresh = not hasattr(self, "_model")
        with check.unchanged_on_error(self):
            parts = self._parts()
            data = self._checked(X, y, triplets, triplet_weight, reset=fresh)
            labels = Labels() if fresh else self._model.labels
            if classes is not None:
                announced = check.check_labels(self, classes, np.size(classes), "classes")
                labels = labels.extended(self._labelled(announced))
            if data.y is not None:
                labels = labels.extended(self._labelled(data.y))
            if fresh:
                self._begin(data.X, labels, self._generator(), data.triplets)
            model = self._model
            rows = check.of_kind(data.X.astype(model.dtype, copy=False), model.sparse)
            check.check_magnitude(self, rows, model.factor)
            codes = self._codes(labels, data.y)
            if data.triplets is None:
                tally = self._learn_rows(parts, *_labelled_rows(rows, codes))
            else:
                self._freeze_scale(rows, data.triplets)
                stream = Stream(rows, data.triplets, codes, model.factor, data.weight)
                tally = model.learn(parts, stream, self._averaging(given=True, passes=1), self.block_size)
            model.labels = labels
            if tally.triplets:
                self.loss_ = tally.loss / tally.triplets
            self._publish()
        return self

    def _checked(self, X: Any, y: Any, triplets: Any, weight: Any, *, reset: bool) -> Checked:
        """Rows, labels, triplets and weights, all checked against each other."""
        who = check.name_of(self)
        if X is None:
            if triplets is None:
                raise ValueError(f"{who} needs X, or triplets as points (n, 3, d).")
            X, triplets = check.check_points(self, triplets)
            y = None if y is None else np.asarray(y).reshape(-1)
        X = check.check_rows(self, X, reset=reset)
        if y is None and triplets is None:
            raise ValueError(f"{who} requires y to be passed, but the target y is None. Give labels, or triplets.")
        if y is not None:
            y = check.check_labels(self, y, X.shape[0])
        if triplets is not None:
            triplets = check.check_triplets(self, triplets, X.shape[0])
            weight = check.check_weight(self, weight, len(triplets))
        elif weight is not None:
            raise ValueError(f"{who}: triplet_weight goes with triplets; rows have no weights.")
        self._check_held(X.shape[1])
        if self.scale is None or X.dtype == np.float64:
            check.check_magnitude(self, X, 1.0)
        return Checked(X, y, triplets, weight)

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
        model = self._new_model(labels, rng, Reservoir(self.reservoir_size), scale)
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
        model, held, anchors = self._model, None, None
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
                    stream.triplets = mined.shuffled(model.rng)
                tally = model.learn(
                    parts, stream, averaging, self.block_size, lambda n, loss: advance(n, f"loss {loss:.3f}")
                )
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

    def _learn_rows(self, parts: Parts, X: Any, codes: Array) -> Tally:
        """One pass over labelled rows: triplets inside the batch and with the reservoir, then into the reservoir."""
        model = self._model
        old, old_codes = model.reservoir.sample(X)
        pool = sp.vstack([old, X], "csr") if sp.issparse(X) else np.concatenate([old, X])
        pool_codes = np.concatenate([old_codes, codes])
        tally = Tally()
        if len(codes) and (pool_codes != pool_codes[0]).any():
            mined = self._mine(pool, pool_codes, np.arange(len(old_codes), len(pool_codes)))
            self._freeze_scale(pool, mined.triplets)
            model.from_labels = True
            triplets = mined.shuffled(model.rng)
            averaging = self._averaging(given=False, passes=1)
            tally = model.learn(parts, Stream(pool, triplets, pool_codes, model.factor), averaging, self.block_size)
        model.reservoir.add(X, codes, model.rng)
        return tally

    def _publish(self) -> None:
        model = self._model
        model.close()
        self.classes_ = model.labels.sorted.copy()
        self.scale_ = model.scale if model.scale is not None else 1.0
        self.n_triplets_, self.n_updates_ = model.seen, model.updates
        self.loss_ = getattr(self, "loss_", 0.0)

    # -- learned attributes ----------------------------------------------------------------------------------

    @property
    def shared_(self) -> Array:
        """U, the raw last iterate in scaled units: no projection, no averaging."""
        check_is_fitted(self)
        return self._model.raw().shared.copy()

    @property
    def local_(self) -> Array:
        """(n_classes, d, d): L of classes_[k], the raw last iterates in scaled units; empty for a global learner."""
        check_is_fitted(self)
        state, labels = self._model.raw(), self._model.labels
        if not hasattr(self, "lam"):
            return np.empty((0, *state.start.shape), state.start.dtype)
        return np.array([state.local(int(code)) for code in labels.order]).reshape(-1, *state.start.shape)

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._sparse
        return tags
