"""The learners; and for other packages of paloma, what may be asked of them."""

from ._calls import as_arrays as as_arrays
from ._calls import converted as converted
from ._calls import following as following
from ._calls import reading as reading
from ._calls import settle as settle
from ._interface import Mark as Mark
from ._interface import at_start as at_start
from ._interface import bare_learner as bare_learner
from ._interface import bound_settings_of as bound_settings_of
from ._interface import changed_parameters as changed_parameters
from ._interface import changed_since as changed_since
from ._interface import is_learner as is_learner
from ._interface import learner_of as learner_of
from ._interface import measure_of as measure_of
from ._interface import model_of as model_of
from ._interface import no_learner as no_learner
from ._interface import obey as obey
from ._interface import parted as parted
from ._interface import projected as projected
from ._interface import reader_of as reader_of
from ._interface import refuse_elsewhere as refuse_elsewhere
from ._interface import settings_of as settings_of
from ._interface import tallies_of as tallies_of
from ._interface import to_be_saved as to_be_saved
from ._interface import widen as widen
from ._interface import with_model as with_model
from .distance import L2ODML, LODML, ODML, DiagonalODML
from .kernel import OKS, OMKS
from .logdet import SLMOML
from .multimodal import OMDML
from .similarity import L2OSL, LOSL, OASIS

__all__ = ["L2ODML", "L2OSL", "LODML", "LOSL", "OASIS", "ODML", "OKS", "OMDML", "OMKS", "SLMOML", "DiagonalODML"]
