"""The contract between learning and a representation of the parameters Theta = (U, L_1, ..., L_k).

A `Representation` is a value of the representation axis: parameters, no data. It checks what it can take and begins a
`Space`, the state that learning changes. A `Metric` is what is read out of a space. Everything above (`_training`,
`_reading`, `_mixing`, model files) knows these three and nothing else of how Theta is held; a new representation is
one new folder under `_spaces`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from .._typing import Array, Rows
from .._validation import check_magnitude, check_units
from .choice import Choice
from .stream import Counts, Pass, Stream, Tally

# Pairs of a block of learning, about: what one product takes on a side.
PAIRS = 512


@dataclass
class Beginning:
    """What a space may look at when it begins.

    X, triplets : the first of each; n_triplets : how many there are in all. scale : as `Representation.scale` gave it,
    None before the first triplets. whole : X holds all rows that learning will see for now.
    """

    X: Rows
    triplets: Array | None
    n_triplets: int
    scale: Any
    n_classes: int
    rng: np.random.Generator
    whole: bool = False


@dataclass(frozen=True)
class Kept:
    """What a model file says beside the state of a space: features, precision, and the scale as in `Beginning`."""

    d: int
    dtype: Any
    scale: Any


class Metric(Protocol):
    """What is read out of a space: M_c in the units of X, as values, as search factors, as matrices.

    Codes name the class of a candidate; below zero are UNSEEN, a class never updated, and SHARED, U by itself.
    """

    locality: Any
    of_differences: bool  # `values` takes differences of rows, twice, instead of both rows

    @property
    def bounded(self) -> bool:
        """Whether it is a `BoundedMetric` too."""
        ...

    @property
    def has_floor(self) -> bool:
        """Whether it is a `Floored` one too (`_search/pruning.py`)."""
        ...

    def resolve(self, codes: Array) -> Array:
        """Codes as this metric tells them apart."""
        ...

    def values(self, left: Rows, right: Rows, codes: Array) -> Array:
        """Squared distances, or similarities, of pairs; float64."""
        ...

    def items(self, X: Rows, codes: Array, by: Any = None) -> Any:
        """Rows, each under the metric of its code, ready to be searched; `by` a metric that wraps this one, if any."""
        ...

    def at_start(self) -> Any:
        """The metric as it was before anything was learned; itself, if that is not held."""
        ...


class BoundedMetric(Metric, Protocol):
    """A metric whose values have cheap bounds, so that a single query need not have everything prepared."""

    def nearest(self, differences: Array, codes: Array, k: int) -> tuple[Array, Array]:
        """The k smallest values of differences, ascending, and their numbers; of equal ones the lower number first."""
        ...


class ExplicitMetric(Metric, Protocol):
    """A metric made of matrices, though it need not hold any: what search vectors and linear maps ask of it.

    With a side for queries and one for items, each a tuple of factors whose products add up to q^T M_c x.
    """

    symmetric: bool  # a distance, whose values are those of differences

    @property
    def n_components(self) -> int:
        """Columns of `transform`."""
        ...

    @property
    def unseen(self) -> float:
        """Share of the shared part in the metric of UNSEEN; the rest is the start."""
        ...

    def matrix(self, code: int) -> Array:
        """M of a resolved code, dense; refused if it would not fit."""
        ...

    def item_side(self, X: Rows, codes: Array) -> tuple[tuple[Any, ...], Array]:
        """Factors of the items for a search in tiles, and x^T M_c x."""
        ...

    def images(self, X: Rows, codes: Array) -> tuple[tuple[Any, ...], Array]:
        """The same for search vectors, which have room for one query side only: `query_side` without codes."""
        ...

    def query_side(self, Q: Rows, codes: Array | None = None) -> tuple[Any, ...]:
        """Factors of the queries, if items have these resolved codes."""
        ...

    def query_forms(self, Q: Rows, codes: Array) -> Array:
        """q^T M_c q for each query and each of these resolved codes, (n_queries, n_codes)."""
        ...

    def start_forms(self, Q: Rows) -> Array:
        """q^T M q under the matrix that all parts start from."""
        ...

    def transform(self, X: Rows) -> Array:
        """Rows whose Euclidean distances are those of the shared part; distances only."""
        ...

    def components(self) -> Array:
        """The map of `transform` as a dense matrix; refused if it would not fit."""
        ...


class Iterates(Protocol):
    """The last iterates, in scaled units: no projection, no averaging."""

    start: Array

    @property
    def shared(self) -> Array: ...

    def local(self, code: int) -> Array: ...


class Space(ABC):
    """Theta as one representation holds it, and everything that may happen to it.

    What has a body here is what most spaces do.

    factor : what rows are multiplied by, the reciprocal of the scale.
    device : the torch device that it learns on; None: the host.
    at_readout : p.s.d. policies that still project when a metric is read out.
    """

    factor: Any
    device: Any = None
    at_readout: ClassVar[tuple[str, ...]] = ("end",)

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Precision of the matrices, which all rows are brought to."""

    @abstractmethod
    def learn(self, choice: Choice, stream: Stream, counts: Counts, how: Pass) -> Tally:
        """Learn a stream, exactly as if one triplet after the other; `counts` is brought up to date."""

    @abstractmethod
    def readout(
        self, choice: Choice, counts: Counts, cone: str, blend: float, strength: tuple[float, float] = (1.0, 1.0)
    ) -> Any:
        """The `Metric` in the units of X.

        cone : what is made p.s.d.: "components" (U and L_c), "effective" (M_c) or "" (nothing).
        blend : how far averaged iterates are moved toward the last ones; 1 reads the last ones.
        strength : (s, t), how far the metrics follow what was learned, and its local part (theory 22).
        """

    @abstractmethod
    def last(self, choice: Choice, n_classes: int) -> Iterates:
        """The last iterates, built densely."""

    def close(self) -> None:  # noqa: B027
        """Let go of what only one call needs, and make whole what passes may leave half done."""

    @abstractmethod
    def drop(self, new_codes: Array) -> None:
        """Give class codes their new numbers; -1 forgets a class."""

    def widened(self, d: int) -> "Space":
        """The same with more features, which were 0 so far; refused unless a representation says how."""
        raise ValueError("This learner has a fixed number of features; LODML and LOSL, for example, accept new ones.")

    @abstractmethod
    def adopt(self, blend: float) -> None:
        """Go on from the averaged iterates, moved this far toward the last ones, and average anew from there."""

    @abstractmethod
    def fork(self, counts: Counts) -> Self:
        """A copy that learns a shard of the data from here on."""

    @abstractmethod
    def mixed(self, forks: list[Self], weights: Array, counts: Counts) -> Self:
        """Weighted mean of forks of this space, itself a fork; weights sum to 1."""

    @abstractmethod
    def joined(self, fork: Self, choice: Choice, counts: Counts) -> Self:
        """This space and what a (mixed) fork of it learned since."""

    def open(self, X: Rows, ids: Array) -> None:  # noqa: B027
        """Rows of X that come next have these numbers in the whole data, over all shards."""

    def divisor(self, scale: float | None) -> Any:
        """What rows are divided by, if the model divides them by `scale`."""
        return 1.0 if scale is None else scale

    def check_rows(self, who: str, X: Rows) -> None:  # noqa: B027
        """Refuse rows that learning cannot go on with."""

    @abstractmethod
    def saved(self) -> dict[str, Any]:
        """What a model file holds of it, by `Representation.schema`; the rest follows from parameters."""


