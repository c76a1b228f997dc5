"""Shapes and types of what a file gave back, against each other: learning and search trust them without a look.

Kernels do not check indices, so nothing that indexes may point outside. A class without a check here is taken as it is.
"""

from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from .._hedge import Hedge
from .._joint import Modalities
from .._locality import Labels
from .._representation import Dense, DenseMetric, Index, Projected
from .._representation.journal import Journal
from .._search import LocalItems
from ..estimators._model import DenseModel, Model, ProjectedModel
from ..estimators.base import Learner
from ..exceptions import ModelFileError
from ..triplets import Reservoir

_FLOATS = (np.float32, np.float64)
# One value a feature in scikit-learn's scalers and decompositions, along the last axis.
_PER_FEATURE = ("mean_", "scale_", "var_", "min_", "data_min_", "data_max_", "max_abs_", "center_", "components_")


def need(holds: Any, what: str) -> None:
    """Refuse a file in which something does not hold."""
    if not holds:
        raise ModelFileError(what)


@singledispatch
def check(value: Any) -> None:
    """Refuse a restored object whose parts do not fit together."""


def _is(value: Any, dtypes: Any, *shape: int | None) -> bool:
    """Whether an array has this type, or one of these, and this shape, None for any length."""
    kinds = dtypes if isinstance(dtypes, tuple) else (dtypes,)
    if not isinstance(value, np.ndarray) or not any(value.dtype == kind for kind in kinds):
        return False
    return value.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, value.shape, strict=True))


@check.register
def _(value: Dense) -> None:
    width = len(value.start) if value.symmetric else None
    need(_is(value.start, _FLOATS, None, width), "a start is no matrix, or not square")
    dtype, shape = value.start.dtype, value.start.shape
    need(_is(value.shared, dtype, *shape) and _is(value.stack, dtype, None, *shape), "matrices differ in size or type")
    need(_is(value.pending, np.float64, len(value.stack)), "the decay of matrices is no list of numbers")
    need(_is(value.slots, np.int32, None), "the classes of matrices are no list of numbers")
    need(type(value.n_slots) is int and 0 <= value.n_slots <= len(value.stack), "matrices are missing")
    used = value.slots[value.slots >= 0]
    need(len(used) == value.n_slots == len(np.unique(used)) and (used < value.n_slots).all(), "classes share a matrix")
    need(all(a.flags.c_contiguous and a.flags.writeable for a in (value.shared, value.stack)), "matrices lie wrongly")
    if value.mean is not None:
        u, stack = value.mean
        fits = _is(u, dtype, *shape) and _is(stack, dtype, len(value.stack), *shape)
        need(fits, "averages differ in size or type")


@check.register
def _(value: DenseMetric) -> None:
    shape = value._state.start.shape
    need(isinstance(value._state, Dense) and isinstance(value._matrices, dict), "a metric has no matrices")
    need(all(_is(m, value._state.start.dtype, *shape) for m in value._matrices.values()), "metrics differ in size")


@check.register
def _(value: Journal) -> None:
    n = len(value.steps)
    rows = 0 if value.rows is None else value.rows.shape[0]
    need(_is(value.codes, np.int32, n) and (value.codes >= -1).all(), "the classes of a journal are wrong")
    need(_is(value.steps, np.float64, n) and _is(value.mean_steps, np.float64, n), "the steps of a journal are wrong")
    for places in (value.anchors, value.candidates):
        need(_is(places, np.int64, n) and ((places >= 0) & (places < rows)).all(), "a journal names rows it lacks")


@check.register
def _(value: Projected) -> None:
    d, m = value.map.shape
    need(isinstance(value.inner, Dense) and len(value.inner.start) == m, "a projection does not fit its matrices")
    need(isinstance(value.journal, Journal), "a projection has no journal")
    need(value.journal.rows is None or value.journal.rows.shape[1] == d, "a journal does not fit its projection")
    if value.folded is not None:
        basis, now, mean = value.folded
        q = basis.shape[1]
        need(_is(basis, value.dtype, d, q) and len(now.start) == len(mean.start) == q, "folded parts do not fit")


@check.register
def _(value: Index) -> None:
    n, m, pairs = len(value.held), len(value.kernels), value.pairs
    need(_is(value.held, np.bool_, None) and _is(value.last, np.int64, n), "the support is no list of points")
    need(n == 0 if value.points is None else len(value.points) == n, "the support has other points than it says")
    need(_is(value.raw_selfs, np.float64, m, n), "kernel values of points are wrong")
    need(_is(pairs.codes, np.int32, None) and (pairs.codes >= -1).all(), "the classes of pairs are wrong")
    need(
        all(_is(s, np.float64, m, len(pairs.codes)) for s in (pairs.steps, pairs.means)), "the steps of pairs are wrong"
    )
    for places in (pairs.anchors, pairs.candidates):
        inside = _is(places, np.int64, len(pairs.codes)) and ((places >= 0) & (places < n)).all()
        need(inside, "pairs name points that are not there")


