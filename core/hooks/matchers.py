"""Matchers as they are written: names, patterns, and what people write in their place (a glob, a permission rule).

A hook that is never run guards nothing. So what is no pattern is taken for what it was meant as, and a matcher that can
match no tool is told of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from core.config.rules.globs import matches
from core.hooks.events import HookEvent
from core.hooks.tool_names import KNOWN_NAMES

MAX_SUBJECT: Final = 20_000  # characters of a command that a pattern is tried on
TOOL_EVENTS: Final = frozenset(
    {HookEvent.PRE_TOOL, HookEvent.POST_TOOL, HookEvent.POST_FAILURE, HookEvent.PERMISSION_REQUEST}
)
_EXACT: Final = re.compile(r"[A-Za-z0-9_ ,|-]+")
_RULE: Final = re.compile(r"(?P<tool>[A-Za-z]\w*)\(.*\)", re.DOTALL)
_OWN_NAME: Final = re.compile(r"mcp|[a-z]_[a-z]", re.IGNORECASE)  # of tools that are not known by name here
_GLOB_SIGNS: Final = re.compile(r"[*?/.{\[]")
_AS_GLOB: Final = "it is taken as a glob over what a call names"


class Matcher(Struct, frozen=True):
    """A matcher as it is used. `condition`: the permission rule that it was; `problem`: what is to be told of it."""

    text: str = ""
    condition: str = ""
    is_glob: bool = False
    problem: str = ""


def read_matcher(pattern: object, event: HookEvent, *, is_exact: bool) -> Matcher:
    """Read a matcher. `is_exact`: plain names are whole names, as in Claude's files."""
    if isinstance(pattern, list) and all(isinstance(name, str) for name in pattern):
        pattern = "|".join(pattern)
    if pattern is None or pattern in ("", "*"):
        return Matcher()
    if not isinstance(pattern, str):
        return Matcher(problem=f"the matcher {str(pattern)[:100]} is no text: the hook is asked about everything.")
    if fault := explain_pattern(pattern):
        return Matcher(pattern, is_glob=True, problem=f"the matcher {pattern!r} is no pattern: {fault}; {_AS_GLOB}.")
    if event not in TOOL_EVENTS or _can_match_tool(pattern, is_exact=is_exact):
        return Matcher(pattern)
    rule = _RULE.fullmatch(pattern)
    if rule is not None and rule["tool"] in KNOWN_NAMES:
        return Matcher(rule["tool"], condition=pattern)
    is_glob = _GLOB_SIGNS.search(pattern) is not None
    outcome = f"{_AS_GLOB}." if is_glob else "the hook may never run."
    return Matcher(pattern, is_glob=is_glob, problem=f"the matcher {pattern!r} is the name of no tool here: {outcome}")


def _can_match_tool(text: str, *, is_exact: bool) -> bool:
    if _OWN_NAME.search(text):
        return True
    return matches_pattern(text, tuple(KNOWN_NAMES), is_exact=is_exact)


def matches_pattern(text: str, subjects: Sequence[str], *, is_exact: bool) -> bool:
    """True if one of the subjects is what a pattern, or a list of names, means."""
    if is_exact and (names := list_exact_names(text)):
        return any(subject in names for subject in subjects)
    pattern = re.compile(to_python_pattern(text))
    return any(pattern.search(subject[:MAX_SUBJECT]) for subject in subjects)


def matches_glob(text: str, subjects: Sequence[str]) -> bool:
    """True if one of the subjects (names, commands, paths) is what a glob means, taken as widely as it may be."""
    return any(
        fnmatchcase(subject[:MAX_SUBJECT], glob) or matches(glob, subject[:MAX_SUBJECT])
        for glob in text.split("|")
        for subject in subjects
    )


def explain_pattern(text: str) -> str:
    """Return why a text is no pattern, "" = it is one."""
    try:
        re.compile(to_python_pattern(text))
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return ""


def to_python_pattern(pattern: str) -> str:
    """Return a JavaScript pattern as Python spells it: groups with names are all that differs in what people write."""
    return re.sub(r"\(\?<(?![=!])", "(?P<", pattern)


def list_exact_names(matcher: str) -> tuple[str, ...]:
    """Return the names that a matcher without signs of a pattern lists; () = it is a pattern."""
    if not _EXACT.fullmatch(matcher):
        return ()
    return tuple(name for part in re.split(r"[|,]", matcher) if (name := part.strip()))
