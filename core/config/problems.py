"""Problems of a settings file, for its reader: the key, the line, and what is valid there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from core.config import model_settings as models
from core.config.settings import (
    CHOICES,
    SHORT_KEYS,
    BrowserSettings,
    CommandSettings,
    ContextSettings,
    DialectFiles,
    EditSettings,
    InterfaceSettings,
    PermissionSettings,
    SearchSettings,
    ServerSettings,
    Settings,
    TurnLimits,
    WebSettings,
)
from core.errors import ConfigError
from core.permissions.rules import parse_rule
from core.protocol.messages import Effort
from core.protocol.queries.sessions import NotificationSettings
from core.protocol.tools import ToolSettings
from core.records import convert


def find_problems(path: Path, text: str, table: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Iterate over the errors of each key by itself, so that all of them can be corrected at once."""
    for section, key in list_keys(table):
        part = {section: {key: table[section][key]}} if section else {key: table[key]}
        try:
            convert(part, Settings)
        except msgspec.ValidationError as error:
            # The type's own message leaves out which of the tools it is.
            yield explain_error(path, text, str(error).replace("$.tools[...]", f"$.tools.{key}"))


def merge_errors(problems: Sequence[ConfigError]) -> ConfigError:
    """Merge errors into one, one a line."""
    return problems[0] if len(problems) == 1 else ConfigError("\n".join(each.format_with_hint() for each in problems))


def find_invalid_rules(path: Path, text: str, permissions: PermissionSettings) -> Iterator[ConfigError]:
    """Iterate over errors of texts that are no rule, with key and line."""
    for choice in CHOICES:
        for rule in getattr(permissions, choice):
            try:
                parse_rule(rule, choice)
            except ConfigError as problem:
                line = _find_rule_line(text, rule) or _find_line(text, f"permissions.{choice}")
                place = f"{path}, line {line}" if line else str(path)
                yield ConfigError(f"{place}: `permissions.{choice}`: {problem.message}", hint=problem.hint)


def find_conflicting_models(path: Path, text: str, settings: Settings) -> Iterator[ConfigError]:
    """Iterate over errors of jobs whose short key and route name different models."""
    for job, key in SHORT_KEYS.items():
        short, model = getattr(settings, key), getattr(settings.routes, job).model
        if short and model and short != model:
            line = _find_line(text, f"routes.{job}.model")
            place = f"{path}, line {line}" if line else str(path)
            message = f"{place}: `routes.{job}.model`: `{key}` names another model ({short})."
            yield ConfigError(message, hint="They mean the same: keep one of them.")


def _find_rule_line(text: str, rule: str) -> int:
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


def explain_error(path: Path, text: str, problem: str) -> ConfigError:
    """Explain a validation error for the file's reader: the key, the line, what is valid."""
    at = _AT.search(problem)
    where = _INDEX.sub("", at["path"]) if at else ""
    reason = _PATTERN.sub("it does not have the form that is wanted here", _AT.sub("", problem))
    hint = ""
    if unknown := _UNKNOWN.search(reason):
        valid = _list_valid_keys(where)
        where = ".".join(filter(None, (where, unknown["key"])))
        reason = "unknown key"
        hint = f"Valid here: {', '.join(valid)}." if valid else ""
    else:
        hint = _describe_valid_values(where)
    line = _find_line(text, where)
    place = f"{path}, line {line}" if line else str(path)
    return ConfigError(f"{place}: `{where}`: {reason[:1].lower()}{reason[1:]}.", hint=hint)


_SECTIONS: Mapping[str, type[Struct]] = {
    "": Settings,
    "limits": TurnLimits,
    "commands": CommandSettings,
    "edits": EditSettings,
    "ui": InterfaceSettings,
    "notify": NotificationSettings,
    "context": ContextSettings,
    "providers": models.ProviderSettings,
    "models": models.ModelSettings,
    "routes": models.RouteTable,
    "routes.": models.RouteSettings,
    "modes": models.ModeTable,
    "modes.": models.ModeSettings,
    "dialects": DialectFiles,
    "permissions": PermissionSettings,
    "web": WebSettings,
    "web.": SearchSettings,
    "browser": BrowserSettings,
    "lsp": ServerSettings,
    "tools": ToolSettings,
}


def _list_valid_keys(section: str) -> tuple[str, ...]:
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
    "ui.syntax": "a style of Pygments, such as monokai",
    "ui.colors": "auto, truecolor, 256, 16, none",
    "ui.glyphs": "auto, unicode, ascii",
    "notify.when": "unfocused, always, never",
    "notify.terminal": "auto, bell, osc9, osc777, osc99, off",
    "notify.command": 'a list of words, such as ["notify-send", "-a", "agent-tui"]',
    "ui.keymap": '"scope.action" = "keys", such as "review.accept" = "a" or "prompt.newline" = "ctrl+j,shift+enter"',
    **dict.fromkeys(
        ("permissions.allow", "permissions.ask", "permissions.deny"),
        'a list of rules, such as ["Shell(npm run *)", "Read(**/.env)", "Write(src/**)", "WebFetch(example.org)"]',
    ),
    "models.price": "{ input = 3.0, output = 15.0, cached = 0.3 } in US dollars for a million tokens",
    **dict.fromkeys(
        (
            *("privacy", "lsp.enabled", "web.enabled", "web.robots", "tools.enabled", "tools.require_approval"),
            *("ui.plain", "notify.title", "notify.progress"),
        ),
        "true or false",
    ),
    "tools.scope": "workspace, changed",
    "tools.allowed_paths": 'a list of directories and files, such as ["src/", "tests/"]',
    "web.search.provider": "searxng, brave, tavily, exa, model",
    "lsp.command": 'a list of words, such as ["pylsp"] or ["deno", "lsp"]',
    "browser.command": 'a list of words, such as ["node", "/opt/playwright-mcp/cli.js"]',
    "lsp.languages": 'a list, such as ["python"] or ["javascript", "typescript"]',
    "lsp.roots": 'a list of file names, such as ["deno.json"]',
    "limits.max_steps": "a whole number, 0 = no limit",
    "limits.max_tokens": "a whole number, 0 = no limit",
    "limits.max_cost": "a number of US dollars, 0 = no limit",
}


def _describe_valid_values(key: str) -> str:
    if key not in _VALUES and key.count(".") > 1:  # routes.chat.effort: the same in each of them
        key = f"{key.partition('.')[0]}.{key.split('.')[2]}"
    return f"Valid: {_VALUES[key]}." if key in _VALUES else ""


def _find_line(text: str, dotted: str) -> int:
    """Return the 1-indexed line that sets a key; 0 when it is not found."""
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


def list_keys(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (section, key) of everything that a file sets; a key outside of any table has the section ""."""
    found = []
    for name, value in table.items():
        if isinstance(value, dict) and name in _SECTIONS:
            found += [(name, key) for key in value]
        else:
            found.append(("", name))
    return found
