"""OMDML: its iterates against ODML and against sequential twins, for both gates and both representations."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import paloma
from axes import RULES, STEP_PARAMS
from helpers import inside
from helpers.streams import N_CLASSES, fixed_stream
from paloma._spaces.grouped import blocks as _joint
from twins.modalities import Factor, Full, run

STREAM = fixed_stream(seed=2, d=7, n_triplets=160)
X, Y, T = STREAM
COLUMNS = [np.array([0, 1, 2]), np.array([5, 3]), np.array([4])]  # column 6 is in no group
LAMS = (0.0, 0.4, 1.0)
C = 0.2


def omdml(**params):
    """A learner whose iterates are the plain ones: no scale, no projection, one pass."""
    plain = {"groups": COLUMNS, "gate": "own", "C": C, "scale": None, "psd": "never", "n_epochs": 1}
    return paloma.OMDML(**{**plain, **params})


def fitted(**params):
    weight = params.pop("triplet_weight", None)
    return omdml(**params).fit(X, Y, triplets=T, triplet_weight=weight)


def twin(kind=Full, lam=1.0, C=C, columns=COLUMNS, **options):
    classes = STREAM.classes if lam < 1 else STREAM.class_free
    return run(kind, columns, X, T, classes, lam, C, n_classes=N_CLASSES, **options)


def assert_close(actual, expected, tolerance=1e-10):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max(initial=0) <= tolerance * np.abs(expected).max(initial=1e-300)


def assert_same_iterates(model, expected, columns=COLUMNS, tolerance=1e-10):
    """U, L of each modality, and the weights at every round."""
    shared, local = model.shared_, model.local_
    square = expected.shared[0].ndim == 2 and expected.shared[0].shape[0] == expected.shared[0].shape[1]
    for c, U, L in zip(columns, expected.shared, expected.local, strict=True):
        M, Ls = (U, L) if square and model.rank is None else (U.T @ U, np.swapaxes(L, 1, 2) @ L)
        assert_close(shared[np.ix_(c, c)], M, tolerance)
        for k, label in enumerate(model.classes_):
            assert_close(local[k][np.ix_(c, c)], Ls[label], tolerance)
    rounds, weights = model.weights_path_
    assert_close(weights, expected.weights[rounds], tolerance)
    assert_close(model.weights_, expected.weights[-1], tolerance)
    assert model.n_triplets_ == len(expected.steps)
    some = (expected.steps > 1e-12).any(axis=1).sum()
    assert some <= model.n_updates_ <= some + 3


# --- one modality is ODML ----------------------------------------------------------------------------------


@pytest.mark.parametrize("psd", ["never", "end", "step", "exact", 7])
@pytest.mark.parametrize("how", ["labels", "triplets"])
@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_one_modality_is_odml(lam, how, psd):
    rows, labels = X[:30], Y[:30]
    given = {"triplets": T[(T < 30).all(axis=1)]} if how == "triplets" else {}
    common = {"psd": psd, "C": 0.1, "n_epochs": 2, "scale": "scalar", "guard": False, "random_state": 0}
    one = paloma.OMDML(gate="own", lam=lam, **common).fit(rows, labels, **given)
    other = (paloma.LODML(lam=lam, **common) if lam < 1 else paloma.ODML(**common)).fit(rows, labels, **given)
    assert_close(one.shared_, other.shared_)
    if lam < 1:
        assert_close(one.local_, other.local_)
    for label in (None, 0, 3, 99):
        assert_close(one.metric_matrix(label), other.metric_matrix(label))
    assert one.loss_ == pytest.approx(other.loss_, rel=1e-10)
    for name in ("scale_", "n_updates_", "n_triplets_"):
        assert getattr(one, name) == getattr(other, name)
    assert_close(one.query_vectors(rows) @ one.item_vectors(rows, labels).T,
                 other.query_vectors(rows) @ other.item_vectors(rows, labels).T)  # fmt: skip
    assert one.score(rows, labels) == other.score(rows, labels)
    assert one.weights_.tolist() == [1.0]


@pytest.mark.parametrize(("step", "tolerance"), [("pa1", 1e-10), ("pa2", 1e-10), ("ramp", 1e-10), ("logistic", None)])
def test_one_modality_needs_no_gate(step, tolerance):
    """A gate at the margin of the hinge is shut only where no step is due; the logistic rule always has one."""
    one, other = (
        paloma.OMDML(gate=gate, step=step, C=C, margin=0.8).fit(X, Y, triplets=T) for gate in ("combined", "own")
    )
    assert (one.n_updates_ < other.n_updates_) == (tolerance is None)
    if tolerance is not None:
        assert_close(one.shared_, other.shared_, tolerance)
        alone = paloma.ODML(step=step, C=C, margin=0.8, scale="scalar").fit(X, Y, triplets=T)
        assert_close(alone.shared_, one.shared_, tolerance)


@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_modalities_with_their_own_gate_are_learners_of_their_own(lam):
    """Scale, averages and read-out included: d = sum_r theta_r d_r."""
    common = {"C": 0.05, "lam": lam, "n_epochs": 30, "average": True, "scale": "scalar"}
    model = paloma.OMDML(groups=COLUMNS, gate="own", beta=0.999, **common).fit(X, Y, triplets=T)
    assert inside.n_means(model) > 2
    expected = np.zeros((2, 7, 7))
    for c, scale, weight in zip(COLUMNS, model.scale_, model.weights_, strict=True):
        alone = paloma.LODML(**common).fit(np.ascontiguousarray(X[:, c]), Y, triplets=T)
        assert scale == pytest.approx(alone.scale_, rel=1e-12)
        assert_close(model.shared_[np.ix_(c, c)], alone.shared_)
        for k, label in enumerate((None, 2)):
            expected[k][np.ix_(c, c)] += weight * alone.metric_matrix(label)
    assert_close([model.metric_matrix(), model.metric_matrix(2)], expected)


# --- both gates against the twin ---------------------------------------------------------------------------


@pytest.mark.parametrize(("lam", "rule", "block"), list(itertools.product(LAMS, RULES, [7, "auto"])))
def test_combined_gate(lam, rule, block):
    options = {"step": rule, "step_params": STEP_PARAMS.get(rule), "beta": 0.9}
    model = fitted(gate="combined", gate_margin=0.6, lam=lam, block_size=block, **options)
    expected = twin(gate=0.6, lam=lam, **options)
    closed = (expected.steps == 0).all(axis=1)
    assert closed.any() or rule == "logistic"
    assert_same_iterates(model, expected)


@pytest.mark.parametrize("lam", [1.0, 0.4])
def test_many_columns(lam):
    """Where `block_size="auto"` takes blocks, several of them."""
    rng = np.random.default_rng(0)
    rows, labels, triplets = rng.normal(size=(90, 130)) / 8, rng.integers(0, 4, 90), rng.integers(0, 90, (700, 3))
    columns = [np.arange(70), np.arange(70, 130)]
    model = omdml(groups=columns, gate="combined", gate_margin=0.5, lam=lam, C=0.02, beta=0.99)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_joint, "PAIRS", 200)
        patch.setattr(_joint, "LOCAL_PAIRS", 200)
        model.fit(rows, labels, triplets=triplets)
    classes = labels[triplets[:, 1:]] if lam < 1 else np.full((700, 2), -1)
    expected = run(Full, columns, rows, triplets, classes, lam, 0.02, n_classes=4, gate=0.5, beta=0.99)
    assert 50 < (expected.steps == 0).all(axis=1).sum() < 650
    assert_same_iterates(model, expected, columns)


@pytest.mark.parametrize("psd", [5, "step", "exact"])
@pytest.mark.parametrize("lam", LAMS)
def test_combined_gate_in_the_cone(psd, lam):
    model = fitted(gate="combined", gate_margin=0.6, lam=lam, psd=psd, beta="auto")
    assert_same_iterates(model, twin(gate=0.6, lam=lam, psd=psd), tolerance=1e-7 if psd == "exact" else 1e-10)


@pytest.mark.parametrize("gate", [0.0, 1.0, np.inf])
@pytest.mark.parametrize("beta", [0.5, 1.0, "auto"])
@pytest.mark.parametrize("margin", [0.5, 2.0])
def test_gates_discounts_margins_and_weights(gate, beta, margin):
    weights = np.random.default_rng(3).choice([0.0, 0.1, 1.0, 2.5], len(T))
    options = {"beta": beta, "margin": margin, "lam": 0.4}
    model = fitted(gate="combined", gate_margin=gate, triplet_weight=weights, **options)
    assert_same_iterates(model, twin(gate=gate, weights=weights, **options))


@pytest.mark.parametrize("psd", ["never", "step", 5])
@pytest.mark.parametrize("lam", LAMS)
def test_own_gate(psd, lam):
    assert_same_iterates(fitted(lam=lam, psd=psd, beta=0.95), twin(lam=lam, psd=psd, beta=0.95))


@pytest.mark.parametrize("lam", [1.0, 0.4])
def test_a_gate_that_is_always_open_is_the_own_gate(lam):
    own, open_ = fitted(lam=lam), fitted(lam=lam, gate="combined", gate_margin=np.inf)
    assert_close(open_.shared_, own.shared_)
    assert_close(open_.local_, own.local_)
    assert_close(open_.weights_path_[1], own.weights_path_[1])
    assert (open_.n_updates_, open_.loss_) == (own.n_updates_, pytest.approx(own.loss_))


# --- the low-rank variant ----------------------------------------------------------------------------------

RANK = 2
SHAPES = [(min(RANK, len(c)), len(c)) for c in COLUMNS]


def start_factors():
    """A start that is no projection, and W of each modality such that W'W is its block."""
    rng = np.random.default_rng(0)
    factors = [np.linalg.qr(rng.normal(size=shape[::-1]))[0].T * [[2.0], [0.7]][: shape[0]] for shape in SHAPES]
    M = np.zeros((7, 7))
    for c, W in zip(COLUMNS, factors, strict=True):
        M[np.ix_(c, c)] = W.T @ W
    return M, factors


