"""Our two themes, and the styles of syntax roles in theme variables.

All of Textual's themes can be chosen as well. The mode's accent is set by the stylesheet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from textual.theme import Theme

DEFAULT_THEME: Final = "agent-dark"

_ROLES: Final = "primary secondary warning error success foreground background surface panel"


def _build_theme(name: str, colors: str, selection: str) -> Theme:
    """Build a theme of the colours of `_ROLES`; `selection` is how opaque a selection is."""
    named: dict[str, Any] = dict(zip(_ROLES.split(), colors.split(), strict=True))
    primary = named["primary"]
    variables = {"footer-key-foreground": primary, "input-selection-background": f"{primary} {selection}"}
    return Theme(name=name, accent=primary, dark=name.endswith("dark"), variables=variables, **named)


THEMES: Final = (
    _build_theme(
        DEFAULT_THEME, "#7aa2f7 #9d8cf0 #e0af68 #f7768e #8fc878 #d5d9e5 #14161c #1a1d25 #222632", selection="30%"
    ),
    _build_theme(
        "agent-light", "#2f5fc4 #6b4fc9 #96610a #c0334d #3f7a2a #23262f #fbfbfa #f1f1ef #e6e6e3", selection="25%"
    ),
)

# How highlighted code looks, by role.
SYNTAX: Final[Mapping[str, str]] = {
    "syntax_comment": "$foreground 50% italic",
    "syntax_keyword": "$text-accent",
    "syntax_string": "$text-success",
    "syntax_number": "$text-warning",
    "syntax_name": "$text-primary",
    "syntax_type": "$text-secondary bold",
    "syntax_constant": "$text-warning",
    "syntax_heading": "bold",
}
