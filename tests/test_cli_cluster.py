"""``paloma fit`` on a cluster."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import paloma
from paloma.cli import app
from paloma.distributed import fit

pytest.importorskip("distributed")
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
X = RNG.normal(size=(300, 4)) + 2 * np.eye(4)[Y]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    return tmp_path


def test_fit_on_a_scheduler(files, client):
    pandas = pytest.importorskip("pandas")
    names = list("abcd")
    pandas.DataFrame(X, columns=names).assign(label=Y).to_parquet(files / "table.parquet")
    common = ("--scheduler", client.scheduler.address, "--rounds", 2)
    done = run("fit", files / "X.npy", "--labels", files / "y.npy", "-o", files / "a.paloma", "--json", *common)
    report = json.loads(done.stdout)
    assert [row["round"] for row in report["rounds"]] == [1, 2]
    done = run("fit", files / "table.parquet", "-o", files / "b.paloma", "--checkpoint", files / "c.paloma", *common)
    assert "round 2: loss" in done.stderr
    assert "LODML, 3 classes, saved" in done.stderr
    expected = fit(paloma.LODML(random_state=0), files / "X.npy", Y, rounds=2)
    for name in ("a", "b"):
        model = paloma.load(files / f"{name}.paloma")
        np.testing.assert_array_equal(model.shared_, expected.shared_)
    assert model.feature_names_in_.tolist() == names
    assert model.columns_ == {"features": names, "label": "label"}
    assert len(paloma.load(files / "c.paloma").rounds_) == 2
    run("fit", files / "X.npy", "--labels", files / "y.npy", "-o", files / "d.paloma", "--shard-rows", 100, *common)
    expected = fit(paloma.LODML(random_state=0), files / "X.npy", Y, rounds=2, shard_rows=100)
    np.testing.assert_array_equal(paloma.load(files / "d.paloma").shared_, expected.shared_)


@pytest.mark.long
def test_fit_on_workers_of_its_own(files):
    np.savetxt(files / "y.txt", Y, "%d")
    run("fit", files / "X.npy", "--labels", files / "y.txt", "-o", files / "a.paloma", "--workers", 2, "--rounds", 1)
    assert paloma.load(files / "a.paloma").n_updates_ > 0


def test_what_cannot_be_is_said(files, client):
    common = ("-o", files / "a.paloma", "--scheduler", client.scheduler.address)
    refused = run("fit", files / "X.npy", *common, code=1)
    assert "Provide them with --labels" in refused.stderr
    refused = run("fit", files / "X.npy", "--drop", "a", "--prepare", "unit", *common, code=1)
    assert "--drop, --prepare cannot be combined with --scheduler or --workers" in refused.stderr
    (files / "rows.csv").write_text("a,label\n1,2\n")
    assert "DATA must be .npy or Parquet" in run("fit", files / "rows.csv", *common, code=1).stderr
    assert "does not exist" in run("fit", files / "none.npy", *common, code=1).stderr
    alone = run("fit", files / "X.npy", "--labels", files / "y.npy", "-o", files / "a.paloma", "--rounds", 2, code=1)
    assert "--rounds requires a cluster: add --scheduler or --workers" in alone.stderr
    mixed = run("fit", files / "X.npy", "-o", files / "a.paloma", "--workers", 1, "--tls-ca", files / "c.pem", code=1)
    assert "require --scheduler tls://" in mixed.stderr
    both = ("--labels", files / "y.npy", "--workers", 2, *common)
    assert "address of a scheduler, or the number" in run("fit", files / "X.npy", *both, code=1).stderr
