"""The command palette: all keys and slash commands, searched by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from tui.key_scopes import SCOPE_TITLES
from tui.key_table import KEYS
from tui.keymap import format_keys, get_keymap
from tui.screens.controllers.panes import ACTION_SCOPES
from tui.screens.main import MainScreen
from tui.slash_commands import SLASH_COMMANDS

PALETTE_SCOPES: Final = ("app", *ACTION_SCOPES)


class PaletteEntry(NamedTuple):
    """One line of the palette. `scope` names the place where `action` is done."""

    label: str
    shortcut: str
    note: str
    scope: str
    action: str


def list_palette_entries(keymap: Mapping[str, str]) -> list[PaletteEntry]:
    """Return every command: those with a key in the order of the keys, then those of the prompt. Dialogs have none."""
    found: list[PaletteEntry] = []
    for key in KEYS:
        if key.scope in PALETTE_SCOPES:
            place = "" if key.scope == "app" else f"{SCOPE_TITLES[key.scope]}: "
            how = format_keys(keymap.get(key.id, key.keys))
            found.append(PaletteEntry(f"{place}{key.label}", how, key.tooltip, key.scope, key.action))
    for slash in SLASH_COMMANDS:
        found.append(PaletteEntry(slash.label, f"/{slash.word}", slash.argument, "app", f"{slash.action}('')"))
    return found


class CommandProvider(Provider):
    """All commands and keys, searched by name."""

    def _list_entries(self) -> list[PaletteEntry]:
        return list_palette_entries(get_keymap(self.app))

    def _build_runner(self, entry: PaletteEntry) -> Callable[[], Awaitable[None]]:
        panes = cast("MainScreen", self.screen).controllers.panes
        return partial(panes.run_scoped_action, entry.scope, entry.action)

    async def discover(self) -> Hits:
        for entry in self._list_entries():
            line = _format_entry(entry.label, entry)
            yield DiscoveryHit(line, self._build_runner(entry), text=entry.label, help=entry.note)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for entry in self._list_entries():
            text = f"{entry.label} {entry.shortcut} {entry.note}"
            if (score := matcher.match(text)) > 0:
                line = _format_entry(matcher.highlight(entry.label), entry)
                yield Hit(score, line, self._build_runner(entry), text=entry.label, help=entry.note)


def _format_entry(label: str | Content, entry: PaletteEntry) -> Content:
    return Content.assemble(label, "  ", (entry.shortcut, "$accent"))
