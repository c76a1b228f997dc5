"""A fitted learner or classifier as an ONNX graph, node by node."""

import json
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .. import _validation as check
from .._optional import optional
from .._search.voting import SOFTNESS
from ..estimators import as_arrays, bare_learner, reader_of
from ..neighbors import MetricKNeighborsClassifier
from ._parts import SHARED, Parts

PARTS = ("transform", "query", "item", "knn")
# Since this version ReduceSum takes its axes as an input; every operator used here is older.
OPSET, IR_VERSION = 13, 8


class Graph:
    """Nodes, constants, inputs and outputs as they come; names are numbers unless told."""

    def __init__(self, dtype: Any) -> None:
        onnx = optional("onnx", "onnx")
        self._helper, self._numpy = onnx.helper, optional("onnx.numpy_helper", "onnx")
        self.dtype = np.dtype(dtype)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def _info(self, name: str, kind: Any, shape: tuple[Any, ...]) -> Any:
        number = self._helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return self._helper.make_tensor_value_info(name, number, shape)

    def input(self, name: str, shape: tuple[Any, ...], kind: Any = None) -> str:
        self._inputs.append(self._info(name, self.dtype if kind is None else kind, shape))
        return name

    def constant(self, value: Any, kind: Any = None) -> str:
        name = f"c{len(self._constants)}"
        array = np.asarray(value, self.dtype if kind is None else kind)
        self._constants.append(self._numpy.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, op: str, *inputs: str, n_outputs: int = 1, **attributes: Any) -> Any:
        """One node; the name of its output, or their names."""
        names = [f"n{len(self._nodes)}_{k}" for k in range(n_outputs)]
        self._nodes.append(self._helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if n_outputs == 1 else names

    def output(self, name: str, value: str, shape: tuple[Any, ...], kind: Any = None) -> None:
        self._nodes.append(self._helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._info(name, self.dtype if kind is None else kind, shape))

    def sum_over(self, value: str, axis: int, keepdims: int = 0) -> str:
        return str(self.add("ReduceSum", value, self.constant([axis], np.int64), keepdims=keepdims))

    def model(self, name: str, facts: dict[str, Any]) -> Any:
        """The checked ModelProto; `facts` become its metadata."""
        graph = self._helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._constants)
        opset = [self._helper.make_opsetid("", OPSET)]
        model = self._helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="paloma")
        self._helper.set_model_props(model, {key: json.dumps(value) for key, value in facts.items()})
        optional("onnx.checker", "onnx").check_model(model, full_check=True)
        return model


def graph_of(model: Any, part: str, dtype: Any) -> Any:
    """The graph of one part of a model, see `paloma.export.to_onnx`."""
    check.check_word("part", part, PARTS)
    if part == "knn":
        if not isinstance(model, MetricKNeighborsClassifier):
            raise TypeError(
                f"part='knn' exports a fitted MetricKNeighborsClassifier, whose rows vote; got {type(model).__name__}."
            )
        return _knn(model, dtype)
    if part == "transform":
        return _transform(bare_learner(model), dtype)
    parts = Parts.of(model, dtype)
    graph, d = Graph(parts.stack.dtype), parts.stack.shape[1]
    vectors = (_query if part == "query" else _item)(graph, parts, graph.input("X", ("n", d)))
    graph.output("vectors", vectors, ("n", d + len(parts.stack) + 1 if parts.is_distance else d))
    return graph.model(part, {"classes": parts.classes.tolist()})


def _transform(learner: Any, dtype: Any) -> Any:
    if not hasattr(learner, "transform"):
        raise TypeError(f"{type(learner).__name__} has no transform: a similarity is exported as 'query' and 'item'.")
    components = reader_of(learner).metric.components()
    graph = Graph(components.dtype if dtype is None else dtype)
    X = graph.input("X", ("n", components.shape[1]))
    graph.output("rows", graph.add("MatMul", X, graph.constant(components.T)), ("n", components.shape[0]))
    return graph.model("transform", {})


def _query(graph: Graph, parts: Parts, X: str) -> str:
    """[q, a_1(q), ..., 1] (theory 11): the forms of all parts by one product."""
    if not parts.is_distance:
        return X
    images = graph.add("MatMul", X, graph.constant(parts.stack))
    forms = graph.add("Transpose", graph.sum_over(graph.add("Mul", images, X), 2), perm=[1, 0])
    first = graph.add("Slice", X, *(graph.constant([k], np.int64) for k in (0, 1, 1)))
    one = graph.add("Add", graph.add("Mul", first, graph.constant(0.0)), graph.constant(1.0))
    return str(graph.add("Concat", X, forms, one, axis=1))


