"""Twins that no other test module compares with, and the table that says which compiled loop has which twin."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import axes
import paloma
import twins
from axes import LOCAL, MEASURES, RULES, STEP_PARAMS, T, X, Y, learner
from helpers import inside
from helpers.streams import N_CLASSES
from paloma._compiled import members as compiled_members
from same import assert_close
from twins import members
from twins.careful import careful_run
from twins.neighbors import local_neighbors
from twins.projected import run_projected
from twins.reading import averaged, scale
from twins.stacked import run

TESTS = Path(__file__).parent
LAM, C = axes.LAM, axes.C


def compiled_functions():
    """module.function of everything compiled that other modules call."""
    for path in sorted(inside.COMPILED.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list and not node.name.startswith("_"):
                yield f"{path.stem}.{node.name}"


def test_every_compiled_loop_has_a_twin_and_a_test():
    rows = re.findall(r"^\| (\w+\.\w+) \| (.+?) \| (.+?) \|$", twins.__doc__, re.M)
    assert [name for name, _, _ in rows] == list(dict.fromkeys(name for name, _, _ in rows))
    assert sorted(name for name, _, _ in rows) == sorted(compiled_functions())
    for name, twin, tests in rows:
        module, function = re.match(r"(\w+)\.(\w+)", twin).groups()
        assert f"def {function}(" in (TESTS / "twins" / f"{module}.py").read_text(encoding="utf-8"), name
        assert all((TESTS / f"{test}.py").exists() for test in re.findall(r"test_\w+", tests)), name


def test_twins_do_not_know_paloma():
    for path in (TESTS / "twins").glob("*.py"):
        assert not re.search(r"^\s*(import|from) paloma", path.read_text(encoding="utf-8"), re.M), path.name


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["rows", "csr"])
@pytest.mark.parametrize("name", ["OASIS", "LOSL", "L2ODML"])
def test_the_units_of_the_rows(name, kind):
    model = getattr(paloma, name)(n_epochs=1, scale="scalar").fit(kind(7.0 * X), Y, triplets=T)
    assert model.scale_ == pytest.approx(scale(axes.TABLE[name].measures[0], 7.0 * X, T), rel=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_averages(measure):
    """1024 triplets an iterate; between two of them the last one enters bit by bit."""
    rng, n = np.random.default_rng(0), 2500
    triplets = rng.integers(0, len(X), (n, 3))
    model = learner(LOCAL[measure], lam=LAM, C=0.01, average=True).fit(X, Y, triplets=triplets)

    def after(t):
        part = triplets[:t]
        iterate = careful_run(measure, X, part, Y[part[:, 1:]], LAM, 1 - LAM, 0.01)
        return LAM * iterate.U + (1 - LAM) * iterate.L

    expected = averaged(after, n)
    assert np.abs(expected - after(n)).max() > 1e-3  # the average is not the last iterate
    for k in range(N_CLASSES):
        assert_close(model.metric_matrix(k), expected[k])


@pytest.mark.parametrize("rule", RULES[1:])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["rows", "csr"])
@pytest.mark.parametrize("measure", MEASURES)
def test_steps_on_projected_rows(measure, kind, rule):
    """A projection to fewer dimensions than the rows span; y is given for some calls only.

    Without "pa": projected, a mirrored triplet has a = -b up to rounding only, and no step without a bound is small.
    """
    options = {"step": rule, "step_params": STEP_PARAMS.get(rule)}
    name = "L2ODML" if measure == "distance" else "L2OSL"
    model = learner(name, lam=LAM, C=C, n_components=3, random_state=0, **options)
    labeled = np.arange(len(T)) < 60
    model.partial_fit(kind(X), Y, triplets=T[labeled]).partial_fit(kind(X), triplets=T[~labeled])
    assert not model.exact_
    classes = np.where(labeled[:, None], Y[T[:, 1:]], -1)
    R = inside.state(model).map
    expected = run_projected(measure, X, R, T, classes, LAM, 1 - LAM, C, n_classes=N_CLASSES, **options)
    assert R.shape == (6, 3)
    assert (expected.tau > 0).sum() > 20
    assert_close(model.shared_, expected.U)
    for k in range(N_CLASSES):
        assert_close(model.local_[k], expected.L[k])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("forget", [0.0, 0.03])
@pytest.mark.parametrize("name", ["OASIS", "LOSL"])
def test_sparse_rows(name, forget, rule):
    """Rows with few, with no and with all entries; weights; forgetting."""
    rng = np.random.default_rng(1)
    rows = np.where(rng.random(X.shape) < 0.4, X, 0.0)
    rows[3], rows[4] = 0.0, X[4]
    weights = rng.choice([0.0, 0.3, 1.0, 2.0], len(T))
    options = {"step": rule, "step_params": STEP_PARAMS.get(rule), "forget": forget}
    model = learner(name, lam=LAM, C=C, **options).fit(sp.csr_matrix(rows), Y, triplets=T, triplet_weight=weights)
    lam, mu = axes.weights_of(name, LAM)
    expected = run("similarity", rows, T, Y[T[:, 1:]], lam, mu, C, n_classes=N_CLASSES, weights=weights, **options)
    assert (expected.tau > 0).sum() > 20
    assert_close(model.shared_, expected.U)
    for k in range(len(model.local_)):
        assert_close(model.local_[k], expected.L[k])


@pytest.mark.parametrize("k", [1, 5, 32])
@pytest.mark.parametrize("measure", MEASURES)
def test_nearest_items_with_ties(measure, k):
    """Each item occurs four times or so, in classes of different metrics: of equal values the lower row is first."""
    integers = np.round(4 * X)  # values are exact, so that ties are ties
    model = learner(LOCAL[measure], lam=0.5, C=1e-300).fit(integers, Y, triplets=T)
    metrics = {label: model.metric_matrix(label) for label in model.classes_}
    items = paloma.MetricKNeighborsClassifier(model, n_neighbors=k).fit(integers, Y)
    values, ids = local_neighbors(measure, metrics, integers, integers, Y, k)
    np.testing.assert_array_equal(items.kneighbors(integers, return_distance=False), ids)
    if k > 1:
        assert (np.diff(values, axis=1) == 0).any()


@pytest.mark.parametrize("n_rows", [3, 12, 400])
def test_pairs_of_a_block(n_rows):
    rng = np.random.default_rng(n_rows)
    triplets, classes = rng.integers(0, n_rows, (300, 3)), rng.integers(-1, 5, n_rows)
    found = compiled_members.distinct_pairs(triplets, classes[triplets[:, 1:]])
    for ours, expected in zip(found, members.distinct_pairs(triplets, classes[triplets[:, 1:]]), strict=True):
        np.testing.assert_array_equal(ours, expected)
    stops = np.array([1, 64, 65, 300])
    used = compiled_members.members_of_parts(found[3], stops, len(found[0]))
    for ours, expected in zip(used, members.members_of_parts(found[3], stops), strict=True):
        np.testing.assert_array_equal(ours, expected)
