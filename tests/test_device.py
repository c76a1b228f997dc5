"""Dense matrices on a torch device. Without a GPU these tests run on torch's CPU device; `make test-gpu` on both.

torch is not among the packages of `make test`, because its wheels for GPUs take gigabytes: without it this module is
skipped.
"""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'paloma[gpu]', or its CPU wheel")

from sklearn import config_context  # noqa: E402
from sklearn.datasets import load_digits, load_iris  # noqa: E402
from sklearn.utils._array_api import move_estimator_to  # noqa: E402

import paloma  # noqa: E402
from paloma import (  # noqa: E402
    L2ODML,
    L2OSL,
    LODML,
    LOSL,
    OASIS,
    ODML,
    SLMOML,
    MetricIndex,
    MetricKNeighborsClassifier,
)
from paloma._core.choice import Choice  # noqa: E402
from paloma._core.locality import Locality  # noqa: E402
from paloma._core.measure import DISTANCE, SIMILARITY  # noqa: E402
from paloma._core.psd import Psd  # noqa: E402
from paloma._core.space import Beginning  # noqa: E402
from paloma._core.step import Step  # noqa: E402
from paloma._core.stream import Counts, Pass, Stream  # noqa: E402
from paloma._device import precision, tf32_allowed  # noqa: E402
from paloma._spaces.dense import Dense  # noqa: E402
from paloma._spaces.device import OnDevice  # noqa: E402

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# What float32 may differ by from float64, relative to the largest entry, after some hundred steps.
TOLERANCE = {np.float64: 1e-10, np.float32: 1e-4}


def stream_with_duplicates(rng, n=60, d=21, n_classes=5, n_triplets=700, free=False):
    """Rows that coincide or are 0, triplets that repeat, name a row twice, or have two candidates of one class."""
    X = rng.normal(size=(n, d))
    X[5], X[7], X[9] = X[6], 0.0, X[8]
    codes = rng.integers(0, n_classes, n).astype(np.int32)
    if free:
        codes[::3] = -1
    triplets = rng.integers(0, n, (n_triplets, 3))
    triplets[10:14] = triplets[9]
    triplets[20, 1], triplets[21, 2], triplets[22, 1] = triplets[20, 0], triplets[21, 0], triplets[22, 2]
    triplets[30], triplets[31] = [5, 6, 7], [7, 7, 7]
    weight = rng.random(n_triplets)
    weight[::17] = 0.0
    return X, codes, triplets, weight


def learned(representation, choice, X, codes, triplets, weight, averaging=False, block="auto"):
    """Matrices, steps and gaps after two passes."""
    rng = np.random.default_rng(0)
    space = representation.begin(choice, Beginning(X, triplets, len(triplets), 2.0, 5, rng))
    counts, tau, gaps = Counts(), np.empty(len(triplets)), np.empty(len(triplets))
    for _ in range(2):
        stream = Stream(X, triplets, codes, space.factor, weight, tau, None, gaps)
        how = Pass(counts.seen, counts.rate if averaging else None, block, rng=rng)
        counts.add(space.learn(choice, stream, counts, how))
    space.close()
    host = space.on_host() if isinstance(representation, OnDevice) else space
    return host.matrices, tau, gaps


def assert_same(one, other, tolerance, averaging=False):
    (a, *steps), (b, *others) = one, other
    assert [a.slot(c) >= 0 for c in range(5)] == [b.slot(c) >= 0 for c in range(5)]
    pairs = [(a.shared, b.shared), *((a.local(c), b.local(c)) for c in range(5)), *zip(steps, others, strict=True)]
    if averaging:
        pairs += [(a.readout(c, 0.0), b.readout(c, 0.0)) for c in (None, *range(5))]
    for left, right in pairs:
        assert np.abs(left - right).max() <= tolerance * np.abs(left).max()


