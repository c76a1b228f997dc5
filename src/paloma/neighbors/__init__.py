"""Nearest neighbours under learnt metrics."""

from .classifier import MetricKNeighborsClassifier
from .index import MetricIndex

__all__ = ["MetricIndex", "MetricKNeighborsClassifier"]
