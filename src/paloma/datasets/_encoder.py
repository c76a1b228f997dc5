"""Encoders of images: any callable, or an ONNX model."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .._optional import optional
from .._typing import Array

__all__ = ["Encoder", "OnnxEncoder"]

# (n, height, width, 3) uint8 -> (n, d) features
Encoder = Callable[[Array], Array]

# Mean and standard deviation of ImageNet's pixels, which torchvision's and most other models expect.
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class OnnxEncoder:
    """An ONNX model with one image input, (n, 3, height, width) or (n, height, width, 3) in float32.

    Parameters
    ----------
    path : the model file, or its bytes.
    size : (height, width) of its input; by default what the model declares, 224 x 224 if it declares none.
    mean, spread : pixel values from 0 to 1 are normalized as (pixel - mean) / spread before they enter.
    output : name of the output to take; by default the first. Feature maps (n, d, h, w) are averaged over h and w.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | bytes,
        *,
        size: tuple[int, int] | None = None,
        mean: tuple[float, float, float] = MEAN,
        spread: tuple[float, float, float] = SPREAD,
        output: str | None = None,
    ) -> None:
        runtime = optional("onnxruntime", "images")
        if not isinstance(path, bytes) and not Path(path).is_file():
            raise FileNotFoundError(f"The encoder {str(path)!r} does not exist. Pass an ONNX file, or the name of an "
                                    "encoder for images: efficientnet-lite2.")  # fmt: skip
        model, path = (path, "The model") if isinstance(path, bytes) else (str(path), path)
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        try:
            self._session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ValueError(f"{path} is not an ONNX model that can be run: {error}") from error
        self._input = self._session.get_inputs()[0]
        shape = self._input.shape
        if len(shape) != 4 or 3 not in (shape[1], shape[3]):
            raise ValueError(f"{path} must take images (n, 3, h, w) or (n, h, w, 3), but its input is {shape}.")
        self._channels_first = shape[1] == 3
        known = shape[2:4] if self._channels_first else shape[1:3]
        self.size = size or tuple(side if isinstance(side, int) and side > 0 else 224 for side in known)
        self._mean, self._spread = np.array(mean, np.float32), np.array(spread, np.float32)
        names = [out.name for out in self._session.get_outputs()]
        if output is not None and output not in names:
            raise ValueError(f"{path} has no output {output!r}; it has: {', '.join(names)}.")
        self._output = output or names[0]
        self._one_by_one = shape[0] == 1

    def __call__(self, images: Array) -> Array:
        """Features of (n, height, width, 3) uint8 pixels."""
        pixels = (images.astype(np.float32) / 255.0 - self._mean) / self._spread
        if self._channels_first:
            pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        steps = [pixels[k : k + 1] for k in range(len(pixels))] if self._one_by_one else [pixels]
        found = [self._session.run([self._output], {self._input.name: step})[0] for step in steps]
        features = np.concatenate(found)
        if features.ndim == 4:
            features = features.mean(axis=(2, 3))
        return features.reshape(len(images), -1)