def _item(graph: Graph, parts: Parts, X: str) -> str:
    """[2 M_c x, -shares, -x^T M_c x] (theory 11)."""
    if parts.is_local:
        y = graph.input("y", ("n",), np.int64)
        shares = graph.add("Gather", graph.constant(parts.shares), y, axis=0)
        matrices = graph.add("Gather", graph.constant(parts.matrices), y, axis=0)
        column = graph.add("MatMul", matrices, graph.add("Unsqueeze", X, graph.constant([2], np.int64)))
        mapped = graph.add("Squeeze", column, graph.constant([2], np.int64))
    else:
        mapped = graph.add("MatMul", X, graph.constant(parts.stack[0].T))
    if not parts.is_distance:
        return str(mapped)
    constants = graph.sum_over(graph.add("Mul", X, mapped), 1, keepdims=1)
    if not parts.is_local:
        shares = graph.add("Add", graph.add("Mul", constants, graph.constant(0.0)), graph.constant(1.0))
    doubled = graph.add("Mul", mapped, graph.constant(2.0))
    return str(graph.add("Concat", doubled, graph.add("Neg", shares), graph.add("Neg", constants), axis=1))


def _knn(classifier: MetricKNeighborsClassifier, dtype: Any) -> Any:
    """Search vectors of the rows that vote, the k best products, and their vote (theory 23)."""
    check_is_fitted(classifier)
    held = (classifier.rows_, classifier.labels_, classifier.row_numbers_)
    rows, labels, row_numbers = as_arrays("to_onnx", *held)
    if classifier.weights == "distance" or sp.issparse(rows):
        what = "weights='distance'" if classifier.weights == "distance" else "a classifier of sparse rows"
        raise ValueError(f"{what} cannot be exported to ONNX; weights='soft' or 'uniform' over dense rows can.")
    parts = Parts.of(classifier.metric_, dtype)
    graph, k = Graph(parts.stack.dtype), classifier.n_neighbors_
    items = graph.constant(parts.item_vectors(rows, labels).T)
    queries = _query(graph, parts, graph.input("X", ("n", parts.stack.shape[1])))
    found, places = graph.add(
        "TopK", graph.add("MatMul", queries, items), graph.constant([k], np.int64), n_outputs=2, axis=1
    )
    squares = graph.add("Max", graph.add("Neg", found), graph.constant(0.0))
    numbers = graph.constant(row_numbers, np.int64)
    graph.output("values", graph.add("Sqrt", squares) if parts.is_distance else found, ("n", k))
    graph.output("rows", graph.add("Gather", numbers, places), ("n", k), np.int64)
    codes = np.searchsorted(classifier.classes_, labels)
    neighbors = graph.add("Gather", graph.constant(codes, np.int64), places)
    gaps = squares if parts.is_distance else _lacking(graph, parts, queries, found)
    weights = _weights(graph, classifier.weights, gaps, k)
    _vote(graph, neighbors, weights, len(classifier.classes_))
    return graph.model("knn", {"classes": classifier.classes_.tolist()})


def _lacking(graph: Graph, parts: Parts, queries: str, found: str) -> str:
    """What similarities lack to that of the query with itself, or of the nearest if that is larger; (n, k)."""
    images = graph.add("MatMul", queries, graph.constant(parts.matrices[SHARED if parts.is_local else 0].T))
    own = graph.sum_over(graph.add("Mul", images, queries), 1, keepdims=1)
    first = graph.add("Slice", found, *(graph.constant([v], np.int64) for v in (0, 1, 1)))
    return str(graph.add("Sub", graph.add("Max", own, first), found))


def _weights(graph: Graph, rule: str, gaps: str, k: int) -> str:
    """What neighbors' votes count, from their squared distances, or what similarities lack; (n, k) or (1, k)."""
    if rule == "soft":
        last = graph.add("Slice", gaps, *(graph.constant([v], np.int64) for v in (k - 1, k, 1)))
        tiny = graph.constant(np.finfo(graph.dtype).tiny)
        width = graph.add("Max", graph.add("Mul", last, graph.constant(SOFTNESS)), tiny)
        return str(graph.add("Exp", graph.add("Neg", graph.add("Div", gaps, width))))
    return graph.constant(np.ones((1, k)))


def _vote(graph: Graph, neighbors: str, weights: str, n_classes: int) -> None:
    """Shares of all classes, and the class of most; a tie goes to the nearest of the tied, which comes first."""
    one_hot = graph.add("Gather", graph.constant(np.eye(n_classes)), neighbors)
    column = graph.add("Unsqueeze", weights, graph.constant([2], np.int64))
    votes = graph.sum_over(graph.add("Mul", one_hot, column), 1)
    graph.output("probabilities", graph.add("Div", votes, graph.sum_over(weights, 1, keepdims=1)), ("n", n_classes))
    winner = graph.add("ArgMax", graph.add("GatherElements", votes, neighbors, axis=1), axis=1, keepdims=1)
    code = graph.add("Squeeze", graph.add("GatherElements", neighbors, winner, axis=1), graph.constant([1], np.int64))
    graph.output("class", code, ("n",), np.int64)
