"""The looks of the screen: palettes, the themes made of them, and how both fit the terminal at hand."""

from __future__ import annotations

from tui.themes.building import DEFAULT_THEME, SYNTAX

__all__ = ("DEFAULT_THEME", "SYNTAX")
