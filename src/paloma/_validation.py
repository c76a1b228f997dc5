"""Every check on user data and every message about it: who, what was expected, what came, what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import get_tags
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from ._typing import Array

FLOATS = [np.float64, np.float32]
# Weights beyond this, times others, might leave float64.
_HEAVIEST = 1e100
# Beyond these norms (in scaled units) |a|^4 leaves float64, or |a|^2 leaves float32.
_LARGEST = {8: 1e70, 4: 1e17}
# Below these values |a|^4 leaves float64, or |a|^2 leaves float32.
_SMALLEST = {8: 1e-70, 4: 1e-16}
# Rows that are read are worth a look in scaled units only beyond these values.
_HUGE = {8: 1e30, 4: 1e6}


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Undo every attribute set inside the block if it raises: a refused call leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        for name in vars(estimator).keys() - before.keys():
            del vars(estimator)[name]
        vars(estimator).update(before)
        raise


def name_of(estimator: Any) -> str:
    """The name that errors begin with; a name itself as it is."""
    return estimator if isinstance(estimator, str) else type(estimator).__name__


def check_rows(estimator: Any, X: Any, *, reset: bool, named: bool = True, dtype: Any = None) -> Any:
    """X as rows, finite, C-ordered or CSR with sorted indices; copied only if conversion requires it.

    named=False: X are the points of triplets or pairs, whose columns can have no names to compare.
    dtype : the precision that a fitted estimator learned in; None: float64 or float32.
    """
    dtypes = FLOATS if dtype is None else [dtype]
    if not reset and not (named and hasattr(estimator, "feature_names_in_")) and _plain(X, dtypes):
        _check_width(estimator, X)
        return read_only(np.ascontiguousarray(X))
    sparse = get_tags(estimator).input_tags.sparse
    if sp.issparse(X) and not sparse:
        raise TypeError(
            f"{name_of(estimator)} does not take sparse input. OASIS, LOSL, L2OSL and L2ODML do; or pass X.toarray()."
        )
    wanted = {"dtype": dtypes, "order": "C", "accept_sparse": "csr" if sparse else False}
    if named or reset:
        try:
            rows = validate_data(estimator, X, reset=reset, **wanted)
        except (ValueError, TypeError) as error:
            if str(error).startswith("Input X contains NaN"):
                raise ValueError(
                    f"{name_of(estimator)}: Input X contains NaN: a value is missing. Leave such rows out, or fill the "
                    "values in: put paloma.preprocessing.FillMissing() in front, or use paloma.train(..., "
                    "fill_missing=True)."
                ) from None
            if "inhomogeneous" in str(error):
                raise ValueError(f"{name_of(estimator)}: the rows of X must all be of one length ({error})") from None
            if not re.search("convert|cast|promoted", str(error)):
                raise
            if (found := _column_without_numbers(X)) is not None:
                raise ValueError(
                    f"{name_of(estimator)}: column {found[0]!r} holds {found[1]}, not numbers: leave it out, or encode "
                    f"it first, e.g. with OneHotEncoder ({error})."
                ) from None
            if "string to float" not in str(error):
                raise
            raise ValueError(
                f"{name_of(estimator)}: X holds text, not numbers ({error}). Turn texts into vectors first, e.g. with "
                "scikit-learn's TfidfVectorizer or paloma.datasets.pretrained('wordllama')."
            ) from None
    else:
        rows = check_array(X, estimator=estimator, input_name="X", **wanted)
        _check_width(estimator, rows)
    if not sp.issparse(rows):
        return read_only(rows)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _plain(X: Any, dtypes: Any) -> bool:
    """Whether X is rows in which scikit-learn's checks, a tenth of a millisecond, would find nothing to do."""
    if type(X) is not np.ndarray or X.ndim != 2 or not X.size or X.dtype not in dtypes:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(X.sum()))


def _column_without_numbers(X: Any) -> tuple[Any, str] | None:
    """Name and content of the first column of a table that holds none; None if there is none, or X is no table."""
    if not hasattr(X, "columns"):
        return None
    for name in X.columns:
        if str(X[name].dtype).lower().startswith(("datetime", "timedelta", "date", "duration")):
            return name, "dates"
        try:
            np.asarray(X[name], np.float64)
        except (TypeError, ValueError):
            return name, "text"
    return None


def _check_width(estimator: Any, rows: Any) -> None:
    width, wanted = rows.shape[1], estimator.n_features_in_
    if width != wanted:
        raise ValueError(f"X has {width} features, but {name_of(estimator)} is expecting {wanted} features as input.")


def of_kind(rows: Any, sparse: bool) -> Any:
    """Rows as CSR, or dense."""
    if sparse:
        return rows if sp.issparse(rows) else sp.csr_matrix(rows)
    return rows.toarray() if sp.issparse(rows) else rows


def read_only(rows: Array) -> Array:
    """A view that cannot be written to: kernels compile apart for such arrays, with other rounding."""
    view = rows.view()
    view.flags.writeable = False
    return view


