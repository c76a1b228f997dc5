"""Evaluation: cross-validation over triplets, and progressive validation of streams."""

from ._progressive import Progress, plot_progress, progressive
from ._triplets import cross_validate_triplets

__all__ = ["Progress", "cross_validate_triplets", "plot_progress", "progressive"]
