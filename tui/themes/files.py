"""The user's own themes: TOML files in `themes/` of the user's configuration, each named for its theme.

    base = "agent-dark"        # what is not said here is taken from it
    primary = "#rrggbb"        # and the other roles, also those of changed lines
    syntax-keyword = "#rrggbb" # and those of code

A file with a mistake makes no theme; what is wrong in it is said, all of it at once.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from textual.color import Color, ColorParseError
from textual.theme import Theme

from tui.themes.building import DEFAULT_THEME, SYNTAX_ROLES
from tui.themes.palettes import BASE_ROLES, CHANGE_ROLES, MARKED_ROW

MAX_FILES: Final = 100
MAX_BYTES: Final = 64_000
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")
_EXTRA_ROLES: Final = (*CHANGE_ROLES, MARKED_ROW, *SYNTAX_ROLES)
_ROLES: Final = (*BASE_ROLES, "accent", *_EXTRA_ROLES)


class ThemeFiles(NamedTuple):
    """The themes that were read, and a sentence for each mistake."""

    themes: tuple[Theme, ...] = ()
    problems: tuple[str, ...] = ()


def read_theme_files(directory: Path, base_themes: Mapping[str, Theme]) -> ThemeFiles:
    """Read the files of a directory; one that is not there is empty. `base_themes` are the themes that a file can be
    based on, the user's own are not among them. Blocks: for a thread."""
    themes: list[Theme] = []
    problems: list[str] = []
    try:
        files = sorted(directory.glob("*.toml"))[:MAX_FILES]
    except OSError as fault:
        return ThemeFiles(problems=(f"{directory}: {fault.strerror}.",))
    for file in files:
        try:
            table = _load(file)
        except (OSError, ValueError) as fault:
            problems.append(f"{file}: {fault}")
            continue
        wrong = [f"{file}: {mistake}" for mistake in _find_mistakes(file.stem, table, base_themes)]
        problems += wrong
        if not wrong:
            themes.append(_build(file.stem, table, base_themes[str(table.get("base", DEFAULT_THEME))]))
    return ThemeFiles(tuple(themes), tuple(problems))


def _load(file: Path) -> dict[str, Any]:
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"a theme has at most {MAX_BYTES:,} bytes.")
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deep.") from None


def _find_mistakes(name: str, table: Mapping[str, Any], base_themes: Mapping[str, Theme]) -> list[str]:
    base = table.get("base", DEFAULT_THEME)
    mistakes = [] if _NAME.fullmatch(name) else ["a theme's name has letters, digits, - and _ only: rename the file."]
    if name in base_themes:
        mistakes.append(f"{name} is the name of a theme already: rename the file.")
    if not isinstance(base, str) or base not in base_themes:
        mistakes.append(f"base: there is no theme {base!r}.")
    for key, value in table.items():
        if key in {"base", "dark"}:
            continue
        if key not in _ROLES:
            mistakes.append(f"{key}: no such role; there are {', '.join(_ROLES)}, and base, dark.")
        elif not _is_color(value):
            mistakes.append(f"{key}: {value!r} is no colour; write #rrggbb.")
    if not isinstance(table.get("dark", True), bool):
        mistakes.append("dark: true or false.")
    return mistakes


def _is_color(value: object) -> bool:
    try:
        return isinstance(value, str) and Color.parse(value).a == 1
    except ColorParseError:
        return False


def _build(name: str, table: Mapping[str, Any], base: Theme) -> Theme:
    """Build a theme; what the table does not say is as in `base`."""
    roles = {role: table.get(role) or getattr(base, role) for role in (*BASE_ROLES, "accent")}
    extra = {role: table[role] for role in _EXTRA_ROLES if role in table}
    primary = str(roles["primary"])
    base_variables = {
        role: color for role, color in base.variables.items() if role != MARKED_ROW or "primary" not in table
    }
    own_variables = {"footer-key-foreground": primary, "input-selection-background": f"{primary} 30%"}
    dark = bool(table.get("dark", base.dark))
    return Theme(name=name, dark=dark, variables={**base_variables, **own_variables, **extra}, **roles)