@pytest.mark.parametrize(("i", "j"), [(0, 1), (2, 2), (-1, 1), (-1, -1)])
def test_gradient_of_the_spec_is_the_derivative(i, j):
    factor = Factor(X[:, :3], T, np.tile([i, j], (len(T), 1)), 0.4, N_CLASSES, start_factors()[1][0])
    rng = np.random.default_rng(1)
    factor.L = rng.normal(size=factor.L.shape)
    flat = np.concatenate([factor.U.ravel(), factor.L.ravel()])

    def value(theta):
        return factor.at(
            4, theta[: factor.U.size].reshape(factor.U.shape), theta[factor.U.size :].reshape(factor.L.shape)
        )

    shared, local = factor.gradient(4)
    assert_close(np.concatenate([shared.ravel(), local.ravel()]), approx_fprime(flat, value, 1e-7), 1e-5)


@pytest.mark.parametrize(
    ("lam", "rule", "gate"), list(itertools.product(LAMS, ["pa1", "pa2", "smooth"], [0.6, np.inf]))
)
def test_low_rank(lam, rule, gate):
    M, factors = start_factors()
    model = fitted(rank=RANK, init=M, gate="combined", gate_margin=gate, lam=lam, step=rule, beta=0.9)
    assert_same_iterates(model, twin(Factor, lam, C / 4, gate=gate, step=rule, beta=0.9, starts=factors))


