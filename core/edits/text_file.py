"""Bytes of a file as text and back, without losing one of them: encoding, BOM and invalid bytes survive.

A file is written in the encoding that it is in. The project may declare one in an `.editorconfig` (the specification at
editorconfig.org, version 0.17): files are looked up from the directory of the file upwards, to one that says
`root = true` or to the workspace. The nearest one wins, and in a file the last section that matches. Of its encodings
only Latin-1 can't be detected from the bytes.

Bytes that are not UTF-8, in a file of unknown encoding, are shown as U+FFFD and put back when the text is encoded
again; nothing of another encoding is added to them. A model (or a screen) can't see such a byte, so it can't name it
either: the lines that it leaves unchanged carry the mark that it was shown. Unchanged lines get their bytes back as
they are; in changed lines a mark is recognised by its surroundings. A mark that can't be resolved is refused, never
guessed.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from typing import Final

from msgspec import Struct

from core.edits.errors import EditError
from core.patterns import compile_lazily
from core.text.legacy_encodings import find_encoding, is_in_unknown_encoding, name_encoding
from core.text.lines import count_shared_ends, split_whole_lines
from core.text.path_patterns import matches
from core.text.well_formed import REPLACEMENT

_BYTE = compile_lazily("[\udc80-\udcff]")
_MARK = compile_lazily(f"[{REPLACEMENT}\udc80-\udcff]")
_RUN = compile_lazily(f"{REPLACEMENT}+")
_CONTEXT = 2  # unchanged characters around a mark that identify it
_SNIFF_BYTES = 8192  # at the start of a file that decide on binary data
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
EDITOR_CONFIG: Final = ".editorconfig"
_SECTION: Final = compile_lazily(r"\[(.+)\]\s*\Z")
_PAIR: Final = compile_lazily(r"([^=:\s][^=:]*?)\s*[=:]\s*(.*)\Z")
_NUMBERS: Final = compile_lazily(r"\{(-?\d{1,4})\.\.(-?\d{1,4})\}")
_MOST_NUMBERS: Final = 200  # names that one range of numbers expands to
_LATIN: Final = "latin1"


class TextFile(Struct, frozen=True, kw_only=True):
    """A decoded file: `text` without the BOM, with the line endings of the file.

    `raw`: the text with its invalid bytes in Python's surrogateescape form, "" = it has none. `twins`: encodings that
    decode this file to the same text.
    """

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    raw: str = ""
    twins: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of a legacy encoding; "" for Unicode encodings."""
        return "" if self.encoding.startswith("utf") else name_encoding(self.encoding)

    def encode(self, text: str) -> bytes:
        """Encode `text` in this file's encoding, with its BOM. Raises `EditError` if a byte can't be put back, or the
        encoding lacks a character."""
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
            raise _build_unencodable_error(
                text[problem.start], f"is in {self.name}, which lacks this character"
            ) from None
        self._refuse_ambiguous(text, data)
        return data

    def _refuse_ambiguous(self, text: str, data: bytes) -> None:
        """Raise `EditError` for a character that the possible encodings write differently."""
        for codec in self.twins:
            if (
                text.encode(codec, "ignore") in {data, b""}
                or (sign := _find_difference(text, self.encoding, codec)) is None
            ):
                continue
            names = f"{self.name} or {name_encoding(codec)}"
            raise _build_unencodable_error(sign, f"is in {names}, which write it differently")


def _find_difference(text: str, codec: str, other: str) -> str | None:
    """Return the first character that both encodings have and write differently; None = there is none."""
    for sign in dict.fromkeys(text):
        other_bytes = sign.encode(other, "ignore")
        if other_bytes and other_bytes != sign.encode(codec, "ignore"):
            return sign
    return None


def _refuse_second_encoding(raw: str, text: str) -> None:
    """Raise `EditError` for new text beyond ASCII in a file whose text beyond ASCII is mostly in an unknown
    encoding."""
    if not is_in_unknown_encoding(raw.encode("utf-8", "surrogateescape")):
        return
    old_counts = Counter(sign for sign in raw if not sign.isascii())
    new = Counter(sign for sign in text if not sign.isascii() and sign != REPLACEMENT) - old_counts
    if sign := next((sign for sign in new if not find_bytes(sign)), ""):
        raise _build_unencodable_error(sign, "is not UTF-8, and its encoding can't be determined")


def _build_unencodable_error(sign: str, reason: str) -> EditError:
    return EditError(
        f"{sign} (U+{ord(sign):04X}) can't be written: the file {reason}.",
        hint="Nothing was changed. Write it without this character (use an escape of the language, or "
        "plain letters), or ask the user whether to convert the file to UTF-8.",
    )


def detect_binary(data: bytes) -> str:
    """Return the type of a binary file; "" for text. A NUL in the first 8 kB makes a file binary (UTF-16 has a BOM)."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ""
    magic_name = next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")
    return magic_name or ("binary data" if b"\0" in data[:_SNIFF_BYTES] else "")


def decode_text(data: bytes, declared_encoding: str = "") -> TextFile | None:
    """Decode a file; None for bytes that are text in no known encoding. `declared_encoding`: the one that the project
    declares, which counts if the bytes agree and are not UTF-8."""
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
    """Return the text of a file for reading only, with U+FFFD for invalid bytes that can't be put back."""
    file = decode_text(data)
    return data.decode("utf-8-sig", "replace") if file is None else file.text


