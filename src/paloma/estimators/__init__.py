"""The learners."""

from .distance import LODML, ODML
from .similarity import LOSL, OASIS

__all__ = ["LODML", "LOSL", "OASIS", "ODML"]
