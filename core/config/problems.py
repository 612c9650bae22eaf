"""What is wrong with a file of settings, in the words of its reader: which key, on which line, what is valid there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from core.config.models import ModelSettings, ModeSettings, ModeTable, ProviderSettings, RouteSettings, RouteTable
from core.config.settings import (
    SHORT_KEYS,
    Commands,
    ContextSettings,
    DialectFiles,
    Edits,
    Interface,
    Limits,
    PermissionSettings,
    Settings,
)
from core.errors import ConfigError
from core.permissions.rules import parse_rule
from core.protocol.messages import Effort


def problems(path: Path, text: str, table: Mapping[str, Any]) -> Iterator[ConfigError]:
    """What is wrong with each key by itself, so that all of it can be mended at once."""
    for section, key in keys(table):
        part = {section: {key: table[section][key]}} if section else {key: table[key]}
        try:
            msgspec.convert(part, Settings)
        except msgspec.ValidationError as error:
            yield explained(path, text, str(error))


def together(problems: Sequence[ConfigError]) -> ConfigError:
    """One error that tells all of them, one a line."""
    return problems[0] if len(problems) == 1 else ConfigError("\n".join(each.explained() for each in problems))


def wrong_rules(path: Path, text: str, permissions: PermissionSettings) -> Iterator[ConfigError]:
    """Every text that is no rule, with its key and its line."""
    for choice, rules in permissions.by_choice():
        for rule in rules:
            try:
                parse_rule(rule, choice)
            except ConfigError as problem:
                line = _line_of_rule(text, rule) or _line_of(text, f"permissions.{choice}")
                place = f"{path}, line {line}" if line else str(path)
                yield ConfigError(f"{place}: `permissions.{choice}`: {problem.message}", hint=problem.hint)


def said_twice(path: Path, text: str, settings: Settings) -> Iterator[ConfigError]:
    """Every job whose model is named by its short key and otherwise in the table of routes."""
    for job, key in SHORT_KEYS.items():
        short, model = getattr(settings, key), getattr(settings.routes, job).model
        if short and model and short != model:
            line = _line_of(text, f"routes.{job}.model")
            place = f"{path}, line {line}" if line else str(path)
            message = f"{place}: `routes.{job}.model`: `{key}` names another model ({short})."
            yield ConfigError(message, hint="They mean the same: keep one of them.")


def _line_of_rule(text: str, rule: str) -> int:
    """The 1-indexed line that holds a string of the table of permissions; 0 when it can't be told."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([\w.]+)\s*\]", line):
            inside = header[1] == "permissions"
        if (inside or "permissions" in line) and (f'"{rule}"' in line or f"'{rule}'" in line):
            return number
    return 0


_AT = re.compile(r" - at (?:`key` in )?`\$(?:\.)?(?P<path>[^`]*)`$")
_INDEX = re.compile(r"\[(\.\.\.|\d+)\]")
_PATTERN = re.compile(r"Expected `str` matching regex .*")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")


def explained(path: Path, text: str, problem: str) -> ConfigError:
    """A validation error in the words of the file's reader: which key, on which line, what is valid."""
    at = _AT.search(problem)
    where = _INDEX.sub("", at["path"]) if at else ""
    reason = _PATTERN.sub("it does not have the form that is wanted here", _AT.sub("", problem))
    hint = ""
    if unknown := _UNKNOWN.search(reason):
        valid = _valid_keys(where)
        where = ".".join(filter(None, (where, unknown["key"])))
        reason = "unknown key"
        hint = f"Valid here: {', '.join(valid)}." if valid else ""
    else:
        hint = _valid_values(where)
    line = _line_of(text, where)
    place = f"{path}, line {line}" if line else str(path)
    return ConfigError(f"{place}: `{where}`: {reason[:1].lower()}{reason[1:]}.", hint=hint)


_SECTIONS: Mapping[str, type[Struct]] = {
    "": Settings,
    "limits": Limits,
    "commands": Commands,
    "edits": Edits,
    "ui": Interface,
    "context": ContextSettings,
    "providers": ProviderSettings,
    "models": ModelSettings,
    "routes": RouteTable,
    "routes.": RouteSettings,
    "modes": ModeTable,
    "modes.": ModeSettings,
    "dialects": DialectFiles,
    "permissions": PermissionSettings,
}


def _valid_keys(section: str) -> tuple[str, ...]:
    table, dot, _ = section.partition(".")
    record = _SECTIONS.get(table + dot) or _SECTIONS.get(table)
    return record.__struct_fields__ if record else ()


_VALUES = {
    "mode": "agent, plan, ask, debug",
    "commands.policy": "confirm, auto (or yolo), human",
    "edits.policy": "review, auto",
    "context.compact_at": "a number from 0.1 to 0.98",
    "models.dialect": "native, tags, command",
    **dict.fromkeys(("routes.model", "modes.model"), "PROVIDER/NAME, such as openai/gpt-6.1-terra"),
    **dict.fromkeys(("routes.effort", "modes.effort"), ", ".join(get_args(Effort))),
    "routes.fallback": 'a list of models, such as ["anthropic/claude-sonnet-5-5", "ollama/qwen3:8b"]',
    "models.edits": "search_replace, str_replace, multi_edit, patch, lazy, blocks",
    "ui.theme": "the name of a theme, such as nord (/theme lists them)",
    "ui.keymap": '"scope.action" = "keys", such as "review.accept" = "a" or "prompt.newline" = "ctrl+j,shift+enter"',
    **dict.fromkeys(
        ("permissions.allow", "permissions.ask", "permissions.deny"),
        'a list of rules, such as ["Shell(npm run *)", "Read(**/.env)", "Write(src/**)", "WebFetch(example.org)"]',
    ),
    "models.price": "{ input = 3.0, output = 15.0, cached = 0.3 } in US dollars for a million tokens",
    "privacy": "true or false",
    "limits.max_steps": "a whole number, 0 = no limit",
    "limits.max_tokens": "a whole number, 0 = no limit",
    "limits.max_cost": "a number of US dollars, 0 = no limit",
}


def _valid_values(key: str) -> str:
    if key not in _VALUES and key.count(".") > 1:  # routes.chat.effort: the same in each of them
        key = f"{key.partition('.')[0]}.{key.split('.')[2]}"
    return f"Valid: {_VALUES[key]}." if key in _VALUES else ""


def _line_of(text: str, dotted: str) -> int:
    """The 1-indexed line that sets a key; 0 when it can't be told."""
    *tables, key = dotted.split(".")
    section: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            section = [part.strip().strip("\"'") for part in header[1].split(".")]
            if ".".join(section) == dotted:
                return number
        elif assignment := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            full = [*section, *(part.strip("\"'") for part in assignment[1].split("."))]
            if full in ([*tables, key], [*tables]):
                return number
    return 0


def keys(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(section, key) of everything that a file sets; a key outside of any table has the section ""."""
    found = []
    for name, value in table.items():
        if isinstance(value, dict) and name in _SECTIONS:
            found += [(name, key) for key in value]
        else:
            found.append(("", name))
    return found
