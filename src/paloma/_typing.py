"""The two types that every module speaks of."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
# Rows of features: a C-ordered array, or a CSR matrix with sorted indices.
Rows = Any
