"""The learners."""

from .distance import L2ODML, LODML, ODML
from .kernel import OKS, OMKS
from .similarity import L2OSL, LOSL, OASIS

__all__ = ["L2ODML", "L2OSL", "LODML", "LOSL", "OASIS", "ODML", "OKS", "OMKS"]
