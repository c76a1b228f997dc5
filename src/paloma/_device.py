"""Torch, if it is installed: the one place that imports it; and the way between other libraries' arrays and NumPy's."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from ._optional import optional
from ._typing import Array

WORDS = "None, 'auto', or a device as torch spells it: 'cuda', 'cuda:1', 'cpu'"


class _Lazy:
    """A module that is imported when first used."""

    def __init__(self, load: Any) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # who looks at the object itself, as doctest does, does not use the module
            raise AttributeError(name)
        return getattr(self._load(), name)


@cache
def _torch() -> Any:
    return optional("torch", "gpu")


torch: Any = _Lazy(_torch)


@cache
def has_triton() -> bool:
    """Whether kernels can be compiled; without Triton a GPU runs torch's own operations, which is slower."""
    return find_spec("triton") is not None


def resolved(who: str, device: Any) -> Any:
    """The torch device that is meant, checked to be there; None if "auto" finds none: the CPU without torch."""
    if not isinstance(device, str):
        device = str(device) if is_torch(device) else device
    if not isinstance(device, str):
        raise ValueError(f"{who}: device must be {WORDS}; got {device!r}.")
    if device == "auto":
        return torch.device("cuda") if find_spec("torch") is not None and torch.cuda.is_available() else None
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ValueError(f"{who}: device must be {WORDS}; got {device!r}.") from None
    if found.type not in ("cuda", "cpu"):
        raise ValueError(f"{who}: device={device!r} is not supported; device must be {WORDS}.")
    if found.type == "cuda":
        n = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (found.index or 0) >= n:
            there = f"has {n} of them" if n else "has none, or its torch was built without CUDA"
            raise ValueError(
                f"{who}: device={device!r} asks for a GPU, and this machine {there}. device=None learns on the CPU, "
                "'auto' on a GPU if there is one."
            )
    return found


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
    if value.dtype in (torch.float16, torch.bfloat16):
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
        return torch.as_tensor(value, device=model.device)
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


_TF32: ContextVar[bool] = ContextVar("tf32", default=False)


@contextmanager
def tf32() -> Iterator[None]:
    """A block in which float32 products on a GPU are made in TF32: faster, with ten bits of precision instead of 23.

    A product is then off by up to .001 of the product of its factors' norms, and metrics of the same stream differ by
    about as much (docs/gpu.md has figures). Without it paloma never uses TF32, whatever torch is set to.

    >>> import paloma
    >>> with paloma.tf32():
    ...     pass  # paloma.LODML(device="cuda").fit(X, y)
    """
    token = _TF32.set(True)
    try:
        yield
    finally:
        _TF32.reset(token)


def tf32_allowed() -> bool:
    """Whether this is inside of `tf32`."""
    return _TF32.get()


@contextmanager
def precision() -> Iterator[None]:
    """float32 products in float32, whatever torch is set to, unless `tf32` is asked for."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32_allowed()
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