def choice_of(measure=DISTANCE, lam=0.5, rule="pa1", psd="never"):
    locality = Locality.per_class(lam) if lam < 1 else Locality.shared()
    C = np.inf if rule == "pa" else 0.003
    return Choice(measure, locality, Step.parse(rule, None), Psd.parse(psd, rule), C, 1.0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("measure", [DISTANCE, SIMILARITY])
@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_iterates_are_those_of_the_host(device, dtype, measure, lam):
    X, codes, triplets, weight = stream_with_duplicates(np.random.default_rng(1), free=lam == 0.3)
    choice, exact = choice_of(measure, lam), (X.astype(dtype).astype(float), codes, triplets, weight)
    on_device = learned(OnDevice(device=device), choice, X.astype(dtype), codes, triplets, weight)
    assert_same(learned(Dense(), choice, *exact), on_device, TOLERANCE[dtype])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rule", ["pa", "pa2", "smooth", "logistic", "ramp", "rescaled"])
def test_every_step_rule(device, rule):
    data = stream_with_duplicates(np.random.default_rng(2))
    for measure in (DISTANCE, SIMILARITY):
        choice = choice_of(measure, rule=rule)
        assert_same(learned(Dense(), choice, *data), learned(OnDevice(device=device), choice, *data), 1e-10)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("psd", ["never", 300])
@pytest.mark.parametrize("block", ["auto", 33, 900])
def test_averages_and_projections_keep_their_rhythm(device, psd, block):
    data = stream_with_duplicates(np.random.default_rng(3), n_triplets=2600)
    choice = choice_of(psd=psd)
    one = learned(Dense(), choice, *data, averaging=True)
    other = learned(OnDevice(device=device), choice, *data, averaging=True, block=block)
    assert_same(one, other, 1e-9, averaging=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [LODML, LOSL, ODML, OASIS])
def test_a_learner_on_a_device_is_the_same_learner(device, kind):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    host, other = kind(random_state=0, n_epochs=1).fit(X, y), kind(random_state=0, n_epochs=1, device=device).fit(X, y)
    assert host.mined_ == other.mined_
    assert host.n_updates_ == other.n_updates_
    assert np.allclose(host.shared_, other.shared_, atol=1e-9)
    assert np.allclose(host.metric_matrix(), other.metric_matrix(), atol=1e-9)
    assert host.score(X, y) == other.score(X, y)
    voters = [MetricKNeighborsClassifier(metric).fit(X, y) for metric in (host, other)]
    (d, ids), (e, others) = (voter.kneighbors(X[:50] + 0.01, 5) for voter in voters)
    assert np.array_equal(ids, others)
    assert np.allclose(d, e, atol=1e-6)


def test_the_same_seed_gives_the_same_bits():
    X, y = load_iris(return_X_y=True)
    one, other = (LODML(random_state=0, device=DEVICES[-1]).fit(X.astype(np.float32), y) for _ in range(2))
    assert np.array_equal(one.shared_, other.shared_)
    assert np.array_equal(one.local_, other.local_)


def test_outputs_follow_the_input():
    X, y = load_iris(return_X_y=True)
    metric, plain = LODML(random_state=0).fit(torch.tensor(X), torch.tensor(y)), LODML(random_state=0).fit(X, y)
    rows = metric.transform(torch.tensor(X))
    assert isinstance(rows, torch.Tensor)
    assert rows.dtype == torch.float64
    assert np.array_equal(rows.numpy(), plain.transform(X))
    assert isinstance(metric.transform(X), np.ndarray)
    assert isinstance(metric.pairwise_score(torch.tensor(X[:3]), torch.tensor(X), y), torch.Tensor)


def test_files_and_pickles_know_no_device(tmp_path):
    X, y = load_iris(return_X_y=True)
    metric = LODML(random_state=0, device=DEVICES[-1]).fit(X, y)
    paloma.save(metric, tmp_path / "model")
    loaded = paloma.load(tmp_path / "model")
    assert loaded.device is None
    assert np.array_equal(loaded.shared_, metric.shared_)
    assert np.array_equal(pickle.loads(pickle.dumps(metric)).shared_, metric.shared_)
    for learner in (loaded, metric):
        learner.partial_fit(X[::2] + 0.1, y[::2])
    assert np.allclose(loaded.shared_, metric.shared_, atol=1e-9)


def test_to_moves_what_was_learned():
    X, y = load_iris(return_X_y=True)
    metric = LODML(random_state=0).fit(X, y)
    before = metric.shared_
    assert np.array_equal(metric.to(DEVICES[-1]).shared_, before)
    metric.partial_fit(X, y)
    other = LODML(random_state=0).fit(X, y).partial_fit(X, y)
    assert np.allclose(metric.to(None).shared_, other.shared_, atol=1e-9)
    assert metric.device is None


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (lambda X: X.half(), TypeError, "float32 or float64"),
        (lambda X: X.to(torch.complex64), ValueError, "Complex data"),
        (lambda X: X.requires_grad_(), ValueError, "detach"),
        (lambda X: X * torch.inf, ValueError, "NaN|infinity"),
    ],
)
def test_bad_tensors_are_refused_and_change_nothing(rows, error, words):
    X, y = load_iris(return_X_y=True)
    metric = LODML(random_state=0).fit(X, y)
    before = metric.shared_
    with pytest.raises(error, match=words):
        metric.partial_fit(rows(torch.tensor(X) + 1.0), y)
    assert np.array_equal(metric.shared_, before)


