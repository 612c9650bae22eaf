"""Our two themes, and the styles of syntax roles in theme variables.

All of Textual's themes can be chosen as well. The mode's accent is set by the stylesheet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from textual.theme import Theme

DEFAULT_THEME: Final = "agent-dark"

THEMES: Final = (
    Theme(
        name="agent-dark",
        primary="#7aa2f7",
        secondary="#9d8cf0",
        accent="#7aa2f7",
        warning="#e0af68",
        error="#f7768e",
        success="#8fc878",
        foreground="#d5d9e5",
        background="#14161c",
        surface="#1a1d25",
        panel="#222632",
        dark=True,
        variables={"footer-key-foreground": "#7aa2f7", "input-selection-background": "#7aa2f7 30%"},
    ),
    Theme(
        name="agent-light",
        primary="#2f5fc4",
        secondary="#6b4fc9",
        accent="#2f5fc4",
        warning="#96610a",
        error="#c0334d",
        success="#3f7a2a",
        foreground="#23262f",
        background="#fbfbfa",
        surface="#f1f1ef",
        panel="#e6e6e3",
        dark=False,
        variables={"footer-key-foreground": "#2f5fc4", "input-selection-background": "#2f5fc4 25%"},
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
