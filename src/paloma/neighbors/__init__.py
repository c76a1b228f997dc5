"""Nearest neighbors under learned metrics."""

from ._pgvector import INDEXABLE as INDEXABLE
from ._pgvector import STORABLE as STORABLE
from ._pgvector import Superseded as Superseded
from ._table import VectorTable as VectorTable
from ._table import address_parts as address_parts
from .classifier import MetricKNeighborsClassifier
from .euclid import euclidean_accuracy
from .index import MetricIndex

__all__ = ["MetricIndex", "MetricKNeighborsClassifier", "euclidean_accuracy"]
