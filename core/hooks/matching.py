"""Matching: the hooks that an event concerns, by their matchers as each dialect means them, and by their conditions.

A matcher may know a tool by any name that it has somewhere. A guard that runs once too often costs a moment; one that
is not run guards nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from core.hooks.matchers import explain_pattern, matches_glob, matches_pattern
from core.hooks.parsing import Hook

_CONDITION = re.compile(r"(?P<tool>[A-Za-z_]\w*)(?:\((?P<pattern>.*)\))?", re.DOTALL)


def select_hooks(hooks: Iterable[Hook], subjects: Sequence[str], texts: Sequence[str] = ()) -> list[Hook]:
    """Return the hooks that an event concerns, each command once. `subjects`: what a matcher speaks of (names of a
    tool, a command, a type); `texts`: what a condition's pattern may match (the command, the path)."""
    hooks_by_command: dict[tuple[str, str], Hook] = {}
    for hook in hooks:
        if is_concerned(hook, subjects, texts) and _meets_condition(hook, subjects, texts):
            hooks_by_command.setdefault((hook.command, hook.home), hook)
    return list(hooks_by_command.values())


def is_concerned(hook: Hook, subjects: Sequence[str], texts: Sequence[str] = ()) -> bool:
    """True if a hook's matcher matches one of the subjects, or the hook has none. A glob may mean the texts as well;
    where a hook fails closed, what is no pattern matches all."""
    is_pattern = not explain_pattern(hook.matcher)
    if not hook.matcher or not subjects or (hook.fails_closed and not is_pattern):
        return True
    if hook.is_glob or not is_pattern:
        return matches_glob(hook.matcher, (*subjects, *texts))
    return matches_pattern(hook.matcher, subjects, is_exact=hook.dialect == "claude")


def _meets_condition(hook: Hook, subjects: Sequence[str], texts: Sequence[str]) -> bool:
    """True if a call is what the hook's `if` speaks of; what can't be understood is met."""
    match = _CONDITION.fullmatch(hook.condition.strip())
    if not hook.condition or match is None:
        return True
    if match["tool"] not in subjects:
        return False
    pattern = re.sub(r"^(?:\./|/+)", "", (match["pattern"] or "*").replace(":*", "*"))
    parts = [part.strip() for text in texts for part in (text, *re.split(r"&&|\|\||[;|\n]", text))]
    parts += [] if "/" in pattern else [text.rpartition("/")[2] for text in texts]  # a name alone is meant anywhere
    return any(fnmatchcase(part, pattern) or (pattern.endswith(" *") and part == pattern[:-2]) for part in parts)
