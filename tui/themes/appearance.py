"""The appearance: the chosen theme, adapted to the terminal, and an app that displays it.

The appearance knows no widget. The app asks it for themes, variables and filters, and passes it the terminal's and the
user's settings; they take effect at the next `show_appearance`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter, Monochrome, NoColor
from textual.theme import Theme

from core.protocol.choices import GlyphChoice
from tui.terminal.capabilities import ColorDepth, TerminalCapabilities, detect_capabilities
from tui.terminal.replies import TerminalBackground
from tui.themes.building import build_themes, complete_variables, read_pygments_style, resolve_theme
from tui.themes.line_filter import ASCII, SPOKEN, TerminalFilter

BACKDROP_INK: Final = 0.3  # share of the text's colour for the screen behind a dialog
LIGHT_FROM: Final = 0.5  # the brightness of a background from which on it is light

R = TypeVar("R")


class Appearance:
    """The looks of the program in a terminal. `is_dark`: the terminal is; `is_plain`: it is read out, not looked at."""

    def __init__(self, capabilities: TerminalCapabilities) -> None:
        self._capabilities = capabilities
        self.depth: ColorDepth = capabilities.depth
        self.is_dark = capabilities.is_dark is not False
        self.is_plain = False
        self._theme, self._syntax = "", dict[str, str]()
        self._glyphs: Mapping[int, str] = {} if capabilities.has_unicode else ASCII
        self._filter: TerminalFilter | None = None

    @property
    def signature(self) -> tuple[object, ...]:
        """All inputs of the display except the theme: while it is equal, no redraw is needed."""
        return self.depth, self._glyphs is SPOKEN, bool(self._glyphs), tuple(self._syntax.items())

    @property
    def is_indexed(self) -> bool:
        return self.depth == "256"

    def build_themes(self) -> list[Theme]:
        return build_themes(is_indexed=self.is_indexed)

    @property
    def chosen(self) -> str:
        """The name that was chosen last, of a theme or a family."""
        return self._theme

    def choose(self, theme: str) -> None:
        """Choose a theme by its name, or that of a family."""
        self._theme = theme

    def resolve(self, theme_names: Collection[str]) -> str:
        """Return the theme to display, "" = the chosen name is unknown."""
        return resolve_theme(self._theme, theme_names, is_dark=self.is_dark)

    def set_depth(self, depth: ColorDepth) -> None:
        self.depth = depth

    def set_glyphs(self, glyphs: GlyphChoice, *, is_plain: bool) -> None:
        """Choose the signs; a screen that is read out has none."""
        has_unicode = glyphs == "unicode" or (glyphs == "auto" and self._capabilities.has_unicode)
        self.is_plain = is_plain
        self._glyphs = SPOKEN if is_plain else {} if has_unicode else ASCII

    def set_syntax(self, style: str) -> bool:
        """Choose the colours of code by a Pygments style, "" = the theme's. False: there is no such style."""
        colors = read_pygments_style(style) if style else {}
        self._syntax = colors or {}
        return colors is not None

    def complete(self, variables: Mapping[str, str], *, is_dark: bool) -> dict[str, str]:
        """Return the theme's variables with defaults for missing ones, and build its filter."""
        full_variables = complete_variables(variables, is_dark=is_dark, is_indexed=self.is_indexed) | self._syntax
        needs_filter = self.depth != "truecolor" or bool(self._glyphs)
        self._filter = (
            TerminalFilter(self.depth, full_variables, self._glyphs, is_dark=is_dark) if needs_filter else None
        )
        return full_variables

    def list_filters(self, filters: Sequence[LineFilter]) -> list[LineFilter]:
        """Return the app's filters, with ours instead of Textual's NO_COLOR filter, which produces greys."""
        line_filters = [line_filter for line_filter in filters if not isinstance(line_filter, Monochrome | NoColor)]
        return line_filters if self._filter is None else [*line_filters, self._filter]


class ThemedApp(App[R]):
    """An app with our themes and variables. `appearance` is the user's choice, `show_appearance` displays it."""

    def __init__(self, **kwargs: Any) -> None:
        self.capabilities = detect_capabilities(os.environ, getattr(sys.__stderr__, "encoding", "") or "utf-8")
        self.appearance = Appearance(self.capabilities)
        self._shown: tuple[object, ...] = ("",)
        super().__init__(**kwargs)

    def show_appearance(self) -> bool:
        """Display the appearance. False: the chosen theme is unknown."""
        for built_theme in self.appearance.build_themes():
            self.register_theme(built_theme)
        theme = self.appearance.resolve(self.available_themes)
        before, self._shown = self._shown, (theme or self.theme, *self.appearance.signature)
        self.theme = theme or self.theme
        if self._is_mounted and before[0] == self.theme and before != self._shown:
            self.mutate_reactive(App.theme)  # a new theme defines the same names with other colours
        return bool(theme)

    def get_css_variables(self) -> dict[str, str]:
        self.theme_variables = self.appearance.complete(super().get_css_variables(), is_dark=self.current_theme.dark)
        return self.theme_variables

    def refresh_css(self, animate: bool = True) -> None:
        """Apply the theme. Before there is a screen, the style sheet parses its rules itself and keeps them: Textual
        would have another one parse them, and then parse all again for the first screen."""
        if self.screen_stack:
            super().refresh_css(animate)
            return
        self.stylesheet.set_variables(self.get_css_variables())
        self.stylesheet.parse()
        self.stylesheet.update(self, animate=animate)

    def get_line_filters(self) -> Sequence[LineFilter]:
        return self.appearance.list_filters(super().get_line_filters())

    def on_terminal_background(self, event: TerminalBackground) -> None:
        if self.appearance.is_dark != (event.brightness < LIGHT_FROM):
            self.appearance.is_dark = not self.appearance.is_dark
            self.show_appearance()


def find_backdrop(app: App[Any], ground: Color) -> Style | None:
    """Return the one style in which all behind a dialog is drawn; None = its colours are mixed with the ground.

    With few colours a mixture would be drawn as the nearest of them, which may mean something else.
    """
    depth = app.appearance.depth if isinstance(app, ThemedApp) else "truecolor"
    if depth == "truecolor":
        return None
    solid = ground.with_alpha(1)
    ink = solid.blend(solid.get_contrast_text(1), BACKDROP_INK)
    return Style.from_color(ink.rich_color, solid.rich_color) if depth == "256" else Style(dim=True)


def is_read_out(app: App[Any]) -> bool:
    """True for a screen reader, for which nothing may be animated."""
    return isinstance(app, ThemedApp) and app.appearance.is_plain
