"""Arrays of other libraries, tensors among them: which are, and the way into NumPy's and back.

Whose arrays these are has been imported by whoever made them; nothing here imports another library.
"""

import sys
from typing import Any

import numpy as np

from ._typing import Array


def is_torch(value: Any) -> bool:
    """Whether this is an object of torch; does not import it."""
    return type(value).__module__.partition(".")[0] == "torch"


def is_tensor(value: Any) -> bool:
    return is_torch(value) and hasattr(value, "requires_grad")


def is_foreign(value: Any) -> bool:
    """Whether this is an array of another library than NumPy: a tensor, or one of the array API standard."""
    kind = type(value)
    if kind is np.ndarray or kind.__module__ == "builtins":
        return False
    if hasattr(kind, "__array_namespace__"):
        return not isinstance(value, np.ndarray | np.generic)
    return is_tensor(value) or _is_cupy(value)


def _is_cupy(value: Any) -> bool:
    """Whether this is an array of CuPy, which does not name its namespace."""
    return type(value).__module__.partition(".")[0] == "cupy" and hasattr(value, "get")


def array_of(who: str, value: Any) -> Array:
    """An array of another library in NumPy, without a copy if it is on the host.

    Tensors that NumPy or a learner could only take by a silent conversion are refused.
    """
    if _is_cupy(value):
        return value.get()
    if not is_tensor(value):
        try:
            return np.from_dlpack(value, device="cpu")
        except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise TypeError(
                f"{who} takes arrays that NumPy can read, got one of {type(value).__module__} with dtype {value.dtype} "
                f"on {value.device} ({error}). Pass float32 or float64 on the host, or a NumPy array."
            ) from None
    if value.requires_grad:
        raise ValueError(f"{who}: a tensor requires grad, and learning here is not differentiated; pass x.detach().")
    if str(value.dtype) in ("torch.float16", "torch.bfloat16"):
        raise TypeError(f"{who} takes float32 or float64 tensors, got {value.dtype}; pass x.float().")
    if value.is_complex():
        raise ValueError(f"{who}: Complex data not supported, got a tensor of {value.dtype}.")
    return value.cpu().numpy()


def like(value: Any, model: Any) -> Any:
    """NumPy arrays, by themselves or in a tuple, as those of this one's library and device; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(like(one, model) for one in value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
        return value
    value = np.ascontiguousarray(value) if value.flags.writeable else value.copy()  # no library but NumPy protects it
    if is_tensor(model):
        return sys.modules["torch"].as_tensor(value, device=model.device)
    if _is_cupy(model):
        with model.device:
            return sys.modules["cupy"].asarray(value)
    xp = model.__array_namespace__()
    if value.dtype.name not in xp.__array_namespace_info__().dtypes(device=model.device):
        value = value.astype(f"{value.dtype.kind}4")
    return xp.asarray(value, device=model.device)


def sample_of(value: Any) -> Any:
    """An empty array of the library and on the device of this one: what `like` needs of it."""
    return like(np.empty(0, np.float32), value)


def alike(one: Any, other: Any) -> bool:
    """Whether two arrays are of the same library and on the same device."""
    libraries = {type(value).__module__.partition(".")[0] for value in (one, other)}
    return len(libraries) == 1 and bool(one.device == other.device)
