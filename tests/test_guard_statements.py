"""What is said without labels, as triplets or pairs, is judged before it is learned, by the votes of the rows."""

import copy

import numpy as np
import pytest
from sklearn.datasets import load_wine

import paloma
from helpers import inside
from paloma import L2ODML, L2OSL, LODML, LOSL, OASIS, ODML, OKS, OMDML, DiagonalODML, MetricKNeighborsClassifier
from paloma._training.guard import GLOBAL, LOCAL, MIN_ROWS, cautious, gathered
from paloma._training.trainer import Trainer
from paloma.preprocessing import UnitRows

X, Y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)


def test_plain_iterates_and_what_few_rows_say_is_followed():
    triplets = paloma.triplets.targets_impostors(X, Y, random_state=0)
    assert LODML(random_state=0, scale=None).partial_fit(X, Y, triplets=triplets).strength_ == 1.0
    assert LODML(random_state=0).partial_fit(X, Y, triplets=triplets).strength_ < 1.0
    assert ODML(random_state=0, scale=None).partial_fit(X, triplets=triplets).strength_ == 1.0
    assert ODML(random_state=0).partial_fit(X[: MIN_ROWS - 1], triplets=[[0, 1, 2]]).strength_ == 1.0
    assert ODML(random_state=0).partial_fit(X, triplets=np.empty((0, 3), int)).strength_ == 1.0


def test_no_pass_is_made_over_nothing(monkeypatch):
    """What is heard is cut in two only if it is more than one, and more than there was before."""
    passes, learned = [], Trainer._pass

    def counted(self, stream, *others, **more):
        passes.append(len(stream.triplets))
        return learned(self, stream, *others, **more)

    monkeypatch.setattr(Trainer, "_pass", counted)
    model = LODML(random_state=0)
    for n in (1, 1, 5, 6):
        model.partial_fit(X, triplets=[[0, 1, 60]] * n)
    assert passes == [1, 1, 2, 3, 6]


def literal_heard(model, statements, signs):
    """Share of the votes of all rows for what a row is like, less that for what it is not, at each strength."""
    tables, out = [], []
    for s in (0.0, 1.0):
        plain = copy.deepcopy(model)
        inside.whole(plain).strength, inside.whole(plain).metric = (s, s), None
        values = plain.pairwise_score(X, X)
        tables.append(-values if isinstance(model, OASIS) else values**2)
    for s, _ in GLOBAL:
        mixed, found = (1 - s) * tables[0] + s * tables[1], []
        for p in np.unique(statements[:, 0]):
            near = np.argsort(np.where(np.arange(len(X)) == p, np.inf, mixed[p]))[:10]
            values = mixed[p, near]
            if isinstance(model, OASIS):
                values = values - min(values[0], mixed[p, p])
            votes = np.zeros(len(X))
            votes[near] = np.exp(-values / (0.25 * values[-1]))
            own = statements[:, 0] == p
            counts = dict(zip(statements[own, 1].tolist(), signs[own].tolist(), strict=True))
            found.append(sum(sign * votes[row] for row, sign in counts.items()) / votes.sum())
        out.append(found)
    return np.array(out)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("kind", [ODML, OASIS])
def test_what_is_said_without_labels_is_judged_before_it_is_learned(kind, pairs, monkeypatch):
    evidence = []

    def watched(old, found):
        evidence.append(found)
        return gathered(old, found)

    monkeypatch.setattr("paloma._training.guard.gathered", watched)
    rng = np.random.default_rng(0)
    triplets = paloma.triplets.random_triplets(Y, 600, rng)
    model = kind(random_state=0).partial_fit(X, triplets=triplets[:1])
    assert model.strength_ == 0.0
    model.partial_fit(X, triplets=triplets[1:300])
    if pairs:
        statements = triplets[300:400, :2].copy()
        signs = np.where(Y[triplets[300:400, 2]] == Y[statements[:, 0]], 1, -1)
        signs[::2], statements[1::2, 1] = 1, triplets[301:400:2, 2]
        more = {"pairs": statements, "pair_targets": signs}
    else:
        said = triplets[300:400]
        statements, signs = np.concatenate([said[:, :2], said[:, [0, 2]]]), np.repeat([1, -1], 100)
        more = {"triplets": said}
    before, expected = inside.whole(model).evidence, literal_heard(model, statements, signs)
    inside.whole(model).judged = 0
    evidence.clear()
    model.partial_fit(X, **more)
    np.testing.assert_allclose(evidence[0], expected, atol=1e-9)
    whole = inside.whole(model)
    assert model.strength_ == pytest.approx(cautious(gathered(before, expected), GLOBAL)[0], abs=1e-9)
    assert whole.strength[0] == whole.strength[1]  # nothing was said about classes


