"""Kernels: net steps of pairs of points."""

from .functions import PRECOMPUTED, Kernel
from .space import Kernels, KernelSpace

__all__ = ["PRECOMPUTED", "Kernel", "KernelSpace", "Kernels"]
