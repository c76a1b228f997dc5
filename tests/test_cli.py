"""The command line: what it prints, where, and how it ends. The demo itself runs on few rows."""

import subprocess
import sys
import warnings

import pytest
from typer.testing import CliRunner

import paloma
import paloma.experiments.demo
from paloma.cli import app
from paloma.cli._errors import line_of

RUNNER = CliRunner()


def run(*arguments):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"paloma {paloma.__version__}\n"


def test_help_lists_the_commands():
    result = run("--help")
    assert result.exit_code == 0
    assert "demo" in result.stdout
    assert "--debug" in result.stdout


@pytest.mark.parametrize("arguments", [["no-such-command"], ["demo", "--splits", "0"], ["demo", "--rows", "10"]])
def test_wrong_usage_exits_with_2(arguments):
    assert run(*arguments).exit_code == 2


def test_demo(tmp_path):
    picture = tmp_path / "curve.png"
    result = run("demo", "--quick", "--rows", 900, "--seed", 3, "--output", picture)
    assert result.exit_code == 0, result.output
    for name in ("Euclid", "OASIS", "LOSL", "ODML", "LODML"):
        assert result.stdout.count(f" {name} ") >= 2
    for figure in ("94.46 ± 0.23", "92.79", "49.86", "49.12", "96.59", "95.08", "49.94", "48.16"):
        assert figure in result.stdout
    assert "UnitRows" in result.stdout
    assert "900 rows" in result.stdout
    assert "one random split" in result.stdout
    assert result.stderr == ""
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_an_error_is_one_line(tmp_path):
    result = run("demo", "--output", tmp_path / "none" / "curve.png")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("paloma: error: The folder of the picture does not exist")
    assert result.stderr.count("\n") == 1


def test_debug_shows_the_traceback(tmp_path):
    result = run("--debug", "demo", "--output", tmp_path / "curve.jpeg2000")
    assert result.exit_code == 1
    assert isinstance(result.exception, ValueError)
    assert run("demo", "--output", tmp_path / "curve.jpeg2000").stderr.startswith("paloma: error: The picture")


def test_an_unexpected_error_names_its_type(monkeypatch):
    def broken(**_):
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(paloma.experiments.demo, "demo", broken)
    result = run("demo")
    assert result.exit_code == 1
    expected = "paloma: error: ZeroDivisionError: division by zero (run paloma --debug for the traceback)\n"
    assert result.stderr == expected


def test_ctrl_c(monkeypatch):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(paloma.experiments.demo, "demo", interrupted)
    result = run("demo")
    assert (result.exit_code, result.stderr) == (130, "paloma: interrupted\n")


def test_warnings_are_one_line(monkeypatch):
    monkeypatch.setattr(paloma.experiments.demo, "demo", lambda **_: warnings.warn("few\n  rows", UserWarning))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run("demo").stderr == "paloma: warning: few rows\n"


def test_an_error_without_words_still_says_something():
    assert line_of(ValueError()) == "ValueError (run paloma --debug for the traceback)"


@pytest.mark.parametrize("arguments", [["--version"], ["demo", "--output", "missing-folder/curve.png"]])
def test_as_a_module(arguments, tmp_path):
    command = [sys.executable, "-m", "paloma", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    if arguments[0] == "--version":
        assert (result.returncode, result.stdout) == (0, f"paloma {paloma.__version__}\n")
    else:
        assert (result.returncode, result.stdout) == (1, "")
        assert "Traceback" not in result.stderr
