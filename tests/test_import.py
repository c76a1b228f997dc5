"""`import paloma` loads nothing, and shows everything."""

import subprocess
import sys

import pytest

import paloma

CODE = """
import sys
import paloma
heavy = {name.partition(".")[0] for name in sys.modules} & {"numpy", "scipy", "sklearn", "numba", "pandas", "rich"}
assert not heavy, heavy
assert set(paloma.__all__) <= set(dir(paloma))
from paloma import LODML
assert not {"sklearn.datasets", "sklearn.neighbors", "sklearn.cluster", "sklearn.linear_model"} & set(sys.modules)
"""


def test_import_is_lazy():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", paloma.__all__)
def test_every_name_is_there(name):
    assert getattr(paloma, name) is not None


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="module 'paloma' has no attribute 'LODL'"):
        paloma.LODL  # noqa: B018
