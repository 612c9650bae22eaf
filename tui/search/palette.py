"""The command palette: every command and key in a row, recently used ones first, searchable by words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from textual import events
from textual.content import Content
from textual.widgets import Input, OptionList

from tui.dialogs.picker import PickerDialog, PickerOption
from tui.key_table import ACTION_SCOPES, KEYS
from tui.keymap import SCOPE_TITLES, format_keys
from tui.slash_commands import SLASH_COMMANDS
from tui.text import fit_line

PALETTE_SCOPES: Final = ("app", *ACTION_SCOPES)
NOTHING: Final = "No command matches. /help lists what you can do."
_WORD_START: Final = r"(?:^|[\s:/(…-])"


class PaletteEntry(NamedTuple):
    """One row of the palette. `scope` is the scope in which `action` runs."""

    label: str
    shortcut: str
    note: str
    scope: str
    action: str

    @property
    def id(self) -> str:
        return f"{self.scope} {self.action} {self.shortcut}"


def list_palette_entries(keymap: Mapping[str, str]) -> list[PaletteEntry]:
    """Return every command: those with a key in the order of the keys, then those of the prompt. Dialogs have none."""
    entries: list[PaletteEntry] = []
    for key in KEYS:
        if key.scope in PALETTE_SCOPES:
            prefix = "" if key.scope == "app" else f"{SCOPE_TITLES[key.scope]}: "
            shortcut = format_keys(keymap.get(key.id, key.keys))
            entries.append(PaletteEntry(f"{prefix}{key.label}", shortcut, key.tooltip, key.scope, key.action))
    for slash in SLASH_COMMANDS:
        entries.append(PaletteEntry(slash.label, f"/{slash.word}", slash.argument, "app", f"{slash.action}('')"))
    return entries


def search_palette(entries: Sequence[PaletteEntry], text: str, recent: Sequence[str] = ()) -> list[PaletteEntry]:
    """Return the entries that `text` finds, the best first: whole words of a name before the beginnings of words, these
    before parts of words, and a name before its explanation. Letters that are merely somewhere in this order count
    only where nothing has the words. Among equals those used last come first."""
    last = {name: index for index, name in enumerate(recent)}
    ranking = [
        (rank, last.get(entry.id, len(last)), entry) for entry in entries if (rank := rank_entry(entry, text)) < _NONE
    ]
    if not ranking and len(text) > 2:
        letters = re.compile(".*".join(map(re.escape, re.sub(r"\s", "", text.lower()))))
        ranking = [(_NONE, 0, entry) for entry in entries if letters.search(entry.label.lower())]
    return [entry for _, _, entry in sorted(ranking, key=lambda ranked_entry: ranked_entry[:2])]


_NONE: Final = 9


def rank_entry(entry: PaletteEntry, text: str) -> int:
    """Return the rank of an entry, 0 = best, 9 = no match."""
    words = text.lower().split()
    name, all_of_it = entry.label.lower(), f"{entry.label} {entry.shortcut} {entry.note}".lower()
    if not words or " ".join(words) in {name, entry.shortcut, entry.shortcut.removeprefix("/")}:
        return 0
    ranks = (
        name.startswith(" ".join(words)),
        _has_each(words, name, rf"{_WORD_START}{{}}(?!\w)"),
        _has_each(words, name, rf"{_WORD_START}{{}}"),
        _has_each(words, all_of_it, rf"{_WORD_START}{{}}(?!\w)"),
        _has_each(words, all_of_it, rf"{_WORD_START}{{}}"),
        _has_each(words, name, "{}"),
        len(text) > 2 and _has_each(words, all_of_it, "{}"),
    )
    return next((rank for rank, fits in enumerate(ranks, 1) if fits), _NONE)


def _has_each(words: Sequence[str], text: str, pattern: str) -> bool:
    return all(re.search(pattern.format(re.escape(word)), text) for word in words)


class PaletteDialog(PickerDialog):
    """Asks for a command by its id. The key is on the right, a description of the current command below the list."""

    shape = "palette"

    def __init__(self, entries: Sequence[PaletteEntry], recent: Sequence[str]) -> None:
        super().__init__("Commands", [PickerOption(entry.id, entry.label, entry.shortcut) for entry in entries])
        self._entries = {entry.id: entry for entry in entries}
        self._recent = recent
        self._words: list[str] = []

    def select_choices(self, text: str) -> list[PickerOption]:
        self._words = text.split()
        entries = search_palette(list(self._entries.values()), text, self._recent)
        return [PickerOption(entry.id, entry.label, entry.shortcut) for entry in entries]

    def format_choice(self, choice: PickerOption) -> Content:
        """Format a row of the list: the name with the matching letters, and the key."""
        width = max(self.query_one(OptionList).scrollable_content_region.width, 20) if self.is_mounted else 60
        keys = fit_line(choice.note, max(width // 3, 10))
        label = fit_line(choice.label, max(width - len(keys) - 2, 8))
        line = Content.assemble(label, " " * max(width - len(label) - len(keys), 2), (keys, "$accent"))
        for word in self._words:
            start = label.lower().find(word.lower())
            line = line.stylize("bold underline", start, start + len(word)) if start >= 0 else line
        return line

    def on_resize(self, event: events.Resize) -> None:
        """Draw the lines for the width that there is now."""
        self.call_after_refresh(lambda: self.fill_list(self.query_one(Input).value))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if choice := self.find_shown(event.option):
            self.show_about(self._entries[choice.id].note, is_problem=False)

    def fill_list(self, text: str) -> None:
        super().fill_list(text)
        if not self.has_choices:
            self.show_about(NOTHING)
