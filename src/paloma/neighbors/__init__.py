"""Nearest neighbours under learnt metrics."""

from .classifier import MetricKNeighborsClassifier

__all__ = ["MetricKNeighborsClassifier"]
