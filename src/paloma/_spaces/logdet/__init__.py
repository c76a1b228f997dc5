"""LogDet geometry: positive definite matrices whose inverses take the steps."""

from .space import LogDet

__all__ = ["LogDet"]