def test_of_several_groups_the_rows_that_each_spoke_of_judge(monkeypatch):
    evidence, rng = [], np.random.default_rng(0)

    def watched(old, found):
        evidence.append(found)
        return gathered(old, found)

    triplets, groups = paloma.triplets.random_triplets(Y, 600, rng), rng.integers(0, 2, 600)
    model = LODML(random_state=0).partial_fit(X, triplets=triplets[:300], groups=groups[:300])
    monkeypatch.setattr("paloma._training.guard.gathered", watched)
    said, groups, whole, tables = triplets[300:], groups[300:], inside.whole(model), {}
    for name, strength, group in (
        ("start", (0.0, 0.0), None),
        ("shared", (1.0, 1.0), None),
        (0, (1.0, 1.0), 0),
        (1, (1.0, 1.0), 1),
    ):
        plain = copy.deepcopy(model)
        inside.whole(plain).strength, inside.whole(plain).metric = strength, None
        tables[name] = plain.pairwise_score(X, X, group=group) ** 2
    expected = []
    for s, t in LOCAL:
        scores = {}
        for g in (0, 1):
            own = said[groups == g]
            voters = np.unique(own)
            mixed = (1 - s) * tables["start"] + (s - t) * tables["shared"] + t * tables[g]
            for p in np.unique(own[:, 0]):
                others = voters[voters != p]
                near = others[np.argsort(mixed[p, others])[:10]]
                votes = np.exp(-mixed[p, near] / (0.25 * mixed[p, near[-1]]))
                alike, unlike = own[own[:, 0] == p, 1], own[own[:, 0] == p, 2]
                scores[p, g] = (votes[np.isin(near, alike)].sum() - votes[np.isin(near, unlike)].sum()) / votes.sum()
        expected.append([scores[key] for key in sorted(scores)])
    whole.judged = 0
    model.partial_fit(X, triplets=said, groups=groups)
    np.testing.assert_allclose(evidence[0], expected, atol=1e-9)
    assert (model.strength_, model.strength_ * model.local_share_) == pytest.approx(cautious(whole.evidence, LOCAL))


def test_many_triplets_at_once_are_judged_by_the_second_half_of_them():
    triplets = paloma.triplets.random_triplets(Y, 400, np.random.default_rng(0))
    model = ODML(random_state=0).partial_fit(X, triplets=triplets)
    plain = ODML(random_state=0, guard=False).partial_fit(X, triplets=triplets)
    np.testing.assert_allclose(model.shared_, plain.shared_, atol=1e-9)
    assert inside.whole(model).judged == inside.whole(model).evidence[0, 0] == len(np.unique(triplets[200:, 0]))
    assert model.strength_ == cautious(inside.whole(model).evidence, GLOBAL)[0] < 1.0


def test_labels_judge_anew_what_triplets_without_them_taught():
    triplets = paloma.triplets.random_triplets(Y, 400, np.random.default_rng(0))
    model = ODML(random_state=0).partial_fit(X, triplets=triplets)
    said = model.strength_
    assert inside.whole(model).judged > 0
    model.partial_fit(X[:6], Y[:6])
    assert model.strength_ == said
    assert inside.whole(model).evidence is None
    for a in range(6, len(X), 10):
        model.partial_fit(X[a : a + 10 : 2], Y[a : a + 10 : 2])
    labeled = model.strength_
    model.partial_fit(X, triplets=triplets)
    assert model.strength_ == labeled != said


@pytest.mark.parametrize("kind", [OASIS, LOSL, ODML, DiagonalODML, OMDML])
def test_triplets_without_labels_do_not_pull_below_the_start(kind):
    """Followed in full, a similarity falls by .2 and more among these triplets, a distance by up to .05."""
    letters, labels = paloma.datasets.load_letters(return_X_y=True)
    order, gains = np.random.default_rng(3).permutation(len(letters))[:3000], []
    rows = UnitRows().fit_transform(letters) if kind in (OASIS, LOSL) else letters - letters.mean(axis=0)
    X, Q, y, answers = rows[order[:1000]], rows[order[1000:]], labels[order[:1000]], labels[order[1000:]]
    classes = np.unique(y, return_inverse=True)[1]
    mined = paloma.triplets.targets_impostors(X, y, random_state=0)
    for triplets in (mined, paloma.triplets.random_triplets(classes, 6000, np.random.default_rng(0))):
        model = kind(random_state=0)
        for chunk in np.split(triplets[:6000], [100, 300, 1000, 3000]):
            model.partial_fit(X, triplets=chunk)
            start = copy.deepcopy(model)
            inside.whole(start).strength, inside.whole(start).metric = (0.0, 0.0), None
            scores = [
                MetricKNeighborsClassifier(each, n_neighbors=10).fit(X, y).score(Q, answers) for each in (model, start)
            ]
            gains.append(scores[0] - scores[1])
    assert min(gains) > -0.01
    assert kind in (OASIS, LOSL) or max(gains) > 0.02


@pytest.mark.parametrize("kind", [LOSL, L2OSL, L2ODML, OKS])
def test_triplets_with_labels_do_not_pull_below_the_start(kind):
    """Followed in full, L2OSL falls by .3 and more among these triplets."""
    letters, labels = paloma.datasets.load_letters(return_X_y=True)
    order, gains = np.random.default_rng(4).permutation(len(letters))[:2000], []
    rows = UnitRows().fit_transform(letters) if kind in (LOSL, L2OSL) else letters - letters.mean(axis=0)
    X, Q, y, answers = rows[order[:800]], rows[order[800:]], labels[order[:800]], labels[order[800:]]
    triplets = np.random.default_rng(0).permutation(paloma.triplets.targets_impostors(X, y, random_state=0))[:3000]
    model = kind(random_state=0)
    for chunk in np.split(triplets, [100, 300, 1000]):
        model.partial_fit(X, y, triplets=chunk)
        start = copy.deepcopy(model)
        inside.whole(start).strength, inside.whole(start).metric = (0.0, 0.0), None
        voting = (MetricKNeighborsClassifier(each, n_neighbors=10).fit(X, y) for each in (model, start))
        now, first = (classifier.score(Q, answers) for classifier in voting)
        gains.append(now - first)
        assert model.strength_ < 1.0
    assert min(gains) > -0.01
    assert kind in (LOSL, L2OSL) or max(gains) > 0.0
