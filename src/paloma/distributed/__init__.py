"""Beyond one machine: the same learners on dask.distributed (extra ``dask``). See docs/distributed.md."""

from ._fit import fit

__all__ = ["fit"]
