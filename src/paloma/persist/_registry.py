"""The classes that a model file may hold beside paloma's own learners and the objects of `_objects`."""

from typing import Any

from ..estimators.base import Learner
from ..exceptions import ModelFileError
from ._clusters import KINDS
from ._learners import LEARNERS
from ._steps import STEPS

PAIR = ("__paloma_state__", "__paloma_restore__")
RESERVED = {"FrozenEstimator", "MetricIndex", "MetricKNeighborsClassifier", "Pipeline", *KINDS, *LEARNERS, *STEPS}
_registered: dict[str, type] = {}


def register(kind: type) -> type:
    """Allow model files to hold instances of a class of yours, under its name; usable as a decorator.

    A subclass of a learner is held like the learner: its parameters, and what it has learned. Any other class says
    itself what it is made of, by two methods: ``__paloma_state__(self)`` gives a dict of plain values (numbers,
    strings, lists, dicts, arrays) and of objects that files may hold; the class method
    ``__paloma_restore__(cls, state)`` makes an instance of such a dict. It must doubt what it is given: the file may
    come from anyone.

    The class must be registered before `load` as well.

    Examples
    --------
    >>> @register
    ... class Note:
    ...     def __init__(self, text):
    ...         self.text = text
    ...     def __paloma_state__(self):
    ...         return {"text": self.text}
    ...     @classmethod
    ...     def __paloma_restore__(cls, state):
    ...         return cls(str(state["text"]))
    >>> name_of(Note("kept with the model"))
    'Note'
    """
    name = kind.__name__
    if name in RESERVED or _registered.get(name, kind) is not kind:
        raise ValueError(f"register: {name!r} is already the name of a class in model files. Give yours another name.")
    if not issubclass(kind, Learner) and (missing := [method for method in PAIR if not hasattr(kind, method)]):
        raise TypeError(
            f"register: {name} needs the methods {' and '.join(PAIR)}, but has no {' and no '.join(missing)}."
        )
    _registered[name] = kind
    return kind


def registered(name: str) -> Any:
    """The class of this name."""
    if name not in _registered:
        raise ModelFileError(f"a class {name[:80]!r} is unknown to this paloma")
    return _registered[name]


def name_of(value: Any) -> str | None:
    """The name under which files hold instances of a registered class; None for others."""
    name = type(value).__name__
    return name if _registered.get(name) is type(value) else None
