"""Beyond one machine: the same learners on dask.distributed (extra ``dask``). See docs/distributed.md."""

from ._cluster import connected
from ._fit import fit
from ._index import PartitionedIndex
from ._mining import targets_impostors

__all__ = ["PartitionedIndex", "connected", "fit", "targets_impostors"]