def check_labels(estimator: Any, y: Any, n: int, what: str = "rows of X") -> Array:
    """Labels, one for each of n rows, without NaN; numbers among words, which NumPy makes words of, are refused."""
    if type(y) is np.ndarray and y.ndim == 1:
        labels = np.ascontiguousarray(y)
    else:
        labels = column_or_1d(np.array(y, object) if isinstance(y, list | tuple) else np.asarray(y), warn=True)
    if labels.dtype.kind in "OT":
        labels = _of_one_kind(estimator, labels)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"{name_of(estimator)}: Input y contains NaN or infinity; labels must be finite.")
    if labels.dtype.kind == "c":
        raise ValueError(f"{name_of(estimator)}: complex labels are not supported. Complex data not supported.")
    if labels.dtype.kind in "mMV":
        raise ValueError(
            f"{name_of(estimator)}: labels must be strings or numbers, got dtype {labels.dtype}. Convert y first, e.g. "
            "with y.astype(str)."
        )
    if len(labels) != n:
        raise ValueError(f"{name_of(estimator)}: inconsistent lengths, y has {len(labels)} labels for {n} {what}.")
    return labels


def of_group(y: Any, group: Any, n: int) -> Any:
    """Classes of n candidates: y, or this group for all of them."""
    if group is None:
        return y
    if y is not None:
        raise ValueError("Pass either y or group: a metric belongs to a class or to a group, not to both.")
    if np.ndim(group):
        raise ValueError(f"group must be a single group, for all pairs or items, got {group!r:.80}.")
    return np.full(n, group)


def check_marker(estimator: Any, unlabeled: Any, labels: Array) -> None:
    """The marker of unlabeled rows, if any, is of the labels' type: one of another type would never match."""
    word = isinstance(unlabeled, str | bytes)
    if unlabeled is not None and len(labels) and word != (labels.dtype.kind in "US"):
        kinds = ("a string", "numbers") if word else ("a number", "strings")
        raise ValueError(
            f"{name_of(estimator)}: unlabeled={unlabeled!r} is {kinds[0]}, but the labels in y are {kinds[1]}, so it "
            "would mark no row. Use one type for all labels, including the `unlabeled` marker."
        )


def _of_one_kind(estimator: Any, labels: Array) -> Array:
    values = labels.tolist()
    words = {isinstance(value, str | bytes) for value in values}
    plain = len(words) < 2 and all(isinstance(value, str | bytes | Real | np.bool_) for value in values)
    out = np.asarray(values) if plain else labels
    if out.dtype.kind not in "USbiuf" or out.ndim != 1:
        found = ", ".join(sorted({type(value).__name__ for value in values}))
        raise ValueError(
            f"{name_of(estimator)}: y mixes strings and numbers, or holds neither: its values are of type {found}. Use "
            "one type for all labels, including the `unlabeled` marker for rows that have none."
        )
    return out


