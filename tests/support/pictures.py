"""Pictures and PDFs for tests, made anew each time: nothing binary lies in the repository."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from PIL import Image


def picture(width: int = 64, height: int = 48, kind: str = "PNG", *, mode: str = "RGB", **save: Any) -> bytes:
    """A gradient, so that no two corners are alike."""
    image = Image.linear_gradient("L").resize((width, height))
    turned = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    other = Image.linear_gradient("L").rotate(90).resize((width, height))
    whole = Image.merge("RGB", (image, other, turned)).convert(mode)
    buffer = io.BytesIO()
    whole.save(buffer, kind, **save)
    return buffer.getvalue()


def noise(width: int, height: int, kind: str = "PNG") -> bytes:
    """A picture that does not compress."""
    buffer = io.BytesIO()
    Image.merge("RGB", [Image.effect_noise((width, height), 200) for _ in range(3)]).save(buffer, kind)
    return buffer.getvalue()


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def bomb(width: int = 60_000, height: int = 60_000) -> bytes:
    """A PNG of a few bytes that says that it has billions of pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def dot() -> bytes:
    """A whole GIF without a NUL byte in its head beyond its first ones: 1×1, 43 bytes or fewer."""
    return picture(1, 1, "GIF", mode="L")


def pdf(*texts: str) -> bytes:
    """A PDF with a page for each text."""
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(texts)))
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {len(texts)}>>".encode()]
    font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    for number, text in enumerate(texts):
        stream = f"BT /F1 24 Tf 20 100 Td ({text}) Tj ET".encode("latin-1")
        page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 200]/Contents {4 + 2 * number} 0 R"
        objects.append(f"{page}/Resources<</Font<</F1 {font}>>>>>>".encode())
        objects.append(b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream))
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in places)
    size = len(objects) + 1
    head = b"xref\n0 %d\n0000000000 65535 f \n%b" % (size, table)
    return data + head + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))
