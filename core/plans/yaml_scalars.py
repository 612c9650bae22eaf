"""Scalars of YAML as text: as their neighbours are written where that says the same, else quoted. Pure."""

from __future__ import annotations

import json
import re

_FIRST = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`=<~]")
_NOT_PLAIN = re.compile(r": |:$| #|[\t\n\r]|^\s|\s$|^---|^\.\.\.")
_NOT_IN_FLOW = re.compile(r"[,\[\]{}:#]")
_OTHER_TYPE = re.compile(
    r"(?i)(?:null|true|false|yes|no|on|off|y|n|[-+]?[.\d][\d_.:eExXoObBa-f+-]*|[-+]?\.(?:inf|nan)|\d{4}-\d\d?-\d\d?.*)"
)
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
FieldText = str | tuple[str, ...]


def format_value(value: FieldText, *, flow: bool = False) -> str:
    """Format a value in one line; several words are a list in brackets. `flow`: it stands in brackets or braces."""
    if isinstance(value, str):
        return format_scalar(value, flow=flow)
    return f"[{', '.join(format_scalar(word, flow=True) for word in value)}]"


def format_scalar(text: str, style: str = "", *, flow: bool = False, indent: int = 2, newline: str = "\n") -> str:
    """Format `text` as a scalar, in `style` if it can be ("" = plain). `indent`: of the lines of a block scalar."""
    odd = not text.isprintable() and (
        _ESCAPED.search(text) or any(character < " " and character != "\n" for character in text)
    )
    if style in {"|", ">"} and not flow and not odd and "\n" in text and _can_be_block(text):
        head, lines = ("|" if text.endswith("\n") else "|-"), text.removesuffix("\n").split("\n")
        return head + "".join(f"{newline}{' ' * indent}{line}" if line else newline for line in lines)
    if odd or "\n" in text or style == '"':
        return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))
    if style == "'" or not _is_plain(text, flow=flow):
        return "'" + text.replace("'", "''") + "'"
    return text


def _is_plain(text: str, *, flow: bool) -> bool:
    if not _FIRST.match(text) or _NOT_PLAIN.search(text) or _OTHER_TYPE.fullmatch(text):
        return False
    return not (flow and _NOT_IN_FLOW.search(text))


def _can_be_block(text: str) -> bool:
    """True if a block scalar without an indentation indicator says exactly this."""
    return bool(text.strip()) and not text.startswith((" ", "\n")) and not text.endswith("\n\n")
