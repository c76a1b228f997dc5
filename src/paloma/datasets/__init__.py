"""Data sets: the embedded Letters, scikit-learn's digits, and ``.npz`` files of your own."""

from paloma.datasets._files import load
from paloma.datasets._letters import load_letters

__all__ = ["load", "load_letters"]
