"""The whole public protocol of a learner. A learner itself is a choice of parts (see distance.py and similarity.py)."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._locality import FREE, Labels
from ._input import checked
from ._passes import Passes

Array = NDArray[Any]


class Learner(Passes):
    """Learning, and learned attributes; what reads a model is in `Scoring`."""

    # -- learning --------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None = None,
        *,
        triplets: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_targets: ArrayLike | None = None,
        triplet_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from labels, from triplets, or from pairs, forgetting what was learnt before.

        Parameters
        ----------
        X : (n, d) rows, or None when `triplets` or `pairs` hold points.
        y : (n,) labels. Without triplets they give them (target neighbours times impostors); with triplets they give
            the classes of the positive and the negative row, and without y triplets are class-free.
        triplets : (m, 3) row numbers (anchor, positive, negative), learnt in this order once an epoch; or, with X None,
            points (m, 3, d), with y of shape (m, 3) if they have classes.
        pairs : (m, 2) row numbers, learnt in this order once an epoch; or, with X None, points (m, 2, d), with y of
            shape (m, 2) if they have classes. The class of a pair is that of its second row.
        pair_targets : (m,) +1 for similar pairs, -1 for dissimilar ones.
        triplet_weight : (m,) multiplies C; only with triplets or pairs.
        """
        with check.unchanged_on_error(self):
            parts = self._parts()
            data = checked(self, X, y, triplets, pairs, pair_targets, triplet_weight, reset=True)
            if data.pairs is not None and self.early_stopping:
                raise ValueError(f"{check.name_of(self)}: early_stopping holds triplets back, it cannot hold pairs.")
            labels = Labels() if data.y is None else Labels().extended(self._labelled(data.y))
            if data.given is None and len(labels) < 2:
                raise ValueError(
                    f"{check.name_of(self)} learns from rows of at least 2 classes, got {len(labels)} class"
                    f"{'' if len(labels) == 1 else 'es'}."
                )
            codes = self._codes(labels, data.y)
            rng = self._generator()
            mined, first = None, data.given
            self.__dict__.pop("mined_", None)
            if first is None:
                mined = self._mine(self._mining_rows(data.X), codes)
                first = mined.triplets
                self.mined_ = mined.summary()
            self._begin(data.X, labels, rng, first, whole=True)
            self._model.from_labels = mined is not None
            averaging = self._averaging(given=mined is None, passes=self.n_epochs)
            self._epochs(parts, self._stream(data, data.X, codes, first), mined, averaging, codes)
            if codes is not None:
                self._remember(data.X, codes)
            self._publish()
        return self

    def partial_fit(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None = None,
        *,
        triplets: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_targets: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        triplet_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn in one pass from more rows, triplets or pairs, going on from where learning stopped.

        Labelled rows form triplets among themselves and with a bounded reservoir of earlier rows. A new class starts at
        the identity; `classes` may announce classes to come. Calls with and without labels may alternate.
        """
        fresh = not hasattr(self, "_model")
        with check.unchanged_on_error(self):
            parts = self._parts()
            data = checked(self, X, y, triplets, pairs, pair_targets, triplet_weight, reset=fresh)
            labels = Labels() if fresh else self._model.labels
            if classes is not None:
                announced = check.check_labels(self, classes, np.size(classes), "classes")
                labels = labels.extended(self._labelled(announced))
            if data.y is not None:
                labels = labels.extended(self._labelled(data.y))
            if fresh:
                self._begin(data.X, labels, self._generator(), data.given)
            model = self._model
            rows = check.of_kind(data.X.astype(model.dtype, copy=False), model.sparse)
            self._check_magnitude(rows, model.factor)
            codes = self._codes(labels, data.y)
            if model.regions is not None:
                model.regions.learn(rows, whole=False)
            if data.given is None:
                tally = self._learn_rows(parts, rows, codes)
            else:
                self._freeze_scale(rows, data.given)
                stream = self._stream(data, rows, codes, data.given)
                tally = self._pass(parts, stream, self._averaging(given=True, passes=1), codes=codes)
            model.labels = labels
            if tally.triplets:
                self.loss_ = tally.loss / tally.triplets
            self._publish()
        return self

    def transduce(self, X: ArrayLike, y: ArrayLike) -> Array:
        """y with labels for the rows marked `unlabeled` that their nearest labelled rows agree on; the rest stay.

        The gate is that of `semi_params`, under the metric as it is now.
        """
        rows = self._rows(X)
        labels = check.check_labels(self, y, rows.shape[0])
        codes = self._codes(self._model.labels, labels)
        places, rng = self._candidates(rows, labels, "rows of X"), np.random.default_rng(0)
        filled, _ = self._semi().accept(self._metric(), rows, codes, places, rng)
        found = (filled >= 0) & (labels == self.unlabeled)  # a class that the model has not met keeps its label
        return np.where(found, self._model.labels.labels[np.maximum(filled, 0)], labels) if found.any() else labels

    def forget_classes(self, labels: ArrayLike) -> Self:
        """Forget classes: their metrics, their rows in the reservoir, and that they were ever seen.

        What the shared part learnt from them stays. A class that comes back starts at the identity.
        """
        check_is_fitted(self)
        model = self._model
        codes = model.labels.codes(check.check_labels(self, labels, np.size(labels), "classes"))
        if (codes == FREE).any():
            unknown = np.ravel(labels)[codes == FREE].tolist()
            raise ValueError(f"{check.name_of(self)} cannot forget {unknown}: not among classes_ {self.classes_}.")
        with check.unchanged_on_error(self):
            model.drop_classes(codes)
            self._publish()
        return self

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
        state = self._model.raw()
        if not hasattr(self, "lam"):
            return np.empty((0, *state.start.shape), state.start.dtype)
        order = self._local_order()
        return np.array([state.local(int(code)) for code in order]).reshape(len(order), *state.start.shape)

    @property
    def recent_loss_(self) -> Array:
        """(n_classes,) mean loss of the last thousand or so triplets of classes_[k], each before its own step."""
        check_is_fitted(self)
        return self._model.drift.recent(self._model.labels.order)

    @property
    def long_run_loss_(self) -> Array:
        """(n_classes,) mean loss of all triplets of classes_[k], each when it was first met."""
        check_is_fitted(self)
        return self._model.drift.long_run(self._model.labels.order)

    @property
    def drift_(self) -> Array:
        """(n_classes,) recent_loss_ / long_run_loss_: about 1 on a steady stream, more where a class has changed."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.recent_loss_ / self.long_run_loss_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._sparse
        return tags