def test_what_a_device_cannot_do_is_said():
    X, y = load_iris(return_X_y=True)
    for learner, words in [
        (LODML(device="cpu", psd="exact"), "psd='exact'"),
        (LODML(device="cpu", forget=0.1), "cannot forget"),
        (LODML(device="cpu", regions=2, soft_regions=True), "soft_regions"),
        (L2ODML(device="cpu", forget=0.1), "cannot forget"),
        (L2ODML(device="cpu", psd="step"), "psd='step'"),
        (SLMOML(device="cpu"), "only supports device=None"),
        (LODML(device="vulkan"), "device must be"),
        (LODML(device=3), "device must be"),
    ]:
        with pytest.raises(ValueError, match=words):
            learner.fit(X, y)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="asks for a GPU"):
            LODML(device="cuda").fit(X, y)
    assert LODML(device="auto", n_epochs=1).fit(X, y).score(X, y) > 0.9
    metric = LODML().fit(X, y).set_params(device="cpu")
    with pytest.raises(ValueError, match="another device"):
        metric.partial_fit(X, y)


@pytest.mark.parametrize("device", DEVICES)
def test_class_free_triplets_leave_classes_alone(device):
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    X += 0.01 * rng.normal(size=X.shape)  # of neighbors that are equally near up to rounding, devices may take others
    triplets = rng.integers(0, len(X), (200, 3))
    one, other = (LODML(random_state=0, device=where).fit(X, y) for where in (None, device))
    for metric in (one, other):
        metric.partial_fit(X, triplets=triplets)
        metric.partial_fit(X + 0.1, np.where(y == 2, 7, y))
    assert np.allclose(one.shared_, other.shared_, atol=1e-9)
    assert np.allclose(one.local_, other.local_, atol=1e-9)


def test_hard_regions_on_a_device():
    X, y = load_iris(return_X_y=True)
    one, other = (LODML(random_state=0, regions=3, device=device).fit(X, y) for device in (None, DEVICES[-1]))
    assert np.allclose(one.local_, other.local_, atol=1e-9)


def test_no_room_on_the_device_is_said_and_changes_nothing(monkeypatch):
    X, y = load_iris(return_X_y=True)
    metric = LODML(random_state=0, device=DEVICES[-1]).fit(X, y)
    before, seen = metric.shared_, metric.n_triplets_

    def full(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr("paloma._spaces.device.blocks.Plain.prepared", full)
    with pytest.raises(MemoryError, match="device=None"):
        metric.partial_fit(X, y)
    assert np.array_equal(metric.shared_, before)
    assert metric.n_triplets_ == seen


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_on_a_gpu_are_followed():
    X, y = load_iris(return_X_y=True)
    rows = torch.tensor(X, device="cuda")
    metric = LODML(random_state=0).fit(rows, y)
    assert metric.transform(rows).device.type == "cuda"
    assert np.allclose(metric.shared_, LODML(random_state=0, device="cuda").fit(X, y).shared_, atol=1e-12)
    metric.partial_fit(rows, y)
    on_host = LODML(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="the model is on the CPU"):
        on_host.transform(rows)
    voters = MetricKNeighborsClassifier().fit(rows, torch.tensor(y, device="cuda"))
    assert voters.metric_.transform(rows).device.type == voters.predict(rows).device.type == "cuda"
    assert np.array_equal(voters.metric_.shared_, LODML(random_state=0, device="cuda").fit(X, y).shared_)


@pytest.mark.parametrize("device", DEVICES)
def test_a_classifier_and_an_index_are_where_their_metric_is(device, tmp_path):
    X, y = load_iris(return_X_y=True)
    voters = MetricKNeighborsClassifier(LODML(random_state=0), device=device).fit(X, y)
    assert (voters.metric.device, voters.metric_.device) == (None, device)
    assert np.array_equal(voters.metric_.shared_, LODML(random_state=0, device=device).fit(X, y).shared_)
    assert MetricKNeighborsClassifier(device=device).partial_fit(X, y).metric_.device == device
    assert pickle.loads(pickle.dumps(MetricIndex(voters.metric_, device=device))).device == device
    paloma.save(voters, tmp_path / "voters.paloma")
    assert paloma.load(tmp_path / "voters.paloma").device is None
    on_host = LODML(random_state=0).fit(X, y)
    for call in (
        lambda: MetricKNeighborsClassifier(on_host, device=device).fit(X, y),
        lambda: MetricIndex(on_host, device=device),
    ):
        with pytest.raises(ValueError, match=r"its metric is on the CPU without torch.* move it"):
            call()
    on_host.to(device)
    assert np.array_equal(MetricKNeighborsClassifier(on_host, device=device).fit(X, y).predict(X), voters.predict(X))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_learner_of_the_cpu_reads_tensors_of_a_gpu():
    X, y = load_iris(return_X_y=True)
    rows = torch.tensor(X, device="cuda")
    one, other = SLMOML(random_state=0).fit(X, y), SLMOML(random_state=0).fit(rows, y).partial_fit(rows, y)
    one.partial_fit(X, y)
    assert other.transform(rows).device.type == "cuda"
    assert np.array_equal(one.transform(X), other.transform(rows).cpu().numpy())


@pytest.mark.parametrize("device", DEVICES)
def test_under_dispatch_what_was_learned_follows_too(device, monkeypatch):
    X, y = load_iris(return_X_y=True)
    rows = torch.tensor(X, device=device)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        metric = LODML(random_state=0).fit(rows, y)
        voters = MetricKNeighborsClassifier(metric).fit(rows, y)
        for learned in (metric.shared_, metric.local_, metric.whitener_, metric.metric_matrix(1), voters.rows_):
            assert isinstance(learned, torch.Tensor)
            assert learned.device == rows.device
        with pytest.raises(ValueError, match="must use the same namespace"):
            voters.predict(X)
        moved = move_estimator_to(metric, np, "cpu")
    assert np.array_equal(moved.shared_, metric.shared_.cpu().numpy())
    assert np.allclose(moved.transform(X), metric.transform(rows).cpu().numpy(), atol=1e-9)
    assert moved.partial_fit(X, y).device is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [L2ODML, L2OSL])
