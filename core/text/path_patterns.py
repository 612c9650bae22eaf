r"""Patterns of paths, as regular expressions: one syntax for rules, permissions, searches and lists of names.

| in a pattern | matches |
|---|---|
| `*`, `?` | any characters of a name; one character of it |
| `**/`, `**` | any number of directories; anything |
| `[ab]`, `[0-9]`, `[!ab]`, `[^ab]` | one character of the set, or not of it; also the set as it is written |
| `{a,b}` | one of the patterns; also the braces as they are written |
| `\*` | the character itself, where a pattern may escape (`Syntax`) |

A pattern without a slash matches at any depth, one with a slash from the top; `./` at its start means nothing, and `/`
ties it to the top. One that ends with a slash matches all that lies below such a directory. Sets and braces also match
as they are written, since directories have such names (`app/[id]/page.tsx`); a set that is none, and a brace without
its other half, match only so.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from core.patterns import compile_lazily

MAX_WILDCARDS: Final = 6  # more could keep the matcher busy for minutes
MAX_IN_NAME: Final = 3  # per segment: the time grows with this power of a name's length
MAX_DEEP: Final = 4  # of `**`: the time grows with this power of a path's depth
MAX_PATTERN: Final = 400  # characters
_MAX_NESTED: Final = 8  # braces in braces; deeper ones are read as they are written
SET: Final = r"\[[!^]?\]?[^\]/]*\]"
_WILD: Final = r"(?:\*\*/)+|\*+|\?"
_FULL: Final = rf"{_WILD}|{SET}|."
# A name can hold each of these characters, so a rule that allows something reads no more than stars into a pattern.
Syntax = Literal["stars", "full", "escapes"]
Depth = Literal["never", "named", "always"]
_TOKENS: Final = {
    syntax: compile_lazily(expression, re.DOTALL)
    for syntax, expression in (("stars", rf"{_WILD}|."), ("full", _FULL), ("escapes", rf"\\.|{_FULL}"))
}
_OR: Final = "|"


def matches(pattern: str, path: str) -> bool:
    """True if a pattern matches a path; both are relative to the same directory. A costly one matches nothing."""
    return not is_costly(pattern) and compile_pattern(pattern).fullmatch(path) is not None


@lru_cache(maxsize=512)
def is_costly(pattern: str) -> bool:
    """True if a pattern could keep the matcher busy: it comes from a file or a model, and the names from anywhere."""
    is_crowded = any(part.replace("**", "*").count("*") > MAX_IN_NAME for part in pattern.split("/"))
    wildcards = sum("*" in token for token in _TOKENS["full"].findall(pattern))
    return is_crowded or pattern.count("**") > MAX_DEEP or wildcards > MAX_WILDCARDS or len(pattern) > MAX_PATTERN


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, *, syntax: Syntax = "full", below: Depth = "never") -> re.Pattern[str]:
    """Compile a pattern for `fullmatch` of a path.

    `syntax`: "stars" reads `*` and `?` alone, "escapes" also a backslash. `below`: a pattern of a directory matches all
    that lies below it, too, if its last name has no wildcard ("named"), or always.
    """
    body = pattern.removeprefix("./")
    is_directory = body.endswith("/")
    prefix = "" if "/" in body.rstrip("/") else "(?:.*/)?"
    body = body.lstrip("/")
    tail = ""
    if below == "never":
        body += "**" if is_directory else ""
    elif is_directory or below == "always" or not re.search(r"[*?]", body.rpartition("/")[2]):
        body, tail = body.rstrip("/"), "(?:/.*)?"
    return re.compile(f"{prefix}{_translate(body, syntax)}{tail}", re.DOTALL)


def _translate(pattern: str, syntax: Syntax) -> str:
    levels, starts = list[list[str]]([[]]), list[int]()
    for match in _TOKENS[syntax].finditer(pattern):
        token = match[0]
        if token == "{" and syntax != "stars" and len(starts) < _MAX_NESTED:
            starts.append(match.start())
            levels.append([])
        elif token == "," and starts:
            levels[-1].append(_OR)
        elif token == "}" and starts:
            written = re.escape(pattern[starts.pop() : match.end()])
            choice = "".join(levels.pop())
            levels[-1].append(f"(?:{choice}|{written})")
        else:
            levels[-1].append(_translate_token(token))
    while len(levels) > 1:
        unclosed = levels.pop()
        levels[-1] += [r"\{", *("," if part == _OR else part for part in unclosed)]
    return "".join(levels[0])


def _translate_token(token: str) -> str:
    if token.endswith("**/"):
        return "(?:.*/)?"
    if set(token) == {"*"}:
        return "[^/]*" if len(token) == 1 else ".*"
    if token == "?":
        return "[^/]"
    if len(token) > 1 and token[0] == "[":
        return _translate_set(token)
    return re.escape(token[1:] if len(token) > 1 else token)


def _translate_set(token: str) -> str:
    negation = "^" if token[1] in "!^" else ""
    members = re.sub(r"[^\w-]", lambda match: f"\\{match[0]}", token[1 + len(negation) : -1]).replace("--", r"\-\-")
    try:
        re.compile(one := f"(?!/)[{negation}{members}]")
    except re.error:  # no set, such as [user-id] or []
        return re.escape(token)
    return f"(?:{one}|{re.escape(token)})"
