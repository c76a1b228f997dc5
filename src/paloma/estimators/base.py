"""The whole public protocol of a learner: parameters, learning, reading, learned attributes.

A learner itself is a choice of parts, made in `_choose` (see distance.py and similarity.py); what the parts do is in
`_training` and `_reading`.
"""

from __future__ import annotations

import reprlib
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._core.interrupt import learning_begins, whole_calls
from .._core.locality import FREE
from .._reading import Reader
from .._threads import jobs
from .._training.input import checked, checked_whole
from .._training.model import Model
from .._training.settings import Settings
from .._training.trainer import Trainer
from .._typing import Array
from ._calls import alone, converted, public, reading


@dataclass(kw_only=True, eq=False, repr=False)
class Learner(BaseEstimator):
    """Keyword parameters, documented in the classes that are exported, and everything that a learner does."""

    C: float = 0.02
    step: str = "pa1"
    step_params: dict[str, float] | None = None
    margin: float = 1.0
    forget: float = 0.0
    psd: str | int = "never"
    project: str = "auto"
    scale: str | None = "auto"
    guard: bool | str = "auto"
    average: bool | str = "auto"
    init: str | ArrayLike = "identity"
    unlabeled: Any = None
    semi: str = "neighbors"
    semi_params: dict[str, float] | None = None
    n_targets: int = 3
    n_impostors: int = 10
    impostor_margin: float = 0.1
    least_impostors: int | str = "auto"
    n_epochs: int = 4
    remine: bool = False
    early_stopping: bool = False
    validation_fraction: float = 0.1
    reservoir_size: int = 64
    memory: str = "auto"
    balanced: bool = False
    pair_threshold: float | str = "auto"
    block_size: int | str = "auto"
    device: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    # What stands for {words} in the docstrings of learners.
    _texts: ClassVar[Mapping[str, str]] = {}
    # What a model is built from: these parameters count when learning begins, and may not change in mid-stream.
    _structural: ClassVar[frozenset[str]] = frozenset({
        "measure", "init", "scale", "regions", "soft_regions", "groups", "projection", "n_components", "kernel",
        "kernel_params", "kernels", "normalize", "combination", "delta", "budget", "when_full", "reservoir_size",
        "memory", "device",
    })  # fmt: skip
    # What decides how learning runs, and shows, but nothing about its result.
    _immaterial: ClassVar[frozenset[str]] = frozenset({"verbose", "block_size", "n_jobs"})
    _sparse: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        doc = cleandoc(cls.__doc__ or "")  # without indentation, as Python 3.13 and later compile docstrings
        for word, text in cls._texts.items():
            doc = doc.replace(f"{{{word}}}", text.replace("\n    ", "\n"))
        cls.__doc__ = doc

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Names of the parameters; scikit-learn would read them off the signature each time."""
        return super()._get_param_names()

    # -- the parts ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def _choose(self) -> Settings:
        """The learner as a choice on each axis; every parameter checked."""

    def _settings(self) -> Settings:
        """`_choose`, done again only if a parameter was given another value: what learning goes by."""
        now = [*(getattr(self, name) for name in self._get_param_names()), vars(self).get("_followed")]
        kept = vars(self).get("_parsed")
        if kept is None or any(a is not b for a, b in zip(now, kept[0], strict=True)):
            self._parsed = kept = (now, self._choose())
        return kept[1]

    def _learned(self) -> tuple[Settings, Model]:
        """The model, and the settings that it last learned by; those set since then do not count yet."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)
        kept = vars(self).get("_parsed")
        return (self._settings() if kept is None else kept[1]), self._model

    def _reader(self) -> Reader:
        """What reads the model as it is now."""
        settings, model = self._learned()
        return model.reader(settings, self)

    # -- learning ----------------------------------------------------------------------------------------------------

    @public
    def fit(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None = None,
        *,
        triplets: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_targets: ArrayLike | None = None,
        triplet_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from labels, triplets, or pairs, starting from scratch.

        Parameters
        ----------
        X : (n, d) rows, or None when `triplets` or `pairs` hold points.
        y : (n,) labels. Without triplets, triplets are formed from them (target neighbors times impostors); with
            triplets, they are the classes of the positive and the negative row. Without y, triplets are class-free.
        triplets : (m, 3) row numbers (anchor, positive, negative), learned in this order once per epoch; or, with X
            None, points (m, 3, d), with y of shape (m, 3) if they have classes.
        pairs : (m, 2) row numbers, learned in this order once per epoch; or, with X None, points (m, 2, d), with y of
            shape (m, 2) if they have classes. The class of a pair is that of its second row.
        pair_targets : (m,) +1 for similar pairs, -1 for dissimilar ones.
        triplet_weight : (m,) multiplies C; only with triplets or pairs.
        groups : (m,) who gave each triplet or pair, a user or a project; instead of y. Each group then has a metric of
            its own on top of the shared one, M_g = lam U + mu L_g; `classes_` are the groups, and `group=` reads one. A
            group that never spoke has lam U + mu times the start. Needs a learner with lam, such as LODML.
        """
        with check.unchanged_on_error(self):
            settings = self._settings()
            data = checked_whole(self, settings, X, y, triplets, pairs, pair_targets, triplet_weight, groups)
            trainer = Trainer(self._bound())
            trainer.fit(data)
            self.__dict__.pop("mined_", None)
            if trainer.mined is not None:
                self.mined_ = trainer.mined
            self.n_iter_ = trainer.n_iter
            self._publish(trainer.model, trainer.loss)
            self._learned_with = self.get_params(deep=False)
        return self

    @public
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
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from more rows, triplets, or pairs in one pass, continuing where learning stopped.

        Labeled rows form triplets among themselves and with a bounded reservoir of earlier rows. A new class starts at
        the identity; `classes` may announce future classes. Calls with and without labels may alternate.

        Ctrl-C before the first step leaves the model as it was; later, it takes effect when all rows are learned.
        """
        with whole_calls(), check.unchanged_on_error(self):
            settings, model = self._settings(), vars(self).get("_model")
            self._refuse_restructuring("continue")
            data = checked(self, settings, model, X, y, triplets, pairs, pair_targets, triplet_weight, groups, classes)
            trainer = Trainer(self._bound(), model)
            trainer.partial_fit(data)
            self._publish(trainer.model, trainer.loss)
            self._learned_with = self.get_params(deep=False)
        return self

    def _changed(self) -> dict[str, Any]:
        """Parameters with another value than when the model last learned, and what that was."""
        now = self.get_params(deep=False)
        then = vars(self).get("_learned_with", now)
        return {name: then[name] for name in now if _differ(now[name], then[name])}

    def _refuse_restructuring(self, verb: str) -> None:
        """Refuse parameters that the model cannot follow."""
        for name, then in self._changed().items():
            if name in self._structural:
                raise ValueError(
                    f"{check.name_of(self)} cannot {verb} with another {name}: the model was begun with "
                    f"{_brief(then)}, and now it is {_brief(getattr(self, name))}. Call fit to begin again, or set it "
                    "back."
                )

    def _bound(self) -> Settings:
        """Settings that know the features, kept in place of those that do not."""
        bound = self._settings().bound(int(self.n_features_in_), getattr(self, "feature_names_in_", None))
        self._parsed = (self._parsed[0], bound)
        return bound

    @public
    def transduce(self, X: ArrayLike, y: ArrayLike) -> Array:
        """y with labels filled in for the rows marked `unlabeled` whose nearest labeled rows agree; the rest stay.

        The gate is set by `semi_params` and uses the current metric.
        """
        reader, settings = self._reader(), self._settings()
        rows = reader.rows(X)
        labels = check.check_labels(self, y, rows.shape[0])
        codes = reader.labels.codes(labels, settings.unlabeled)
        places, rng = reader.candidates(rows, labels), np.random.default_rng(0)
        filled, _ = settings.semi.accept(reader.metric, rows, codes, places, rng)
        found = (filled >= 0) & (labels == self.unlabeled)  # a class that the model has not met keeps its label
        return np.where(found, reader.labels.labels[np.maximum(filled, 0)], labels) if found.any() else labels

    @public
    def forget_classes(self, labels: ArrayLike) -> Self:
        """Forget classes: their metrics, their rows in the reservoir, and the fact that they were ever seen.

        What the shared part learned from them stays. A class that comes back starts at the identity.
        """
        check_is_fitted(self)
        codes = self._model.labels.codes(check.check_labels(self, labels, np.size(labels), "classes"))
        if (codes == FREE).any():
            unknown = np.ravel(labels)[codes == FREE].tolist()
            raise ValueError(f"{check.name_of(self)} cannot forget {unknown}: not among classes_ {self.classes_}.")
        with whole_calls(), check.unchanged_on_error(self):
            learning_begins()
            self._model.drop_classes(codes)
            self._publish(self._model, None)
        return self

    def _publish(self, model: Model, loss: float | None) -> None:
        """Set the learned attributes; `loss` is that of the last pass, None if there was none."""
        self._model = model
        self.classes_ = model.labels.sorted.copy()
        self.n_triplets_, self.n_updates_ = model.counts.seen, model.counts.updates
        self.loss_ = getattr(self, "loss_", 0.0) if loss is None else loss

    @alone
    def to(self, device: Any) -> Self:
        """Move the learner, and what it has learned, to another device.

        device : None, the CPU without torch; "auto"; or a device as torch spells it: "cuda", "cuda:1", "cpu".

        >>> from paloma import LODML
        >>> from sklearn.datasets import load_iris
        >>> LODML(random_state=0).fit(*load_iris(return_X_y=True)).to(None)
        LODML(random_state=0)
        """
        with check.unchanged_on_error(self):
            self.device, self._followed = device, None
            self._settings()
            if self.__sklearn_is_fitted__():
                self._model = self._model.moved(self._bound(), int(self.n_features_in_))
                self._learned_with = {**self._learned_with, "device": device}
        return self

    # -- reading -----------------------------------------------------------------------------------------------------

    @public
    def pair_score(
        self, pairs: ArrayLike, y: ArrayLike | None = None, *, X: ArrayLike | None = None, group: Any = None
    ) -> Array:
        """Similarity of pairs, larger is more similar.

        Parameters
        ----------
        pairs : (n, 2, d) points (query, candidate), or (n, 2) row numbers of X.
        y : classes of the candidates; None uses only the shared part. Global learners ignore it.
        group : instead of y, whose metric to use if the learner learned with `groups`.
        """
        reader = self._reader()
        return reader.scores(reader.pair_values(pairs, check.of_group(y, group, np.shape(pairs)[0]), X))

    @public
    def predict_pairs(self, pairs: ArrayLike, y: ArrayLike | None = None, *, X: ArrayLike | None = None) -> Array:
        """+1 for pairs on the similar side of `threshold_`, -1 for the others.

        Without y the value is lam times that of the shared part, the same as when learning pairs without classes.
        """
        reader = self._reader()
        values = reader.pair_values(pairs, y, X) * (reader.metric.locality.lam if y is None else 1.0)
        return np.where(reader.measure.sign * (values - self.threshold_) < 0, 1, -1)

    @property
    @alone
    def threshold_(self) -> float:
        """The squared distance, or similarity, under the learned metric that separates the two kinds of pairs."""
        check_is_fitted(self)
        threshold = self._model.threshold if self.pair_threshold == "auto" else self.pair_threshold
        if threshold is None:
            raise AttributeError("threshold_ is available once pairs have been learned or pair_threshold is set.")
        return float(threshold)

    @public
    def pairwise_score(
        self, Q: ArrayLike, X: ArrayLike, y: ArrayLike | None = None, *, group: Any = None
    ) -> Array:  # fmt: skip
        """(n_queries, n_items) matrix of `pair_score`; y are the classes of the items, or all are read for a group."""
        reader = self._reader()
        rows = reader.rows(X)
        codes = reader.candidates(rows, check.of_group(y, group, rows.shape[0]))
        with jobs(self.n_jobs):
            return reader.pairwise_scores(reader.rows(Q), rows, codes)

    @public
    def metric_matrix(self, label: Any = None) -> Array:
        """M_c in the units of X after p.s.d. policy and averaging; for None, the shared U alone.

        If the learner learned with `groups`, the label is a group.

        With regions the label is the number of a region. A kernel learner has no matrix: TypeError.
        """
        return self._reader().matrix(label)

    @public
    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy of 3-NN on these rows, which should be new ones, under the learned metrics.

        The rows that the learner remembers vote, `reservoir_size` of each class: a MetricKNeighborsClassifier, in which
        all rows vote, is usually somewhat better. A row is not its own neighbor, so that rows which were learned from
        can be scored, though too well. Rows of classes that the learner has not met vote for each other, as if they had
        been added; scikit-learn does not take a learner for a classifier, so give GridSearchCV a StratifiedKFold. With
        a precomputed kernel, all training rows vote. A learner that remembers no labeled rows refuses; see
        `leave_one_out_score` and `triplet_score`.
        """
        reader = self._reader()
        with jobs(self.n_jobs):
            return reader.accuracy(reader.rows(X), y)

    @public
    def leave_one_out_score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy of 3-NN among these rows themselves, each without itself.

        The vote is by other rows of X, so the figure depends on how many there are, and is not the accuracy on new rows
        of a classifier that was fitted on other ones. With a precomputed kernel, the training rows vote.
        """
        reader = self._reader()
        return reader.leave_one_out(reader.rows(X), y)

    @public
    def triplet_score(self, X: ArrayLike | None, triplets: ArrayLike, y: ArrayLike | None = None) -> float:
        """Fraction of triplets ranked correctly (positive closer than negative); a tie counts as wrong."""
        reader, points = self._reader(), X is None
        if points:
            X, triplets = check.check_points(self, triplets, 3)
        rows = reader.rows(X, named=not points)
        array = check.check_numbers(self, triplets, 3, rows.shape[0])
        if not len(array):
            raise ValueError(f"{check.name_of(self)}.triplet_score needs at least one triplet, got none.")
        codes = reader.candidates(rows, None if y is None else np.ravel(y))
        return reader.ranked_right(rows, array, codes[array[:, 1:]])

    @property
    @alone
    def state_token_(self) -> str:
        """A digest of everything that search vectors depend on: the same as long as nothing more is learned, also after
        `paloma.save` and `load`. Keep it with vectors that are stored elsewhere, see `query_vectors`."""
        settings, model = self._learned()
        return model.token(settings)

    def _check_token(self, token: str | None) -> None:
        now = None if token is None else self.state_token_
        if token != now:
            raise ValueError(
                f"{check.name_of(self)}: these search vectors were made in another state of the metric ({token}, now "
                f"{now}): it has learned since, or is another one. Make all item vectors again, or load the model that "
                "they were made with."
            )

    @public
    def query_vectors(self, Q: ArrayLike, *, for_graph: bool = False, token: str | None = None) -> Array:
        """Vectors whose inner product with `item_vectors` is minus the squared distance, or the similarity.

        With for_graph=True, the balanced L2 form that graph indexes need, as determined by the first ``item_vectors(
        ..., for_graph=True)``: a smaller Euclidean distance means a closer item. A kernel learner has no search
        vectors: TypeError.

        token : `state_token_` as it was when the items' vectors were made; if the metric has learned since, ValueError.
        """
        self._check_token(token)
        reader = self._reader()
        vectors = reader.query_vectors(reader.rows(Q))
        if not for_graph:
            return vectors
        _refuse_sparse(vectors)
        if self._model.balance is None:
            raise ValueError(
                "Call item_vectors(X, y, for_graph=True) first: the items determine the balance of the form."
            )
        return self._model.balance.queries(vectors)

    @public
    def item_vectors(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        for_graph: bool | str = False,
        token: str | None = None,
    ) -> Array:
        """Vectors of items for any exhaustive inner-product search; d + n_classes + 3 wide for LODML.

        With for_graph=True, the balanced form for graph and IVF indexes under L2, with one more column. The first items
        determine the balance, and later ones use it, until the metric learns more; for_graph="new" begins a new store.
        A kernel learner has no search vectors: TypeError.

        token : `state_token_` as it was when the vectors that are already stored were made; if the metric has learned
            since, ValueError.
        """
        check.check_word("for_graph", for_graph, (True, False, "new"))
        self._check_token(token)
        reader = self._reader()
        rows = reader.rows(X)
        vectors = reader.item_vectors(rows, reader.candidates(rows, y))
        if not for_graph:
            return vectors
        _refuse_sparse(vectors)
        if self._model.balance is None or for_graph == "new":
            self._model.balance = reader.balance(vectors)
        if n_long := self._model.balance.n_beyond(vectors):
            warnings.warn(
                f"{check.name_of(self)}: {n_long} of {len(vectors)} items are farther out than those that the balance "
                "was determined by, so a graph may miss them. If this matters, make all vectors again, with "
                "for_graph='new' for a sample of all items first.",
                stacklevel=2,
            )
        return self._model.balance.items(vectors)

    @property
    def predict(self) -> Any:
        """A learner has none: it is a metric, and rows that vote make a classifier of it."""
        raise AttributeError(
            f"{check.name_of(self)} is a metric and has no predict: use "
            f"MetricKNeighborsClassifier({check.name_of(self)}(...)).fit(X, y).predict(X)."
        )

    # -- learned attributes --------------------------------------------------------------------------------------------

    @property
    @public
    def shared_(self) -> Array:
        """U, the raw last iterate in scaled units: no projection, no averaging."""
        settings, model = self._learned()
        return model.space.last(settings.choice, len(self.classes_)).shared.copy()

    @property
    @public
    def local_(self) -> Array:
        """(n_classes, d, d): L of classes_[k], the raw last iterates in scaled units; empty for a global learner."""
        settings, model = self._learned()
        last = model.space.last(settings.choice, len(self.classes_))
        order = self._reader().order.tolist() if hasattr(self, "lam") else []
        return np.array([last.local(code) for code in order], last.start.dtype).reshape(len(order), *last.start.shape)

    @property
    @public
    def scale_(self) -> Any:
        """The number that X is divided by; several groups have one each."""
        check_is_fitted(self)
        return self._model.space.divisor(self._model.scale)

    @property
    @public
    def whitener_(self) -> Array | None:
        """What X is multiplied by before it is divided by `scale_`: (d, d), (d,) or None."""
        check_is_fitted(self)
        return None if self._model.whitener is None else self._model.whitener.array()

    @property
    @alone
    def strength_(self) -> float:
        """How far the metrics follow what was learned, from 0, the start, to 1; see `guard`."""
        return float(self._learned()[1].strength[0])

    @property
    @alone
    def local_share_(self) -> float:
        """Share of the class metrics in what is followed, the rest is the shared part; 0 for a global learner."""
        settings, model = self._learned()
        s, t = model.strength
        return t / s if s and settings.choice.locality.is_local else 0.0

    @property
    @public
    def recent_loss_(self) -> Array:
        """(n_classes,) mean loss of the last thousand or so triplets of classes_[k], each before its own step."""
        check_is_fitted(self)
        return self._model.drift.recent(self._model.labels.order)

    @property
    @public
    def long_run_loss_(self) -> Array:
        """(n_classes,) mean loss of all triplets of classes_[k], each when it was first met."""
        check_is_fitted(self)
        return self._model.drift.long_run(self._model.labels.order)

    @property
    @alone
    def drift_(self) -> Array:
        """(n_classes,) recent_loss_ / long_run_loss_: about 1 on a stationary stream, larger if a class has changed."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.recent_loss_ / self.long_run_loss_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        return {name: value for name, value in state.items() if name not in ("_parsed", "_lock")}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """As usual, but not while another thread has it learn."""
        out = memo[id(self)] = type(self).__new__(type(self))
        with reading(self):
            out.__setstate__(deepcopy(self.__getstate__(), memo))
        return out

    def __sklearn_array_api_convert__(self, converter: Any) -> Self:
        return cast(Self, converted(self, converter))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.array_api_support = True
        tags.input_tags.sparse = self._sparse
        kernel = getattr(self, "kernel", None)
        tags.input_tags.pairwise = isinstance(kernel, str) and kernel == "precomputed"
        return tags


def _differ(one: Any, two: Any) -> bool:
    if one is two:
        return False
    # NumPy 2.1 cannot tell whether a number equals a string.
    return isinstance(one, str) != isinstance(two, str) or not np.array_equal(one, two)


def _brief(value: Any) -> str:
    return reprlib.repr(" ".join(repr(value).split()))[1:-1]


def _refuse_sparse(vectors: Any) -> None:
    if sp.issparse(vectors):
        raise TypeError("for_graph=True needs dense rows: graph indexes walk dense vectors.")