@check.register
def _(value: Hedge) -> None:
    need(_is(value.losses, np.float64, None) and np.isfinite(value.losses).all(), "losses are no list of numbers")
    need(type(value.rounds) is int and value.rounds >= 0, "a counter is wrong")
    need(_is(value._record, np.float64, len(value._when), len(value.losses)), "the record of weights is wrong")


@check.register
def _(value: Modalities) -> None:
    sizes = [len(columns) for columns in value.columns]
    need(
        sizes and all(_is(c, (np.int64, np.int32), None) and (c >= 0).all() for c in value.columns), "columns are wrong"
    )
    need(len(value.factors) == len(value.hedge.losses) == len(sizes), "modalities differ in number")
    if value.rank is None:
        fits = [len(state.start) for state in value.states] == sizes
    else:
        fits = len(value.states) == 1 and value.states[0].start.shape[1] == sum(sizes)
    need(fits, "matrices do not fit their columns")


@check.register
def _(value: Labels) -> None:
    need(isinstance(value.labels, np.ndarray) and value.labels.ndim == 1, "classes are no list")
    sound = Labels(value.labels)
    same = np.array_equal(sound.order, value.order) and np.array_equal(sound.sorted, value.sorted)
    need(same and len(np.unique(value.labels)) == len(value.labels), "classes are out of order or repeated")


@check.register
def _(value: Reservoir) -> None:
    n = len(value.codes)
    need(type(value.size) is int and value.size > 0, "a reservoir has no size")
    need((value.rows is None and n == 0) or value.rows.shape[0] == n, "a reservoir has other rows than labels")
    need(_is(value.codes, np.int32, n) and _is(value.places, np.int64, n) and _is(value.seen, np.int64, None),
         "the places of a reservoir are wrong")  # fmt: skip
    need(((value.codes >= 0) & (value.codes < len(value.seen))).all(), "a reservoir names classes it lacks")
    need(((value.places >= 0) & (value.places < value.size)).all(), "a reservoir names places it lacks")


@check.register
def _(value: Model) -> None:
    need(isinstance(value.labels, Labels) and isinstance(value.reservoir, Reservoir), "a model lacks classes or rows")
    need(isinstance(value.rng, np.random.Generator), "a model lacks its source of randomness")
    scale = np.asarray(1.0 if value.scale is None else value.scale, np.float64)
    need((scale > 0).all() and np.isfinite(scale).all(), "a scale is wrong")
    need(all(type(n) is int and n >= 0 for n in (value.seen, value.updates, value.n_means)), "a counter is wrong")
    known = len(value.labels)
    need(len(value.reservoir.seen) <= known, "a reservoir has rows of unknown classes")
    state = value.state if isinstance(value, DenseModel) else getattr(getattr(value, "state", None), "inner", None)
    if isinstance(state, Dense):
        places = known if value.regions is None else value.regions.n_regions
        need(len(state.slots) <= places, "there are matrices of unknown classes")


@check.register
def _(value: Learner) -> None:
    value._parts()
    if not value.__sklearn_is_fitted__():
        return
    model, d = value._model, value.n_features_in_
    need(isinstance(model, Model) and type(d) is int, "a learner has no model")
    need(np.array_equal(value.classes_, model.labels.sorted), "a learner and its model differ in their classes")
    if isinstance(model, DenseModel):
        need(len(model.state.start) == d, "the matrices do not fit the features")
    if isinstance(model, ProjectedModel):
        need(model.state.d == d, "the projection does not fit the features")
    rows = model.reservoir.rows
    need(rows is None or rows.shape[1] == d, "the reservoir does not fit the features")


@check.register
def _(value: LocalItems) -> None:
    n, d = value.X.shape
    need(_is(value.codes, np.int32, n) and _is(value.columns, np.int32, n), "items and classes differ in number")
    need(_is(value.constants, np.float64, n), "items and constants differ in number")
    need(((value.columns >= 0) & (value.columns < len(value.distinct))).all(), "items name classes that are not there")
    need(all(factor.shape[0] == n for factor in value.mapped), "items are missing")
    need(value.centre is None or _is(value.centre, value.X.dtype, d), "the centre does not fit the items")


@check.register
def _(value: BaseEstimator) -> None:
    d = getattr(value, "n_features_in_", None)
    for name in _PER_FEATURE:
        array = vars(value).get(name)
        need(array is None or np.shape(array)[-1:] == (d,), f"{name} does not fit the features")
    items, numbers = vars(value).get("_items"), vars(value).get("_numbers")
    if isinstance(items, LocalItems):
        need(len(numbers) == items.X.shape[0] and items.X.shape[1] == d, "the rows of a classifier are missing")
        need(len(numbers) and 0 <= numbers.min() <= numbers.max() < len(value.classes_), "a class is missing")


@check.register
def _(value: Pipeline) -> None:
    for name, step in value.steps:
        need(
            isinstance(name, str) and (isinstance(step, BaseEstimator) or step in (None, "passthrough")),
            "a step is wrong",
        )