def mask_bytes(raw: str) -> str:
    """Return the text with a mark for every invalid byte; its length stays the same."""
    return _BYTE.sub(REPLACEMENT, raw)


def find_bytes(raw: str) -> list[str]:
    """Return the invalid bytes of a text, in their surrogate form."""
    return _BYTE.findall(raw)


def restore_bytes(raw: str, text: str) -> str:
    """Return `text`, an edit of `mask_bytes(raw)`, with the bytes of `raw`. Raises `EditError`."""
    old, new = split_whole_lines(mask_bytes(raw)), split_whole_lines(text)
    bytes_of = split_whole_lines(raw)
    head, tail = count_shared_ends(old, new)
    output = bytes_of[:head]
    middle = old[head : len(old) - tail], new[head : len(new) - tail]
    for tag, first, last, start, stop in SequenceMatcher(None, *middle, autojunk=False).get_opcodes():
        raw_lines = bytes_of[head + first : head + last]
        output += (
            raw_lines if tag == "equal" else [_restore_changed("".join(raw_lines), "".join(middle[1][start:stop]))]
        )
    return "".join([*output, *bytes_of[len(old) - tail :]])


def _restore_changed(raw: str, text: str) -> str:
    if REPLACEMENT not in text:
        return text
    marks = _MARK.findall(raw)
    if len(set(marks)) == 1 and len(marks) >= text.count(REPLACEMENT):
        return text.replace(REPLACEMENT, marks[0])
    characters, unknown = list(text), {run.start(): run.end() for run in _RUN.finditer(text)}
    for raw_start, start, size in SequenceMatcher(None, mask_bytes(raw), text, autojunk=False).get_matching_blocks():
        run, shift = text[start : start + size], raw_start - start
        for first, last in list(unknown.items()):
            if start <= first and last <= start + size and _is_whole(raw, run, shift, first, last):
                characters[first:last] = raw[shift + first : shift + last]
                del unknown[first]
    if unknown:
        raise EditError(
            f"Some {REPLACEMENT} in the new text are ambiguous: in the file they are bytes that are not UTF-8.",
            hint=f"Nothing was changed. Leave lines with {REPLACEMENT} out of the edit, or repeat the "
            "text around them exactly; write no new one.",
        )
    return "".join(characters)


def _is_whole(raw: str, run: str, shift: int, first: int, last: int) -> bool:
    """True if the marks [first, last) are a whole run in `raw`, and the words around them occur only once."""
    around = sum(not character.isspace() and character != REPLACEMENT for character in run)
    before, after = raw[shift + first - 1 : shift + first], raw[shift + last : shift + last + 1]
    matches = re.finditer(f"(?={re.escape(run)})", mask_bytes(raw))
    matches_text = {raw[match.start() : match.start() + len(run)] for match in matches}
    return around >= _CONTEXT and len(matches_text) <= 1 and not _MARK.match(before) and not _MARK.match(after)


def find_declared_encoding(path: str, read: Callable[[str], bytes | None]) -> str:
    """Return Python's name of the encoding that the project declares for a file; "" = none, or a Unicode encoding.

    `path` is relative to the workspace; `read` returns the bytes of a path there, None = there is no such file.
    """
    directory = path
    while directory:
        directory, _, _ = directory.rpartition("/")
        data = read(f"{directory}/{EDITOR_CONFIG}" if directory else EDITOR_CONFIG)
        if data is None:
            continue
        charset, is_root = _read_charset(data.decode("utf-8-sig", "replace"), path.removeprefix(f"{directory}/"))
        if charset or is_root:
            return "latin-1" if charset == _LATIN else ""
    return ""


def _read_charset(text: str, path: str) -> tuple[str, bool]:
    """Return the encoding that a file declares for a path below it, "" = none, and True if files above it don't
    count."""
    charset, is_root = "", False
    for name, value, section in _iterate_pairs(text):
        if not section:
            is_root = is_root or (name == "root" and value == "true")
        elif name == "charset" and _fits(section, path):
            charset = value
    return charset, is_root


def _iterate_pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield name and value, in lower case, with the pattern of their section, "" above the first."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if not line or line[0] in "#;":
            continue
        if heading := _SECTION.match(line):
            section = heading[1]
        elif pair := _PAIR.match(line):
            yield pair[1].lower(), pair[2].strip().lower(), section


def _fits(pattern: str, path: str) -> bool:
    """True if the pattern of a section matches a path. The first range of numbers is expanded."""
    bounds = _NUMBERS.search(pattern)
    if bounds is None:
        return matches(pattern, path)
    low, high = sorted((int(bounds[1]), int(bounds[2])))
    numbers = range(low, min(high, low + _MOST_NUMBERS) + 1)
    return any(matches(f"{pattern[: bounds.start()]}{number}{pattern[bounds.end() :]}", path) for number in numbers)
