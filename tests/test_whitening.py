"""Whitening, the matrix form of scale: the functions, and learners against rows that were mapped by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_wine

import paloma
from paloma import L2ODML, LODML, LOSL, OASIS, ODML, SLMOML
from paloma._training import whitening
from paloma._training.guard import drawn
from paloma._training.mining import closest_of_class
from paloma._training.starts import better_power
from paloma._training.whitening import FORMS, Pairs, diagonal_whitener, full_whitener, low_rank_whitener, whitener_from
from twins.neighbors import mixed_shares

X, Y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0) * np.geomspace(1, 9, X.shape[1])
Q = X[::7] + 0.1
DENSE = [ODML, LODML, SLMOML]


def near_origin(rows):
    """Pairs of which these rows are the differences."""
    n, origin = rows.shape[0], np.zeros((1, rows.shape[1]))
    points = sp.vstack([rows, origin], "csr") if sp.issparse(rows) else np.vstack([rows, origin])
    return Pairs(points, np.stack([np.arange(n), np.full(n, n)], axis=1))


def made(kind, rows):
    found = kind(near_origin(rows))
    return found if found is None else found.array()


def scatter_pairs(triplets):
    return np.unique(triplets[:, :2], axis=0)


# --- the functions -------------------------------------------------------------------------------------------


def test_whitening_takes_half_of_what_differs():
    rows = np.random.default_rng(0).normal(size=(20_000, 3)) * (1.0, 4.0, 16.0)
    W = made(full_whitener, rows)
    assert np.allclose(W, W.T)
    assert np.linalg.det(W) == pytest.approx(1.0)
    assert (rows @ W).std(axis=0) / (rows @ W).std(axis=0)[0] == pytest.approx([1.0, 2.0, 4.0], rel=0.05)
    assert made(diagonal_whitener, rows) == pytest.approx(np.diag(W), rel=0.05)
    assert made(diagonal_whitener, sp.csr_matrix(rows)) == pytest.approx(made(diagonal_whitener, rows), rel=1e-12)


def test_whitening_is_ledoit_wolf():
    rows = np.random.default_rng(0).normal(size=(30, 12)) * np.geomspace(1, 9, 12)
    values, vectors = np.linalg.eigh(ledoit_wolf(rows, assume_centered=True)[0])
    expected = (vectors * values**-0.25) @ vectors.T
    assert made(full_whitener, rows) == pytest.approx(expected / np.linalg.det(expected) ** (1 / 12))


def test_few_differences_hardly_whiten():
    rows = np.random.default_rng(0).normal(size=(3, 40)) * np.geomspace(1, 100, 40)
    assert np.linalg.cond(made(full_whitener, rows)) < 10
    assert made(full_whitener, np.zeros((3, 4))) is None
    assert made(diagonal_whitener, np.zeros((3, 4))) is None
    assert made(low_rank_whitener, np.zeros((3, 4))) is None
    assert whitener_from("full", rows, np.empty((0, 2), int)) is None


def test_whitening_of_few_rows_with_many_features():
    """Of hundreds of equal eigenvalues, LAPACK's default solver now and then finds none: an Internal Error."""
    rng = np.random.default_rng(1432)
    rows = rng.normal(size=(rng.integers(30, 60), 600)) / 5.5
    W, ridge = made(full_whitener, rows), np.linalg.qr(rows.T, mode="complete")[0][:, len(rows) :]
    image = ridge.T @ W @ ridge
    assert np.allclose(image, np.eye(len(image)) * image[0, 0])


@pytest.mark.parametrize("n", [3, 30, 400])
def test_low_rank_whitening_is_that_of_a_scatter_that_is_flat_beyond_its_strongest_directions(n):
    rows = np.random.default_rng(0).normal(size=(n, 90)) * np.r_[np.geomspace(9, 1, 64), np.full(26, 0.1)]
    scatter = rows.T @ rows / n
    values, vectors = np.linalg.eigh(scatter)
    flat = np.r_[np.full(26, values[:26].mean()), values[26:]]
    mean, squares = flat.mean(), (flat**2).sum()
    noise = ((rows**2).sum(axis=1) ** 2).mean() - squares
    weight = min(noise / n / (squares - 90 * mean**2), 1.0)
    values = (1 - weight) * flat + weight * mean
    expected = (vectors * values**-0.25) @ vectors.T
    expected /= np.exp(np.linalg.slogdet(expected)[1] / 90)
    np.testing.assert_allclose(made(low_rank_whitener, rows), expected, atol=1e-4 * expected.max())
    if n > 72:
        assert abs(made(low_rank_whitener, rows[:, :50]) - made(full_whitener, rows[:, :50])).max() < 1e-10


