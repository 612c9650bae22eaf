"""Bytes of a file as text and back, without losing one of them: encoding, BOM and invalid bytes survive.

UTF-8 is decoded with `surrogateescape`, so bytes that are no UTF-8 come back unchanged from lines nobody edited.
"""

from __future__ import annotations

import codecs

from msgspec import Struct

SNIFF = 8192
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MAGIC = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "ELF program"),
    (b"SQLite format 3\0", "SQLite database"),
)


class TextFile(Struct, frozen=True, kw_only=True):
    """`text` without the BOM; line endings are as they stand in the file."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """`text` in this file's encoding, with its BOM."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.bom + text.encode(self.encoding, errors)


def binary_kind(data: bytes) -> str:
    """What a binary file is, in words; "" for text. A NUL in the first 8 kB makes a file binary (UTF-16 has a BOM)."""
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ""
    return "binary data" if b"\0" in data[:SNIFF] else ""


def decode(data: bytes) -> TextFile | None:
    """None for bytes that are no text in any encoding known here."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _with_bom(data, bom, encoding)
    if binary_kind(data):
        return None
    return TextFile(text=data.decode("utf-8", "surrogateescape"))


def _with_bom(data: bytes, bom: bytes, encoding: str) -> TextFile | None:
    rest = data[len(bom) :]
    if encoding == "utf-8":
        if binary_kind(rest):
            return None
        return TextFile(text=rest.decode("utf-8", "surrogateescape"), bom=bom)
    try:
        return TextFile(text=rest.decode(encoding), encoding=encoding, bom=bom)
    except UnicodeDecodeError:
        return None
