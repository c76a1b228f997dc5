"""Datasets: the embedded Letters, and named .npz files with their errors."""

import hashlib

import numpy as np
import pytest

from paloma.datasets import load, load_letters


def save(folder, stem, X=None, y=None, **arrays):
    X = np.arange(6, dtype=np.float32).reshape(3, 2) if X is None else X
    np.savez(folder / f"{stem}.npz", X=X, y=np.arange(len(X)) if y is None else y, **arrays)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PALOMA_DATA", str(tmp_path))
    return tmp_path


def test_letters_are_the_uci_data():
    letters = load_letters()
    assert letters.data.shape == (20_000, 16)
    assert letters.data.dtype == np.float64
    assert (letters.data.min(), letters.data.max()) == (0, 15)
    assert "".join(letters.target[:8]) == "TIDNGSBA"
    assert letters.data[0].astype(int).tolist() == [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8]
    # UCI's table of class sizes
    names, counts = np.unique(letters.target, return_counts=True)
    assert names.tolist() == letters.target_names.tolist()
    assert counts.tolist() == [
        789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792,
        783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734,
    ]  # fmt: skip


def test_letters_bytes_and_order():
    X, y = load_letters(return_X_y=True)
    digest = hashlib.sha256(X.astype(np.uint8).tobytes() + "".join(y).encode())
    assert digest.hexdigest() == "071a713e6b0f3a87d3cff0f217c719c474af97db0937d9f0e26d22eca57a91bd"


def test_letters_bunch_says_what_it_is():
    letters = load_letters()
    assert len(letters.feature_names) == 16
    assert "Slate" in letters.DESCR
    assert "UCI" in letters.DESCR
    assert (len(letters.train_idx), len(letters.test_idx)) == (16_000, 4_000)
    np.testing.assert_array_equal(load("letters").data, letters.data)


def test_digits_are_scikit_learns():
    assert load("digits").data.shape == (1797, 64)


@pytest.mark.parametrize("name", ["pets", "pets_resnet_50"])
def test_stem_or_its_first_part(home, name):
    save(home, "pets_resnet_50", train_idx=np.array([0]), text=np.array(["a", "b", "c"]))
    pets = load(name)
    assert set(pets) == {"data", "target", "train_idx", "text"}
    assert pets.target.tolist() == [0, 1, 2]


def test_data_home_goes_before_the_environment(home, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    save(home, "a", X=np.zeros((3, 2)))
    save(other, "a", X=np.ones((3, 2)))
    assert load("a").data[0, 0] == 0
    assert load("a", data_home=other).data[0, 0] == 1


@pytest.mark.parametrize(
    ("stored", "loaded"),
    [("f2", "f4"), ("u1", "f4"), ("i2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i8", "f8")],
)
def test_storage_types_become_floats(home, stored, loaded):
    save(home, "a", X=np.array([[1, 200]], dtype=stored))
    assert load("a").data.dtype == np.dtype(loaded)
    assert load("a").data.tolist() == [[1, 200]]


def test_an_exact_stem_wins_over_a_first_part(home):
    save(home, "pets", X=np.zeros((1, 2)))
    save(home, "pets_large")
    assert load("pets").data.shape == (1, 2)


def test_ambiguous_names_are_listed(home):
    save(home, "pets_a")
    save(home, "pets_b")
    with pytest.raises(ValueError, match=r"'pets' is ambiguous; use one of: pets_a, pets_b\."):
        load("pets")


def test_unknown_name_lists_what_is_there(home):
    save(home, "pets_a")
    with pytest.raises(ValueError, match="Unknown data set 'dogs'; choose from: letters, digits, pets_a"):
        load("dogs")


def test_unknown_name_says_how_to_name_a_folder(monkeypatch):
    monkeypatch.delenv("PALOMA_DATA", raising=False)
    with pytest.raises(ValueError, match="set PALOMA_DATA or data_home to a folder"):
        load("dogs")


def test_a_name_never_leaves_the_folder(home):
    save(home, "secret")
    inner = home / "inner"
    inner.mkdir()
    with pytest.raises(ValueError, match="Unknown data set"):
        load("../secret", data_home=inner)


def test_folder_that_is_not_there(home):
    with pytest.raises(FileNotFoundError, match="data_home must name a folder"):
        load("a", data_home=home / "nothing")


def test_missing_arrays(home):
    np.savez(home / "a.npz", X=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="must contain the arrays X and y; missing: y"):
        load("a")


def test_shapes_that_do_not_fit(home):
    save(home, "a", y=np.arange(2))
    with pytest.raises(ValueError, match=r"must contain X \(n, d\) and y \(n,\); got shapes \(3, 2\) and \(2,\)"):
        load("a")


def test_pickles_are_refused(home):
    save(home, "a", y=np.array([{}, {}, {}]))
    with pytest.raises(ValueError, match=r"not an \.npz file of plain arrays"):
        load("a")


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04 broken", b"\x93NUMPY"])
def test_damaged_files(home, content):
    (home / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"not an \.npz file of plain arrays"):
        load("a")