@pytest.mark.parametrize(("tile", "numbers"), [(4096, 1 << 23), (7, 1 << 23), (7, 400)])
def test_pairs_that_share_rows_whiten_as_their_differences_do(monkeypatch, tile, numbers):
    """Whether points are held or formed again, at once or a few at a time, and however far they are from 0."""
    rng = np.random.default_rng(0)
    points, pairs = rng.normal(size=(40, 30)) * np.geomspace(1, 9, 30) + 100.0, rng.integers(0, 40, (300, 2))
    expected = {name: made(kind, points[pairs[:, 0]] - points[pairs[:, 1]]) for name, kind in FORMS.items()}
    monkeypatch.setattr(whitening, "TILE", tile)
    monkeypatch.setattr(whitening, "TILE_NUMBERS", numbers)
    for name, kind in FORMS.items():
        np.testing.assert_allclose(kind(Pairs(points, pairs)).array(), expected[name], rtol=1e-9, atol=1e-12)


def test_forms_of_whiteners_do_the_same():
    """Each against its own matrix: rows, matrices and maps around it, other units, more features."""
    rng = np.random.default_rng(0)
    rows, A, units = (
        rng.normal(size=(300, 80)) * np.geomspace(1, 30, 80),
        rng.normal(size=(80, 80)),
        rng.uniform(1, 9, 80),
    )
    A = A + A.T
    for kind in FORMS.values():
        whitener = kind(near_origin(rows))
        for each in (whitener, whitener.divided(units)):
            W = each.array() if each.array().ndim == 2 else np.diag(each.array())
            assert np.linalg.slogdet(W)[1] == pytest.approx(0.0, abs=1e-9)
            np.testing.assert_allclose(each.mapped(rows), rows @ W, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(each.around(A), W @ A @ W.T, rtol=1e-9, atol=1e-8)
            np.testing.assert_allclose(each.under(A), A @ W.T, rtol=1e-9, atol=1e-8)
            np.testing.assert_allclose(W @ each.undone(A) @ W.T, A, rtol=1e-8, atol=1e-8)
            wide = each.widened(82).array()
            wide = wide if wide.ndim == 2 else np.diag(wide)
            np.testing.assert_allclose(wide[:80, :80], W, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(wide[80:], np.eye(82)[80:])
        ratio = whitener.divided(units).mapped(rows) / whitener.mapped(rows / units)
        np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-6)


# --- learners ------------------------------------------------------------------------------------------------


def agree(model, by_hand, W, labels=(None, 0, 1, 2)):
    """`by_hand` learned rows X W."""
    W = np.diag(W) if W.ndim == 1 else W
    for label in labels:
        expected = W @ by_hand.metric_matrix(label) @ W.T
        np.testing.assert_allclose(model.metric_matrix(label), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scale", ["full", "low-rank", "diagonal"])
@pytest.mark.parametrize("kind", [*DENSE, LOSL, L2ODML])
def test_given_triplets_are_learned_on_mapped_rows(kind, scale):
    if kind is L2ODML and scale == "full":
        pytest.skip("refused")
    triplets = paloma.triplets.targets_impostors(X, Y, random_state=0)
    pairs = scatter_pairs(triplets)
    W = made(FORMS[scale], X[pairs[:, 0]] - X[pairs[:, 1]])
    rows, queries = (X @ W, Q @ W) if W.ndim == 2 else (X * W, Q * W)
    model = kind(scale=scale, random_state=0).fit(X, Y, triplets=triplets)
    by_hand = kind(scale="scalar", random_state=0).fit(rows, Y, triplets=triplets)
    np.testing.assert_allclose(model.whitener_, W, rtol=1e-10)
    assert model.scale_ == pytest.approx(by_hand.scale_, rel=1e-10)
    np.testing.assert_allclose(model.shared_, by_hand.shared_, rtol=1e-8, atol=1e-10)
    agree(model, by_hand, W)
    scores = model.pairwise_score(Q, X, Y)
    np.testing.assert_allclose(scores, by_hand.pairwise_score(queries, rows, Y), rtol=1e-7, atol=1e-7)
    vectors = model.query_vectors(Q) @ model.item_vectors(X, Y).T
    np.testing.assert_allclose(vectors, by_hand.query_vectors(queries) @ by_hand.item_vectors(rows, Y).T, rtol=1e-6)
    near = paloma.MetricKNeighborsClassifier(model).fit(X, Y).kneighbors(Q)
    expected = paloma.MetricKNeighborsClassifier(by_hand).fit(rows, Y).kneighbors(queries)
    np.testing.assert_allclose(near[0], expected[0], rtol=1e-7)
    np.testing.assert_array_equal(near[1], expected[1])
    if kind is not LOSL:
        np.testing.assert_allclose(model.components_.T @ model.components_, model.metric_matrix(), rtol=1e-7, atol=1e-8)
        between = np.linalg.norm(model.transform(X[:1]) - model.transform(X[1:2]))
        assert between == pytest.approx(model.pair_distance([X[:2]])[0], rel=1e-8)


@pytest.mark.parametrize("kind", DENSE)
def test_labels_are_mined_again_in_mapped_rows(kind):
    model = kind(scale="full", random_state=0).fit(X, Y)
    pairs = scatter_pairs(paloma.triplets.mine(X, Y.astype(np.int32)).triplets)
    W = made(full_whitener, X[pairs[:, 0]] - X[pairs[:, 1]])
    by_hand = kind(scale="scalar", random_state=0).fit(X @ W, Y)
    np.testing.assert_allclose(model.whitener_, W, rtol=1e-10)
    assert model.mined_ == by_hand.mined_
    agree(model, by_hand, W)


# --- units of the features -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*DENSE, L2ODML])
def test_units_that_say_nothing_do_not_matter(kind):
    extra = {"random_state": 0, "n_components": 5} if kind is L2ODML else {"random_state": 0}
    plain = X / X.std(axis=0)
    odd = plain * np.geomspace(1e-4, 1e5, 13)
    odd[:, 6] = 3.0  # constant
    plain[:, 6] = 3.0
    model, by_hand = kind(**extra).fit(odd, Y), kind(**extra).fit(plain, Y)
    assert model.mined_ == by_hand.mined_
    ratio = model.pairwise_score(odd[:9], odd[9:], Y[9:]) / by_hand.pairwise_score(plain[:9], plain[9:], Y[9:])
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-5)
    assert kind(**{**extra, "scale": "diagonal"}).fit(odd, Y).mined_ != model.mined_


def test_units_that_say_which_features_matter_are_kept():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 280)
    rows = rng.normal(size=(840, 40)) * np.r_[5.0, 5.0, np.full(38, 0.2)]
    rows[:, :2] += 15.0 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    model, as_given = LODML(random_state=0).fit(rows, y), LODML(scale="full", random_state=0).fit(rows, y)
    np.testing.assert_array_equal(model.whitener_, as_given.whitener_)


