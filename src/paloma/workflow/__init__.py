"""Whole workflows, one call each: train, update, evaluate, search, index. The commands of ``paloma`` call these.

A *model* is a fitted learner, a fitted `MetricKNeighborsClassifier`, or a pipeline of transformers that ends in either.
Rows are always passed as they come; the functions apply the preprocessing of the model, once.
"""

from ._evaluation import evaluate
from ._search import Neighbors, build_index, search
from ._training import PREPROCESSING, keep_rows, train, update

__all__ = ["PREPROCESSING", "Neighbors", "build_index", "evaluate", "keep_rows", "search", "train", "update"]