@pytest.mark.parametrize("lam", LAMS)
def test_low_rank_by_plain_gradient(lam):
    M, factors = start_factors()
    weights = np.random.default_rng(3).choice([0.0, 0.5, 2.0], len(T))
    model = fitted(rank=RANK, init=M, lam=lam, eta=0.01, triplet_weight=weights)
    assert_same_iterates(model, twin(Factor, lam, 0.01, eta=True, weights=weights, starts=factors))


@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("rule", ["pa1", "pa2", "smooth"])
def test_small_steps_of_full_rank_are_those_of_full_matrices(lam, rule):
    """To first order: C and every rule mean the same for W as for M."""
    small = {"C": 1e-7, "step": rule, "lam": lam, "init": np.eye(7)}
    full, factor = (fitted(rank=rank, **small) for rank in (None, 3))
    start, moves = np.diag([1.0] * 6 + [0.0]), []
    for one, other in zip([factor.shared_, *factor.local_], [full.shared_, *full.local_], strict=True):
        moves.append(np.abs(other - start).max())
        assert np.abs(one - other).max() <= 1e-4 * moves[-1] + 1e-14
    assert max(moves) > 1e-6


@pytest.mark.parametrize("lam", [1.0, 0.4])
def test_low_rank_metrics_are_psd_and_of_that_rank(lam):
    model = paloma.OMDML(groups=COLUMNS[:2], rank=1, lam=lam, C=1.0, random_state=0).fit(X, Y)
    for label in (None, 0, 77):
        values = np.linalg.eigvalsh(model.metric_matrix(label))
        assert values[0] > -1e-12
        assert (values > 1e-9).sum() <= 2 * (1 if label is None or lam == 1 else 2)
    assert model.transform(X).shape == (len(X), 2)
    assert_close(model.components_.T @ model.components_, model.metric_matrix())


