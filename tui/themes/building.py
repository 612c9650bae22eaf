"""The built-in themes, and the user's TOML files in `themes/` of the configuration directory, named for their themes.

    base = "agent-dark"        # the theme that provides the missing roles
    primary = "#rrggbb"        # and the other roles, also those of changed lines
    syntax-keyword = "#rrggbb" # and the other syntax roles

A file with mistakes makes no theme; all of its mistakes are reported together.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from textual.color import Color, ColorParseError
from textual.theme import Theme

from core.patterns import compile_lazily
from tui.themes.palettes import BASE_ROLES, CHANGE_ROLES, CHANGES, MARKED_ROW, PALETTES, format_indexed

DEFAULT_THEME: Final = "agent-dark"
DEFAULT_FAMILY: Final = "agent"
FAMILIES: Final = tuple(dict.fromkeys(name.rpartition("-")[0] for name in PALETTES))
# The colours of highlighted code, by variable, and the theme role that each defaults to.
_SYNTAX_COLORS: Final[Mapping[str, str]] = {
    "syntax-comment": "foreground",
    "syntax-keyword": "text-accent",
    "syntax-string": "text-success",
    "syntax-number": "text-warning",
    "syntax-name": "text-primary",
    "syntax-type": "text-secondary",
    "syntax-constant": "text-warning",
}
SYNTAX_ROLES: Final = tuple(_SYNTAX_COLORS)
_PYGMENTS_TOKENS: Final[Mapping[str, str]] = {
    "syntax-comment": "Comment",
    "syntax-keyword": "Keyword",
    "syntax-string": "Literal.String",
    "syntax-number": "Literal.Number",
    "syntax-name": "Name.Function",
    "syntax-type": "Keyword.Type",
    "syntax-constant": "Keyword.Constant",
}
_COMMENT_ALPHA: Final = 0.5
_MARKED_ALPHA: Final = 0.35
# The style of highlighted code, by role.
SYNTAX: Final[Mapping[str, str]] = {
    "syntax_comment": "$syntax-comment italic",
    "syntax_keyword": "$syntax-keyword",
    "syntax_string": "$syntax-string",
    "syntax_number": "$syntax-number",
    "syntax_name": "$syntax-name",
    "syntax_type": "$syntax-type bold",
    "syntax_constant": "$syntax-constant",
    "syntax_heading": "bold",
}
MAX_FILES: Final = 100
MAX_BYTES: Final = 64_000
_NAME: Final = compile_lazily(r"[A-Za-z0-9_-]{1,60}")
_EXTRA_ROLES: Final = (*CHANGE_ROLES, MARKED_ROW, *SYNTAX_ROLES)
_ROLES: Final = (*BASE_ROLES, "accent", *_EXTRA_ROLES)


def build_themes(*, is_indexed: bool = False) -> list[Theme]:
    """Build the built-in themes, restricted to the 256 colours if `is_indexed`."""
    return [_build_theme(name, is_indexed=is_indexed) for name in PALETTES]


def _build_theme(name: str, *, is_indexed: bool) -> Theme:
    palette = PALETTES[name]
    roles: dict[str, Any] = palette.get_roles(is_indexed=is_indexed)
    primary = roles["primary"]
    variables: dict[str, str] = {role: roles.pop(role) for role in (*CHANGE_ROLES, MARKED_ROW) if role in roles}
    variables |= {"footer-key-foreground": primary, "input-selection-background": f"{primary} {palette.selection}"}
    return Theme(name=name, accent=primary, dark=name.endswith("dark"), variables=variables, **roles)


def resolve_theme(name: str, theme_names: Collection[str], *, is_dark: bool) -> str:
    """Resolve a user's theme name, "" = unknown. The name "" is the default theme."""
    name = name or DEFAULT_FAMILY
    full = f"{name}-{'dark' if is_dark else 'light'}"
    return name if name in theme_names else full if full in theme_names else ""


