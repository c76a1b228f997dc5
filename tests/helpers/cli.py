"""A table of three colors, and a command run in this process."""

import numpy as np
from typer.testing import CliRunner

from paloma.cli import app
from paloma.cli._batches import Batch
from paloma.cli._writers import write

rng = np.random.default_rng(0)
Y = np.array(["red", "green", "blue"])[rng.integers(0, 3, 300)]
X = (rng.normal(size=(300, 4)) + 2 * (Y[:, None] == np.array(["red", "green", "blue", "none"]))).round(3)
NAMES = ["a", "b", "c", "d"]


def run(*arguments, code=0, **options):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], **options)
    assert result.exit_code == code, result.output
    return result


def write_tables(folder):
    """Two tables, and the path of a model."""
    write(Batch(X[:200], Y[:200], NAMES), folder / "train.csv", "label")
    write(Batch(X[200:], Y[200:], NAMES), folder / "test.csv", "label")
    return folder / "train.csv", folder / "test.csv", folder / "model.paloma"