# --- whether whitening helps ---------------------------------------------------------------------------------


def wide_and_narrow(informative, n=180):
    """Classes are apart in the wide half of 10 features, or in the narrow half; the others are noise."""
    rng = np.random.default_rng(0)
    y, scales = rng.integers(0, 3, n), np.repeat([4.0, 0.5], 5)
    rows = rng.normal(size=(n, 10)) * scales
    rows[:, informative] += 1.5 * scales[informative] * rng.normal(size=(3, 5))[y]
    return rows, y


def from_near(rows, codes):
    near, _ = closest_of_class(rows, codes, np.arange(len(rows)), 3, None)
    return whitener_from("full", rows, np.stack([np.repeat(np.arange(len(rows)), 3), near.ravel()], axis=1))


def power_by_hand(rows, codes):
    """The exponent, all distances from differences and all neighbors sorted in full."""
    chosen, part, _ = drawn(codes, np.random.default_rng(0))
    gains = np.empty(len(rows))
    for number in (0, 1):
        W = from_near(rows[chosen[part == number]], codes[chosen[part == number]]).array()
        for i in chosen[part != number]:
            gaps = rows - rows[i]
            tables = np.stack([(gaps**2).sum(axis=1), ((gaps @ W) ** 2).sum(axis=1)])[:, None]
            tables[:, 0, i] = 1e9
            plain, whitened = (mixed_shares([one] * 3, [(0, 0)], codes, codes[[i]])[0, 0] for one in tables)
            gains[i] = np.log(whitened + 0.2) - np.log(plain + 0.2)
    half_an_error = 0.5 * gains.std() / np.sqrt(len(rows))
    lead = gains.mean() - half_an_error
    return 0.25 if abs(lead) <= half_an_error else 0.5 * (lead > 0)