def complete_variables(variables: Mapping[str, str], *, is_dark: bool, is_indexed: bool) -> dict[str, str]:
    """Return the variables of a theme with those of changed lines, of the marked row and of code, which Textual's do
    not have."""
    colors = _make_indexed_changes(is_dark=is_dark) if is_indexed else _blend_changes(variables)
    colors |= {name: variables[role] for name, role in _SYNTAX_COLORS.items()}
    comment = Color.parse(variables["foreground"])
    colors["syntax-comment"] = variables["foreground"] if comment.ansi else comment.with_alpha(_COMMENT_ALPHA).css
    primary = Color.parse(variables["primary"])
    colors[MARKED_ROW] = variables["primary"] if primary.ansi else primary.with_alpha(_MARKED_ALPHA).css
    return {**colors, **variables}


def _make_indexed_changes(*, is_dark: bool) -> dict[str, str]:
    return {role: format_indexed(number) for role, number in zip(CHANGE_ROLES, CHANGES[is_dark], strict=True)}


def _blend_changes(variables: Mapping[str, str]) -> dict[str, str]:
    colors: dict[str, str] = {}
    background = Color.parse(variables["background"])
    for kind, role, share in (("added", "success", 0.38), ("removed", "error", 0.42)):
        if background.ansi is not None:  # a theme of the terminal's own colours, which can't be mixed
            colors |= {f"{kind}-line": variables["background"], f"{kind}-word": variables[role]}
            continue
        line = background.blend(Color.parse(variables[f"{role}-muted"]), 0.55, alpha=1)
        colors[f"{kind}-line"] = line.css
        colors[f"{kind}-word"] = line.blend(Color.parse(variables[role]), share, alpha=1).css
    return colors


def read_pygments_style(name: str) -> dict[str, str] | None:
    """Return the colours of code of a Pygments style by variable; None: there is no such style."""
    from pygments.styles import get_style_by_name  # type: ignore[import-untyped]
    from pygments.token import string_to_tokentype  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        style = get_style_by_name(name)
    except ClassNotFound:
        return None
    looks = {role: style.style_for_token(string_to_tokentype(token)) for role, token in _PYGMENTS_TOKENS.items()}
    return {role: f"#{look['color']}" for role, look in looks.items() if look["color"]}


class ThemeFiles(NamedTuple):
    """The loaded themes, and a sentence for every mistake."""

    themes: tuple[Theme, ...] = ()
    problems: tuple[str, ...] = ()


def read_theme_files(directory: Path, base_themes: Mapping[str, Theme]) -> ThemeFiles:
    """Read the files of a directory; a missing directory is empty. `base_themes` are the themes that a file can be
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
        raise ValueError(f"themes are limited to {MAX_BYTES:,} bytes.")
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply.") from None


def _find_mistakes(name: str, table: Mapping[str, Any], base_themes: Mapping[str, Theme]) -> list[str]:
    base = table.get("base", DEFAULT_THEME)
    mistakes = [] if _NAME.fullmatch(name) else ["theme names use only letters, digits, - and _: rename the file."]
    if name in base_themes:
        mistakes.append(f"{name} is already a theme: rename the file.")
    if not isinstance(base, str) or base not in base_themes:
        mistakes.append(f"base: no theme {base!r}.")
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
    """Build a theme; roles that the table lacks are those of `base`."""
    roles = {role: table.get(role) or getattr(base, role) for role in (*BASE_ROLES, "accent")}
    extra = {role: table[role] for role in _EXTRA_ROLES if role in table}
    primary = str(roles["primary"])
    base_variables = {
        role: color for role, color in base.variables.items() if role != MARKED_ROW or "primary" not in table
    }
    own_variables = {"footer-key-foreground": primary, "input-selection-background": f"{primary} 30%"}
    dark = bool(table.get("dark", base.dark))
    return Theme(name=name, dark=dark, variables={**base_variables, **own_variables, **extra}, **roles)
