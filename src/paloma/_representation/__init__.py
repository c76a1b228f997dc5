"""How a model is held: dense matrices, and their read-out."""

from .dense import Dense, gram, segments_of
from .metric import SHARED, UNSEEN, DenseMetric

__all__ = ["SHARED", "UNSEEN", "Dense", "DenseMetric", "gram", "segments_of"]
