"""The dialog of the settings: each with its value and where that comes from; what the user wants otherwise is written
into their own file, and what the engine says of it stands below the row.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from core.protocol.commands import Reject, SettingKeep
from core.protocol.queries import ConfigAnswer, SettingRow
from core.text.counting import count
from tui.keymap import get_bindings
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.screens.dialogs.picker import PickerDialog, PickerOption
from tui.text import fit_line
from tui.widgets.input_line import InputLine, InputPurpose, SteadyInput
from tui.workers import start_worker

KEY_HINTS: Final = (("settings.edit", "change"), ("settings.reset", "default"), ("settings.leave", "back"))
MUTED: Final = "$foreground 60%"
_NAME_WIDTH: Final = 24
_ORIGIN_WIDTH: Final = 12
_WIDEST: Final = 100  # columns of the box
_BESIDE: Final = 10  # columns of a row that are margins and gaps
_NONE: Final = "No setting has all of these words in its name or its description."
_REFUSED: Final = "✗ Nothing was saved."
_STRONGER: Final = frozenset({"project", "command line", "environment"})
Keep = Callable[[SettingKeep], Awaitable[ConfigAnswer | Reject]]


class SettingInput(InputLine):
    """Asks for the value of a setting, as it stands in the file."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {
        "text": InputPurpose("a text, without quotes", "save"),
        "number": InputPurpose("a number", "save"),
        "list": InputPurpose('a list, such as ["one", "two"]', "save"),
    }


