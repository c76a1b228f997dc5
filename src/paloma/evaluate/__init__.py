"""Evaluation: cross-validation over triplets, the protocol of the paper, progressive validation, retrieval."""

from ._methods import Euclid, Learned, Neighborhood
from ._progressive import Progress, plot_progress, progressive
from ._protocol import Outcome, PairedTest, Protocol, compare, paired_test, random_split
from ._retrieval import retrieval
from ._rows import Recipe
from ._search import Candidate, fit_shared, kappa_of, lam_of
from ._triplets import OnTriplets, cross_validate_triplets

__all__ = [
    "Candidate",
    "Euclid",
    "Learned",
    "Neighborhood",
    "OnTriplets",
    "Outcome",
    "PairedTest",
    "Progress",
    "Protocol",
    "Recipe",
    "compare",
    "cross_validate_triplets",
    "fit_shared",
    "kappa_of",
    "lam_of",
    "paired_test",
    "plot_progress",
    "progressive",
    "random_split",
    "retrieval",
]
