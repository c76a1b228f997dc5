"""Sources of randomness as plain data: NumPy's default generator, and the legacy RandomState."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..exceptions import ModelFileError

_KINDS = {"PCG64": np.random.PCG64, "MT19937": np.random.MT19937}


def state_of(source: Any, where: str) -> dict[str, Any]:
    """State of a Generator or RandomState."""
    state = source.get_state(legacy=False) if isinstance(source, np.random.RandomState) else source.bit_generator.state
    if state["bit_generator"] not in _KINDS:
        raise ModelFileError(f"{where} draws from {state['bit_generator']}; model files hold {' and '.join(_KINDS)}.")
    return state


def restored(name: str, state: dict[str, Any]) -> Any:
    """The Generator or RandomState that goes on from a state."""
    bits = _KINDS[state["bit_generator"]](0)
    _check(state, bits.state)
    if name == "Generator":
        bits.state = state
        return np.random.Generator(bits)
    if name != "RandomState":
        raise ModelFileError(f"unknown source of randomness {name[:80]!r}")
    out = np.random.RandomState(0)
    out.set_state(state)
    return out


def _check(state: dict[str, Any], sound: Mapping[str, Any]) -> None:
    """Same entries, types and shapes as a sound state, which NumPy itself does not check."""
    inner, like = state["state"], sound["state"]
    if set(state) - {"has_gauss", "gauss"} != set(sound) or set(inner) != set(like):
        raise ModelFileError("a random state has missing or unknown entries")
    for name, value in like.items():
        if type(inner[name]) is not type(value) or np.shape(inner[name]) != np.shape(value):
            raise ModelFileError(f"a random state has a wrong {name}")
    if "key" in inner and (inner["key"].dtype != np.uint32 or not 0 <= inner["pos"] <= len(inner["key"])):
        raise ModelFileError("a random state points outside its key")
