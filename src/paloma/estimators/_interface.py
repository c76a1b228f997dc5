"""What other packages may ask of a learner beyond its public methods; everything else they read through `reader_of`."""

import copy
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .. import _validation as check
from .._core.interrupt import learning_begins, whole_calls
from .._core.measure import Measure
from .._device import resolved
from .._reading import Reader
from .._spaces.projected import ProjectedSpace
from .._training.model import Model
from .._training.obeying import obeying
from .._training.settings import Settings
from .._typing import Array
from ._calls import reading
from .base import Learner


def is_learner(value: Any) -> TypeGuard[Learner]:
    """Whether this is a learner, fitted or not."""
    return isinstance(value, Learner)


def parted(model: Any) -> tuple[Any, Any]:
    """What prepares the rows of a pipeline, None if nothing does, and the last step; also out of FrozenEstimator."""
    if isinstance(model, FrozenEstimator):
        model = model.estimator
    if not isinstance(model, Pipeline):
        return None, model
    return (model[:-1] if len(model) > 1 else None), model[-1]


def learner_of(model: Any) -> Any:
    """The learner inside a pipeline, a frozen estimator, a classifier or an index; else the model itself."""
    last = parted(model)[1]
    held = [vars(last)[name] for name in ("metric_", "metric") if hasattr(last, "__dict__") and name in vars(last)]
    if held and held[0] is not None:
        return learner_of(held[0])
    return last if last is model else learner_of(last)


def bare_learner(metric: Any) -> Learner:
    """The learner that is given as a metric, by itself or frozen; anything else is refused."""
    before, learner = parted(metric)
    if before is not None or not is_learner(learner):
        raise TypeError(no_learner(metric))
    return learner


def refuse_elsewhere(who: str, learner: Learner, device: Any) -> None:
    """Refuse a device, unless it is None, that the learner is not on, or is not to learn on."""
    if device is None:
        return
    fitted = learner.__sklearn_is_fitted__()
    own = learner._model.space.device if fitted else learner.device and resolved(check.name_of(learner), learner.device)
    if str(resolved(who, device)) != str(own):
        raise ValueError(
            f"{who}: device={device!r}, but its metric is on {own or 'the CPU without torch'}, and searches go where "
            f"the metric is: move it, {check.name_of(learner)}.to({device!r})."
        )


def changed_parameters(learner: Learner) -> dict[str, Any]:
    """The parameters of a learner that are not at their defaults."""
    default = type(learner)().get_params(deep=False)

    def differs(name: str, value: Any) -> bool:
        return type(value) is not type(default[name]) or not np.array_equal(value, default[name])

    return {name: value for name, value in learner.get_params(deep=False).items() if differs(name, value)}


def no_learner(value: Any) -> str:
    """What to say of something that was given as a metric and is none."""
    if isinstance(value, type):
        name = value.__name__
        return f"metric must be a paloma learner, got the class {name} itself: pass an instance, {name}()."
    return f"metric must be a paloma learner, got {type(value).__name__}."


def reader_of(learner: Learner) -> Reader:
    """What reads a fitted learner as it is now; NotFittedError before it has learned."""
    return learner._reader()


def settings_of(learner: Learner) -> Settings:
    """The parameters of a learner, checked."""
    return learner._settings()


def bound_settings_of(learner: Learner) -> Settings:
    """The same of a learner that knows its features."""
    return learner._bound()


def changed_since(learner: Learner) -> list[str]:
    """Parameters that were given another value since the learner last learned, and that learning goes by."""
    return learner._changed()


def at_start(learner: Learner, rows: Any) -> Learner:
    """A learner that is not fitted, at its initial metric for rows like these; it has learned nothing."""
    return learner.partial_fit(rows, triplets=np.empty((0, 3), np.int64))


def obey(learner: Learner, rows: Any, labels: list[Any], typical: Any) -> bool:
    """Learn that the first of three rows is nearer to the second than to the third; False: it was."""
    with whole_calls():
        settings, model = learner._learned()
        moved = obeying(settings, copy.deepcopy(model), rows, labels, typical)
        if moved is not None:
            learning_begins()
            learner._publish(moved, None)
    return moved is not None


def model_of(learner: Learner) -> Model:
    """What a learner has learned so far."""
    return learner._model


def with_model(learner: Learner, model: Model, loss: float | None = None) -> Learner:
    """A copy of a learner that has learned this; `loss` is that of its last pass."""
    out = copy.copy(learner)
    out._begun = out._structure()
    out._publish(model, loss)
    return out


def to_be_saved(learner: Learner) -> tuple[Settings, Model]:
    """The model, and settings that know its features; refused if parameters were set to what it was not built from."""
    learner._refuse_restructuring(learner._model, "be saved")
    return learner._bound(), learner._model


def measure_of(learner: Learner) -> Measure:
    """What a learner compares, whether or not it is fitted."""
    return learner._settings().choice.measure


def tallies_of(learner: Learner) -> dict[Any, Array]:
    """For each label, the triplets of its class so far, how many were ranked right, and the sum of their losses."""
    with reading(learner):
        labels, table = learner._model.labels, learner._model.drift.table
        return dict(zip(labels.labels.tolist(), table(np.arange(len(labels)))[:, :3], strict=True))


def widen(learner: Learner, d: int) -> None:
    """More features: 0 in every row so far, so that the metric is the identity there."""
    if not isinstance(learner.init, str):
        raise ValueError(f"{check.name_of(learner)} accepts new features only with init='identity'.")
    with reading(learner):
        learner._model, learner.n_features_in_ = learner._model.widened(d), d


def projected(learner: Learner, rows: Array) -> Array:
    """Rows under the random projection that a fitted L2ODML or L2OSL learns on."""
    return cast(ProjectedSpace, learner._model.space).state.project(rows)


@dataclass(frozen=True, eq=False)
class Mark:
    """What a learner had learned, and how it was set, at one moment; equal to a later one if neither has changed."""

    model: Any
    n_triplets: int
    parameters: str

    @classmethod
    def of(cls, learner: Learner) -> "Mark":
        return cls(learner._model, learner.n_triplets_, repr(learner.get_params()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mark) or self.model is not other.model:
            return False
        return (self.n_triplets, self.parameters) == (other.n_triplets, other.parameters)
