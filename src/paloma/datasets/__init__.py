"""Data sets: the bundled Letters, scikit-learn's digits, your own ``.npz`` files, and how to make them."""

from paloma.datasets._embed import embed
from paloma.datasets._encoder import OnnxEncoder
from paloma.datasets._files import load
from paloma.datasets._images import ImageError
from paloma.datasets._letters import load_letters
from paloma.datasets._prepare import prepare
from paloma.datasets._pretrained import IMAGES, TEXTS, pretrained

__all__ = ["IMAGES", "TEXTS", "ImageError", "OnnxEncoder", "embed", "load", "load_letters", "prepare", "pretrained"]
