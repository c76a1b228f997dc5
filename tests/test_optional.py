"""Optional imports and the progress bar: what a user sees, and silence otherwise."""

import io
import sys

import pytest

from paloma._optional import optional
from paloma._progress import progress
from paloma.exceptions import ModelFileError


def test_returns_the_very_module():
    assert optional("xml.dom", "plot") is sys.modules["xml.dom"]


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.inner"])
def test_missing_dependency_names_the_extra(module):
    with pytest.raises(ImportError, match=r"no_such_package .* pip install 'paloma\[faiss\]'"):
        optional(module, "faiss")


def test_error_inside_an_installed_dependency_is_not_disguised(tmp_path, monkeypatch):
    (tmp_path / "broken_dependency.py").write_text("import its_own_missing_part\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="its_own_missing_part"):
        optional("broken_dependency", "plot")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(stream, monkeypatch, **options):
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("LODML", total=5, **options) as advance:
        advance(2, text="loss .12")
        advance(3)
        advance(0, text="loss .10")
    return stream.getvalue()


def test_bar_on_a_terminal(monkeypatch):
    shown = run(Terminal(), monkeypatch, enabled=True)
    assert "LODML" in shown
    assert "5/5" in shown
    assert "loss .10" in shown


def test_one_line_without_a_terminal_and_silent_when_disabled(monkeypatch):
    assert run(io.StringIO(), monkeypatch, enabled=True) == "LODML\n"
    assert run(Terminal(), monkeypatch, enabled=False) == ""


def test_model_file_error_is_a_value_error():
    assert issubclass(ModelFileError, ValueError)
