"""Pictures of items: small gray images kept as pixels, or files that the owner named when the items were read."""

import struct
import zlib
from pathlib import Path

KINDS = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


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
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def read(path: Path, most: int = 16 << 20) -> tuple[bytes, str] | None:
    """A picture file and its type; None if it is gone, too large or no picture."""
    kind = KINDS.get(path.suffix.lower())
    try:
        if kind is None or path.stat().st_size > most:
            return None
        return path.read_bytes(), kind
    except OSError:
        return None
