"""A model out of the file that it was saved in."""

from pathlib import Path
from tempfile import TemporaryDirectory

import paloma


def round_trip(model):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.paloma"
        paloma.save(model, path)
        return paloma.load(path)
