"""The picture of retrieval, on digits and on a small folder of photographs made here."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from paloma.experiments.gallery import K, digits, gallery, nearest, over_all

pytest.importorskip("matplotlib")


def test_digits(tmp_path):
    picture = tmp_path / "digits.png"
    scores = gallery(picture, n_queries=1)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert scores["LODML"] > scores["Euclid"] > 0.9


def test_no_query_is_in_the_database():
    pictures = digits()
    assert not (pictures.database[0][:, None] == pictures.queries[0][None]).all(axis=2).any()
    assert all(ids.shape == (len(pictures.queries[1]), K) for ids in nearest(pictures).values())


def test_photographs(tmp_path):
    from matplotlib.image import imsave

    data = load_digits()
    rng = np.random.default_rng(0)
    X = np.hstack([data.data, rng.normal(size=(len(data.data), 80))])
    np.savez(tmp_path / "scans_made.npz", X=X, y=data.target)
    folder = tmp_path / "photographs"
    folder.mkdir()
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "label", "npz", "row"])
        for row in range(60):
            imsave(folder / f"{row}.png", data.images[row])
            writer.writerow([f"{row}.png", data.target[row], "pets_made", row])
    (tmp_path / "scans_made.npz").rename(tmp_path / "pets_made.npz")
    scores = gallery(tmp_path / "out.svg", folder, n_queries=2)
    assert set(scores) == {"Euclid", "LODML", "L2ODML"}
    assert "<svg" in (tmp_path / "out.svg").read_text()


def test_few_queries_get_no_figure():
    pictures, scores = digits(), {"Euclid": 0.9}
    assert over_all(scores, pictures) == " P@10 over 397 queries: Euclid 0.900"
    assert over_all(scores, replace(pictures, queries=(pictures.queries[0][:66], pictures.queries[1][:66]))) == ""
