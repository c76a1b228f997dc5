"""The paper's protocol: search over (kappa, C'), shared triplets, preparation of rows, tuning, the paired test."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA

from paloma import LODML, LOSL, OASIS, ODML, MetricKNeighborsClassifier
from paloma.evaluate import (
    Candidate,
    Euclid,
    Learned,
    Neighborhood,
    Protocol,
    Recipe,
    compare,
    fit_shared,
    kappa_of,
    lam_of,
    paired_test,
    random_split,
)
from paloma.evaluate._search import grid, race, settings
from paloma.triplets import mine
from twins import mining

WINE, TARGET = load_wine(return_X_y=True)
ROWS = (WINE - WINE.mean(axis=0)) / WINE.std(axis=0)


# -- the search ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_kappa_and_lam_are_each_others_inverse(lam):
    mu = 1 - lam
    assert kappa_of(lam) == pytest.approx(lam**2 / (lam**2 + mu**2))
    assert lam_of(kappa_of(lam)) == pytest.approx(lam)


def test_equal_kappa_and_rate_give_equal_metrics():
    """Fact 3 of the theory, as the search relies on it: (lam, mu, C) scaled by a common factor changes nothing."""
    chosen = settings(0.3, 0.01)
    assert chosen["C"] * (chosen["lam"] ** 2 + (1 - chosen["lam"]) ** 2) == pytest.approx(0.01)
    assert settings(None, 0.01) == {"C": 0.01}
    with pytest.raises(ValueError, match=r"kappa must lie in \[0, 1\]"):
        settings(1.5, 0.01)


@pytest.mark.parametrize("kind", [ODML, LODML, OASIS, LOSL])
def test_shared_triplets_give_what_fit_gives(kind):
    codes = TARGET.astype(np.int32)
    fitted = kind(random_state=4, scale="scalar", guard=False).fit(ROWS, TARGET)
    shared = fit_shared(kind(random_state=4), ROWS, TARGET, mine(ROWS, codes))
    assert shared.n_triplets_ == fitted.n_triplets_
    np.testing.assert_allclose(shared.shared_, fitted.shared_, rtol=1e-10, atol=1e-12)
    for label in (0, 2, None):
        np.testing.assert_allclose(shared.metric_matrix(label), fitted.metric_matrix(label), rtol=1e-9, atol=1e-12)


def test_sharing_leaves_the_learner_alone():
    learner = LODML(random_state=0, n_epochs=2)
    before = learner.get_params()
    fit_shared(learner, ROWS, TARGET, mine(ROWS, TARGET.astype(np.int32)))
    assert learner.get_params() == before
    assert not hasattr(learner, "classes_")


def test_the_race_finds_what_full_cross_validation_finds():
    rng = np.random.default_rng(0)
    quality = rng.permutation(40) / 40
    noise = rng.normal(scale=0.005, size=(40, 5))
    calls = []

    def score(candidate, fold):
        calls.append((candidate, fold))
        return quality[candidate] + noise[candidate, fold]

    best, means = race(40, 5, score)
    assert best == np.argmax(quality + noise.mean(axis=1))
    assert means[best] == pytest.approx(quality[best] + noise[best].mean())
    assert len(calls) == len(set(calls)) == 40 + 10 + 3 + 3 + 3


def test_a_tie_goes_to_the_first():
    assert race(9, 3, lambda candidate, fold: 1.0)[0] == 0
    first = grid((0.0, 1.0), (0.1, 0.5, 0.8), (1.0, 2.0, 3.0))[0]
    assert (first.power, first.kappa, first.rate) == (0.0, 0.5, 2.0)


# -- rows ----------------------------------------------------------------------------------------------------


def test_rows_are_fitted_on_the_training_part():
    train, test = random_split(len(WINE), 0.5, 0)
    recipe = Recipe(standardize=True, n_components=5, powers=(0.0, 0.5, 1.0))
    parts = recipe.fit(WINE[train], TARGET[train], WINE[test])
    scaled = (WINE - WINE[train].mean(axis=0)) / WINE[train].std(axis=0)
    pca = PCA(5, random_state=0).fit(scaled[train])
    for power in recipe.powers:
        divisor = pca.explained_variance_ ** (power / 2)
        np.testing.assert_allclose(parts.rows(power, False)[1], pca.transform(scaled[test]) / divisor, atol=1e-8)
    assert not np.allclose(parts.rows(1.0, False)[1].std(axis=0), 1, atol=1e-3)  # the test part has no say
    np.testing.assert_allclose(parts.rows(1.0, False)[0].std(axis=0, ddof=1), 1)


def test_similarities_get_unit_rows_and_all_share_the_triplets_of_the_rows_before():
    parts = Recipe(unit_length=True).fit(WINE[::2], TARGET[::2], WINE[1::2])
    unit = parts.rows(0.0, True)[0]
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(parts.train, axis=1), 1)
    assert unit.shape[1] == WINE.shape[1] + 1
    expected = mining.targets_impostors(parts.train, TARGET[::2], impostor_margin=0.1, least=0)
    np.testing.assert_array_equal(parts.mined(0.0).triplets, expected)
    assert parts.mined(0.0) is parts.mined(0.0)


def test_more_components_than_there_are():
    parts = Recipe(n_components=200).fit(WINE[:10], TARGET[:10], WINE[10:])
    assert parts.train.shape == (10, 10)
    assert np.isfinite(
        Recipe(n_components=200, powers=(1.0,)).fit(WINE[:10], TARGET[:10], WINE).rows(1.0, True)[1]
    ).all()


def test_whitening_needs_components():
    with pytest.raises(ValueError, match="set n_components as well"):
        Recipe(powers=(0.5,))


# -- the protocol --------------------------------------------------------------------------------------------


def test_one_run_by_hand():
    train, test = random_split(len(WINE), 0.3, 1)
    recipe = Recipe(standardize=True)
    outcome = Protocol(recipe).run(LODML(), WINE, TARGET, train, test, seed=1)
    parts = recipe.fit(WINE[train], TARGET[train], WINE[test])
    metric = fit_shared(
        LODML(random_state=1, **outcome.chosen.parameters), parts.train, TARGET[train], parts.mined(0.0)
    )
    model = MetricKNeighborsClassifier(metric, n_neighbors=3, weights="uniform").fit(parts.train, TARGET[train])
    assert outcome.accuracy == model.score(parts.test, TARGET[test])
    assert outcome.chosen in Learned(LODML()).candidates((0.0,))
    assert outcome.method == "LODML"
    assert 0 < outcome.cv_score <= 1
    assert min(outcome.fit_time, outcome.tune_time, outcome.search_time) > 0


def test_tuning_never_sees_the_test_part():
    train, test = random_split(len(WINE), 0.5, 0)
    spoilt, labels = WINE.copy(), TARGET.copy()
    spoilt[test], labels[test] = 1e3, 0
    protocol = Protocol(Recipe(standardize=True, n_components=5, powers=(0.0, 1.0)))
    outcomes = [protocol.run(LOSL(), X, y, train, test, 0) for X, y in ((WINE, TARGET), (spoilt, labels))]
    assert outcomes[0].chosen == outcomes[1].chosen
    assert outcomes[0].cv_score == outcomes[1].cv_score


def test_tuning_takes_at_most_so_many_rows():
    seen = []

    class Spy(Euclid):
        def predict(self, parts, candidate, n_neighbors, seed):
            seen.append(len(parts.train) + len(parts.test))
            return super().predict(parts, candidate, n_neighbors, seed)

    protocol = Protocol(Recipe(standardize=True, n_components=3, powers=(0.0, 1.0)), max_rows=60)
    protocol.tune(Spy(), WINE, TARGET)
    assert set(seen) == {60}


def test_every_method_in_one_comparison():
    methods = [Euclid(), Neighborhood(max_iter=5), ODML(), LODML(), Learned(OASIS(), "raw", unit=False), LOSL()]
    one, two = (compare(methods, WINE, TARGET, fraction=0.4, n_runs=2, random_state=3) for _ in range(2))
    assert list(one) == ["Euclid", "NCA", "ODML", "LODML", "raw", "LOSL"]
    for name, runs in one.items():
        assert [run.accuracy for run in runs] == [run.accuracy for run in two[name]]
        assert np.mean([run.accuracy for run in runs]) > (0.5 if name == "raw" else 0.85)
    assert one["Euclid"][0].fit_time == 0


def test_given_splits_and_small_classes():
    y = np.where(np.arange(len(WINE)) < 3, 9, TARGET)  # a class too small to be stratified
    splits = [(np.arange(0, 178, 2), np.arange(1, 178, 2))]
    runs = compare([ODML()], WINE, y, splits=splits)["ODML"]
    assert len(runs) == 1
    assert runs[0].accuracy > 0.85


def test_only_what_there_is_to_choose_is_searched():
    chosen, score = Protocol(Recipe(standardize=True)).tune(Euclid(), WINE, TARGET)
    assert chosen == Candidate(0.0, None, 0.0)
    assert np.isnan(score)


# -- the paired test -----------------------------------------------------------------------------------------


def test_the_corrected_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.9, 0.01, 10), rng.normal(0.89, 0.01, 10)
    found = paired_test(a, b, 0.7)
    plain = stats.ttest_rel(a, b)
    assert found.difference == pytest.approx((a - b).mean())
    t = plain.statistic * np.sqrt(1 / 10) / np.sqrt(1 / 10 + 3 / 7)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), 9))
    assert found.p > plain.pvalue


def test_degenerate_comparisons():
    assert paired_test([0.9, 0.8], [0.9, 0.8], 0.5).p == 1
    assert np.isnan(paired_test([0.9, 0.8], [0.8, 0.7], 0.5).p)  # the same difference twice proves nothing
    assert np.isnan(paired_test([0.9], [0.8], 0.5).p)
    with pytest.raises(ValueError, match="one value per split of both methods"):
        paired_test([0.9], [0.8, 0.7], 0.5)
