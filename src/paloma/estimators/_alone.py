"""One thread at a time: a learner changes in place, so learning and reading take turns."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def lock_of(learner: Any) -> Any:
    """The lock of a learner, created when it is first needed; copies and files hold none."""
    return vars(learner).setdefault("_lock", threading.RLock())


def alone(method: Method) -> Method:
    """Make a method wait for the one that another thread has begun."""

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with lock_of(self):
            return method(self, *args, **kwargs)

    return cast(Method, locked)
