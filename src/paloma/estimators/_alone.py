"""One thread at a time: a learner changes in place, so learning and reading take turns."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def lock_of(learner: Any) -> Any:
    """The lock of a learner, created when it is first needed; copies and files hold none."""
    return vars(learner).setdefault("_lock", threading.RLock())


def alone(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a method wait for the one that another thread has begun."""

    @wraps(method)
    def locked(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        with lock_of(self):
            return method(self, *args, **kwargs)

    return locked
