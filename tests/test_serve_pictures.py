"""Pictures of items: sent and kept, refused if they are none, never decoded."""

import io

import numpy as np
import pytest

pytest.importorskip("apsw", reason="needs paloma[serve]")
pytest.importorskip("fastapi", reason="needs paloma[serve]")

from helpers.service import Service, some_digits
from paloma.serve._pictures import LARGEST, MOST_PIXELS, kind_of, png, read

FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path / "served", some_digits())
    yield service
    service.close()


def send(service, id, data, kind="image/png", key="key-picture-1"):
    return service.admin.ask("POST", f"/api/v1/items/{id}/picture?key={key}", raw=data, content_type=kind)


def shown(service, id):
    return service.admin.answer("GET", f"/api/v1/items/{id}/picture")[:2]


def test_a_picture_that_was_sent_is_shown_also_after_a_restart(tmp_path):
    service, data = Service(tmp_path / "s", some_digits()), png(bytes(range(16)), 4)
    new = {"key": "key-items-1", "items": [{"id": "shop/new 1", "vector": [0.0] * 64}]}
    seq = service.admin.ask("POST", "/api/v1/items", new)[1]["seq"]
    service.near(after=seq)
    assert service.admin.ask("GET", "/api/v1/items/shop/new 1")[1]["picture"] is False
    status, told = send(service, "shop/new 1", data)
    assert status == 201
    assert send(service, "shop/new 1", data) == (201, told)
    assert send(service, "shop/new 1", data + b"0")[0] == 409
    service.near(after=told["seq"])
    assert shown(service, "shop/new 1") == (200, data)
    assert service.admin.ask("GET", "/api/v1/items/shop/new 1")[1]["picture"] is True
    other = png(bytes(16), 4)
    assert service.clients["feedback"].ask("POST", "/api/v1/items/digit-0001/picture?key=key-picture-2", raw=other,
                                           content_type="image/png")[0] == 403  # fmt: skip
    service.near(after=send(service, "digit-0001", other, key="key-picture-2")[1]["seq"])
    assert shown(service, "digit-0001") == (200, other)
    assert service.admin.ask("GET", "/api/v1/statements")[1]["statements"] == []
    service.close()
    service = Service(tmp_path / "s")
    assert shown(service, "shop/new 1") == (200, data)
    assert shown(service, "digit-0001") == (200, other)
    service.close()


def test_what_is_no_picture_changes_nothing(service):
    last = service.engine.health()["acknowledged"]
    for data in (b"", b"GIF", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7", png(bytes(16), 4)[:20]):
        assert send(service, "digit-0001", data)[0] == 422, data
    assert send(service, "digit-9999", png(bytes(16), 4))[0] == 404
    assert send(service, "digit-0001", png(bytes(16), 4), key="short")[0] == 422
    assert send(service, "digit-0001", png(bytes(16), 4), kind="application/json")[0] == 415
    assert send(service, "digit-0001", png(bytes(16), 4) + bytes(LARGEST))[0] == 413
    assert service.engine.health()["acknowledged"] == last


def test_a_picture_has_so_many_pixels_at_most():
    head = png(bytes(4), 2)
    for width, height in ((1 << 13, 1 << 13), (1 << 13, (1 << 13) + 1), (1 << 31, 1 << 31), (0, 5)):
        data = head[:16] + width.to_bytes(4) + height.to_bytes(4) + head[24:]
        assert (kind_of(data) == "image/png") == (0 < width * height <= MOST_PIXELS)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("options", [{}, {"lossless": True}, {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"}], ids=str)
def test_sizes_are_those_that_pillow_reads(form, options, monkeypatch, tmp_path):
    Image, data = pytest.importorskip("PIL.Image"), io.BytesIO()
    image = Image.fromarray(np.random.default_rng(0).integers(256, size=(37, 11, 3), dtype=np.uint8))
    image.save(data, form, **options)
    (tmp_path / "a.png").write_bytes(data.getvalue())
    for most in (37 * 11, 37 * 11 - 1):
        monkeypatch.setattr("paloma.serve._pictures.MOST_PIXELS", most)
        assert (kind_of(data.getvalue()) == FORMATS[form]) == (most == 37 * 11)
        assert (read(tmp_path / "a.png") is not None) == (most == 37 * 11)
    for k in range(60):
        kind_of(data.getvalue()[:k])  # no error, wherever it ends
