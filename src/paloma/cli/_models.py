"""Models as the commands make them and take them apart."""

import ast
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from .. import estimators
from ..neighbors import MetricKNeighborsClassifier
from ..persist import learner_of, load, save
from ..preprocessing import UnitRows
from ._columns import LABEL, LabelType, Wanted
from ._formats import read_all

Array = NDArray[Any]
_STEPS = {"standard": StandardScaler, "minmax": MinMaxScaler, "maxabs": MaxAbsScaler, "unit": UnitRows}
PREPARE = ("auto", "none", *_STEPS)


def learner(name: str, settings: list[str] | None, seed: int) -> Any:
    """A learner by its name, in any case, and its parameters as name=value."""
    known = {each.lower(): getattr(estimators, each) for each in estimators.__all__}
    if name.lower() not in known:
        raise ValueError(f"Unknown learner {name!r}; known are {', '.join(estimators.__all__)}.")
    kind = known[name.lower()]
    parameters: dict[str, Any] = {"random_state": seed}
    for setting in settings or ():
        key, equals, text = setting.partition("=")
        if not equals or key not in kind._get_param_names():
            raise ValueError(
                f"--set {setting}: expected name=value with a parameter of {kind.__name__}: "
                f"{', '.join(kind._get_param_names())}."
            )
        parameters[key] = _value(text)
    return kind(**parameters)


def parsed(settings: list[str] | None) -> dict[str, Any]:
    """Options given as name=value."""
    pairs = [setting.partition("=") for setting in settings or ()]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise ValueError(f"--set {wrong[0]}: expected name=value.")
    return {name: _value(text) for name, _, text in pairs}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def prepared(model: Any, prepare: str, sparse: bool) -> Any:
    """The model behind what prepares the rows.

    auto: standardised columns for distances; for similarities also rows of length 1; sparse rows are never centred.
    """
    if prepare not in PREPARE:
        raise ValueError(f"--prepare must be one of {', '.join(PREPARE)}, got {prepare!r}.")
    steps = [] if prepare in ("auto", "none") else [prepare]
    if prepare == "auto":
        steps = [] if sparse else ["standard"]
        if not hasattr(model, "pair_distance"):
            steps.append("unit")
    return make_pipeline(*(_STEPS[step]() for step in steps), model) if steps else model


class Opened:
    """A model: what prepares its rows, the learner or classifier behind that, the learner itself, its columns."""

    def __init__(self, model: Any) -> None:
        self.model, self.learner = model, learner_of(model)
        is_pipeline = isinstance(model, Pipeline)
        self.last = model[-1] if is_pipeline else model
        self.before = model[:-1] if is_pipeline and len(model) > 1 else None

    @classmethod
    def file(cls, path: Path) -> "Opened":
        return cls(load(path))

    def rows(self, X: Any) -> Any:
        """Rows as the learner sees them."""
        return X if self.before is None else self.before.transform(X)

    def points(self, X: Array) -> Array:
        """Triplets of points as the learner sees them."""
        return self.rows(X.reshape(-1, X.shape[2])).reshape(*X.shape[:2], -1)

    def labels(self, word: str = "auto") -> LabelType:
        """How labels are to be read: as the classes that are known."""
        return LabelType(word, getattr(self.learner, "classes_", None))

    def wanted(self, label: str | None, needed: bool, drop: str = "") -> Wanted:
        """The columns that the model knows."""
        known = getattr(self.model, "columns_", None) or {}
        features = known.get("features") or list(getattr(self.model, "feature_names_in_", ())) or None
        n_features = getattr(self.model, "n_features_in_", None)
        return Wanted(label or known.get("label") or LABEL, needed, features, dropped(drop), n_features)

    def remember(self, features: list[str] | None, label: str) -> None:
        """Keep the names of the columns with the model, for the tables to come."""
        self.model.columns_ = {"features": features, "label": label}

    def searcher(self, items: str | None, k: int | None) -> Any:
        """A fitted classifier: the model's own, or one over the labelled rows of `items`."""
        if items is None and not isinstance(self.last, MetricKNeighborsClassifier):
            raise ValueError("The model keeps no rows to search in; give labelled rows with --items.")
        found = self.last
        if items is not None:
            batch = read_all(items, self.wanted(None, True))
            found = MetricKNeighborsClassifier(FrozenEstimator(self.learner))
            found.fit(self.rows(batch.X), self.labels().of(batch, items))
        if k is not None:
            found.n_neighbors = k
        return found

    def save(self, path: Path) -> None:
        """Save it; rows that are searched come under the metric as it is now."""
        if isinstance(self.last, MetricKNeighborsClassifier):
            self.last.refresh()
        save(self.model, path)


def dropped(names: str) -> tuple[str, ...]:
    """Column names out of a list with commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())
