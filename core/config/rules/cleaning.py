"""The text of a rule file as its reader sees it: bounded, strictly UTF-8, and without characters that are invisible."""

from __future__ import annotations

import re

from core.secrets import mask_secrets
from core.text.lines import cut_lines

MAX_RULE_BYTES = 32 * 1024
MAX_READ_BYTES = 256 * 1024  # of any file that speaks to the agent; its digest, by which it is trusted, is of these


class UnreadableRule(ValueError):
    """The bytes are no text."""


def decode_rule(data: bytes, limit: int = MAX_RULE_BYTES) -> tuple[str, list[str]]:
    """Decode the bytes of a rule. Returns the text and what was cut or stripped. Raises `UnreadableRule`."""
    notes = []
    if len(data) > limit:
        data = cut_lines(data, limit)
        notes.append(f"cut after {limit // 1024} KiB")
    try:
        text, strip_notes = strip_invisible(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UnreadableRule(f"not UTF-8 (byte {error.start})") from None
    return mask_secrets(text), notes + strip_notes


# The selector that makes a pictograph of one symbol says nothing that its reader does not see.
_PICTOGRAPH = re.compile(
    "(?<=[\u2000-\u33ff\U0001f000-\U0001faff])\ufe0f(?![\ufe00-\ufe0f])|(?<=[0-9#*])\ufe0f(?=\u20e3)"
)
# Of a comment and code, the one that begins first counts: in code a comment is seen, and in a comment code is not.
_COMMENT_OR_CODE = re.compile(
    r"(?P<comment><!--.*?(?:-->|\Z))|^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)|`[^`\n]+`", re.DOTALL | re.MULTILINE
)
# What a reader of the file would not see, and what it is called when it is counted.
_INVISIBLE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("Unicode tag character", re.compile("[\U000e0000-\U000e007f]")),
    ("variation selector", re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef\u180b-\u180d\u180f]")),
    ("bidirectional control", re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")),
    (
        "zero-width character",
        re.compile("[\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\u00ad\u034f\u115f\u1160\u3164]"),
    ),
    ("control character", re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")),
)


def strip_invisible(text: str) -> tuple[str, list[str]]:
    """Return the text as a reader sees it, and what was stripped: "3 zero-width characters stripped"."""
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
