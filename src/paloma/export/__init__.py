"""Fitted learners for other tools, each with the ranking that `pairwise_score` has.

`to_linear` gives a matrix, `to_torch` a module, `to_onnx` a graph, `to_sentence_transformers` the layer that goes
behind an encoder, `to_sql` statements for a database; `card` describes a model in Markdown. `SKOPS_TYPES` is what
``skops.io.load`` must be told to trust. A pipeline is exported by its last step, which is fed with what the steps
before give.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from .._optional import optional
from .._typing import Array
from ..estimators import bare_learner, measure_of, reader_of
from ._card import card_of
from ._onnx import graph_of
from ._parts import Parts
from ._skops import SKOPS_TYPES
from ._sql import Statements, statements

__all__ = [
    "SKOPS_TYPES",
    "Statements",
    "card",
    "to_linear",
    "to_onnx",
    "to_sentence_transformers",
    "to_sql",
    "to_torch",
]


def to_linear(model: Any, label: Any = None) -> Array:
    """The shared part, or the metric of one class, as a matrix W.

    Of a distance, ``|W q - W x|`` is the distance of q and x: put ``rows @ W.T`` into any tool that compares by Euclid.
    Of a similarity, ``q . (W x)`` is their similarity: map the items, leave the queries as they are.

    Parameters
    ----------
    model : fitted learner
    label : class whose metric is meant; None is the shared part U, the metric of items without a class.

    Returns
    -------
    (r, d) array, in the units of X; r is d or fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from paloma import ODML
    >>> from paloma.export import to_linear
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = ODML(random_state=0).fit(X, y)
    >>> W = to_linear(metric)
    >>> bool(np.isclose(np.linalg.norm(W @ (X[0] - X[1])), metric.pair_distance([X[:2]])[0]))
    True
    """
    learner = bare_learner(model)
    reader = reader_of(learner)
    if not measure_of(learner).is_distance:
        return reader.matrix(label)
    if label is None:
        return reader.metric.components()
    values, vectors = np.linalg.eigh(reader.matrix(label))
    if values[0] < -1e-9 * abs(values[-1]):
        raise ValueError(
            f"{reader.who}: the metric of {label!r} has negative eigenvalues, so that no map has its distances. Learn "
            "with psd='end', or use to_torch, to_onnx or item_vectors."
        )
    return np.ascontiguousarray((np.sqrt(np.maximum(values, 0.0)) * vectors).T[::-1])


def to_torch(model: Any, *, dtype: Any = None) -> Any:
    """The learner as a torch module: ``module(Q, X, places)`` is the matrix of `pairwise_score`.

    ``module.query(Q)`` and ``module.item(X, places)`` are search vectors, ``module.transform(X)`` is the shared part of
    a distance, ``module.places(y)`` turns labels into the numbers that items are given by. The matrices are buffers,
    saved by `state_dict` and moved by `to`.

    Parameters
    ----------
    model : fitted learner; not of a kernel, and without regions
    dtype : "float32", "float64", or None for that of the learner

    Examples
    --------
    >>> import torch
    >>> from paloma import LODML
    >>> from paloma.export import to_torch
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = LODML(random_state=0).fit(X, y)
    >>> module = to_torch(metric)
    >>> rows = torch.from_numpy(X)
    >>> scores = module(rows[:2], rows, module.places(y))
    >>> bool(abs(scores.numpy() - metric.pairwise_score(X[:2], X, y)).max() < 1e-6)
    True
    """
    optional("torch", "torch")
    from ._torch import MetricModule

    return MetricModule(Parts.of(model, dtype))


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None, *, part: str = "query", dtype: Any = None) -> bytes:
    """One part of a learner or classifier as an ONNX graph, for runtimes without Python.

    Parameters
    ----------
    model : fitted learner; for part="knn" a fitted `MetricKNeighborsClassifier`
    path : file to write; None: only return the bytes
    part : {"query", "item", "transform", "knn"}
        "query": X -> search vectors of queries. "item": X and, if the learner has local metrics, y -> search vectors of
        items, whose inner products with those of queries are minus squared distances, or similarities. y (int64) are
        places in the list of classes that the metadata of the graph hold as JSON, -1 for any other class, -2 for
        none. Items need memory for one matrix each: send them in batches. "transform": X -> rows under the shared part
        of a distance. "knn": X -> `values` (distances or similarities) and `rows` (numbers) of the nearest rows, and
        their vote: `probabilities` and `class`, a place in the list of classes.
    dtype : "float32", "float64", or None for that of the learner

    Returns
    -------
    bytes of the graph, opset 13

    Examples
    --------
    >>> from onnxruntime import InferenceSession
    >>> from paloma import LODML, MetricKNeighborsClassifier
    >>> from paloma.export import to_onnx
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MetricKNeighborsClassifier(LODML(random_state=0)).fit(X[::2], y[::2])
    >>> session = InferenceSession(to_onnx(model, part="knn"))
    >>> (found,) = session.run(["class"], {"X": X[1::2]})
    >>> int((found == model.predict(X[1::2])).sum())
    75
    """
    content: bytes = graph_of(model, part, dtype).SerializeToString()
    if path is not None:
        Path(path).write_bytes(content)
    return content


def to_sentence_transformers(model: Any, folder: str | os.PathLike[str]) -> None:
    """Write the shared part of a distance as the folder of a sentence-transformers `Dense` layer.

    ``SentenceTransformer(modules=[*encoder, Dense.load(folder)], similarity_fn_name="euclidean")`` then ranks as the
    learner does that was fitted on the encoder's output. Neither sentence-transformers nor torch is needed to write it.

    Parameters
    ----------
    model : fitted distance learner
    folder : made if it is not there; gets `config.json` and `model.safetensors`

    Examples
    --------
    >>> import os, tempfile
    >>> from paloma import ODML
    >>> from paloma.export import to_sentence_transformers
    >>> from sklearn.datasets import load_iris
    >>> folder = tempfile.mkdtemp()
    >>> to_sentence_transformers(ODML(random_state=0).fit(*load_iris(return_X_y=True)), folder)
    >>> sorted(os.listdir(folder))
    ['config.json', 'model.safetensors']
    """
    learner = bare_learner(model)
    if not measure_of(learner).is_distance:
        raise TypeError(
            f"{type(learner).__name__} is a similarity, which maps items but not queries; a Dense layer maps both. "
            "Use a distance learner, e.g. ODML or LODML."
        )
    weight = to_linear(learner).astype(np.float32)
    config = {
        "in_features": weight.shape[1],
        "out_features": weight.shape[0],
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file({"linear.weight": np.ascontiguousarray(weight)}, folder / "model.safetensors", {"format": "pt"})


def to_sql(model: Any, dialect: str = "pgvector", *, table: str = "items", for_graph: bool = False) -> Statements:
    """Statements that keep and search items in a database, under the metrics of their classes.

    The vectors are those of ``model.item_vectors(X, y)`` and ``model.query_vectors(Q)``, with the same `for_graph`. To
    have all of this done, and checked for agreement with the model, use `MetricIndex(backend="pgvector")`.

    Parameters
    ----------
    model : fitted learner, not of a kernel
    dialect : "pgvector", for PostgreSQL with that extension; placeholders are those of psycopg, %s
    table : its name; quoted, so that it may be any
    for_graph : False: exact, every row is compared. True: with an HNSW index, for many items.

    Examples
    --------
    >>> from paloma import LODML
    >>> from paloma.export import to_sql
    >>> from sklearn.datasets import load_iris
    >>> metric = LODML(random_state=0).fit(*load_iris(return_X_y=True))
    >>> print(to_sql(metric).search)
    SELECT id, embedding <#> %s AS value FROM "items" ORDER BY value LIMIT %s
    """
    return statements(model, dialect, table, for_graph)


def card(model: Any, name: str = "model.paloma") -> str:
    """A model card in Markdown, with the header that model hubs read; what only you can know is left to fill in.

    Parameters
    ----------
    model : fitted learner, classifier, index or pipeline
    name : file name under which it is published

    Examples
    --------
    >>> from paloma import LODML
    >>> from paloma.export import card
    >>> from sklearn.datasets import load_iris
    >>> text = card(LODML(random_state=0).fit(*load_iris(return_X_y=True)), "iris.paloma")
    >>> print(text.splitlines()[7])
    # iris.paloma
    """
    return card_of(model, name)
