"""A metric per group: who gave a triplet decides its local part (theory 24)."""

import numpy as np
import pytest

import paloma
from axes import BLOCKS, LOCAL, MEASURES, learner
from helpers.streams import fixed_stream
from twins.pairs import run_pairs
from twins.stacked import run

STREAM = fixed_stream(n_families=8)
X, T = STREAM.X, STREAM.triplets
C, LAM = 0.3, 0.4
GROUPS = np.random.default_rng(3).integers(4, size=len(T))
NAMES = np.array(["anna", "ben", "cleo", "dora"])


def relative(found, expected):
    return np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()


def made(measure, **options):
    return learner(LOCAL[measure], C=C, lam=LAM, **options)


def twin(measure, groups=GROUPS, triplets=T):
    return run(measure, X, triplets, np.stack([groups, groups], axis=1), LAM, 1 - LAM, C, n_classes=4)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("measure", MEASURES)
def test_groups_equal_the_twin(measure, block):
    model = made(measure, block_size=block).fit(X, triplets=T, groups=NAMES[GROUPS])
    expected = twin(measure)
    assert model.classes_.tolist() == NAMES.tolist()
    assert relative(model.shared_, expected.U) < 1e-10
    assert relative(model.local_, expected.L) < 1e-10


@pytest.mark.parametrize("measure", MEASURES)
def test_a_stream_of_calls_is_one_stream(measure):
    model = made(measure)
    for a, b in ((0, 1), (1, 40), (40, len(T))):
        model.partial_fit(X, triplets=T[a:b], groups=NAMES[GROUPS[a:b]])
    expected = twin(measure)
    assert relative(model.shared_, expected.U) < 1e-10
    assert relative(model.local_[np.argsort(model.classes_)], expected.L) < 1e-10


def test_points_are_rows():
    by_rows = made("distance").fit(X, triplets=T, groups=NAMES[GROUPS])
    by_points = made("distance").fit(None, triplets=X[T], groups=NAMES[GROUPS])
    assert relative(by_points.local_, by_rows.local_) < 1e-12


def test_pairs_have_groups():
    pairs, targets = T[:, :2], np.where(np.arange(len(T)) % 3, 1, -1)
    model = made("distance", pair_threshold=3.0).fit(X, pairs=pairs, pair_targets=targets, groups=NAMES[GROUPS])
    U, L = run_pairs("distance", X, pairs, targets, GROUPS, LAM, 1 - LAM, C, 3.0, n_classes=4)
    assert relative(model.shared_, U) < 1e-10
    assert relative(model.local_, L) < 1e-10


def test_the_marker_speaks_for_nobody():
    groups = np.where(GROUPS == 3, "", NAMES[GROUPS])
    model = made("distance", unlabeled="").fit(X, triplets=T, groups=groups)
    expected = twin("distance", np.where(GROUPS == 3, -1, GROUPS))
    assert relative(model.shared_, expected.U) < 1e-10
    assert relative(model.local_, expected.L[:3]) < 1e-10


def test_scores_read_the_metric_of_a_group():
    model = made("distance", psd="never").fit(X, triplets=T, groups=NAMES[GROUPS])
    expected, difference = twin("distance"), X[1] - X[9]
    metric = LAM * expected.U + (1 - LAM) * expected.L[1]
    value = difference @ metric @ difference
    assert model.pair_distance([[1, 9]], X=X, group="ben")[0] == pytest.approx(np.sqrt(max(value, 0.0)))
    score = model.pairwise_score(X[1:2], X[9:10], group="ben")[0, 0]
    assert score == pytest.approx(-np.sign(value) * np.sqrt(abs(value)))
    assert model.pair_score([[1, 9]], X=X, group="ben")[0] == model.pair_score([[1, 9]], ["ben"], X=X)[0]
    stranger = LAM * expected.U + (1 - LAM) * np.eye(X.shape[1])
    assert relative(model.metric_matrix("zoe"), stranger) < 1e-10


def test_a_group_searches_a_shared_index():
    model = made("distance").fit(X, triplets=T, groups=NAMES[GROUPS])
    index = paloma.MetricIndex(model)
    index.add(X)
    distances, ids = index.search(X[:5], 4, group="cleo", n_candidates=len(X))
    table = -model.pairwise_score(X[:5], X, group="cleo")
    assert np.allclose(distances, np.sort(np.maximum(table, 0), axis=1)[:, :4], atol=1e-7)
    assert (index.search(X[:5], 4, group="ben", n_candidates=len(X))[1] != ids).any()


def test_a_group_can_be_forgotten():
    model = made("distance").fit(X, triplets=T, groups=NAMES[GROUPS]).forget_classes(["ben"])
    assert model.classes_.tolist() == ["anna", "cleo", "dora"]
    assert np.array_equal(model.metric_matrix("ben"), model.metric_matrix("zoe"))


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("LODML", {"y": STREAM.y}, "either y or groups"),
        ("ODML", {}, "groups need a learner with lam"),
        ("OKS", {}, "groups need a learner with lam"),
        ("LODML", {"triplets": None}, "rows have none"),
        ("LODML", {"groups": NAMES[:2]}, "inconsistent lengths"),
    ],
)
def test_refused(name, arguments, sentence):
    given = {"triplets": T, "groups": NAMES[GROUPS], **arguments}
    with pytest.raises(ValueError, match=sentence):
        getattr(paloma, name)().fit(X, **given)


def test_y_and_group_are_refused_together():
    model = made("distance").fit(X, triplets=T, groups=NAMES[GROUPS])
    with pytest.raises(ValueError, match="either y or group"):
        model.pair_score([[1, 9]], ["ben"], X=X, group="ben")
    with pytest.raises(ValueError, match="group must be a single group"):
        model.pair_score([[1, 9]], X=X, group=["ben", "anna"])
