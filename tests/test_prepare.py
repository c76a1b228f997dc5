"""Official archives, small ones of the tests' own making, into .npz files; and what is refused."""

import io
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from typer.testing import CliRunner

from paloma.cli import app
from paloma.datasets import _archives, load, load_letters, prepare
from paloma.datasets._prepare import KNOWN

RNG = np.random.default_rng(0)


def means(pixels):
    return pixels.mean(axis=(1, 2))


def jpeg(value):
    out = io.BytesIO()
    Image.new("RGB", (16, 16), (value, value, value)).save(out, "JPEG")
    return out.getvalue()


def tar(path, files):
    with tarfile.open(path, "w:gz" if path.name.endswith(("gz",)) else "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def packed(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("PALOMA_DATA", str(tmp_path / "home"))
    return tmp_path / "home"


def test_letters_of_uci_are_the_embedded_ones(source, home):
    X, y = load_letters(return_X_y=True)
    lines = [",".join([label, *map(str, row)]) for label, row in zip(y, X.astype(int).tolist(), strict=True)]
    with zipfile.ZipFile(source / "letter+recognition.zip", "w") as archive:
        archive.writestr("letter-recognition.data", "\n".join(lines) + "\n")
        archive.writestr("letter-recognition.names", "")
    path = prepare("letters", source)
    assert path == home / "letters.npz"
    with np.load(path) as file:
        np.testing.assert_array_equal(file["X"], X)
        np.testing.assert_array_equal(file["y"], y)


def test_table_1_is_asked_for(source, home):
    (source / "letter-recognition.data").write_text("A,1,2,3\nB,4,5,6\n")
    message = "rows 2 instead of 20,000; classes 2 instead of 26; columns 3 instead of 16. Is the download complete"
    with pytest.raises(ValueError, match=message):
        prepare("letters", source)
    assert not (home / "letters.npz").exists()
    prepare("letters", source, check=False)
    with np.load(home / "letters.npz") as file:
        assert file["X"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_table_1_itself():
    sizes = {name: (known.n, known.n_classes) for name, known in KNOWN.items()}
    assert sizes["letters"] == (20_000, 26)
    assert sizes["yaleb"] == (2414, 38)
    assert sizes["caltech101"][1] == 101
    assert sizes["caltech256"] == (30_607 - 827, 256)  # without the clutter class
    assert sizes["cifar10"] == (60_000, 10)
    assert sizes["pets"] == (7349, 37)


def test_yaleb_as_a_matlab_file(source, home):
    fea = RNG.integers(0, 256, (2414, 1024)).astype(np.uint8)
    gnd = np.arange(2414)[:, None] % 38 + 1
    savemat(source / "YaleB_32x32.mat", {"fea": fea, "gnd": gnd})
    prepare("yaleb", source)
    faces = load("yaleb")
    np.testing.assert_array_equal(faces.data, fea)
    assert sorted(set(faces.target.tolist())) == list(range(1, 39))


def test_yaleb_as_cropped_images(source, home):
    """Column-major 32 x 32 pixels, as the MATLAB file has them; the ambient pictures are none of the 64."""
    for person in ("yaleB01", "yaleB02"):
        (source / "CroppedYale" / person).mkdir(parents=True)
        for name in ("P00A+000E+00", "P00A+005E+10", "P00_Ambient"):
            pixels = np.zeros((192, 168), np.uint8)
            pixels[:, 84:] = 200  # bright on the right
            Image.fromarray(pixels).save(source / "CroppedYale" / person / f"{person}_{name}.pgm")
    prepare("yaleb", source, check=False)
    faces = load("yaleb")
    assert faces.target.tolist() == ["yaleB01", "yaleB01", "yaleB02", "yaleB02"]
    image = faces.data[0].reshape(32, 32, order="F")
    assert image[:, :12].max() < 10
    assert image[:, 20:].min() > 190


@pytest.mark.parametrize("form", ["folder", "tar", "zip in zip"])
def test_caltech101_from_class_folders(source, home, form):
    files = {
        "101_ObjectCategories/ant/image_0001.jpg": jpeg(10),
        "101_ObjectCategories/ant/image_0002.jpg": jpeg(20),
        "101_ObjectCategories/bass/image_0001.jpg": jpeg(100),
        "101_ObjectCategories/BACKGROUND_Google/image_0001.jpg": jpeg(250),
    }
    if form == "folder":
        for name, content in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(content)
    elif form == "tar":
        tar(source / "101_ObjectCategories.tar.gz", files)
    else:
        with zipfile.ZipFile(source / "caltech-101.zip", "w") as archive:
            archive.writestr("caltech-101/101_ObjectCategories.tar.gz", packed(files))
    prepare("caltech101", source, encoder=means, check=False)
    found = load("caltech101")
    assert found.target.tolist() == ["ant", "ant", "bass"]
    assert found.name.tolist() == ["ant/image_0001.jpg", "ant/image_0002.jpg", "bass/image_0001.jpg"]
    np.testing.assert_allclose(found.data[:, 0], [10, 20, 100], atol=1)


def test_caltech256_leaves_the_clutter_out(source, home):
    names = ("001.ak47/001_0001.jpg", "257.clutter/257_0001.jpg")
    tar(source / "256_ObjectCategories.tar", {f"256_ObjectCategories/{name}": jpeg(40) for name in names})
    prepare("caltech256", source, encoder=means, check=False)
    assert load("caltech256").target.tolist() == ["001.ak47"]


def cifar(n=2):
    files = {}
    for k, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        rows = np.full((n, 3072), 10 * k, np.uint8)
        batch = {b"data": rows, b"labels": [k] * n, b"batch_label": b"x", b"filenames": [b"a.png"] * n}
        files[f"cifar-10-batches-py/{name}"] = pickle.dumps(batch, protocol=2)
    return files


def test_cifar10_from_python_batches(source, home):
    tar(source / "cifar-10-python.tar.gz", cifar())
    prepare("cifar10", source, check=False)
    found = load("cifar10")
    assert found.data.shape == (12, 3072)
    assert found.data[:, 0].tolist() == [0, 0, 10, 10, 20, 20, 30, 30, 40, 40, 50, 50]
    assert found.target.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert (found.train_idx.tolist(), found.test_idx.tolist()) == (list(range(10)), [10, 11])


def test_cifar10_through_an_encoder(source, home):
    files = cifar(1)
    rows = np.zeros((1, 3072), np.uint8)
    rows[:, :1024] = 255  # red comes first
    files["cifar-10-batches-py/test_batch"] = pickle.dumps({b"data": rows, b"labels": [9]}, protocol=2)
    tar(source / "cifar-10-python.tar.gz", files)
    prepare("cifar10", source, encoder=means, check=False)
    found = load("cifar10")
    assert found.data.shape == (6, 3)
    np.testing.assert_allclose(found.data[-1], [255, 0, 0], atol=1e-3)


class Evil:
    def __reduce__(self):
        return print, ("code ran",)


@pytest.mark.parametrize("content", [pickle.dumps(Evil()), b"", b"junk", pickle.dumps({b"data": 1}), pickle.dumps([1])])
def test_a_batch_that_is_something_else_runs_nothing(source, home, content, capsys):
    files = cifar(1)
    files["cifar-10-batches-py/data_batch_1"] = content
    tar(source / "cifar-10-python.tar.gz", files)
    with pytest.raises(ValueError, match="data_batch_1 is not a batch of the Python version of CIFAR10"):
        prepare("cifar10", source, check=False)
    assert "code ran" not in capsys.readouterr().out


def test_pets_in_the_order_of_their_lists(source, home):
    tar(source / "images.tar.gz", {f"images/{name}.jpg": jpeg(v) for name, v in (("Abyssinian_1", 10), ("beagle_7", 90),
                                                                                ("Abyssinian_2", 20))})  # fmt: skip
    lists = {
        "annotations/list.txt": b"#Image CLASS-ID SPECIES BREED ID\n",
        "annotations/trainval.txt": b"Abyssinian_2 1 1 1\n",
        "annotations/test.txt": b"beagle_7 5 2 1\nAbyssinian_1 1 1 1\n",
    }
    tar(source / "annotations.tar.gz", lists)
    prepare("pets", source, encoder=means, check=False)
    found = load("pets")
    assert found.target.tolist() == [0, 4, 0]
    assert found.name.tolist() == ["Abyssinian_2.jpg", "beagle_7.jpg", "Abyssinian_1.jpg"]
    assert (found.train_idx.tolist(), found.test_idx.tolist()) == ([0], [1, 2])
    np.testing.assert_allclose(found.data[:, 0], [20, 90, 10], atol=1)


def test_cub200_with_its_tables(source, home):
    tar(source / "CUB_200_2011.tgz", {
        "CUB_200_2011/images.txt": b"1 001.A/a.jpg\n2 002.B/b.jpg\n",
        "CUB_200_2011/image_class_labels.txt": b"1 1\n2 2\n",
        "CUB_200_2011/train_test_split.txt": b"1 0\n2 1\n",
        "CUB_200_2011/images/001.A/a.jpg": jpeg(10),
        "CUB_200_2011/images/002.B/b.jpg": jpeg(90),
    })  # fmt: skip
    prepare("cub200", source, encoder=means, check=False)
    found = load("cub200")
    assert found.target.tolist() == [0, 1]
    assert (found.train_idx.tolist(), found.test_idx.tolist()) == ([1], [0])


def test_an_image_that_cannot_be_read_takes_its_row_along(source, home):
    files = {"images/a_1.jpg": jpeg(10), "images/b_1.jpg": b"broken", "images/c_1.jpg": jpeg(30)}
    tar(source / "images.tar.gz", files)
    tar(source / "annotations.tar.gz", {"annotations/trainval.txt": b"a_1 1 1 1\nb_1 2 1 1\n",
                                        "annotations/test.txt": b"c_1 3 1 1\nd_1 4 1 1\n"})  # fmt: skip
    with pytest.raises(ValueError, match=r"b_1\.jpg is not a readable image"):
        prepare("pets", source, encoder=means, check=False)
    prepare("pets", source, encoder=means, check=False, skip_errors=True)
    found = load("pets")
    assert found.target.tolist() == [0, 2]  # the fourth of the lists has no image at all
    assert (found.train_idx.tolist(), found.test_idx.tolist()) == ([0], [1])


# -- archives ------------------------------------------------------------------------------------------------


def test_members_cannot_leave_the_folder(source, home, tmp_path):
    tar(source / "evil.tar", {"../../outside.txt": b"x"})
    with pytest.raises(ValueError, match="could not be unpacked"):
        prepare("letters", source)
    assert not list(tmp_path.rglob("outside.txt"))


def test_archives_that_unpack_to_too_much(source, home, monkeypatch):
    with zipfile.ZipFile(source / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("letter-recognition.data", b"0" * 100_000)
    monkeypatch.setattr(_archives, "MAX_BYTES", 50_000)
    with pytest.raises(ValueError, match="would unpack to 100,000 bytes, but the limit is 50,000"):
        prepare("letters", source)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_damaged_archives(source, home, name):
    (source / name).write_bytes(b"junk" * 100)
    with pytest.raises(ValueError, match="could not be unpacked"):
        prepare("letters", source)


# -- the command ---------------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def test_the_command_prepares_and_shows(source, home):
    tar(source / "cifar-10-python.tar.gz", cifar())
    result = run("prepare", "cifar10", "--from", source, "--no-check")
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(home / "cifar10.npz")
    assert run("show", "cifar10").stdout == "cifar10: 12 x 3072, 6 classes, split 10/2\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "mnist", "--from", "."], "Unknown data set 'mnist'; choose from: letters, yaleb"),
        (["prepare", "letters", "--from", "nowhere"], "nowhere is not a folder"),
        (["prepare", "letters", "--from", "{source}"], "There is no letter-recognition.data"),
        (["prepare", "yaleb", "--from", "{source}"], "neither a .mat nor a .pgm file: YaleB_32x32.mat"),
        (["prepare", "letters", "--from", "{source}", "--to", "nowhere"], "to an existing folder"),
        (["show", "mnist"], "Unknown data set 'mnist'"),
    ],
)
def test_refusals(source, home, arguments, message):
    result = run(*[argument.format(source=source) for argument in arguments])
    assert result.exit_code == 1
    assert message in result.stderr


def test_photographs_need_an_encoder(source, home):
    (source / "101_ObjectCategories" / "ant").mkdir(parents=True)
    (source / "101_ObjectCategories" / "ant" / "1.jpg").write_bytes(jpeg(1))
    result = run("prepare", "caltech101", "--from", source)
    assert result.exit_code == 1
    assert "caltech101 is a set of photographs: pass an encoder" in result.stderr
