"""ONNX models written by hand, field by field, so that the tests need neither a file nor the onnx package."""

# Field numbers of onnx.proto3.
FLOAT = 1


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def value_info(name, shape):
    """ValueInfoProto: name = 1, type = 2; sides are numbers (dim_value = 1) or names (dim_param = 2)."""
    sides = b"".join(block(1, number(1, s) if isinstance(s, int) else block(2, s)) for s in shape)
    tensor = number(1, FLOAT) + block(2, sides)
    return block(1, name) + block(2, block(1, tensor))


def node(op, source, result):
    """NodeProto: input = 1, output = 2, op_type = 4."""
    return block(1, source) + block(2, result) + block(4, op)


def model(nodes, shape, outputs):
    """ModelProto: ir_version = 1, graph = 7, opset_import = 8; graph: node = 1, name = 2, input = 11, output = 12."""
    graph = b"".join(block(1, n) for n in nodes) + block(2, "tiny") + block(11, value_info("image", shape))
    graph += b"".join(block(12, value_info(name, sides)) for name, sides in outputs.items())
    return number(1, 8) + block(7, graph) + block(8, number(2, 13))


def channel_means(shape=("n", 3, 8, 8)):
    """(n, 3, h, w) -> mean of each channel, as a feature map (n, 3, 1, 1)."""
    return model([node("GlobalAveragePool", "image", "features")], shape, {"features": (shape[0], 3, 1, 1)})


def two_outputs():
    """The same, and all pixels in a row under the name of pixels."""
    nodes = [node("GlobalAveragePool", "image", "features"), node("Flatten", "image", "pixels")]
    return model(nodes, ("n", 3, 4, 4), {"features": ("n", 3, 1, 1), "pixels": ("n", 48)})


def flat(shape):
    """Any input, flattened."""
    return model([node("Flatten", "image", "pixels")], shape, {"pixels": ("n", "d")})
