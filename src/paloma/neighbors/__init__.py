"""Nearest neighbors under learned metrics."""

from .classifier import MetricKNeighborsClassifier
from .euclid import euclidean_accuracy
from .index import MetricIndex

__all__ = ["MetricIndex", "MetricKNeighborsClassifier", "euclidean_accuracy"]
