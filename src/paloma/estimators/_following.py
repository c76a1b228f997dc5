"""Everything follows X: a method that is given tensors answers with tensors, on the same device."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from .. import _validation as check
from .._device import array_of, is_tensor, like

P = ParamSpec("P")
R = TypeVar("R")


def device_of(learner: Any) -> Any:
    """The device that a learner asks for: its parameter; None: that of the tensors it learned from, if it was a GPU."""
    return learner.device if learner.device is not None else vars(learner).get("_followed")


def following(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Give a method NumPy arrays for tensors, and its caller tensors for NumPy arrays.

    A learner, which has a device, goes where the tensors are, or refuses them.
    """

    @wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        values: list[Any] = [*args, *kwargs.values()]
        given = [value for value in values if is_tensor(value)]
        begins, has_device = method.__name__ == "fit", hasattr(self, "device")
        if not given and not (begins and vars(self).get("_followed")):
            return method(self, *args, **kwargs)
        plain: Callable[..., R] = method
        who, before = check.name_of(self), vars(self).get("_followed")
        arrays = [array_of(who, value) if is_tensor(value) else value for value in args]
        named = {name: array_of(who, value) if is_tensor(value) else value for name, value in kwargs.items()}
        if has_device:
            _meet(self, who, [value.device for value in given], begins)
        try:
            answer = plain(self, *arrays, **named)
        except BaseException:
            if has_device:
                self._followed = before
            raise
        return like(answer, given[0]) if given else answer

    return call


def _meet(learner: Any, who: str, devices: list[Any], begins: bool) -> None:
    """Check that tensors on a GPU are where the model is; a new model, unless told otherwise, goes where they are."""
    gpus = sorted({str(device) for device in devices if device.type != "cpu"})
    if len(gpus) > 1:
        raise ValueError(f"{who}: tensors are on several devices, {' and '.join(gpus)}; bring them to one.")
    if begins or not hasattr(learner, "_model"):
        learner._followed = gpus[0] if gpus and learner.device is None else None
        return
    home = str(learner._model.space.device or "the CPU")
    if gpus and gpus[0].partition(":")[0] != home and gpus[0] != home:
        raise ValueError(
            f"{who}: a tensor is on {gpus[0]}, but the model is on {home}. Move one of them: x.cpu(), or "
            f"learner.to({gpus[0]!r})."
        )
