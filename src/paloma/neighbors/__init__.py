"""Nearest neighbours under learnt metrics."""

from .classifier import MetricKNeighborsClassifier
from .euclid import euclidean_accuracy

__all__ = ["MetricKNeighborsClassifier", "euclidean_accuracy"]
