"""Sources of randomness as arrays: NumPy's default generator, and the legacy RandomState."""

from typing import Any

import numpy as np

from .._typing import Array
from ..exceptions import ModelFileError

# A RandomState: the 624 words of its key; then the position in it, whether a normal number waits, and its bits.
KEY = 624


def generator_state(source: np.random.Generator, where: str) -> Array:
    """A PCG64 generator as six words: state and increment, high word first; whether half a word waits, and which."""
    state: Any = source.bit_generator.state
    if state["bit_generator"] != "PCG64":
        raise ModelFileError(f"{where} draws from {state['bit_generator']}; model files hold PCG64.")
    words = [w for name in ("state", "inc") for w in divmod(state["state"][name], 2**64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def generator_of(words: Array) -> np.random.Generator:
    """The generator that goes on from there. An even increment is none: such a generator may repeat itself forever."""
    high, low, inc_high, inc_low, waits, half = (int(word) for word in words)
    if not inc_low % 2 or waits > 1 or half >= 2**32:
        raise ModelFileError("the random state is none of PCG64")
    bits = np.random.PCG64(0)
    inside: Any = {"state": high << 64 | low, "inc": inc_high << 64 | inc_low}
    bits.state = {"bit_generator": "PCG64", "state": inside, "has_uint32": waits, "uinteger": half}
    return np.random.Generator(bits)


def legacy_state(source: np.random.RandomState, where: str) -> Array:
    """A RandomState as words."""
    kind, key, position, waits, gauss = source.get_state(legacy=True) if _is_mersenne(source) else ("", (), 0, 0, 0.0)
    if kind != "MT19937":
        raise ModelFileError(f"{where} draws from another source than MT19937, which a model file cannot hold.")
    return np.array([*key, position, waits, int(np.float64(gauss).view(np.uint64))], np.uint64)


def _is_mersenne(source: np.random.RandomState) -> bool:
    return bool(source.get_state(legacy=False)["bit_generator"] == "MT19937")


def legacy_of(words: Array) -> np.random.RandomState:
    """The RandomState that goes on from there."""
    if words.dtype != np.uint64 or words.shape != (KEY + 3,):
        raise ModelFileError("a random state has the wrong size")
    key, (position, waits, bits) = words[:KEY], (int(word) for word in words[KEY:])
    gauss = float(np.uint64(bits).view(np.float64))
    zero = not key[1:].any() and not int(key[0]) >> 31
    if zero or key.max() >= 2**32 or position > KEY or waits > 1 or not np.isfinite(gauss):
        raise ModelFileError("a random state is none of MT19937")
    out = np.random.RandomState(0)
    out.set_state(("MT19937", key.astype(np.uint32), position, waits, gauss))
    return out
