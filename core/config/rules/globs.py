"""Glob patterns of rules: `*` stays in a path segment, `**` crosses segments, braces are alternatives.

A pattern without a slash matches at any depth: Cursor's generator of rules writes `*.ts` for all TypeScript files, and
so do people. `/*.ts` matches at the top only.
"""

from __future__ import annotations

import re
from functools import lru_cache

from core.patterns import compile_lazily

MAX_WILDCARDS = 6  # more could keep the matcher busy for minutes; such a pattern matches nothing
MAX_IN_NAME = 3  # per segment: the time grows with this power of a name's length
MAX_DEEP = 4  # of `**`: the time grows with this power of a path's depth
MAX_PATTERN = 400  # characters
_TOKEN = compile_lazily(r"(?:\*\*/)+|\*+|\?|\[!?[^\]/]+\]|\{|\}|,|[^*?{},\[]+|\[")


def matches(pattern: str, path: str) -> bool:
    """True if a pattern matches a path; both are relative to the same directory."""
    return _compile(pattern).fullmatch(path) is not None


@lru_cache(maxsize=512)
def _compile(pattern: str) -> re.Pattern[str]:
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    elif pattern.endswith("/"):
        pattern += "**"
    tokens = _TOKEN.findall(pattern.lstrip("/"))
    is_crowded = any(part.replace("**", "*").count("*") > MAX_IN_NAME for part in pattern.split("/"))
    if (
        is_crowded
        or pattern.count("**") > MAX_DEEP
        or sum("*" in token for token in tokens) > MAX_WILDCARDS
        or len(pattern) > MAX_PATTERN
    ):
        return re.compile("(?!)")
    parts, braces = [], 0
    for token in tokens:
        if token == "{":
            braces += 1
            parts.append("(?:")
        elif token == "}" and braces:
            braces -= 1
            parts.append(")")
        elif token == "," and braces:
            parts.append("|")
        else:
            parts.append(_translate(token))
    try:
        return re.compile("".join(parts) + ")" * braces)
    except re.error:  # an invalid set such as [z-a]
        return re.compile("(?!)")


def _translate(token: str) -> str:
    if token.endswith("**/"):
        return "(?:.*/)?"
    if set(token) == {"*"}:
        return "[^/]*" if len(token) == 1 else ".*"
    if token == "?":
        return "[^/]"
    if len(token) > 2 and token[0] == "[" and token[-1] == "]":
        return _translate_set(token)
    return re.escape(token)


def _translate_set(token: str) -> str:
    """Translate a set in brackets: `-` is a range, a leading `!` negates. The literal text also matches, as a directory
    may have such a name."""
    inner = token[1:-1]
    is_negative = inner.startswith("!")
    escaped_characters = re.sub(r"[^\w-]", lambda match: f"\\{match[0]}", inner[is_negative:]).replace("--", r"\-\-")
    one = f"[^{escaped_characters}/]" if is_negative else f"[{escaped_characters}]"
    try:
        re.compile(one)
    except re.error:  # an invalid set such as [user-id]
        return re.escape(token)
    return f"(?:{one}|{re.escape(token)})"
