"""Groups of columns, each with its metric, weighted by Hedge."""

from .space import Grouped, GroupedSpace

__all__ = ["Grouped", "GroupedSpace"]