class Representation(ABC):
    """A value of the representation axis: how Theta is to be held, as parameters.

    linear : steps add pair features to matrices in the space of X; then pairs are triplets, and regions are possible.
    decays : what it holds can decay, so that learning may forget.
    guarded : whether `fit` judges by default how far to follow what was learned (theory 22).
    light : a read-out costs little beside learning, so that rows of a stream are judged as they arrive.
    whitening : the form of the scale that suits it for distances: "full", "low-rank" or "scalar" (theory 21).
    pairwise : rows are kernel values with the training rows, not features.
    cannot : what it cannot do, each with the sentence that refuses it; see `refuse`.
    device : the torch device that it learns on; None: the host.
    search : what finds targets and impostors, with the signature of `paloma._search.device.neighbors_by_class` less the
        device; None, and for CSR rows: exhaustive search on the host.
    """

    linear: ClassVar[bool] = False
    decays: ClassVar[bool] = False
    device: Any = None
    search: Any = None
    pairwise: Any = False
    guarded: Any = False
    light: ClassVar[bool] = False
    whitening: ClassVar[str] = "scalar"

    @property
    def cannot(self) -> dict[str, str]:
        out = {}
        if not self.linear:
            out["pairs"] = "{who} does not learn from pairs; pass triplets instead."
            out["regions"] = "{who} is local by class and only supports regions=None."
        if not self.guarded:
            out["guard"] = "{who} is read out as it was learned and only supports guard='auto' or False."
        return out

    def refuse(self, who: str, *wanted: str) -> None:
        """Raise if this representation cannot do what is wanted: the one place where it says so."""
        for what in wanted:
            if what in self.cannot:
                raise ValueError(self.cannot[what].format(who=who))

    def adapted(self, who: str, choice: Choice) -> Choice:
        """The choice as this representation takes it; refuses combinations without a derivation."""
        return choice

    @abstractmethod
    def bound(self, who: str, choice: Choice, d: int, names: Any) -> "Representation":
        """The same for d features, called by `names` if they have any; refuses parameters that do not fit them."""

    def start(self, d: int, dtype: Any) -> Array | None:
        """The matrix that learning starts from, in the units of X; None is the identity."""
        return None

    def scale(self, who: str, choice: Choice, X: Rows, triplets: Array) -> Any:
        """What X is divided by, from the first triplets."""
        return scale_of(who, choice, X, triplets)

    def turned(self, X: Rows, n_classes: int) -> Rows:
        """X in fewer coordinates, good enough to judge by, if what is learned does not depend on coordinates."""
        return X

    def check_magnitude(self, who: str, choice: Choice, X: Rows, factor: Any) -> None:
        """Refuse rows so large that a step would overflow."""
        check_magnitude(who, X, factor)

    def mining_rows(self, X: Rows, scaled: bool) -> Rows:
        """X as triplets are mined in it; `scaled`: units are not to decide who is near."""
        return X

    def mined_by(self, X: Rows, n: int) -> str:
        """How targets and impostors of n of these rows are found, in words."""
        return "exact"

    def mining_distances(self, X: Rows, known: Array, space: Space | None) -> Callable[[Array], Array]:
        """If rows are pairwise, the squared distances of a few of the rows `known` of X to all of them."""
        raise NotImplementedError

    @abstractmethod
    def begin(self, choice: Choice, at: Beginning) -> Space:
        """A space at its start."""

    @abstractmethod
    def schema(self, d: int) -> Any:
        """The `Schema` of its spaces' states for d features; extents k, c: classes, and codes in use."""

    @abstractmethod
    def restore(self, choice: Choice, state: dict[str, Any], kept: Kept) -> Space:
        """The space of a state that passed `schema`: learning goes on exactly where it stopped."""


def scale_of(who: str, choice: Choice, X: Rows, triplets: Array) -> float:
    """One number to divide X by; refuses rows that are too large or too small for a step."""
    scale = choice.measure.scale(X, triplets)
    check_magnitude(who, X, 1.0 / scale)
    check_units(who, scale, X.dtype)
    return scale
