"""What a type checker knows of the public surface: `make lint` checks this under `mypy --strict`; it never runs."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import paloma
from paloma import L2ODML, LODML, OASIS, MetricIndex, MetricKNeighborsClassifier
from paloma.feedback import FeedbackSearch
from paloma.triplets import targets_impostors


def user() -> None:
    X, y = np.zeros((60, 5)), np.arange(60) % 3
    learner = assert_type(LODML(C=0.01, random_state=0).fit(X, y), LODML)
    assert_type(learner.partial_fit(X, y, triplets=[[0, 3, 1]]), LODML)
    assert_type(learner.pairwise_score(X[:2], X, y), NDArray[Any])
    assert_type(learner.score(X, y), float)
    assert_type(OASIS().fit(X, y).metric_matrix(), NDArray[Any])
    assert_type(L2ODML(rank=2).fit(X, y), L2ODML)
    model = assert_type(MetricKNeighborsClassifier(learner, n_neighbors=3).fit(X, y), MetricKNeighborsClassifier)
    assert_type(model.predict(X[:3]), NDArray[Any])
    assert_type(model.predict_proba(X[:3]), NDArray[Any])
    index = MetricIndex(learner)
    index.add(X, y)
    _, ids = index.search(X[:2], 3)
    assert_type(ids, NDArray[Any])
    search = FeedbackSearch(X)
    search.undo(search.mark(0, relevant=[1], irrelevant=[2]))
    paloma.save(learner, "model.paloma")
    assert_type(targets_impostors(X, y), NDArray[Any])