@pytest.mark.parametrize("informative", [slice(5), slice(5, 10)])
def test_few_rows_judge_whether_whitening_helps(informative):
    rows, y = wide_and_narrow(informative)
    expected = 0.0 if informative == slice(5) else 0.5
    assert better_power(rows, y, from_near) == power_by_hand(rows, y) == expected
    noise = np.random.default_rng(1).normal(size=(90, 3)) * (1.0, 2.0, 4.0)
    labels = np.arange(90) % 3
    assert better_power(noise, labels, from_near) == power_by_hand(noise, labels)


def test_a_whitener_that_does_harm_is_not_used():
    rows, y = wide_and_narrow(slice(5))
    model = LODML(random_state=0).fit(rows, y)
    assert model.whitener_ is None
    assert LODML(scale="full", random_state=0).fit(rows, y).whitener_ is not None
    by_hand = LODML(scale="scalar", random_state=0).fit(rows, y)
    np.testing.assert_array_equal(
        model.pairwise_score(rows[:9], rows[9:], y[9:]), by_hand.pairwise_score(rows[:9], rows[9:], y[9:])
    )


def test_half_of_the_power_is_the_root():
    rows = np.random.default_rng(0).normal(size=(200, 4)) * (1.0, 2.0, 4.0, 8.0)
    pairs = np.stack([np.arange(199), np.arange(1, 200)], axis=1)
    for kind in FORMS.values():
        whole, half = (kind(Pairs(rows, pairs), power).array() for power in (0.5, 0.25))
        np.testing.assert_allclose(half @ half if half.ndim == 2 else half * half, whole, rtol=1e-9, atol=1e-12)
    assert whitener_from("full", rows, pairs, power=0.0) is None
    units = np.array([1.0, 2.0, 4.0, 8.0])
    np.testing.assert_allclose(whitener_from("full", rows / units, pairs, units, 0.0).array(), 8**0.5 / units)


def test_many_rows_more_features_than_rows_and_rows_without_a_label_do_not_judge():
    rows, y = wide_and_narrow(slice(5), 800)
    assert better_power(rows, y, from_near) == 0.5
    assert better_power(rows[:10], y[:10], from_near) == 0.5
    assert better_power(rows[:40], np.zeros(40, int), from_near) == 0.5
    few, labels = wide_and_narrow(slice(5))
    assert better_power(np.concatenate([rows, few]), np.append(np.full(800, -1), labels), from_near) == 0.0


# --- starts --------------------------------------------------------------------------------------------------


