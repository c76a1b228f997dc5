"""Diagonal metrics: one weight per feature."""

from .metric import DiagonalMetric
from .space import Diagonal

__all__ = ["Diagonal", "DiagonalMetric"]
