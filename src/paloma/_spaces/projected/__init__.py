"""Dual random projection: small matrices, and a journal of steps on the original rows."""

from .space import Projected, ProjectedSpace

__all__ = ["Projected", "ProjectedSpace"]
