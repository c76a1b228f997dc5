"""Dense matrices: U and one L per class."""

from .space import Dense, DenseSpace

__all__ = ["Dense", "DenseSpace"]
