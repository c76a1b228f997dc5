"""The whole public protocol of a learner. A learner itself is a choice of parts (see distance.py and similarity.py)."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._learner import Parts, Stream, Tally
from .._locality import FREE, Labels, Locality
from .._measure import Measure
from .._progress import progress
from .._psd import Psd
from .._representation import Dense
from .._step import Step
from ..triplets import Mined, Reservoir, mine
from ._docs import COMMON
from ._model import Model
from ._scoring import Scoring

Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class Learner(Scoring, BaseEstimator):
    """Parameters, learning and learned attributes that every learner has; api in the classes that are exported."""

    C: float = 0.03
    step: str = "pa1"
    step_params: dict[str, float] | None = None
    margin: float = 1.0
    psd: str | int = "never"
    scale: str | None = "auto"
    average: bool | str = "auto"
    init: str | ArrayLike = "identity"
    unlabeled: Any = None
    n_targets: int = 3
    n_impostors: int = 10
    impostor_margin: float = 0.1
    n_epochs: int = 4
    remine: bool = False
    early_stopping: bool = False
    validation_fraction: float = 0.1
    reservoir_size: int = 64
    block_size: int | str = "auto"
    random_state: Any = None
    verbose: int = 0

    _measure: ClassVar[Measure]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__doc__:
            cls.__doc__ = cls.__doc__.replace("{common}", COMMON)

    # -- the parts -------------------------------------------------------------------------------------------

    @abstractmethod
    def _locality(self) -> Locality:
        """Which part of the model classes share."""

    def _parts(self) -> Parts:
        """The learner as a choice on each axis; checks every parameter."""
        check.check_real("C", self.C, 0.0, open_low=True)
        check.check_real("margin", self.margin, 0.0, np.finfo(np.float32).max, open_low=True)
        check.check_real("impostor_margin", self.impostor_margin, 0.0, np.finfo(np.float32).max)
        check.check_real("validation_fraction", self.validation_fraction, 0.0, 0.9, open_low=True)
        for name in ("n_targets", "n_impostors", "n_epochs", "reservoir_size"):
            check.check_count(name, getattr(self, name))
        check.check_word("scale", self.scale, ("auto", None))
        check.check_word("average", self.average, ("auto", True, False))
        if self.block_size != "auto":
            check.check_count("block_size", self.block_size)
        step = Step.parse(self.step, self.step_params)
        psd = Psd.parse(self.psd, self.step)
        if not self._measure.symmetric and psd.word not in ("never", "end"):
            raise ValueError(f"psd={self.psd!r} is for distances; a similarity takes 'never' or 'end' (spec E7).")
        return Parts(self._measure, self._locality(), step, psd, float(self.C), float(self.margin))

    def _start(self, d: int, dtype: Any, scale: float) -> Array:
        """Theta_0 in scaled units."""
        if isinstance(self.init, str):
            check.check_word("init", self.init, ("identity",))
            return np.eye(d, dtype=dtype)
        start = np.asarray(self.init, dtype)
        if start.shape != (d, d) or not np.isfinite(start).all():
            raise ValueError(f"init must be 'identity' or a finite ({d}, {d}) array, got shape {start.shape}.")
        if self._measure.symmetric and not np.allclose(start, start.T):
            raise ValueError("init must be symmetric for a distance.")
        return np.ascontiguousarray(start * dtype.type(scale * scale))

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
            X, y, triplets, weight = self._check_input(X, y, triplets, triplet_weight, reset=True)
            labels = Labels() if y is None else Labels().extended(self._labelled(y))
            if triplets is None and len(labels) < 2:
                raise ValueError(
                    f"{check.name_of(self)} learns from rows of at least 2 classes, got {len(labels)} class"
                    f"{'' if len(labels) == 1 else 'es'}."
                )
            codes = None if y is None else self._codes(labels, y)
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            rng = np.random.default_rng(seed)
            mined = self._mine(X, codes) if triplets is None else None
            first = mined.triplets if mined is not None else triplets
            self._begin(X, labels, rng, first)
            averaging = self._averaging(given=triplets is not None, passes=self.n_epochs)
            stream = Stream(X, first, codes, self._model.factor, weight)
            self._epochs(parts, stream, mined, averaging)
            if y is not None:
                rows = codes >= 0
                self._model.reservoir.add(X[rows] if not rows.all() else X, codes[rows], rng)
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
            X, y, triplets, weight = self._check_input(X, y, triplets, triplet_weight, reset=fresh)
            announced = None if classes is None else check.check_labels(self, classes, np.size(classes), "classes")
            labels = Labels() if fresh else self._model.labels
            for more in (announced, None if y is None else self._labelled(y)):
                labels = labels if more is None else labels.extended(more)
            if not fresh:
                X = X.astype(self._model.state.start.dtype, copy=False)
                check.check_magnitude(self, X, self._model.factor)
            if fresh:
                seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
                self._begin(X, labels, np.random.default_rng(seed), triplets)
            model = self._model
            codes = None if y is None else self._codes(labels, y)
            if triplets is None:
                tally = self._learn_rows(parts, X, codes)
            else:
                self._freeze_scale(X, triplets)
                averaging = self._averaging(given=True, passes=1)
                tally = model.learn(
                    parts, Stream(X, triplets, codes, model.factor, weight), averaging, self.block_size
                )
            model.labels = labels
            if tally.triplets:
                self.loss_ = tally.loss / tally.triplets
            self._publish()
        return self

    def _check_input(
        self, X: Any, y: Any, triplets: Any, weight: Any, *, reset: bool
    ) -> tuple[Array, Array | None, Array | None, Array | None]:
        """Rows, labels, triplets and weights, all checked against each other."""
        if X is None:
            if triplets is None:
                raise ValueError(f"{check.name_of(self)} needs X, or triplets as points (n, 3, d).")
            flat, triplets = check.check_points(self, triplets)
            X = check.check_rows(self, flat, reset=reset)
            y = None if y is None else np.asarray(y).reshape(-1)
        else:
            X = check.check_rows(self, X, reset=reset)
            if triplets is not None:
                triplets = check.check_triplets(self, triplets, len(X))
        if y is None and triplets is None:
            raise ValueError(
                f"{check.name_of(self)} requires y to be passed, but the target y is None. Give labels, or triplets."
            )
        if y is not None:
            y = check.check_labels(self, y, len(X))
        if weight is not None and triplets is None:
            raise ValueError(f"{check.name_of(self)}: triplet_weight goes with triplets; rows have no weights.")
        if triplets is not None:
            weight = check.check_weight(self, weight, len(triplets))
        self._start(X.shape[1], X.dtype, 1.0)
        if self.scale is None or X.dtype == np.float64:
            check.check_magnitude(self, X, 1.0)
        return X, y, triplets, weight

    def _labelled(self, y: Array) -> Array:
        return y if self.unlabeled is None else y[y != self.unlabeled]

    def _codes(self, labels: Labels, y: Array) -> Array:
        codes = labels.codes(y)
        return codes if self.unlabeled is None else np.where(y != self.unlabeled, codes, FREE).astype(np.int32)

    def _begin(self, X: Array, labels: Labels, rng: np.random.Generator, triplets: Array | None) -> None:
        scale = self._scale_of(X, triplets)
        start = self._start(X.shape[1], X.dtype, scale or 1.0)
        self._model = Model(Dense(start, self._measure.symmetric), labels, rng, Reservoir(self.reservoir_size), scale)

    def _scale_of(self, X: Array, triplets: Array | None) -> float | None:
        if self.scale is None:
            return 1.0
        if triplets is None or not len(triplets):
            return None
        scale = self._measure.scale(X, triplets)
        check.check_magnitude(self, X, 1.0 / scale)
        return scale

    def _freeze_scale(self, X: Array, triplets: Array) -> None:
        """Learn the scale when the first triplets form; the model has not moved before."""
        model = self._model
        if model.scale is None and len(triplets):
            model.scale = self._scale_of(X, triplets)
            start = self._start(X.shape[1], model.state.start.dtype, model.scale or 1.0)
            model.state = Dense(start, self._measure.symmetric)

    def _mine(self, X: Array, codes: Array, anchors: Array | None = None) -> Mined:
        """Triplets from labels; rows without a label take no part."""
        known = np.flatnonzero(codes >= 0)
        if len(known) == len(codes):
            mined = mine(X, codes, self.n_targets, self.n_impostors, self.impostor_margin, anchors)
        else:
            mined = mine(X[known], codes[known], self.n_targets, self.n_impostors, self.impostor_margin)
            mined.triplets = known[mined.triplets]
        return mined

    def _averaging(self, *, given: bool, passes: int) -> bool:
        return bool(self.average) if self.average != "auto" else not (given and passes == 1)

    def _epochs(self, parts: Parts, stream: Stream, mined: Mined | None, averaging: bool) -> None:
        """n_epochs passes: mined triplets in a new order each time, given ones in their own."""
        model, held = self._model, None
        if self.early_stopping:
            held, mined, stream = self._hold_out(stream, mined)
        best = -np.inf
        title = f"{check.name_of(self)}, {len(stream.triplets)} triplets"
        with progress(title, self.n_epochs * len(stream.triplets), self.verbose > 0) as advance:
            for epoch in range(self.n_epochs):
                if mined is not None:
                    if self.remine and epoch:
                        mined = self._mine(self._remining_rows(stream.X), stream.codes)
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

    def _hold_out(self, stream: Stream, mined: Mined | None) -> tuple[Array, Mined | None, Stream]:
        """Keep a random part of the anchors back for early stopping."""
        anchors = np.unique(stream.triplets[:, 0])
        n_held = int(np.ceil(self.validation_fraction * len(anchors)))
        kept = self._model.rng.permutation(anchors)[n_held:]
        train = np.isin(stream.triplets[:, 0], kept)
        held = stream.triplets[~train]
        if mined is not None:
            mined = Mined(stream.triplets[train], mined.n_anchors, mined.n_alone, mined.n_unopposed)
        weight = None if stream.weight is None else stream.weight[train]
        return held, mined, Stream(stream.X, stream.triplets[train], stream.codes, stream.factor, weight)

    def _learn_rows(self, parts: Parts, X: Array, codes: Array) -> Tally:
        """One pass over labelled rows: triplets inside the batch and with the reservoir, then into the reservoir."""
        model = self._model
        rows = codes >= 0
        if not rows.all():
            X, codes = X[rows], codes[rows]
        old, old_codes = model.reservoir.sample(X)
        pool, pool_codes = np.concatenate([old, X]), np.concatenate([old_codes, codes])
        tally = Tally()
        if len(X) and (pool_codes != pool_codes[0]).any():
            mined = self._mine(pool, pool_codes, np.arange(len(old), len(pool)))
            self._freeze_scale(pool, mined.triplets)
            triplets = mined.shuffled(model.rng)
            averaging = self._averaging(given=False, passes=1)
            tally = model.learn(
                parts, Stream(pool, triplets, pool_codes, model.factor), averaging, self.block_size
            )
        model.reservoir.add(X, codes, model.rng)
        return tally

    def _publish(self) -> None:
        model = self._model
        self.classes_ = model.labels.sorted.copy()
        self.scale_ = model.scale if model.scale is not None else 1.0
        self.n_triplets_, self.n_updates_ = model.seen, model.updates
        self.loss_ = getattr(self, "loss_", 0.0)

    # -- learned attributes ----------------------------------------------------------------------------------

    @property
    def shared_(self) -> Array:
        """U, the raw last iterate in scaled units: no projection, no averaging."""
        check_is_fitted(self)
        return self._model.state.shared

    @property
    def local_(self) -> Array:
        """(n_classes, d, d): L of classes_[k], the raw last iterates in scaled units; empty for a global learner."""
        check_is_fitted(self)
        state, labels = self._model.state, self._model.labels
        if not hasattr(self, "lam"):
            return np.empty((0, *state.start.shape), state.start.dtype)
        return np.array([state.local(int(code)) for code in labels.order]).reshape(-1, *state.start.shape)

    @abstractmethod
    def _remining_rows(self, X: Array) -> Array:
        """X as the current shared metric sees it, for a Euclidean search."""

    def _held_out_score(self, stream: Stream, held: Array) -> float:
        """Fraction of held-out triplets ranked right by the current read-out."""
        codes = stream.codes
        labels = None if codes is None else np.where(codes >= 0, codes, 0)
        labels = None if labels is None else self._model.labels.labels[labels]
        return self.triplet_score(stream.X, held, labels)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
