"""Torch, if it is installed: the one place that imports it, and the devices and the precision that it is asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any

from ._arrays import is_torch
from ._optional import optional

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
