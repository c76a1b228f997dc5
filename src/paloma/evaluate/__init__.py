"""Evaluation: cross-validation over triplets, and the protocol of the paper."""

from ._triplets import cross_validate_triplets

__all__ = ["cross_validate_triplets"]
