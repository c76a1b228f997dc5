"""The inner interface to learners: readers, the one unwrapper, marks; nothing private from outside."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

import paloma
from paloma._core.measure import DISTANCE, SIMILARITY
from paloma.estimators import Mark, bare_learner, learner_of, measure_of, parted, reader_of

X, Y = load_wine(return_X_y=True)
X = scale(X)
PACKAGE = Path(paloma.__file__).parent
READERS = ("neighbors", "evaluate", "experiments", "persist", "cli", "stream.py", "distributed/_index.py")
PRIVATE = re.compile(r"\b(learner|metric|model|estimator|_learner|metric_)\._[a-z]")


def test_nobody_outside_touches_what_is_private():
    paths = [path for name in READERS for path in ([PACKAGE / name, *(PACKAGE / name).rglob("*.py")])]
    found = [str(p) for p in paths if p.is_file() and PRIVATE.search(p.read_text(encoding="utf-8"))]
    assert found == []


def test_one_unwrapper():
    learner = paloma.LODML(random_state=0).fit(X, Y)
    pipeline = make_pipeline(StandardScaler(), learner)
    classifier = paloma.MetricKNeighborsClassifier(FrozenEstimator(learner)).fit(X, Y)
    held = (learner, FrozenEstimator(learner), pipeline, FrozenEstimator(pipeline), classifier,
            make_pipeline(StandardScaler(), classifier), paloma.MetricIndex(pipeline))  # fmt: skip
    assert all(learner_of(model) is learner for model in held)
    assert learner_of(None) is None
    assert [type(part) for part in parted(pipeline)] == [type(pipeline), paloma.LODML]
    assert bare_learner(FrozenEstimator(learner)) is learner
    for wrong in (pipeline, classifier, StandardScaler()):
        with pytest.raises(TypeError, match=f"metric must be a paloma learner, got {type(wrong).__name__}"):
            bare_learner(wrong)


@pytest.mark.parametrize(("learner", "measure"), [
    (paloma.ODML(), DISTANCE), (paloma.OASIS(), SIMILARITY), (paloma.OKS(), SIMILARITY),
    (paloma.OKS(measure="distance"), DISTANCE),
], ids=repr)  # fmt: skip
def test_measures_speak_for_themselves(learner, measure):
    assert measure_of(learner) is measure
    values = np.array([4.0, -1.0, 0.0])
    np.testing.assert_array_equal(measure.near(measure.near(values)), values)
    seen = [2.0, 0.0, 0.0] if measure.is_distance else values
    np.testing.assert_array_equal(measure.visible(measure.near(values)), seen)
    assert (np.argsort(measure.score(values)) == np.argsort(-measure.near(values))).all()


def test_a_reader_needs_a_fitted_learner_and_follows_it():
    learner = paloma.LODML(random_state=0)
    with pytest.raises(NotFittedError):
        reader_of(learner)
    learner.fit(X, Y)
    mark, reader = Mark.of(learner), reader_of(learner)
    np.testing.assert_array_equal(reader.matrix(1), learner.metric_matrix(1))
    assert Mark.of(learner) == mark
    rows, codes = reader.remembered()
    assert rows.shape == (len(codes), X.shape[1])
    learner.partial_fit(X, Y)
    assert Mark.of(learner) != mark
    assert Mark.of(learner.set_params(psd="never")) != mark
