"""Bytes of a file as text and back, without losing one of them: encoding, BOM and invalid bytes survive.

A file is written in the one encoding that it is in. Where that can't be told, bytes that are no UTF-8 are shown as
U+FFFD and put back when the text is encoded again, see `undecodable`; nothing of another encoding comes beside them.
"""

from __future__ import annotations

import codecs
from collections import Counter

from msgspec import Struct

from core.edits.errors import EditError
from core.edits.undecodable import find_bytes, mask_bytes, restore_bytes
from core.text.legacy_encodings import find_encoding, is_in_unknown_encoding, name_encoding
from core.text.well_formed import REPLACEMENT

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
    UTF-8 as Python's surrogateescape has them; "" = there are none. `twins`: encodings that read this file alike."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    raw: str = ""
    twins: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of an encoding that is no Unicode; "" for all others."""
        return "" if self.encoding.startswith("utf") else name_encoding(self.encoding)

    def encode(self, text: str) -> bytes:
        """Encode `text` in this file's encoding, with its BOM. Raises `EditError` if a byte can't be put back, or a
        character has no place in the encoding."""
        if self.raw:
            restored_text = restore_bytes(self.raw, text)
            if not self.bom:
                _refuse_second_encoding(self.raw, restored_text)
            return self.bom + restored_text.encode("utf-8", "surrogateescape")
        if not self.name:
            return self.bom + text.encode(self.encoding)
        try:
            data = text.encode(self.encoding)
        except UnicodeEncodeError as problem:
            raise _build_no_place_error(
                text[problem.start], f"is in {self.name}, which has no such character"
            ) from None
        self._refuse_doubt(text, data)
        return data

    def _refuse_doubt(self, text: str, data: bytes) -> None:
        """Raise for a character that encodings which read the file alike write differently."""
        for codec in self.twins:
            if (
                text.encode(codec, "ignore") in {data, b""}
                or (sign := _find_difference(text, self.encoding, codec)) is None
            ):
                continue
            names = f"{self.name} or {name_encoding(codec)}"
            raise _build_no_place_error(sign, f"is in {names}, which write it differently")


def _find_difference(text: str, codec: str, other: str) -> str | None:
    """Return the first character that two encodings write in different bytes; one that only one of them has is none."""
    for sign in dict.fromkeys(text):
        other_bytes = sign.encode(other, "ignore")
        if other_bytes and other_bytes != sign.encode(codec, "ignore"):
            return sign
    return None


def _refuse_second_encoding(raw: str, text: str) -> None:
    """Raise for new text beyond ASCII in a file of which most that is beyond ASCII is in an encoding not known."""
    if not is_in_unknown_encoding(raw.encode("utf-8", "surrogateescape")):
        return
    old_counts = Counter(sign for sign in raw if not sign.isascii())
    new = Counter(sign for sign in text if not sign.isascii() and sign != REPLACEMENT) - old_counts
    if sign := next((sign for sign in new if not find_bytes(sign)), ""):
        raise _build_no_place_error(sign, "is in no UTF-8, and in which encoding it is can't be told")


def _build_no_place_error(sign: str, reason: str) -> EditError:
    return EditError(
        f"{sign} (U+{ord(sign):04X}) can't be written: the file {reason}.",
        hint="Nothing was changed. Say it without this character (an escape of the language, plain letters), or ask "
        "the user whether the file is to be converted to UTF-8.",
    )


def detect_binary(data: bytes) -> str:
    """Name what a binary file is; "" for text. A NUL in the first 8 kB makes a file binary (UTF-16 has a BOM)."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ""
    magic_name = next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")
    return magic_name or ("binary data" if b"\0" in data[:SNIFF] else "")


def decode_text(data: bytes, declared_encoding: str = "") -> TextFile | None:
    """Decode a file; None for bytes that are no text in any encoding known here. `declared_encoding`: the encoding that
    the project says it has, which counts where the bytes agree and are no UTF-8."""
    bom, encoding = next((candidate for candidate in _BOMS if data.startswith(candidate[0])), (b"", "utf-8"))
    rest = data[len(bom) :]
    if encoding != "utf-8":
        try:
            return TextFile(text=rest.decode(encoding), encoding=encoding, bom=bom)
        except UnicodeDecodeError:
            return None
    if detect_binary(rest):
        return None
    if not bom and (text_encoding := find_encoding(rest, declared_encoding)) is not None:
        return TextFile(text=rest.decode(text_encoding.codec), encoding=text_encoding.codec, twins=text_encoding.twins)
    raw = rest.decode("utf-8", "surrogateescape")
    text = mask_bytes(raw)
    return TextFile(text=text, bom=bom, raw=raw if text != raw else "")


def decode_for_reading(data: bytes) -> str:
    """Return the text of a file for somebody who reads it, with U+FFFD for what can't be told; nothing is put back."""
    file = decode_text(data)
    return data.decode("utf-8-sig", "replace") if file is None else file.text
