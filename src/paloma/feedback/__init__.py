"""Search that learns from feedback alone: what people say about results, a metric that keeps it, and a way back."""

from ._answers import Quality, Suggestion
from ._explain import Explanation
from ._model import FeedbackState
from ._statement import Statement
from .search import FeedbackSearch

__all__ = ["Explanation", "FeedbackSearch", "FeedbackState", "Quality", "Statement", "Suggestion"]