class SettingsDialog(ListingDialog[None]):
    """Shows the settings that have all typed words. `keep` saves one and returns all as they hold then, or a refusal.
    `words`: further choices by key, which the engine does not know of."""

    BINDINGS = get_bindings("settings")
    shape = "page settings"

    def __init__(self, answer: ConfigAnswer, keep: Keep, words: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__("Settings")
        self._answer, self._keep, self._words = answer, keep, words or {}
        self._listed: list[SettingRow] = []
        self._typed: SettingRow | None = None  # the one whose value is typed; the mouse may move the mark meanwhile
        self._outcome: tuple[str, str] = ("", "")  # of the last change: its key, and what is said of it

    def compose_body(self) -> ComposeResult:
        yield SteadyInput(
            placeholder="type to search names and descriptions",
            compact=True,
            select_on_focus=False,
            id="settings-search",
        )
        yield from super().compose_body()
        yield SettingInput(select_on_focus=False)

    def set_up(self) -> None:
        self._list(self.marked or 0)
        if not self._is_editing:
            self.show_keys(KEY_HINTS)

    @property
    def _is_editing(self) -> bool:
        return bool(self.query_one(SettingInput).display)

    @property
    def _row(self) -> SettingRow | None:
        return self._listed[self.marked] if self.marked is not None and self.marked < len(self._listed) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys of the list to the input while a value is typed."""
        is_of_list = action in {"move", "reset", "edit"} and self.is_mounted
        return False if is_of_list and self._is_editing else super().check_action(action, parameters)

    def _list(self, at: int = 0) -> None:
        words = self.query_one("#settings-search", Input).value.lower().split()
        self._listed = _select(self._answer.settings, words)
        every = self._answer.settings
        own = sum(row.own is not None for row in every)
        total = f"{len(self._listed)} of {count('setting', len(every))}" if words else count("setting", len(every))
        problems = [f"{'✗' if fault.level == 'error' else '!'} {fault.message}" for fault in self._answer.problems]
        problems[1:] = [f"! {len(problems) - 1} more: agent-tui config check names them all."] if problems[1:] else []
        width = min(self.size.width, _WIDEST) - _BESIDE
        self.show_rows(
            f"{total}; your config.toml sets {own}", [_format_row(row, width) for row in self._listed], problems, at
        )

    @on(Input.Changed, "#settings-search")
    def _search(self) -> None:
        self._list()

    def show_reason(self) -> None:
        row = self._row
        if row is None:
            self.tell(_NONE)
            return
        key, outcome = self._outcome
        if key != row.key:
            self._outcome = ("", "")
            outcome = ""
        width = min(self.size.width, _WIDEST) - _BESIDE
        default = "" if row.elsewhere else f" Default: {_format_value(row.default)}."
        valid = f"Valid: {row.valid}." if row.valid else ""
        last = outcome or row.elsewhere or _say_stronger(row) or (f"From {row.source}." if row.source else "")
        lines = [
            Content(fit_line(row.meaning, 3 * width)),
            Content.styled(fit_line(f"{valid}{default}".strip(), 2 * width), MUTED),
            Content.styled(fit_line(last, 3 * width), _choose_style(row, outcome)),
        ]
        self.query_one("#listing-reason", Static).update(Content("\n").join(line for line in lines if line))

    def action_edit(self) -> None:
        if (row := self._row) is None or row.elsewhere:
            return
        words = (*row.choices, *self._words.get(row.key, ()))
        if row.kind == "flag":
            now = row.value if row.own is None else row.own
            self._change(row, "false" if now else "true")
        elif words:
            options = [PickerOption("", "–", "none is named")] if row.default == "" else []
            options += [PickerOption(word, word, "the default" if word == row.default else "") for word in words]
            picker = PickerDialog(row.key, options, current=str(row.value), about=fit_line(row.meaning, 200))
            _ = self.app.push_screen(picker, lambda word: self._change(row, word) if word is not None else None)
        else:
            self._typed, line = row, self.query_one(SettingInput)
            line.ask(row.kind, _write_value(row.default if row.own is None else row.own))
            self.show_keys(line.hints)

    def action_reset(self) -> None:
        if (row := self._row) is None or row.elsewhere:
            return
        if row.own is None:
            self._tell_outcome(row.key, _say_stronger(row) or "It is not set in your config.toml.")
        else:
            self._change(row, None)

    @on(Input.Submitted, "SettingInput")
    def _save_typed(self, event: Input.Submitted) -> None:
        if (row := self._typed) is not None:
            self._change(row, event.value if row.kind == "text" else event.value.strip())

    @on(InputLine.Cancelled)
    def _close_input(self) -> None:
        self._outcome = ("", "")
        self.query_one(SettingInput).close()
        self.show_keys(KEY_HINTS)
        self.set_focus(self.query_one("#settings-search"))
        self.show_reason()

    def _change(self, row: SettingRow, text: str | None) -> None:
        start_worker(self, self._submit, SettingKeep(key=row.key, text=text), group="settings", exclusive=True)

    async def _submit(self, command: SettingKeep) -> None:
        answer = await self._keep(command)
        if not self.is_attached:
            return
        if isinstance(answer, Reject):
            self._tell_outcome(command.key, f"{_REFUSED} {answer.message} {answer.hint}")
            return
        self._answer, at = answer, self.marked or 0
        if self._is_editing:
            self._close_input()
        row = next((row for row in answer.settings if row.key == command.key), None)
        done = "Taken out of your config.toml." if command.text is None else "Saved in your config.toml."
        self._outcome = (command.key, f"{done} {_say_stronger(row) if row is not None else ''}".strip())
        self._list(at)

    def _tell_outcome(self, key: str, text: str) -> None:
        self._outcome = (key, text)
        self.show_reason()


def _select(rows: Sequence[SettingRow], words: Sequence[str]) -> list[SettingRow]:
    """Return the rows that have all words, those with the first one in their name before the rest."""
    texts = [(row, f"{row.key} {row.meaning}".lower()) for row in rows]
    matching = [row for row, text in texts if all(word in text for word in words)]
    return sorted(matching, key=lambda row: words[0] not in row.key) if words else matching


def _format_row(row: SettingRow, width: int) -> Content:
    room = max(width - _NAME_WIDTH - _ORIGIN_WIDTH, 8)
    origin = "" if row.kind == "table" and row.origin == "default" else row.origin
    is_default = row.origin == "default"
    return Content.assemble(
        (f"{fit_line(row.key, _NAME_WIDTH):<{_NAME_WIDTH}}", "" if is_default else "bold"),
        "  ",
        (f"{fit_line(_format_value(row.value), room):<{room}}", "" if is_default else "$text-accent"),
        (f"  {origin}", "$text-warning" if row.origin in _STRONGER else MUTED),
    )


def _choose_style(row: SettingRow, outcome: str) -> str:
    if outcome.startswith(_REFUSED):
        return "$text-error"
    if row.origin in _STRONGER:
        return "$text-warning"
    return "$text-success" if outcome else MUTED


def _say_stronger(row: SettingRow) -> str:
    """Return a sentence about what wins over the user's file; "" = nothing does."""
    if row.origin not in _STRONGER:
        return ""
    return f"{row.source[:1].upper()}{row.source[1:]} says {_format_value(row.value)}, and wins over your config.toml."


def _format_value(value: Any) -> str:
    return "–" if value in ("", None, [], {}) else _write_value(value)


def _write_value(value: Any) -> str:
    """Return a value as it is typed: a text without its quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
