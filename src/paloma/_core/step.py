"""The step axis: words for people, integers and constants for compiled loops (theory 1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._compiled import steps
from .._compiled.groups import Rule

_CODES = {
    "pa": steps.PA,
    "pa1": steps.PA1,
    "pa2": steps.PA2,
    "smooth": steps.SMOOTH,
    "logistic": steps.LOGISTIC,
    "ramp": steps.RAMP,
    "rescaled": steps.RESCALED,
}
# The constants each rule takes, with their defaults; rescaled's beta follows eta so that its loss tends to 1.
_DEFAULTS: dict[str, dict[str, float | None]] = {
    "smooth": {"gamma": 0.5},
    "ramp": {"level": 1.7},
    "rescaled": {"eta": 0.5, "beta": None},
}


@dataclass(frozen=True)
class Step:
    """A step rule as compiled loops take it."""

    name: str
    rule: Rule

    @classmethod
    def parse(cls, name: Any, params: Any) -> "Step":
        """Check a rule's word and its constants; every constant must be a positive number."""
        if not isinstance(name, str) or name not in _CODES:
            raise ValueError(f"step must be one of {sorted(_CODES)}, got {name!r}.")
        if params is not None and not isinstance(params, Mapping):
            raise ValueError(f"step_params must be a dict of constants by name, or None, got {params!r}.")
        known = _DEFAULTS.get(name, {})
        given = dict(params or {})
        if unknown := [key for key in given if key not in known]:
            raise ValueError(f"step={name!r} takes step_params {sorted(known) or 'none'}, got {unknown}.")
        values = {**known, **given}
        for key, value in values.items():
            if value is not None and not (isinstance(value, Real) and 0 < float(value) < np.inf):
                raise ValueError(f"step_params[{key!r}] must be a positive number, got {value!r}.")
        if name == "rescaled" and values["beta"] is None:
            values["beta"] = 1.0 / -math.expm1(-float(values["eta"]))
        code, constants = _CODES[name], np.array([*values.values(), 0.0, 0.0], np.float64)[:2].tolist()
        return cls(name, Rule(code) if code in steps.SIMPLE else Rule(code, *constants))
