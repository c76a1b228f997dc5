"""A read-out that follows learning equals one that is solved from scratch (theory 6.4)."""

from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh

import paloma
from paloma._compiled.tridiagonal import count_below, lowest_pairs
from paloma._core import cone
from paloma._core.cone import Follower, Solved, lifted, project
from paloma._core.locality import SHARED, UNSEEN, Locality
from paloma._spaces.dense.matrices import Matrices
from paloma._spaces.dense.metric import DenseMetric
from paloma.estimators import reader_of
from twins import neighbors, reading

D, N_CLASSES = 56, 4


def symmetric(rng, d, shift, dtype=np.float64):
    noise = rng.normal(size=(d, d))
    return (shift * np.eye(d) + (noise + noise.T) / np.sqrt(2 * d)).astype(dtype)


def moved(rng, matrix, size):
    noise = rng.normal(size=matrix.shape)
    noise = noise + noise.T
    return matrix + (size / np.linalg.norm(noise)) * noise


def plainly(matrix):
    values, vectors = eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


@pytest.mark.parametrize("shift", [3.0, 1.0, 0.0, -1.0, -3.0])
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.9])
def test_neighbors_of_a_solved_matrix_follow(shift, share):
    rng = np.random.default_rng(0)
    matrix = symmetric(rng, D, shift)
    solved = Solved(matrix)
    np.testing.assert_allclose(solved.projected, plainly(matrix), atol=1e-12)
    for _ in range(3):
        other = moved(rng, matrix, share * solved.radius)
        followed = solved.near(other)
        if share < 0.5:
            assert followed is not None
        if followed is not None:
            np.testing.assert_allclose(followed, plainly(other), atol=1e-11)
    assert solved.near(moved(rng, matrix, 1.1 * solved.radius)) is None


def test_an_eigenvalue_at_zero_is_never_followed():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(D, D)))[0]
    matrix = (basis * np.r_[0.0, rng.normal(size=D - 1)]) @ basis.T
    matrix = (matrix + matrix.T) / 2
    other = moved(rng, matrix, 1e-3)
    np.testing.assert_allclose(Solved(matrix).projected, plainly(matrix), atol=1e-12)
    assert Solved(matrix).near(other) is None
    follower = Follower()
    for each in (matrix, other, matrix):
        np.testing.assert_allclose(follower.project("one", each), plainly(each), atol=1e-12)


@pytest.mark.parametrize("shift", [3.0, 0.5, -0.5, -3.0])
def test_project_takes_either_side(shift):
    matrix = symmetric(np.random.default_rng(2), D, shift)
    np.testing.assert_allclose(project(matrix), plainly(matrix), atol=1e-12)
    values, vectors = np.linalg.eigh(matrix)
    for floor in (0.1, 1.0):
        raised = values if values[0] > 0.0 else np.maximum(values, floor)
        np.testing.assert_allclose(lifted(matrix, floor), (vectors * raised) @ vectors.T, atol=1e-12)


def test_float32_is_followed_to_its_own_rounding():
    rng = np.random.default_rng(3)
    matrix = symmetric(rng, D, 0.7, np.float32)
    solved = Solved(matrix)
    other = moved(rng, matrix, 0.3 * solved.radius).astype(np.float32)
    assert solved.near(other).dtype == np.float32
    np.testing.assert_allclose(solved.near(other), plainly(other.astype(np.float64)), atol=1e-5)


def data(seed=0, n=240):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n)
    return rng.normal(size=(n, D)) + 0.3 * rng.normal(size=(N_CLASSES, D))[y], y


