"""JSON as people write it into their settings: with a byte order mark, comments, and commas behind the last entry.

What the editors of such files take is taken here, too, and nothing else: the result is JSON where the text was meant as
such, and what is wrong beside that is for the parser to say. Strings keep every character.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PART: Final = re.compile(
    r"""
    (?P<string> "(?:[^"\\]|\\.)*"? )
    | (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<comma> ,(?=(?:\s|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*[\]}]) )
    """,
    re.VERBOSE | re.DOTALL,
)


def to_strict_json(data: bytes) -> bytes:
    """Return the JSON that is meant, in UTF-8. Lines and columns stay where they are, so that an error names its
    place."""
    return _PART.sub(_keep_strings, decode_marked(data)).encode("utf-8", "surrogatepass")


def decode_marked(data: bytes) -> str:
    """Return a text by its byte order mark, which is left out; without one, or against it, it is UTF-8."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                break
    return data.decode("utf-8", "replace")


def _keep_strings(part: re.Match[str]) -> str:
    """Return a string as it is, and blanks in the place of all else."""
    if part["string"] is not None:
        return part[0]
    return re.sub(r"[^\n]", " ", part[0])
