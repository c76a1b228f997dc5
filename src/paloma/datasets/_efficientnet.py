"""EfficientNet-Lite (Liu 2020, Tan and Le 2019) as an ONNX model, from its weights alone.

Blocks of three convolutions (expand, depthwise, project), each with batch normalization, the first two with ReLU6; a
block that keeps the number of channels adds its input. All sizes are those of the weights; what they do not tell are
the strides of the seven stages. Features are the 1,280 means of the last feature map.
"""

from collections.abc import Mapping
from typing import Any

from .._optional import optional
from .._typing import Array

STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
_EPSILON = 1e-3
_OPSET, _IR = 13, 8


def efficientnet_lite(weights: Mapping[str, Array]) -> bytes:
    """An ONNX model from (n, 3, height, width) normalized pixels to (n, 1280) features."""
    onnx = optional("onnx", "encoders")
    graph = _Graph(onnx, weights)
    graph.convolution("_conv_stem", "_bn0", stride=2)
    strides, number = iter(STAGE_STRIDES), 0
    while f"_blocks.{number}._project_conv.weight" in weights:
        block, start = f"_blocks.{number}.", graph.last
        channels = _channels_in(weights, block)
        skips = len(weights[block + "_project_conv.weight"]) == channels
        if block + "_expand_conv.weight" in weights:
            graph.convolution(block + "_expand_conv", block + "_bn0")
        depth = len(weights[block + "_depthwise_conv.weight"])
        stride = 1 if skips else next(strides)
        graph.convolution(block + "_depthwise_conv", block + "_bn1", stride=stride, groups=depth)
        graph.convolution(block + "_project_conv", block + "_bn2", clip=False)
        if skips:
            graph.node("Add", [graph.last, start])
        number += 1
    graph.convolution("_conv_head", "_bn1")
    graph.node("GlobalAveragePool", [graph.last])
    graph.node("Flatten", [graph.last])
    return graph.model()


def _channels_in(weights: Mapping[str, Array], block: str) -> int:
    if block + "_expand_conv.weight" in weights:
        return weights[block + "_expand_conv.weight"].shape[1]
    return len(weights[block + "_depthwise_conv.weight"])


class _Graph:
    """Nodes one after the other; `last` is the output of the last one."""

    def __init__(self, onnx: Any, weights: Mapping[str, Array]) -> None:
        self._onnx, self._weights = onnx, weights
        self._nodes, self._constants, self.last = list[Any](), list[Any](), "pixels"
        self._constants += [self._scalar("low", 0.0), self._scalar("high", 6.0)]

    def _scalar(self, name: str, value: float) -> Any:
        return self._onnx.helper.make_tensor(name, self._onnx.TensorProto.FLOAT, [], [value])

    def _constant(self, name: str) -> str:
        self._constants.append(self._onnx.numpy_helper.from_array(self._weights[name], name))
        return name

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> None:
        """Append a node."""
        self.last = f"{kind} {len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [self.last], **attributes))

    def convolution(self, name: str, norm: str, *, stride: int = 1, groups: int = 1, clip: bool = True) -> None:
        """A convolution without bias, padded as TensorFlow pads, its normalization, and ReLU6."""
        kernel = self._weights[f"{name}.weight"].shape[2:]
        self.node(
            "Conv", [self.last, self._constant(f"{name}.weight")],
            auto_pad="SAME_UPPER", strides=[stride, stride], group=groups, kernel_shape=list(kernel),
        )  # fmt: skip
        moments = [self._constant(f"{norm}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
        self.node("BatchNormalization", [self.last, *moments], epsilon=_EPSILON)
        if clip:
            self.node("Clip", [self.last, "low", "high"])

    def model(self) -> bytes:
        """The model in ONNX's own bytes."""
        helper, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info("pixels", kind, ["n", 3, "height", "width"])]
        outputs = [helper.make_tensor_value_info(self.last, kind, ["n", None])]
        graph = helper.make_graph(self._nodes, "efficientnet-lite", inputs, outputs, self._constants)
        opset = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=_IR).SerializeToString()