def as_array(estimator: Any, values: Any, expected: str) -> Array:
    """What was passed as an array; lists whose parts are of different lengths are refused."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name_of(estimator)}: {expected}; got lists of different lengths, which make no array."
        ) from None


# What is given as rows of so many each, and what they are.
_GIVEN = {2: ("pairs", "(one, other)"), 3: ("triplets", "(anchor, positive, negative)")}


def check_numbers(estimator: Any, given: Any, width: int, n_rows: int) -> Array:
    """(n, 3) triplets, or (n, 2) pairs, of row numbers inside X."""
    who, (what, each) = name_of(estimator), _GIVEN[width]
    expected = f"{what} must be integer row numbers of X, each {each}, or points (n, {width}, d) with X=None"
    array = as_array(who, given, expected)
    if array.ndim != 2 or array.shape[1] != width or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{who}: {expected}; got dtype {array.dtype} of shape {array.shape}.")
    if array.size and (array.min() < 0 or array.max() >= n_rows):
        worst = int(array.min()) if array.min() < 0 else int(array.max())
        raise ValueError(f"{who}: {what} must refer to rows 0 to {n_rows - 1} of X, got row {worst}.")
    return np.ascontiguousarray(array, np.int64)


def check_points(estimator: Any, points: Any, width: int) -> tuple[Array, Array]:
    """(n, width, d) points as rows, and the triplets, or pairs, that number them."""
    who, what = name_of(estimator), _GIVEN[width][0]
    expected = f"without X, {what} must be points of shape (n, {width}, d)"
    array = as_array(who, points, expected)
    if array.ndim != 3 or array.shape[1] != width:
        raise ValueError(f"{who}: {expected}, got shape {array.shape}. Pass X to use row numbers.")
    flat = array.reshape(len(array) * width, array.shape[2])
    if _plain(flat, FLOATS):
        flat = np.ascontiguousarray(flat)
    else:
        flat = check_array(flat, dtype=FLOATS, order="C", estimator=who, input_name=what)
    return flat, np.arange(len(flat)).reshape(-1, width)


def check_targets(estimator: Any, targets: Any, n: int) -> Array:
    """+1 (similar) or -1 (dissimilar) for each pair."""
    expected = f"pair_targets must be +1 (similar) or -1 (dissimilar) for each of the {n} pairs"
    array = as_array(estimator, targets, expected)
    if targets is None or array.shape != (n,) or not np.isin(array, (-1, 1)).all():
        got = "none" if targets is None else f"shape {array.shape}" if array.shape != (n,) else "other values"
        raise ValueError(f"{name_of(estimator)}: {expected}, got {got}.")
    return array.astype(np.float64)


def check_weight(
    estimator: Any, weight: Any, n: int, name: str = "triplet_weight", what: str = "triplets"
) -> Array | None:
    """One finite nonnegative weight for each of n triplets, or rows; or None."""
    if weight is None:
        return None
    expected = f"{name} must have one value for each of the {n} {what}"
    try:
        array = np.asarray(weight, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name_of(estimator)}: {expected}, each a number ({error}).") from None
    if array.shape != (n,):
        raise ValueError(f"{name_of(estimator)}: {expected}, got shape {array.shape}.")
    if not ((array >= 0) & (array <= _HEAVIEST)).all():
        raise ValueError(f"{name_of(estimator)}: {name} must be finite and not negative, and at most {_HEAVIEST:.0e}.")
    return array


def _largest(X: Any) -> float:
    """The largest absolute value in X, without a copy of it."""
    values = X.data if sp.issparse(X) else X
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def is_huge(X: Any) -> bool:
    """Whether values in X are so large that it depends on the units of a metric if they overflow."""
    return not _largest(X) < _HUGE[X.dtype.itemsize]


def check_magnitude(estimator: Any, X: Any, factor: float) -> None:
    """Refuse rows so large that a step, or a distance, would overflow."""
    largest = _largest(X) * factor * np.sqrt(X.shape[1])
    if not largest < _LARGEST[X.dtype.itemsize]:
        raise ValueError(
            f"{name_of(estimator)}: values in X are too large, squares of them would overflow (largest row norm about "
            f"{largest:.0e} in scaled units, limit {_LARGEST[X.dtype.itemsize]:.0e} for {X.dtype}). Scale the data."
        )


def check_not_tiny(estimator: Any, X: Any) -> None:
    """Refuse rows so small that no triplet could be told from a degenerate one, in the units that they come in."""
    largest = _largest(X)
    if 0.0 < largest < _SMALLEST[X.dtype.itemsize]:
        raise ValueError(
            f"{name_of(estimator)}: values in X are too small, at most {largest:.0e}: powers of distances would vanish "
            f"in {X.dtype}. Multiply the data by a constant{', or use float64' if X.dtype == np.float32 else ''}."
        )


def check_units(estimator: Any, scale: float, dtype: Any) -> None:
    """Refuse rows so small that a metric in their units, about 1 / scale^2, would overflow."""
    if not scale > 10.0 / np.sqrt(float(np.finfo(dtype).max)):
        raise ValueError(
            f"{name_of(estimator)}: differences in X are too small, about {scale:.0e}: the metric in these units would "
            f"overflow {dtype}. Multiply the data by a constant{', or use float64' if dtype == np.float32 else ''}."
        )


def check_real(name: str, value: Any, low: float, high: float = np.inf, *, open_low: bool = False) -> None:
    """A real number in [low, high], or (low, high]."""
    ok = not isinstance(value, bool) and isinstance(value, Real) and low <= float(value) <= high
    if not ok or (open_low and value == low):
        bounds = f"{'(' if open_low else '['}{low:g}, {high:g}]"
        raise ValueError(f"{name} must be a number in {bounds}, got {value!r}.")


def check_count(name: str, value: Any, low: int = 1) -> None:
    """An integer of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}.")


def count_or_auto(name: str, value: Any, auto: int) -> int:
    """An integer of at least 0, or what "auto" stands for."""
    if isinstance(value, str) and value == "auto":
        return auto
    if isinstance(value, str):
        raise ValueError(f"{name} must be 'auto' or an integer of at least 0, got {value!r}.")
    check_count(name, value, 0)
    return int(value)


def check_jobs(value: Any) -> None:
    """n_jobs: a number of threads, -1 for all, or None."""
    number = int(value) if not isinstance(value, bool) and isinstance(value, Integral) else 0
    if value is not None and (number == 0 or number < -1):
        raise ValueError(f"n_jobs must be a positive integer, -1 for all CPUs, or None, got {value!r}.")


def check_between(name: str, value: Any, low: int, high: int) -> None:
    """An integer of at least `low` and at most `high`."""
    check_count(name, value, low)
    if value > high:
        raise ValueError(f"{name} must be an integer of at most {high}, got {value!r}.")


def check_word(name: str, value: Any, words: tuple[Any, ...]) -> Any:
    """One of a few words, which is returned; NumPy's booleans, as grids hold them, are Python's."""
    plain = bool(value) if isinstance(value, np.bool_) else value
    for word in words:
        if plain is word or (isinstance(plain, str) and plain == word):
            return word
    raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}.")
