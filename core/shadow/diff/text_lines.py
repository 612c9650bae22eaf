"""Bytes as lines: split without decoding, and decoded only for display.

A line ends after "\n" (also as part of "\r\n"); a lone "\r" stays inside a line. UTF-16 text with a byte order mark is
split at its two-byte newline. Joining the lines always restores the bytes. A text whose encoding can be detected is
displayed and edited in that encoding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from core.errors import CommandRejected
from core.text.legacy_encodings import find_encoding, name_encoding, round_trips
from core.text.well_formed import is_utf8

Encoding = str  # "utf-8", "utf-16-le", "utf-16-be", or what `find_encoding` finds

_SNIFFED_BYTES = 8_000  # bytes searched for a NUL, as git does
_UTF16_NEWLINE: dict[Encoding, bytes] = {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}
_BOMS: dict[Encoding, bytes] = {"utf-8": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


def detect_encoding(data: bytes) -> Encoding:
    """Return the encoding by the byte order mark, UTF-8 by default. UTF-32 counts as binary."""
    if data.startswith(b"\xff\xfe") and not data.startswith(b"\xff\xfe\0\0"):
        return "utf-16-le"
    return "utf-16-be" if data.startswith(b"\xfe\xff") else "utf-8"


def find_display_encodings(*sides: bytes) -> tuple[Encoding, ...]:
    """Return the encoding in which to display every side of a change. Where one has a legacy encoding, a side that is
    no UTF-8 is read in it, too."""
    codec = next((encoding.codec for side in sides if not is_binary(side) and (encoding := find_encoding(side))), "")
    return tuple(_find_display_encoding(side, codec) for side in sides)


def _find_display_encoding(data: bytes, codec: str) -> Encoding:
    encoding = detect_encoding(data)
    is_found = codec and encoding == "utf-8" and not is_utf8(data) and round_trips(data, codec)
    return codec if is_found else encoding


def is_binary(data: bytes) -> bool:
    """True if there is a NUL near the beginning."""
    return detect_encoding(data) == "utf-8" and b"\0" in data[:_SNIFFED_BYTES]


def split_lines(data: bytes) -> list[bytes]:
    """Split into lines with their endings; `b"".join(split_lines(data)) == data`."""
    encoding = detect_encoding(data)
    if encoding != "utf-8":
        return list(_split_utf16(data, _UTF16_NEWLINE[encoding]))
    lines = data.split(b"\n")
    last = lines.pop()
    full_lines = [line + b"\n" for line in lines]
    return [*full_lines, last] if last else full_lines


def _split_utf16(data: bytes, newline: bytes) -> Iterator[bytes]:
    """Yield UTF-16 lines. A newline counts only at a code unit boundary, as halves of two units can look like one."""
    start = offset = 0
    while (offset := data.find(newline, offset)) >= 0:
        if offset % 2:
            offset += 1
            continue
        offset += 2
        yield data[start:offset]
        start = offset
    if start < len(data):
        yield data[start:]


def has_bom(data: bytes) -> bool:
    return data.startswith(_BOMS[detect_encoding(data)])


def decode_line(line: bytes, encoding: Encoding, *, is_first: bool = True) -> tuple[str, str]:
    """Return the text of a line and its ending ("crlf", "lf", "none"). Except for UTF-16, undecodable lines are read as
    Latin-1. Only the first line of a file has a byte order mark, which is not part of the text."""
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError:
        text = line.decode(encoding, "replace") if encoding.startswith("utf-16") else line.decode("latin-1")
    text = text.removeprefix("\ufeff") if is_first else text
    if text.endswith("\r\n"):
        return text[:-2], "crlf"
    return (text[:-1], "lf") if text.endswith("\n") else (text, "none")


def describe_line_ends(data: bytes) -> str:
    """Return the line endings of a text: "LF", "CRLF", "LF and CRLF" or "" for none."""
    encoding = detect_encoding(data)
    text = data if encoding == "utf-8" else data.decode(encoding, "replace").encode("utf-8", "replace")
    windows = text.count(b"\r\n")
    return " and ".join(["LF"] * (text.count(b"\n") > windows) + ["CRLF"] * (windows > 0))


def list_non_utf8_lines(data: bytes) -> list[int]:
    """List the lines, from 1, that are no UTF-8 and so are displayed in another encoding."""
    if detect_encoding(data) != "utf-8" or is_utf8(data):
        return []
    return [number for number, line in enumerate(data.split(b"\n"), 1) if not is_utf8(line)]


def find_newline(lines: Iterable[bytes], encoding: Encoding) -> str:
    """Return the most frequent line ending, as text."""
    endings = Counter(decode_line(line, encoding)[1] for line in lines)
    return "\r\n" if endings["crlf"] > endings["lf"] else "\n"


def encode_line(line: str, newline: str, encoding: Encoding) -> bytes:
    """Encode a line, replacing an LF at its end by `newline`. Raises `CommandRejected` for unencodable text."""
    try:
        return (f"{line[:-1]}{newline}" if line.endswith("\n") else line).encode(encoding)
    except UnicodeEncodeError as error:
        sign = line[error.start]
        raise CommandRejected(
            f"The file is in {name_encoding(encoding)}, which has no {sign} (U+{ord(sign or ' '):04X}).",
            code="not_text",
        ) from error
