"""Glob patterns over workspace-relative paths, with the same meaning everywhere: `*`, `?`, `[…]`, `{a,b}` and `**`.

A pattern without "/" matches a name at any depth; one with "/" starts at the workspace. A match on a folder covers all
that is in it. A directory may really be called `[id]`: `[…]` stands for one of its characters, and for itself.
"""

from __future__ import annotations

import re

from core.errors import ToolInputInvalid

_MAX_LENGTH = 400
_MAX_STARS = 4
_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]/]*\]|\{|\}|,|\\.|.", re.DOTALL)
_SET = re.compile(r"\[!?\]?[^]/]*\]")
_PLAIN = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Raises `ToolInputInvalid` for a pattern that is malformed or could take very long."""
    plain = pattern.strip().removeprefix("./")
    is_anchored = "/" in plain.rstrip("/")
    body = plain.strip("/")
    _check_pattern(pattern, body)
    prefix = "" if is_anchored else "(?:.*/)?"
    try:
        return re.compile(rf"{prefix}{_translate(pattern, body)}(?:/.*)?", re.DOTALL)
    except re.error as error:
        raise ToolInputInvalid(f"The glob pattern {pattern!r} is malformed: {error}.") from error


def _check_pattern(pattern: str, body: str) -> None:
    if not body:
        raise ToolInputInvalid("The glob pattern is empty.", hint="Give one such as *.py or src/**/*.ts.")
    is_crowded = any(part.replace("**", "*").count("*") > _MAX_STARS for part in body.split("/"))
    if len(body) > _MAX_LENGTH or is_crowded or body.count("**") > _MAX_STARS:
        raise ToolInputInvalid(
            f"The glob pattern {pattern[:80]!r} has too many wildcards.", hint="Use a simpler one, or several calls."
        )


def _translate(pattern: str, body: str) -> str:
    parts, depth = [], 0
    for token in _TOKEN.findall(body):
        if token == "{":
            depth += 1
            parts.append("(?:")
        elif token == "}" and depth:
            depth -= 1
            parts.append(")")
        elif token == "," and depth:
            parts.append("|")
        else:
            parts.append(_PLAIN.get(token) or _escape_token(token))
    if depth:
        raise ToolInputInvalid(f"The glob pattern {pattern!r} has a {{ that is never closed.", hint="Add the }.")
    return "".join(parts)


def _escape_token(token: str) -> str:
    if len(token) > 1 and token.startswith("["):
        return _translate_set(token)
    return re.escape(token[1:] if len(token) > 1 and token.startswith("\\") else token)


def _translate_set(token: str) -> str:
    """Return what matches one of the characters of a set, or the set as it is written."""
    inner = token[1:-1].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
    one = f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    try:
        re.compile(one)
    except re.error:  # a set of characters that is none, as [user-id]
        return re.escape(token)
    return f"(?:{one}|{re.escape(token)})"


def extract_name_part(pattern: str) -> str:
    """The part of a pattern that file names have to match; "" when it says nothing about names."""
    name = _SET.sub("*", pattern.strip().rstrip("/").rpartition("/")[2])  # to ripgrep a set is one character
    is_balanced = name.count("{") == name.count("}")
    return (
        name
        if is_balanced
        and "[" not in name
        and "**" not in name
        and not pattern.endswith("/")
        and re.search(r"[*?.]", name)
        else ""
    )
