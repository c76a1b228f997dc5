"""What surrounds every public call: one at a time, and answered in the kind of arrays that it was asked in.

A learner changes in place while it learns, so each public call holds its lock: of threads that share a learner, one
reads or learns at a time.

Everything follows X: who is given arrays of torch or another library answers with such arrays, on the same device.
What was learned is NumPy inside. Under scikit-learn's `array_api_dispatch` it is also handed out as X was given.
"""

import threading
from collections.abc import Callable
from copy import deepcopy
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn import get_config

from .. import _validation as check
from .._arrays import alike, array_of, is_foreign, is_tensor, like, sample_of

Method = TypeVar("Method", bound=Callable[..., Any])

# Methods whose rows must be of the kind that was fitted on, under `array_api_dispatch`: scikit-learn's own.
ASKING = frozenset({"transform", "predict", "predict_proba"})


def reading(learner: Any) -> Any:
    """The lock of a learner, held while it is read so that no other thread has it learn; copies and files hold none."""
    return vars(learner).setdefault("_lock", threading.RLock())


def alone(method: Method) -> Method:
    """Make a method wait for the one that another thread has begun."""

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with reading(self):
            return method(self, *args, **kwargs)

    return cast(Method, locked)


def public(method: Method) -> Method:
    """A call of a learner that is given arrays, or answers with some: `alone`, and `following` them."""
    return alone(following(method))


def following(method: Method) -> Method:
    """Give a method NumPy arrays for those of other libraries, and its caller the latter for the former.

    What is given no rows, such as an attribute, follows the rows of `fit`. A learner, which has a device, goes where
    tensors are, or refuses them.
    """
    begins, asks = method.__name__ == "fit", method.__name__ in ASKING

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        given: list[Any] = [value for value in (*args, *kwargs.values()) if is_foreign(value)]
        own = vars(self)
        if not given and "_home" not in own and not (begins and own.get("_followed")):
            return method(self, *args, **kwargs)
        who, home, before = check.name_of(self), own.get("_home"), own.get("_followed")
        first: Any = kwargs.get("X", args[0] if args else None)
        lead = first if _is_rows(first) else given[0] if given else home
        if asks and home is not None and get_config()["array_api_dispatch"]:
            _refuse_others(f"{who}.{method.__name__}()", lead, home)
        arrays = as_arrays(who, *args)
        named = dict(zip(kwargs, as_arrays(who, *kwargs.values()), strict=True))
        has_device = hasattr(self, "to")
        if has_device:
            _meet(self, who, [value.device for value in given if is_tensor(value)], begins)
            if begins or not hasattr(self, "_model"):
                settle(self, lead)
        try:
            answer = method(self, *arrays, **named)
        except BaseException:
            if has_device:
                self._followed = before
                _put_home(self, home)
            raise
        return like(answer, lead) if is_foreign(lead) else answer

    return cast(Method, call)


def as_arrays(who: str, *values: Any) -> tuple[Any, ...]:
    """Values, those that are arrays of another library in NumPy."""
    return tuple(array_of(who, value) if is_foreign(value) else value for value in values)


def settle(estimator: Any, X: Any) -> None:
    """Remember the library and device of the rows that are fitted on, if scikit-learn's `array_api_dispatch` is on."""
    _put_home(estimator, sample_of(X) if is_foreign(X) and get_config()["array_api_dispatch"] else None)


def converted(estimator: Any, converter: Callable[[Any], Any]) -> Any:
    """A copy that hands out what it learned as `converter` turns NumPy arrays: for scikit-learn's `move_estimator_to`.

    A learner that followed its rows to a device moves with them.
    """
    out, home = deepcopy(estimator), converter(np.empty(0, np.float32))
    _put_home(out, home if is_foreign(home) else None)
    device = str(home.device) if is_tensor(home) and home.device.type != "cpu" else None
    if hasattr(out, "to") and out.device is None and device != vars(out).get("_followed"):
        out.to(device)
    return out


def _put_home(estimator: Any, home: Any) -> None:
    if home is None:
        vars(estimator).pop("_home", None)
    else:
        estimator._home = home


def _is_rows(value: Any) -> bool:
    """Whether an answer may follow this argument; a label or a number is none that it may."""
    return bool(getattr(value, "shape", isinstance(value, list | tuple)))


def _refuse_others(call: str, lead: Any, home: Any) -> None:
    if not (is_foreign(lead) and alike(lead, home)):
        raise ValueError(
            f"Inputs passed to {call} must use the same namespace and the same device as those passed to fit(): "
            f"{type(home).__module__} on {home.device}, got {type(lead).__module__}.{type(lead).__name__}"
            f"{f' on {lead.device}' if is_foreign(lead) else ''}. Convert them, or ask outside of "
            "array_api_dispatch=True, where every kind of rows is taken."
        )


def _meet(learner: Any, who: str, devices: list[Any], begins: bool) -> None:
    """Check that tensors on a GPU are where the model is; a new model, unless told otherwise, goes where they are."""
    gpus = sorted({str(device) for device in devices if device.type != "cpu"})
    if len(gpus) > 1:
        raise ValueError(f"{who}: tensors are on several devices, {' and '.join(gpus)}; bring them to one.")
    if begins or not hasattr(learner, "_model"):
        learner._followed = gpus[0] if gpus and learner.device is None else None
        return
    home = str(learner._model.space.device or vars(learner).get("_followed") or "the CPU")
    if gpus and gpus[0].partition(":")[0] != home and gpus[0] != home:
        raise ValueError(
            f"{who}: a tensor is on {gpus[0]}, but the model is on {home}. Move one of them: x.cpu(), or "
            f"learner.to({gpus[0]!r})."
        )
