"""The learners."""

from .distance import L2ODML, LODML, ODML
from .kernel import OKS, OMKS
from .logdet import SLMOML
from .multimodal import OMDML
from .similarity import L2OSL, LOSL, OASIS

__all__ = ["L2ODML", "L2OSL", "LODML", "LOSL", "OASIS", "ODML", "OKS", "OMDML", "OMKS", "SLMOML"]