def test_a_rate_that_diverges_is_refused():
    model = omdml(rank=RANK, eta=0.01).partial_fit(X, Y, triplets=T)
    before = model.shared_, model.weights_, model.n_triplets_
    with pytest.raises(ValueError, match="eta=30 along the gradient diverged"):
        model.set_params(eta=30.0).partial_fit(X, Y, triplets=np.tile(T, (20, 1)))
    for one, other in zip(before, (model.shared_, model.weights_, model.n_triplets_), strict=True):
        np.testing.assert_array_equal(one, other)


def test_low_rank_starts_at_the_principal_directions():
    """On rows that vary in two directions of a modality, two rows of W are as good as the identity."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + 5.0
    model = paloma.OMDML(rank=2, scale=None, C=1e-300).fit(rows, triplets=[[0, 1, 2]])
    euclid = np.linalg.norm(rows[:, None] - rows, axis=2)
    np.testing.assert_allclose(-model.pairwise_score(rows, rows), euclid, atol=1e-9)
    few = paloma.OMDML(rank=4, scale=None, C=1e-300).fit(rows[:3], triplets=[[0, 1, 2]])
    assert_close(few.components_ @ few.components_.T, np.eye(4))


# --- what must hold for every kind -------------------------------------------------------------------------

KINDS = {
    "own": {"gate": "own"},
    "local": {"gate": "own", "lam": 0.4},
    "combined": {"gate": "combined", "gate_margin": 0.6},
    "combined local": {"gate": "combined", "lam": 0.4},
    "in blocks": {"gate": "combined", "lam": 0.4, "block_size": 16},
    "step": {"gate": "combined", "psd": "step"},
    "low rank": {"gate": "own", "rank": 2},
    "low rank local": {"rank": 2, "gate": "combined", "lam": 0.4},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@pytest.mark.parametrize("cuts", [(1,), (10, 11, 90)])
def test_partial_fit_goes_on_exactly(kind, cuts):
    """Cut into calls, and pickled between them."""
    whole, model = fitted(**KINDS[kind]), omdml(**KINDS[kind])
    for part in np.split(T, cuts):
        model = pickle.loads(pickle.dumps(model)).partial_fit(X, Y, triplets=part)
    assert_close(model.shared_, whole.shared_)
    assert_close(model.local_, whole.local_)
    for one, other in zip(model.weights_path_, whole.weights_path_, strict=True):
        assert_close(one, other)


@every_kind
def test_same_seed_same_bits_and_float32(kind):
    rows, labels = X[:50], Y[:50]
    one, two = (
        paloma.OMDML(groups=COLUMNS, n_epochs=1, random_state=1, **KINDS[kind]).fit(rows, labels) for _ in range(2)
    )
    np.testing.assert_array_equal(one.shared_, two.shared_)
    np.testing.assert_array_equal(one.weights_, two.weights_)
    single = fitted(**KINDS[kind], beta=0.9)
    half = omdml(**KINDS[kind], beta=0.9).fit(X.astype(np.float32), Y, triplets=T)
    for array in (half.shared_, half.local_, half.metric_matrix(1), half.transform(X[:3].astype(np.float32))):
        assert array.dtype == np.float32
    assert_close(half.shared_, single.shared_, 1e-2 if "rank" in kind else 2e-3)


@every_kind
def test_degenerate_triplets_take_no_step_however_large_C(kind):
    rows = np.arange(len(X))
    triplets = np.concatenate([np.c_[rows[::-1], rows, rows], np.c_[rows, rows, rows]])
    model = omdml(**{**KINDS[kind], "C": 1e6, "init": np.diag([1.0, 0.5, 0.0, 2.0, 1.0, 1.0, 1.0])})
    before = omdml(**{**KINDS[kind], "C": 1e-300, "init": model.init}).fit(X, Y, triplets=triplets[:1]).shared_
    model.fit(X, Y, triplets=triplets)
    np.testing.assert_array_equal(model.shared_, before)
    assert model.n_updates_ == 0
    np.testing.assert_allclose(model.weights_, 1 / 3)


@every_kind
@pytest.mark.parametrize("overlap", [False, True])
def test_every_read_out_is_the_same_metric(kind, overlap):
    """Distances, scores, vectors, neighbors and transform against metric_matrix, also for a class never seen."""
    groups = [slice(0, 4), slice(2, 6)] if overlap else COLUMNS
    rows, labels = X[::2], np.where(np.arange(len(X[::2])) % 9 == 4, 50, Y[::2])
    model = paloma.OMDML(groups=groups, random_state=0, beta=0.99, **KINDS[kind]).fit(rows[::2], labels[::2])
    assert min(np.linalg.eigvalsh(model.metric_matrix(c))[0] for c in (None, 0)) > -1e-9
    metrics = {label: model.metric_matrix(label) for label in np.unique(labels)}
    delta = X[:9, None] - rows
    direct = np.array([np.einsum("qd,de,qe->q", delta[:, k], metrics[c], delta[:, k]) for k, c in enumerate(labels)]).T
    direct = np.maximum(direct, 0)
    np.testing.assert_allclose(model.pairwise_score(X[:9], rows, labels) ** 2, direct, atol=1e-9)
    vectors = model.query_vectors(X[:9]) @ model.item_vectors(rows, labels).T
    np.testing.assert_allclose(-vectors, direct, atol=1e-9)
    pairs = np.stack([X[:9], rows[:9]], axis=1)
    np.testing.assert_allclose(model.pair_distance(pairs, labels[:9]) ** 2, np.diag(direct), atol=1e-9)
    found, _ = paloma.MetricKNeighborsClassifier(model).fit(rows, labels).kneighbors(X[:9], 10)
    np.testing.assert_allclose(found**2, np.sort(direct, axis=1)[:, :10], atol=1e-9)
    Z = model.transform(rows)
    np.testing.assert_allclose(
        ((Z[:9] - Z[9:18]) ** 2).sum(axis=1), model.pair_distance(np.stack([rows[:9], rows[9:18]], axis=1)) ** 2
    )
    assert Z.shape[1] == len(model.get_feature_names_out())
