"""The demonstration: its protocol, its table, its picture and what it does without matplotlib."""

import io

import numpy as np
import pytest
from rich.console import Console

from paloma.experiments import _curve, _letters
from paloma.experiments import demo as module
from paloma.experiments._letters import Result


def silent(steps=1, text=""):
    pass


@pytest.fixture(scope="module")
def small():
    X, y = _letters.some_rows(700, 0)
    return _letters.split(X, y, 0.5, 0)


def test_splits_are_standardized_on_the_training_rows(small):
    train, test = small.parts.train, small.parts.test
    assert train.shape == test.shape == (350, 16)
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(train.std(axis=0), 1)
    assert abs(test.mean(axis=0)).max() > 1e-3
    assert small.triplets.max() < 350


def test_similarities_get_unit_rows_and_distances_the_rows_themselves(small):
    rows, queries = small.rows_for("LOSL")
    assert rows.shape == queries.shape == (350, 17)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1)
    np.testing.assert_array_equal(small.rows_for("LODML")[0], small.parts.train)


def test_same_seed_same_figures():
    X, y = _letters.some_rows(600, 1)
    one, two = (_letters.compare(X, y, 2, 5, silent) for _ in range(2))
    assert [r.accuracies for r in one] == [r.accuracies for r in two]
    assert {(r.fraction, r.learner) for r in one} > set(module.PAPER)
    assert all(len(r.accuracies) == len(r.seconds) == 2 for r in one)


def test_learning_curves(small):
    curves = _curve.learning_curves(small, 0, silent)
    assert curves.one_pass == len(small.triplets)
    assert curves.seen[-1] == _curve.N_PASSES * curves.one_pass
    assert (np.diff(curves.seen) > 0).all()
    assert list(curves.accuracies) == list(_letters.LEARNERS)
    for values in curves.accuracies.values():
        assert len(values) == len(curves.seen)
        assert all(0 <= value <= 1 for value in values)


@pytest.mark.parametrize("n", [1, 2, 299, 300, 301, 10**6])
def test_stops_end_with_the_stream(n):
    stops = _curve.stops(n)
    assert stops[-1] == n
    assert stops[0] == min(300, n)
    assert len(stops) <= _curve.N_POINTS


def printed(results):
    console = Console(file=io.StringIO(), width=80)
    console.print(module.table_of(results))
    return console.file.getvalue()


def test_the_table():
    results = [
        Result(name, f, [0.9, 0.92], [1.0, 2.0]) for f in _letters.FRACTIONS for name in ("Euclid", *_letters.LEARNERS)
    ]
    lines = [line for line in printed(results).splitlines() if "91.00 ± 1.41" in line]
    assert len(lines) == 10
    assert "30%" in lines[0]
    assert "70%" in lines[5]
    assert lines[0].count("–") == 2  # Euclid learns nothing, and the paper has no figure for it
    assert "1.50" in lines[4]
    assert "94.46 ± 0.23" in lines[4]


def test_one_split_has_no_spread():
    shown = printed([Result("LODML", f, [0.9], [1.0]) for f in _letters.FRACTIONS])
    assert "90.00 │" in shown


@pytest.fixture
def tiny(monkeypatch):
    """A demo that measures nothing: only what happens around it."""
    curves = _curve.Curves(np.array([300, 900]), 450, {n: [0.8, 0.9] for n in _letters.LEARNERS}, 0.7, 10, 10)
    results = [Result("LODML", f, [0.9], [1.0]) for f in _letters.FRACTIONS]
    monkeypatch.setattr(module, "warm_up", lambda *_: None)
    monkeypatch.setattr(module, "compare", lambda *_: results)
    monkeypatch.setattr(module, "learning_curves", lambda *_: curves)
    console = Console(file=io.StringIO(), width=80)

    def run(output):
        module.demo(n_splits=1, n_rows=600, output=output, console=console)
        return console.file.getvalue()

    return run


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_picture_is_saved(tiny, tmp_path, suffix):
    path = tmp_path / f"curve{suffix}"
    assert f"curve{suffix}" in tiny(path)
    assert path.stat().st_size > 1000


def test_without_matplotlib_the_demo_goes_on(tiny, tmp_path, monkeypatch):
    def missing(module, extra):
        raise ImportError(f"{module} is required but not installed: pip install 'paloma[{extra}]'")

    monkeypatch.setattr(_curve, "optional", missing)
    shown = tiny(tmp_path / "curve.png")
    assert "No picture" in shown
    assert "pip install 'paloma[plot]'" in shown
    assert "LODML" in shown
    assert not (tmp_path / "curve.png").exists()


def test_a_picture_that_cannot_be_saved_is_refused_first(tmp_path):
    with pytest.raises(FileNotFoundError, match="folder of the picture"):
        module.demo(output=tmp_path / "none" / "curve.png")
    with pytest.raises(ValueError, match=r"one of \.png, \.svg, \.pdf; got"):
        module.demo(output=tmp_path / "curve")
