"""File names: their form on the wire, and the recognition of `.git` and of plans.

A name is any bytes except NUL and "/". On the wire it is valid Unicode: a byte that is no UTF-8 becomes one character
of a private range (U+10FF80 ... U+10FFFF), and a character of that range becomes its bytes in the same form. So every
name has exactly one wire form, and the conversion is reversible.
"""

from __future__ import annotations

import unicodedata

from core.errors import PathRefused

PLANS = ".cursor/plans"
PLAN_SUFFIX = ".plan.md"
_MAX_NAME_BYTES = 255  # bytes of a name, on every file system in use
_PRIVATE = 0x10FF00
_SURROGATE_ESCAPE = 0xDC00  # Python's surrogateescape
_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), *range(0x206A, 0x2070), 0xFEFF, 0x00AD)
)


def from_os_name(name: bytes) -> str:
    """Return the wire form of a name from the operating system."""
    text = name.decode("utf-8", "surrogateescape")
    if text.isascii():
        return text
    return "".join(_to_wire(character) for character in text)


def _to_wire(character: str) -> str:
    code = ord(character)
    if _SURROGATE_ESCAPE + 0x80 <= code <= _SURROGATE_ESCAPE + 0xFF:
        return chr(code - _SURROGATE_ESCAPE + _PRIVATE)
    if _PRIVATE + 0x80 <= code <= _PRIVATE + 0xFF:
        return "".join(chr(byte + _PRIVATE) for byte in character.encode())
    return character


def to_os_name(name: str) -> bytes:
    """Return the bytes of a wire name; also accepts names that Python decoded with surrogateescape."""
    if name.isascii():
        return name.encode()
    text = "".join(
        chr(ord(char) - _PRIVATE + _SURROGATE_ESCAPE) if _PRIVATE + 0x80 <= ord(char) <= _PRIVATE + 0xFF else char
        for char in name
    )
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PathRefused(f"{name!r} is not a possible file name: it has a lone surrogate.") from None


def fold_name(part: str) -> str:
    """Normalize a name like file systems that ignore case, composition or invisible characters."""
    if part.isascii():
        return part.lower().rstrip(". ") or part
    visible = unicodedata.normalize("NFC", part).translate(_IGNORED_BY_HFS)
    return unicodedata.normalize("NFC", visible.casefold()).rstrip(". ") or part


def is_git_internal(rel: str) -> bool:
    """True if the path is, or is below, a `.git`, in any spelling that some file system treats as `.git`."""
    if rel.isascii() and "git" not in rel.lower():
        return False
    return any(_is_git(fold_name(part)) for part in rel.split("/"))


def _is_git(name: str) -> bool:
    return name.partition(":")[0].rstrip(". ") in {".git", "git~1"}


def is_plan(rel: str, plan_folder: str = PLANS) -> bool:
    """True if the path is that of a plan file in `plan_folder`; the file system is not accessed."""
    folder, _, name = rel.rpartition("/")
    is_odd = name.startswith(".") or "\0" in name
    return (
        folder == plan_folder and name.endswith(PLAN_SUFFIX) and not is_odd and len(to_os_name(name)) <= _MAX_NAME_BYTES
    )
