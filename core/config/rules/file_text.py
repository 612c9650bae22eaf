"""The text of a rule file: bounded, strict UTF-8, without invisible characters, and split into front matter and body.

Front matter is read by line and never refused, because people write what is no YAML, such as `globs: *.py, src/**`: a
key, a value that may be quoted, and the items of a list below their key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from core.patterns import compile_lazily
from core.secrets import mask_secrets
from core.text.lines import cut_lines

MAX_RULE_BYTES = 32 * 1024
MAX_READ_BYTES = 256 * 1024  # of any file with instructions; its digest for the trust covers them
FrontMatter = Mapping[str, str | list[str]]
MAX_BLOCKS = 3  # editors that import rules prepend a block
_BLOCK = compile_lazily(r"\A---[ \t]*\n(?P<front>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = compile_lazily(r"(?P<key>[A-Za-z_][\w-]*)\s*:(?:\s+(?P<value>.*)|\s*)")
_OPENED_BLOCK = compile_lazily(r"---[ \t]*\n[A-Za-z_][\w-]*\s*:")
_BLOCK_SIGN = compile_lazily(r"[>|][+-]?[1-9]?[+-]?")
_YAML_COMMENT = compile_lazily(r"(?:^|\s)#.*$")


class UnreadableRule(ValueError):
    """The bytes are not a text."""


def decode_rule(data: bytes, limit: int = MAX_RULE_BYTES) -> tuple[str, list[str]]:
    """Decode the bytes of a rule. Returns the text and notes about cut or stripped parts. Raises `UnreadableRule`."""
    notes = []
    if len(data) > limit:
        data = cut_lines(data, limit)
        notes.append(f"cut after {limit // 1024} KiB")
    try:
        text, strip_notes = strip_invisible(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UnreadableRule(f"not UTF-8 (byte {error.start})") from None
    return mask_secrets(text), notes + strip_notes


# The variation selector that turns a symbol into an emoji hides nothing.
_PICTOGRAPH = compile_lazily(
    "(?<=[\u2000-\u33ff\U0001f000-\U0001faff])\ufe0f(?![\ufe00-\ufe0f])|(?<=[0-9#*])\ufe0f(?=\u20e3)"
)


# The first start of a comment or code counts: a comment in code is visible, code in a comment is not.
_COMMENT_OR_CODE = compile_lazily(
    r"(?P<comment><!--.*?(?:-->|\Z))|^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)|`[^`\n]+`", re.DOTALL | re.MULTILINE
)


# Invisible characters, with the names of their kinds.
_INVISIBLE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("Unicode tag character", compile_lazily("[\U000e0000-\U000e007f]")),
    ("variation selector", compile_lazily("[\ufe00-\ufe0f\U000e0100-\U000e01ef\u180b-\u180d\u180f]")),
    ("bidirectional control", compile_lazily("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")),
    (
        "zero-width character",
        compile_lazily("[\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\u00ad\u034f\u115f\u1160\u3164]"),
    ),
    ("control character", compile_lazily("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")),
)


def strip_invisible(text: str) -> tuple[str, list[str]]:
    """Return the text as a reader sees it, and notes such as "3 zero-width characters stripped"."""
    notes = []
    text = _PICTOGRAPH.sub("", text.removeprefix("\ufeff").replace("\r\n", "\n"))
    # Characters first: one hidden within `<!-` `-` must not hide a comment from its pattern.
    for name, pattern in _INVISIBLE:
        text, count = pattern.subn("", text)
        notes += [_describe_stripped(name, count)] if count else []
    count = sum(1 for match in _COMMENT_OR_CODE.finditer(text) if match["comment"])
    if count:
        text = _COMMENT_OR_CODE.sub(lambda match: "" if match["comment"] else match.group(), text)
        notes.append(_describe_stripped("HTML comment", count))
    return text, notes


def _describe_stripped(name: str, count: int) -> str:
    return f"{count} {name}{'s' if count > 1 else ''} stripped"


def is_unclosed(text: str) -> bool:
    """True if a text starts like front matter that no second line of dashes ends."""
    return _OPENED_BLOCK.match(text) is not None and _BLOCK.match(text) is None


def split_front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """Split a text into front matter and body. Of several blocks the first with a value for a key counts."""
    front: dict[str, str | list[str]] = {}
    for _ in range(MAX_BLOCKS):
        match = _BLOCK.match(text)
        if match is None:
            break
        block = _parse_lines(match["front"])
        if not block and match["front"].strip():  # a horizontal rule above a text
            break
        front |= {key: value for key, value in block.items() if not front.get(key)}
        text = text[match.end() :]
    return front, text


def _parse_lines(block: str) -> dict[str, str | list[str]]:
    front: dict[str, str | list[str]] = {}
    key = ""
    for line in block.splitlines():
        item = line.strip()
        if not line[:1].isspace() and (assignment := _KEY.fullmatch(line.rstrip())):
            key = assignment["key"]
            front[key] = unquote(assignment["value"] or "")
        elif key and item.startswith("- "):
            present = front[key]
            front[key] = [*(present if isinstance(present, list) else []), unquote(item[2:])]
        elif key and item and not item.startswith("#") and isinstance(present := front[key], str):
            before = "" if _BLOCK_SIGN.fullmatch(present) else present
            front[key] = f"{before} {unquote(item)}".strip()  # a value continued on the next line
    return front


def unquote(value: str) -> str:
    """Return a value without its quotes, or without a trailing comment."""
    value = value.strip()
    if len(value) > 1 and value[0] in "\"'" and (end := value.find(value[0], 1)) > 0:
        rest = value[end + 1 :].strip()
        return value[1:end] if not rest or rest.startswith("#") else value
    return _YAML_COMMENT.sub("", value).strip()


def get_text(front: FrontMatter, key: str) -> str:
    """Return the value of a key as one text, "" = none."""
    value = front.get(key, "")
    return value if isinstance(value, str) else ", ".join(value)


def parse_patterns(front: FrontMatter, key: str) -> Iterator[str]:
    """Parse patterns from a string ("a, b"), a flow list ("[a, b]") or a list; commas within braces do not separate."""
    value = front.get(key, "")
    for item in value if isinstance(value, list) else [value]:
        text = item.strip()
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        for part in re.split(r",(?![^{]*\})", text):
            if pattern := unquote(part):
                yield pattern.removeprefix("./")