def test_a_start_in_the_units_of_X_stays_what_it_is_in_other_units():
    start = np.diag(np.geomspace(3, 0.01, 13)) + 0.01
    odd = X * np.geomspace(0.01, 10, 13)
    model = LODML(init=start, C=1e-16, random_state=0).fit(odd, Y)
    assert not np.allclose(model.whitener_, model.whitener_.T)
    metric = model.metric_matrix()
    np.testing.assert_allclose(metric / metric[0, 0], start / start[0, 0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("remine", [False, True])
def test_the_other_ways_to_train_use_mapped_rows(remine, early_stopping):
    extra = {"random_state": 0, "remine": remine, "early_stopping": early_stopping, "n_epochs": 3}
    model = LODML(**extra).fit(X, Y)
    agree(model, LODML(scale="scalar", **extra).fit(X @ model.whitener_, Y), model.whitener_)


def test_streams_fix_the_whitener_at_the_first_triplets():
    parts = np.array_split(np.random.default_rng(0).permutation(len(X)), 6)
    model = LODML(random_state=0)
    for part in parts:
        model.partial_fit(X[part], Y[part])
    W = LODML(random_state=0).partial_fit(X[parts[0]], Y[parts[0]]).whitener_
    np.testing.assert_array_equal(model.whitener_, W)
    by_hand = LODML(scale="scalar", random_state=0)
    for part in parts:
        by_hand.partial_fit(X[part] @ W, Y[part])
    agree(model, by_hand, W)


def test_one_row_at_a_time_and_new_features():
    from paloma.estimators import widen

    model = LODML(random_state=0)
    for k in range(40):
        model.partial_fit(X[4 * k : 4 * k + 1], Y[4 * k : 4 * k + 1])
    before = model.metric_matrix()
    widen(model, 15)
    after = model.metric_matrix()
    np.testing.assert_allclose(after[:13, :13], before, rtol=1e-12)
    np.testing.assert_allclose(after[13:, 13:], np.eye(2) / model.scale_**2, rtol=1e-12)
    model.partial_fit(np.pad(X, ((0, 0), (0, 2)), constant_values=1.0), Y)


def test_a_start_in_the_units_of_x():
    init = np.cov(X.T) + np.eye(13)
    model = LODML(init=init, C=1e-12, random_state=0).fit(X, Y)
    assert model.whitener_ is not None
    np.testing.assert_allclose(model.metric_matrix(), init, rtol=1e-6, atol=1e-6)


def test_pairs_whiten_by_the_similar_ones():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(X), (400, 2))
    targets = np.where(Y[pairs[:, 0]] == Y[pairs[:, 1]], 1, -1)
    model = ODML(random_state=0).fit(X, pairs=pairs, pair_targets=targets)
    near = np.unique(pairs[targets > 0], axis=0)
    W = made(full_whitener, X[near[:, 0]] - X[near[:, 1]])
    np.testing.assert_allclose(model.whitener_, W, rtol=1e-10)
    by_hand = ODML(scale="scalar", random_state=0).fit(X @ W, pairs=pairs, pair_targets=targets)
    assert model.threshold_ == pytest.approx(by_hand.threshold_, rel=1e-9)
    agree(model, by_hand, W, labels=(None,))


def test_forms():
    assert LODML(scale="scalar", random_state=0).fit(X, Y).whitener_ is None
    assert LODML(scale=None, random_state=0).fit(X, Y).whitener_ is None
    assert LODML(scale="diagonal", random_state=0).fit(X, Y).whitener_.shape == (13,)
    assert L2ODML(n_components=5, random_state=0).fit(X, Y).whitener_.shape == (13, 13)
    for kind in (OASIS, LOSL, paloma.OKS, paloma.OMDML):
        assert kind(random_state=0).fit(X, Y).whitener_ is None
    wide = np.random.default_rng(0).normal(size=(30, 1537))
    for d, form in ((1537, "low-rank"), (1536, "full")):
        y = np.arange(30) % 2
        models = (ODML(random_state=0, n_epochs=1, scale=scale).fit(wide[:, :d], y) for scale in ("auto", form))
        np.testing.assert_array_equal(*(model.whitener_ for model in models))


def test_sparse_rows_stay_sparse():
    rows = sp.random(80, 30, 0.2, "csr", random_state=0)
    y = np.arange(80) % 3
    model = L2ODML(n_components=8, random_state=0).fit(rows, y)
    dense = L2ODML(n_components=8, random_state=0, scale="diagonal").fit(rows.toarray(), y)
    np.testing.assert_allclose(model.whitener_, dense.whitener_, rtol=1e-10)
    np.testing.assert_allclose(model.metric_matrix(), dense.metric_matrix(), atol=1e-6)
    for scale in ("full", "low-rank"):
        with pytest.raises(ValueError, match="would fill sparse rows"):
            OASIS(scale=scale).fit(rows, y)


@pytest.mark.parametrize(
    ("kind", "scale"), [(L2ODML, "full"), (paloma.OKS, "low-rank"), (paloma.OMDML, "diagonal"), (LODML, "matrix")]
)
def test_refused(kind, scale):
    with pytest.raises(ValueError, match="scale"):
        kind(scale=scale).fit(X, Y)


@pytest.mark.parametrize("scale", ["full", "low-rank", "diagonal"])
def test_files_keep_the_whitener(tmp_path, scale):
    model = LODML(random_state=0, scale=scale).fit(X, Y)
    paloma.save(model, tmp_path / "model.paloma")
    again = paloma.load(tmp_path / "model.paloma")
    np.testing.assert_array_equal(again.pairwise_score(Q, X, Y), model.pairwise_score(Q, X, Y))
    for each in (model, again):
        each.partial_fit(X[:50], Y[:50])
    np.testing.assert_array_equal(again.metric_matrix(1), model.metric_matrix(1))


def test_files_with_half_a_whitener_are_refused(tmp_path):
    from helpers import crafted

    paloma.save(LODML(random_state=0, scale="low-rank").fit(X, Y), tmp_path / "model.paloma")
    header, arrays = crafted.opened((tmp_path / "model.paloma").read_bytes())
    del arrays["LODML.model.whitener_gains"]
    (tmp_path / "model.paloma").write_bytes(crafted.sealed(header, arrays))
    with pytest.raises(paloma.exceptions.ModelFileError, match="do not go together"):
        paloma.load(tmp_path / "model.paloma")
