"""Evaluation: cross-validation over triplets, progressive validation of streams, retrieval."""

from ._progressive import Progress, plot_progress, progressive
from ._retrieval import retrieval
from ._triplets import cross_validate_triplets

__all__ = ["Progress", "cross_validate_triplets", "plot_progress", "progressive", "retrieval"]
