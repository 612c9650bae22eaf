"""Problems of a settings file, all at once, each with its key, its line and the valid values.

The TOML parser does not report the lines of keys, so these are searched in the text: a heading, a key before `=`, and
within a list the entry itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.config.schema import (
    UNKNOWN,
    KeyPath,
    Misfit,
    describe_valid_values,
    drop_values,
    find_misfits,
    list_valid_keys,
)
from core.config.settings import CHOICES, SHORT_KEYS, PermissionSettings, Settings
from core.errors import ConfigError
from core.patterns import compile_lazily
from core.permissions.rules import parse_rule
from core.records import convert

_HEADER = compile_lazily(r"\s*\[+\s*([^\[\]]+?)\s*\]+")
_ASSIGNMENT = compile_lazily(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = compile_lazily(r"""[\w-]+|"[^"]*"|'[^']*'""")


def find_problems(path: Path, text: str, table: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Iterate over all problems of a file: values of the wrong type, invalid rules and conflicting models."""
    misfits = list(find_misfits(table))
    yield from (_explain_misfit(path, text, misfit) for misfit in misfits)
    settings = convert(drop_values(table, {misfit.path for misfit in misfits}), Settings)
    yield from _find_invalid_rules(path, text, settings.permissions)
    yield from _find_conflicting_models(path, text, settings)


def merge_errors(problems: Sequence[ConfigError]) -> ConfigError:
    """Merge errors into one, one per line."""
    return (
        problems[0]
        if len(problems) == 1
        else ConfigError("\n".join(problem.format_with_hint() for problem in problems))
    )


def explain_key(path: Path, text: str, key: KeyPath, reason: str, *, hint: str = "", line: int = 0) -> ConfigError:
    """Return the error of one key with its location. `line` 0: the line is searched."""
    line = line or find_line(text, key)
    location = f"{path}, line {line}" if line else str(path)
    return ConfigError(f"{location}: `{'.'.join(key)}`: {reason.rstrip('.')}.", hint=hint)


def _explain_misfit(path: Path, text: str, misfit: Misfit) -> ConfigError:
    if misfit.reason != UNKNOWN:
        valid = describe_valid_values(misfit.path)
        return explain_key(path, text, misfit.path, misfit.reason, hint=f"Valid: {valid}." if valid else "")
    keys = list_valid_keys(misfit.path[:-1])
    close_matches = difflib.get_close_matches(misfit.path[-1], keys, n=1, cutoff=0.7)
    suggestion = f"Did you mean `{close_matches[0]}`? " if close_matches else ""
    return explain_key(path, text, misfit.path, misfit.reason, hint=f"{suggestion}Valid here: {', '.join(keys)}.")


def _find_invalid_rules(path: Path, text: str, permissions: PermissionSettings) -> Iterator[ConfigError]:
    for choice in CHOICES:
        for rule in getattr(permissions, choice):
            try:
                parse_rule(rule, choice)
            except ConfigError as problem:
                key = ("permissions", choice)
                line = find_entry_line(text, key, rule)
                yield explain_key(path, text, key, problem.message, hint=problem.hint, line=line)


def _find_conflicting_models(path: Path, text: str, settings: Settings) -> Iterator[ConfigError]:
    """Iterate over the errors of jobs whose short key and route name different models."""
    for job, key in SHORT_KEYS.items():
        short, model = getattr(settings, key), getattr(settings.routes, job).model
        if short and model and short != model:
            reason = f"`{key}` names another model ({short})"
            hint = "They mean the same: keep one."
            yield explain_key(path, text, ("routes", job, "model"), reason, hint=hint)


def find_line(text: str, path: Sequence[str]) -> int:
    """Return the 1-indexed line that sets a key, or of the nearest enclosing table; 0 without a match."""
    for length in range(len(path), 0, -1):
        for number, keys in _list_lines(text):
            if keys == list(path[:length]):
                return number
    begins = (number for number, keys in _list_lines(text) if keys[: len(path)] == list(path))
    return next(begins, 0)


def find_entry_line(text: str, path: Sequence[str], entry: str) -> int:
    """Return the line of an entry in the list at a key, or of the key without a match."""
    first = find_line(text, path)
    for number, line in enumerate(text.splitlines()[max(first - 1, 0) :], max(first, 1)):
        if f'"{entry}"' in line or f"'{entry}'" in line:
            return number
    return first


def _list_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the lines with keys, each with the full path."""
    section: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = _split_keys(header[1])
            yield number, section
        elif assignment := _ASSIGNMENT.match(line):
            yield number, [*section, *_split_keys(assignment[1])]


def _split_keys(dotted_key: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted_key)]
