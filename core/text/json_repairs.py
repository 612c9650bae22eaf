"""JSON that people and models write inexactly, repaired where only one reading is left.

Settings of people may hold a byte order mark, comments, and commas after the last entry, as editors of such files
accept; any other mistake is left to the parser. Models and servers wrap the name and the arguments of a tool call:
valid ones are never touched, a wrapping is removed only where it can mean a single call, and anything that could be two
calls or was cut stays as it is, so that the model is told.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, Final

from core.patterns import compile_lazily
from core.records import parse_json, parse_json_part

MAX_LAYERS: Final = 4  # of repeated JSON encoding
_NAME: Final = compile_lazily(r"[A-Za-z0-9_-]+")
# `to=functions.NAME` addresses a call in the harmony format; servers leave remains of it.
_ADDRESSED: Final = compile_lazily(r"(?:^|\s)to=(\S+)")
_BEHIND_NAME: Final = compile_lazily(r"<[|｜/].*|\(\s*\)\s*$|\n.*", re.DOTALL)
_NAMESPACE: Final = compile_lazily(r"^(?:functions?|tools?|tool_code|default_api)[.:/]+")
_NUMBER: Final = compile_lazily(r":\d+$")
_QUOTES: Final = " \t\r\n`'\":<>"
# A fence, a tag or a special token before or after the arguments. Superfluous brackets come after them.
_MARK: Final = r"\s+|```(?:json|\w+\n)?|</?[\w:|-]{1,40}>|<[|｜][^<>|｜{}\"]{1,40}[|｜]>"
_BEFORE: Final = compile_lazily(rf"(?:{_MARK})*")
_BEHIND: Final = compile_lazily(rf"(?:{_MARK}|[}}\]])*")
# The last characters of an object, of a string that holds one, and of marks; a fence may be followed by a word.
_LAST_SIGNS: Final = frozenset('}"]>`')
_WORD: Final = compile_lazily(r"\w+")
_STRING: Final = compile_lazily(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL: Final = compile_lazily(r"(\\.)|([\x00-\x1f])", re.DOTALL)
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PART: Final = compile_lazily(
    r"""
    (?P<string> "(?:[^"\\]|\\.)*"? )
    | (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<comma> ,(?=(?:\s|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*[\]}]) )
    """,
    re.VERBOSE | re.DOTALL,
)


def extract_call_name(name: str) -> str:
    """Return the name of the tool in a wrapped one (`functions.grep:0`, `grep<|channel|>commentary`); unchanged if it
    is a valid name, or none can be extracted."""
    if _NAME.fullmatch(name):
        return name
    match = _ADDRESSED.search(name)
    bare = _BEHIND_NAME.sub("", match[1] if match else name.strip()).strip(_QUOTES)
    bare = _NUMBER.sub("", _NAMESPACE.sub("", bare))
    return bare if _NAME.fullmatch(bare) else name


def repair_arguments(text: str) -> str:
    """Return the JSON object in wrapped arguments: encoded twice, in a fence, after `{}`, repeated, with raw line ends
    in strings, or followed by a superfluous bracket or tag. Unchanged if it is an object already, if it holds none, or
    if it could hold several."""
    bare = text
    for _ in range(MAX_LAYERS):
        if is_object(bare):
            return bare
        value = _read_single(bare)
        if value is None or isinstance(value[1], dict):
            return value[0] if value else text
        bare = value[1]
    return text


def is_object(text: str) -> bool:
    """Return True for the text of a JSON object."""
    try:
        return text.lstrip()[:1] == "{" and isinstance(parse_json(text), dict)
    except ValueError:
        return False


def may_be_complete(text: str) -> bool:
    """Return False if the end of a text rules out that `repair_arguments` yields an object. Cheap, as it parses
    nothing, so it can follow every chunk of a long text."""
    end = text.rstrip()
    _, fence, word = end.rpartition("```")
    return end[-1:] in _LAST_SIGNS or (bool(fence) and _WORD.fullmatch(word) is not None)


def may_continue(text: str) -> bool:
    """Return True if a text is the incomplete start of a JSON value."""
    try:
        parse_json(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :].strip()
        cut_word = any(word.startswith(rest) for word in ("true", "false", "null", "-"))
        cut_escape = "escape" in error.msg and error.pos >= len(text) - len("\\u0000")
        return cut_word or cut_escape or error.msg.startswith("Unterminated string")
    except ValueError:
        return False
    return False


def _read_single(text: str) -> tuple[str, dict[str, Any] | str] | None:
    """Return the only object or string of a text, with its source; None if there is not exactly one."""
    decoder, values = json.JSONDecoder(), {}
    before = _BEFORE.match(text)
    text = escape_controls(text[before.end() :] if before else text)
    offset = 0
    while offset < len(text):
        try:
            value, end = parse_json_part(decoder, text, offset)
        except ValueError:
            return None
        if not isinstance(value, dict | str):
            return None
        values[json.dumps(value, sort_keys=True)] = text[offset:end], value
        behind = _BEHIND.match(text, end)
        offset = behind.end() if behind else end
    full = [pair for pair in values.values() if pair[1]] or list(values.values())
    return full[0] if len(full) == 1 else None


def escape_controls(text: str) -> str:
    """Return JSON with control characters in strings escaped, except after a backslash, where the intent is unclear."""
    return _STRING.sub(lambda string: _CONTROL.sub(_escape, string[0]), text)


def _escape(match: re.Match[str]) -> str:
    return match[1] or json.dumps(match[2])[1:-1]


def to_strict_json(data: bytes) -> bytes:
    """Return strict JSON in UTF-8. Lines and columns stay the same, so that errors refer to the original."""
    return _PART.sub(_keep_strings, decode_marked(data)).encode("utf-8", "surrogatepass")


def decode_marked(data: bytes) -> str:
    """Return a text decoded by its byte order mark, without the mark; otherwise as UTF-8."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                break
    return data.decode("utf-8", "replace")


def _keep_strings(part: re.Match[str]) -> str:
    """Return a string as it is, and blanks for anything else."""
    if part["string"] is not None:
        return part[0]
    return re.sub(r"[^\n]", " ", part[0])