OPTIONS = {
    "defaults": {},
    "whitened and guarded": {"scale": "full", "guard": True},
    "components": {"project": "components"},
    "large steps": {"C": 1.0, "average": False},
    "components, large steps": {"C": 1.0, "average": False, "project": "components"},
    "forgetting": {"forget": 1e-4, "C": 0.5},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_read_outs_between_triplets_equal_those_of_a_copy(options):
    X, y = data()
    learner = paloma.LODML(random_state=0, scale=options.pop("scale", "scalar"), **options).fit(X, y)
    rng = np.random.default_rng(1)
    for _ in range(12):
        learner.partial_fit(X, y, triplets=rng.integers(0, len(X), (1, 3)))
        twin = deepcopy(learner)  # knows nothing of earlier read-outs
        for label in (*range(N_CLASSES), None):
            wanted = twin.metric_matrix(label)
            atol = 1e-10 * np.abs(wanted).max()
            np.testing.assert_allclose(learner.metric_matrix(label), wanted, rtol=0, atol=atol)


def test_small_moves_solve_no_eigenproblem(monkeypatch):
    X, y = data()
    learner = paloma.LODML(random_state=0, C=0.5, scale="scalar", guard=False, least_impostors=0).fit(X, y)
    triplets = np.random.default_rng(1).integers(0, len(X), (10, 3))
    for triplet in triplets[:3]:
        learner.partial_fit(X, y, triplets=triplet[None])
        learner.metric_matrix(0)
    assert np.linalg.eigvalsh(learner.metric_matrix(0)).min() < 1e-9, "the case is about projections that do something"
    solved = []
    monkeypatch.setattr(cone, "eigh", lambda *args, **more: solved.append(1) or eigh(*args, **more))
    for triplet in triplets[3:]:
        learner.partial_fit(X, y, triplets=triplet[None])
        learner.metric_matrix(0)
    assert len(solved) <= 2


@pytest.mark.parametrize("options", [{}, {"scale": "full", "guard": True}], ids=str)
def test_a_live_search_over_all_items_is_a_search_of_a_fresh_index(options):
    X, y = data()
    learner = paloma.LODML(random_state=0, **options).fit(X, y)
    index = paloma.MetricIndex(learner)
    index.add(X, y)
    rng = np.random.default_rng(2)
    for _ in range(5):
        learner.partial_fit(X, y, triplets=rng.integers(0, len(X), (2, 3)))
        fresh = paloma.MetricIndex(deepcopy(learner))
        fresh.add(X, y)
        query = X[:1] + 0.1
        live, wanted = index.search(query, 10, rerank="live", n_candidates=len(X)), fresh.search(query, 10)
        np.testing.assert_array_equal(live[1], wanted[1])
        np.testing.assert_allclose(live[0], wanted[0], rtol=1e-9)


def crafted(d=16, n_classes=7, seed=5):
    """Matrices with averages, some p.s.d. and some not."""
    rng = np.random.default_rng(seed)
    state = Matrices(np.eye(d), True)
    state.allocate(np.arange(n_classes, dtype=np.int32))
    state.shared[...] = symmetric(rng, d, 1.0)
    for k in range(n_classes):
        state.stack[k] = symmetric(rng, d, 0.3 * k)
    state.mean = (symmetric(rng, d, 1.0), np.stack([symmetric(rng, d, 0.5) for _ in state.stack]))
    return state


@pytest.mark.parametrize("cone", ["", "effective", "components"])
@pytest.mark.parametrize("strength", [(1.0, 1.0), (0.6, 0.3), (0.5, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("blend", [1.0, 0.3])
def test_small_matrices_are_built_all_at_once_as_one_by_one(cone, strength, blend):
    state, locality, (s, t) = crafted(), Locality.per_class(0.4), strength

    def part(mean, last):
        matrix = mean + blend * (last - mean)
        return plainly(matrix) if cone == "components" else matrix

    metric, U = DenseMetric(state, locality, cone, blend, 0.7, strength), part(state.mean[0], state.shared)
    codes = np.r_[np.arange(7), SHARED].astype(np.int32)
    rows = np.random.default_rng(6).normal(size=(len(codes), 16))
    mapped, constants = metric.images(rows, codes)
    for k, code in enumerate(codes):
        share, local = (t, 0.4 * U + 0.6 * part(state.mean[1][code], state.stack[code])) if code >= 0 else (0.0, U)
        corners = [plainly(corner) if cone == "effective" else corner for corner in (U, local)]
        wanted = 0.49 * ((1.0 - s) * np.eye(16) + (s - share) * corners[0] + share * corners[1])
        code = int(metric.resolve(np.array([code]))[0])
        np.testing.assert_allclose(metric.matrix(code), wanted, atol=1e-12)
        np.testing.assert_allclose(mapped[0][k], wanted @ rows[k], atol=1e-12)
        np.testing.assert_allclose(constants[k], rows[k] @ wanted @ rows[k], atol=1e-12)
        alone = DenseMetric(state, locality, cone, blend, 0.7, strength)
        np.testing.assert_array_equal(alone.matrix(code), metric.matrix(code))


@pytest.mark.parametrize("distance", [True, False])
@pytest.mark.parametrize("plain", [True, False])
def test_the_start_reads_as_its_matrix_does(plain, distance):
    """The product with a multiple of the identity is not formed."""
    rng = np.random.default_rng(9)
    rows, others, codes = rng.normal(size=(5, D)), rng.normal(size=(5, D)), np.array([0, 1, SHARED, 7, 0], np.int32)
    start = np.eye(D) if plain else symmetric(rng, D, 3.0)
    state = Matrices(start.copy(), distance)
    state.shared += symmetric(rng, D, 1.0)
    learned = DenseMetric(state, Locality.per_class(0.4), "", 1.0, 0.7)
    metric, M = learned.at_start(), 0.49 * start
    np.testing.assert_allclose(metric.matrix(SHARED), M, rtol=1e-12)
    np.testing.assert_allclose(metric.start_forms(rows), ((rows @ M) * rows).sum(axis=1), rtol=1e-10)
    (mapped,), constants = metric.item_side(rows, codes)
    np.testing.assert_allclose(mapped, rows @ M.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(constants, ((rows @ M) * rows).sum(axis=1), rtol=1e-10)
    right = rows if distance else others
    np.testing.assert_allclose(metric.values(rows, right, codes), ((rows @ M) * right).sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(metric.images(sp.csr_matrix(rows), codes)[0][0], mapped, rtol=1e-10, atol=1e-12)
    forms = metric.query_forms(rows, np.array([SHARED], np.int32))
    np.testing.assert_allclose(forms[:, 0], ((rows @ M) * rows).sum(axis=1), rtol=1e-10)
    assert not np.allclose(learned.item_side(rows, codes)[0][0], mapped)


def test_the_shared_part_is_projected_once(monkeypatch):
    monkeypatch.setattr("paloma._spaces.dense.metric.SMALL", 0)
    names = []

    def projected(name, matrix):
        names.append(name)
        return project(matrix)

    metric = DenseMetric(crafted(), Locality.per_class(0.4), "effective", 1.0, 0.7, (0.6, 0.3), projected)
    for code in range(3):
        metric.matrix(code)
    assert names == ["S", ("M", 0), ("M", 1), ("M", 2)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.4, 0.7, 1.0])
def test_projection_by_either_side_or_all_eigenpairs(share, dtype):
    """P_+ and the count that chooses how it is computed, against all eigenvalues in float64."""
    rng = np.random.default_rng(5)
    for d in (1, 2, 40, 150):
        basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
        values = rng.uniform(0.1, 2.0, d) * np.where(np.arange(d) < share * d, -1.0, 1.0)
        matrix = ((basis * values) @ basis.T).astype(dtype)
        matrix = (matrix + matrix.T) / 2
        exact = (basis * np.maximum(values, 0.0)) @ basis.T
        assert np.allclose(cone.project(matrix), exact, atol=3e-6 if dtype == np.float32 else 1e-12)
        less, found, vectors = cone.smaller_side(matrix)
        wanted = np.sort(values[values < 0] if less else values[values > 0])
        assert less == (2 * (values < 0).sum() <= d)
        assert vectors.shape == (d, len(wanted))
        assert np.allclose(np.sort(found), wanted, atol=3e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("split", [(), (3,), (0, 1, 50)])
def test_eigenpairs_of_a_tridiagonal_matrix(split):
    rng = np.random.default_rng(3)
    diagonal, beside = rng.normal(size=90), rng.normal(size=89)
    beside[list(split)] = 0.0  # the matrix falls apart
    exact, vectors = reading.tridiagonal_pairs(diagonal, beside)
    bounds = np.array([-9.0, -0.3, 0.0, 1.1, 9.0])
    assert (count_below(diagonal, beside * beside, bounds) == (exact[:, None] < bounds).sum(axis=0)).all()
    places = np.arange(5.0, 30.0)
    values, found = np.full(25, 0.5), np.empty((90, 25))
    assert lowest_pairs(diagonal, beside, places, values, found) < 1e-14
    assert np.abs(values - exact[5:30]).max() < 1e-12
    assert np.abs(np.abs((found * vectors[:, 5:30]).sum(axis=0)) - 1.0).max() < 1e-12


@pytest.mark.parametrize("gap", [0.0, 1e-14, 1e-10, 1e-6, 1e-3])
def test_projection_with_eigenvalues_that_are_very_near(gap):
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    values = np.r_[-1.0 - gap * np.arange(8), -0.5, np.zeros(5), gap * np.arange(10), rng.uniform(1, 2, 36)]
    matrix = (basis * values) @ basis.T
    matrix = (matrix + matrix.T) / 2
    assert np.abs(cone.project(matrix) - (basis * np.maximum(values, 0.0)) @ basis.T).max() < 1e-12


@pytest.mark.parametrize("cone", ["", "effective", "components"])
@pytest.mark.parametrize("strength", [(1.0, 1.0), (0.6, 0.3), (0.5, 0.0)])
@pytest.mark.parametrize("blend", [1.0, 0.3])
@pytest.mark.parametrize("others", [(), (SHARED,), (UNSEEN, SHARED)])
def test_one_query_finds_the_nearest_of_all_rows(cone, strength, blend, others):
    state, locality, rng = crafted(), Locality.per_class(0.4), np.random.default_rng(7)
    codes = rng.permutation(np.r_[np.repeat(np.arange(7), 9), np.repeat(others, 9)]).astype(np.int32)
    rows = rng.normal(size=(len(codes), 16))
    rows[40:] = rows[: len(codes) - 40]  # the same rows again, of this class and of others
    metric = DenseMetric(state, locality, cone, blend, 0.7, strength)
    for k, query in ((1, rng.normal(size=16)), (5, rows[3]), (len(codes), rng.normal(size=16))):
        values, numbers = metric.nearest(rows - query, codes, k)
        twin = DenseMetric(state, locality, cone, blend, 0.7, strength)
        names = twin.resolve(codes).tolist()
        metrics = {code: twin.matrix(code) for code in names}
        wanted = neighbors.local_neighbors("distance", metrics, query[None], rows, names, k)
        np.testing.assert_allclose(values, wanted[0][0], rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(numbers, wanted[1][0])


@pytest.mark.parametrize("options", [{}, {"scale": None}, {"scale": "full"}, {"lam": 1.0}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_query_projects_few_classes_and_finds_what_a_search_finds(options, dtype):
    rng = np.random.default_rng(8)
    y = np.arange(600) % 12
    X = (2.0 * rng.normal(size=(12, 6))[y] + rng.normal(size=(600, 6))).astype(dtype)
    learner = paloma.LODML(C=1.0, random_state=0, **options).fit(X[:300], y[:300])
    solved = []
    for i in range(300, 340):
        learner.partial_fit(X[i : i + 1], y[i : i + 1])
        reader = reader_of(learner)
        rows, codes = reader.remembered()
        values, numbers = reader.nearest(X[i + 1 : i + 2], rows, codes, 4)
        solved.append(len(getattr(reader.metric, "inner", reader.metric)._matrices))
        wanted = reader.items(rows, codes).search(X[i + 1 : i + 2], 4)
        np.testing.assert_array_equal(numbers, wanted[1])
        np.testing.assert_allclose(values, wanted[0], rtol=1e-10 if dtype == np.float64 else 1e-4)
    assert np.mean(solved) < 6
