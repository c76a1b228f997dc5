"""Pictures of items: small gray images kept as pixels, files that the owner named, or what was sent.

They are never decoded here: what a picture is, and how many pixels it has, is read off its first bytes.
"""

import struct
import zlib
from pathlib import Path

LARGEST, MOST_PIXELS = 16 << 20, 1 << 26  # bytes of a file, and what browsers should have to unpack
KINDS = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


_PNG = b"\x89PNG\r\n\x1a\n"


def png(pixels: bytes, width: int) -> bytes:
    """Gray pixels, one byte each, as a PNG file.

    Examples
    --------
    >>> png(bytes([0, 255, 255, 0]), 2)[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    lines = b"".join(b"\0" + pixels[a : a + width] for a in range(0, len(pixels), width))
    head = struct.pack(">IIBBBBB", width, len(pixels) // width, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    body = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return _PNG + b"".join(body)


def read(path: Path) -> tuple[bytes, str] | None:
    """A picture file and its type; None if it is gone, too large or no picture."""
    try:
        data = path.read_bytes() if path.stat().st_size <= LARGEST else b""
    except OSError:
        return None
    kind = kind_of(data)
    return None if kind is None else (data, kind)


def kind_of(data: bytes) -> str | None:
    """The type of a picture of at most MOST_PIXELS; None if it is none.

    Examples
    --------
    >>> kind_of(png(bytes([0, 255, 255, 0]), 2)), kind_of(b"<svg/>")
    ('image/png', None)
    """
    for kind, size in (("image/png", _png), ("image/jpeg", _jpeg), ("image/gif", _gif), ("image/webp", _webp)):
        try:
            found = size(data)
        except (struct.error, IndexError):  # it ends too soon
            found = None
        if found is not None and 0 < found[0] * found[1] <= MOST_PIXELS:
            return kind
    return None


Size = tuple[int, int] | None


def _png(data: bytes) -> Size:
    return struct.unpack_from(">II", data, 16) if data[:8] == _PNG and data[12:16] == b"IHDR" else None


def _gif(data: bytes) -> Size:
    return struct.unpack_from("<HH", data, 6) if data[:6] in (b"GIF87a", b"GIF89a") else None


def _webp(data: bytes) -> Size:
    """Of the three forms: lossy, lossless, and extended."""
    form = data[12:16] if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else b""
    if form == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if form == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _jpeg(data: bytes) -> Size:
    """From the first segment that starts a frame; those before it say how long they are."""
    place = 2 if data[:2] == b"\xff\xd8" else len(data)
    while data[place] == 0xFF:
        if data[place + 1] == 0xFF:  # filling
            place += 1
            continue
        mark, length = struct.unpack_from(">BH", data, place + 1)
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        place += 2 + length
    return None
