"""Bytes of a file as text and back, without losing one of them: encoding, BOM and invalid bytes survive.

Bytes that are no UTF-8 are shown as U+FFFD and put back when the text is encoded again, see `undecodable`.
"""

from __future__ import annotations

import codecs

from msgspec import Struct

from core.edits.undecodable import mask_bytes, restore_bytes

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
    """`text` without the BOM; line endings are as they stand in the file. `raw`: the same with its bytes that are no
    UTF-8 as Python's surrogateescape has them; "" = there are none."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    raw: str = ""

    def encode(self, text: str) -> bytes:
        """Encode `text` in this file's encoding, with its BOM. Raises `EditError` if a byte can't be put back."""
        if self.raw:
            return self.bom + restore_bytes(self.raw, text).encode("utf-8", "surrogateescape")
        return self.bom + text.encode(self.encoding)


def detect_binary(data: bytes) -> str:
    """Name what a binary file is; "" for text. A NUL in the first 8 kB makes a file binary (UTF-16 has a BOM)."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ""
    named = next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")
    return named or ("binary data" if b"\0" in data[:SNIFF] else "")


def decode_text(data: bytes) -> TextFile | None:
    """Decode a file; None for bytes that are no text in any encoding known here."""
    bom, encoding = next((each for each in _BOMS if data.startswith(each[0])), (b"", "utf-8"))
    rest = data[len(bom) :]
    if encoding != "utf-8":
        try:
            return TextFile(text=rest.decode(encoding), encoding=encoding, bom=bom)
        except UnicodeDecodeError:
            return None
    if detect_binary(rest):
        return None
    raw = rest.decode("utf-8", "surrogateescape")
    text = mask_bytes(raw)
    return TextFile(text=text, bom=bom, raw=raw if text != raw else "")
