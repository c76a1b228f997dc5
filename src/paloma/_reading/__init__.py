"""From a fitted learner to numbers: the one inner interface for everything that reads a model."""

from .reader import Reader
from .vectors import Balance

__all__ = ["Balance", "Reader"]
