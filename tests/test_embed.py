"""From images to features: encoders, batches, resuming, damaged files, decompression bombs."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from helpers import tiny_onnx
from paloma.cli import app
from paloma.datasets import ImageError, OnnxEncoder, embed, load
from paloma.datasets._embed import parts_folder
from paloma.datasets._encoder import MEAN, SPREAD
from paloma.datasets._images import find_images, read_image


def picture(path, value, size=(8, 8), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (*size, 3) if mode == "RGB" else size
    Image.fromarray(np.full(shape, value, np.uint8), mode=None).save(path)


def bomb(path, side=60_000):
    """A PNG of a few bytes whose header promises billions of pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b""))


@pytest.fixture
def folder(tmp_path):
    for label, values in (("cat", (10, 20, 30)), ("dog", (200, 210))):
        for value in values:
            picture(tmp_path / "images" / label / f"{value}.png", value)
    return tmp_path / "images"


@pytest.fixture
def encoder(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    path.write_bytes(tiny_onnx.channel_means())
    return path


def means(pixels):
    return pixels.mean(axis=(1, 2))


def expected(value):
    return (value / 255 - np.array(MEAN)) / np.array(SPREAD)


def test_features_labels_and_names(folder, encoder, tmp_path):
    assert embed(folder, tmp_path / "pets.npz", encoder=encoder, batch_size=2) == []
    pets = load("pets", data_home=tmp_path)
    assert pets.target.tolist() == ["cat"] * 3 + ["dog"] * 2
    assert pets.name.tolist() == ["cat/10.png", "cat/20.png", "cat/30.png", "dog/200.png", "dog/210.png"]
    np.testing.assert_allclose(pets.data, [expected(v) for v in (10, 20, 30, 200, 210)], rtol=1e-5)
    assert {path.name for path in tmp_path.iterdir()} == {"images", "model.onnx", "pets.npz"}


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_batches_change_nothing(folder, encoder, tmp_path, batch_size):
    embed(folder, tmp_path / "a.npz", encoder=encoder, batch_size=batch_size)
    embed(folder, tmp_path / "b.npz", encoder=encoder, batch_size=2)
    np.testing.assert_allclose(load("a", tmp_path).data, load("b", tmp_path).data, rtol=1e-6)


def test_a_callable_gets_pixels(folder, tmp_path):
    seen = []

    def shapes(pixels):
        seen.append((pixels.shape, pixels.dtype))
        return means(pixels)

    embed(folder, tmp_path / "a.npz", encoder=shapes, size=(5, 6), batch_size=4)
    assert seen == [((4, 5, 6, 3), np.uint8), ((1, 5, 6, 3), np.uint8)]
    assert load("a", tmp_path).data[:, 0].tolist() == [10, 20, 30, 200, 210]


def test_stopped_and_started_again(folder, tmp_path):
    """What was encoded before the stop is not encoded again, and the result is the same."""
    calls = []

    def fragile(pixels):
        calls.append(pixels[0, 0, 0, 0])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return means(pixels)

    with pytest.raises(KeyboardInterrupt):
        embed(folder, tmp_path / "a.npz", encoder=fragile, batch_size=2)
    assert not (tmp_path / "a.npz").exists()
    embed(folder, tmp_path / "a.npz", encoder=fragile, batch_size=2)
    assert calls == [10, 30, 30, 210]
    assert load("a", tmp_path).data[:, 0].tolist() == [10, 20, 30, 200, 210]
    assert not parts_folder(tmp_path / "a.npz").exists()


def test_finished_batches_are_of_use_only_for_the_same_pixels(folder, tmp_path):
    calls = []

    def fragile(pixels):
        calls.append(len(pixels))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return means(pixels)

    with pytest.raises(KeyboardInterrupt):
        embed(folder, tmp_path / "a.npz", encoder=fragile, batch_size=2)
    picture(folder / "cat" / "10.png", 90)  # another picture under the same name
    embed(folder, tmp_path / "a.npz", encoder=fragile, batch_size=2)
    assert len(calls) == 3 + 2
    assert load("a", tmp_path).data[0, 0] == 90


def damage(folder):
    (folder / "cat" / "11.jpg").write_bytes(b"no image at all")
    whole = (folder / "dog" / "200.png").read_bytes()
    (folder / "dog" / "201.png").write_bytes(whole[: len(whole) // 2])
    bomb(folder / "dog" / "202.png")


def test_damaged_images_are_named_and_left_out_on_request(folder, encoder, tmp_path):
    damage(folder)
    with pytest.raises(ImageError, match=r"11\.jpg is not a readable image"):
        embed(folder, tmp_path / "a.npz", encoder=encoder)
    skipped = embed(folder, tmp_path / "a.npz", encoder=encoder, skip_errors=True, batch_size=2)
    assert [next(n for n in ("11.jpg", "201.png", "202.png") if n in line) for line in skipped] == [
        "11.jpg", "201.png", "202.png",
    ]  # fmt: skip
    assert load("a", tmp_path).name.tolist() == [
        "cat/10.png", "cat/20.png", "cat/30.png", "dog/200.png", "dog/210.png",
    ]  # fmt: skip


@pytest.mark.parametrize("side", [9_000, 60_000])
def test_decompression_bombs_are_refused_unread(tmp_path, side):
    """Below and above the size at which Pillow itself refuses."""
    bomb(tmp_path / "bomb.png", side)
    with pytest.raises(ImageError, match="pixels"):
        read_image(tmp_path / "bomb.png")


def test_gray_and_transparent_pictures_become_rgb(tmp_path):
    picture(tmp_path / "gray.png", 7, mode="L")
    Image.new("RGBA", (8, 8), (1, 2, 3, 0)).save(tmp_path / "clear.png")
    assert read_image(tmp_path / "gray.png").shape == (8, 8, 3)
    assert read_image(tmp_path / "clear.png")[0, 0].tolist() == [1, 2, 3]
    assert read_image(tmp_path / "gray.png", (3, 5), gray=True).shape == (3, 5)


def test_hidden_files_and_other_files_are_no_images(tmp_path):
    for name in ("a/1.png", "a/._1.png", ".cache/2.png", "b/3.JPG"):
        picture(tmp_path / "x.png", 1)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((tmp_path / "x.png").read_bytes())
    (tmp_path / "a" / "notes.txt").write_text("")
    (tmp_path / "x.png").unlink()
    assert [path.relative_to(tmp_path).as_posix() for path in find_images(tmp_path)] == ["a/1.png", "b/3.JPG"]


def test_none_readable(tmp_path, encoder):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"")
    with pytest.raises(ValueError, match="None of the images could be read"):
        embed(tmp_path / "images", tmp_path / "a.npz", encoder=encoder, skip_errors=True)


@pytest.mark.parametrize(
    ("features", "message"),
    [(np.zeros(5), "must return"), (np.zeros((4, 2)), "must return"), (np.full((5, 2), np.nan), "not finite")],
)
def test_encoders_that_give_nonsense(folder, tmp_path, features, message):
    with pytest.raises(ValueError, match=message):
        embed(folder, tmp_path / "a.npz", encoder=lambda pixels: features)


# -- ONNX ----------------------------------------------------------------------------------------------------


def onnx(tmp_path, content, **options):
    pytest.importorskip("onnxruntime")
    (tmp_path / "m.onnx").write_bytes(content)
    return OnnxEncoder(tmp_path / "m.onnx", **options)


def test_the_size_is_the_models(tmp_path):
    assert onnx(tmp_path, tiny_onnx.channel_means()).size == (8, 8)
    assert onnx(tmp_path, tiny_onnx.channel_means(("n", 3, "h", "w"))).size == (224, 224)
    assert onnx(tmp_path, tiny_onnx.channel_means(("n", 3, "h", "w")), size=(6, 7)).size == (6, 7)


def test_channels_last_one_by_one_and_named_outputs(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 4, 3), np.uint8)
    normal = (pixels / 255 - MEAN) / SPREAD
    last = onnx(tmp_path, tiny_onnx.flat(("n", 4, 4, 3)))
    np.testing.assert_allclose(last(pixels), normal.reshape(3, -1), atol=1e-5)
    single = onnx(tmp_path, tiny_onnx.channel_means((1, 3, 4, 4)))
    np.testing.assert_allclose(single(pixels), normal.mean(axis=(1, 2)), atol=1e-5)
    both = onnx(tmp_path, tiny_onnx.two_outputs(), output="pixels", mean=(0, 0, 0), spread=(1, 1, 1))
    np.testing.assert_allclose(both(pixels), pixels.transpose(0, 3, 1, 2).reshape(3, -1) / 255, atol=1e-5)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"no model", {}, "not an ONNX model that can be run"),
        (tiny_onnx.flat(("n", 7)), {}, r"must take images .* but its input is \['n', 7\]"),
        (tiny_onnx.two_outputs(), {"output": "logits"}, "no output 'logits'; it has: features, pixels"),
    ],
)
def test_models_that_do_not_fit(tmp_path, content, options, message):
    with pytest.raises(ValueError, match=message):
        onnx(tmp_path, content, **options)


# -- the command ---------------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, ["embed", *map(str, arguments)])


def test_the_command(folder, encoder, tmp_path):
    damage(folder)
    result = run(folder, "-o", tmp_path / "a.npz", "--encoder", encoder, "--skip-errors")
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(tmp_path / "a.npz")
    assert result.stderr.count("skipped: ") == 3
    assert load("a", tmp_path).data.shape == (5, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"folder": "nothing"}, "is not a folder of images"),
        ({"folder": ""}, "There are no images under"),
        ({"output": "a.txt"}, "must be an .npz file in an existing folder"),
        ({"output": "no/a.npz"}, "must be an .npz file in an existing folder"),
        ({"encoder": "none.onnx"}, "does not exist"),
    ],
)
def test_refusals(folder, encoder, tmp_path, change, message):
    if change.get("folder") == "":
        change = {"folder": "empty"}
        (tmp_path / "empty").mkdir()
    names = {"folder": "images", "output": "a.npz", "encoder": "model.onnx", **change}
    paths = {key: tmp_path / name for key, name in names.items()}
    result = run(paths["folder"], "-o", paths["output"], "--encoder", paths["encoder"])
    assert result.exit_code == 1
    assert message in result.stderr