def test_projected_learners_on_a_device_are_the_same_learners(device, kind, tmp_path):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] + 0.01 * np.random.default_rng(0).normal(size=(300, 64)), y[:300]
    arguments = {"random_state": 0, "n_epochs": 2, "n_components": 20, "rank": 30}
    host, other = kind(**arguments).fit(X, y), kind(device=device, **arguments).fit(X, y)
    assert host.mined_ == other.mined_
    for learner in (host, other):
        learner.partial_fit(X[::2] + 0.1, y[::2])
    assert host.n_updates_ == other.n_updates_
    assert np.allclose(
        host.metric_matrix(3), other.metric_matrix(3), rtol=0, atol=1e-7 * np.abs(host.metric_matrix(3)).max()
    )
    paloma.save(other, tmp_path / "model")
    loaded = paloma.load(tmp_path / "model")
    assert loaded.device is None
    assert np.array_equal(loaded.metric_matrix(3), other.metric_matrix(3))
    assert np.array_equal(host.to(device).metric_matrix(3), host.to(None).metric_matrix(3))


def test_sparse_rows_are_learned_on_a_device():
    X, y = load_digits(return_X_y=True)
    X, y = sp.csr_matrix(X[:300]), y[:300]
    one, other = (L2ODML(random_state=0, n_components=20, device=device).fit(X, y) for device in (None, DEVICES[-1]))
    assert np.allclose(one.metric_matrix(3), other.metric_matrix(3), atol=1e-7)


def test_an_index_follows_its_rows():
    X, y = load_iris(return_X_y=True)
    metric = LODML(random_state=0).fit(X, y)
    index, plain = MetricIndex(metric), MetricIndex(metric)
    assert isinstance(index.add(torch.tensor(X), torch.tensor(y)), torch.Tensor)
    plain.add(X, y)
    for found, wanted in zip(index.search(torch.tensor(X[:5]), 3), plain.search(X[:5], 3), strict=True):
        assert isinstance(found, torch.Tensor)
        assert np.array_equal(found.numpy(), wanted)


def test_tf32_is_used_only_if_it_is_asked_for():
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        with precision():
            assert not torch.backends.cuda.matmul.allow_tf32
        with paloma.tf32(), precision():
            assert torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cuda.matmul.allow_tf32
        assert not tf32_allowed()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_error_of_tf32():
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    plain = LODML(random_state=0, device="cuda").fit(X, y).metric_matrix(3)
    with paloma.tf32():
        rough = LODML(random_state=0, device="cuda").fit(X, y).metric_matrix(3)
    error = np.abs(rough - plain).max() / np.abs(plain).max()
    assert 1e-7 < error < 0.05
