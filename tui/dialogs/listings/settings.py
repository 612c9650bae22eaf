"""The dialog of the settings: values and their origins. Edits are written to the user's file, and the engine's reply
is displayed below the row."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, OptionList, Static

from core.patterns import compile_lazily
from core.protocol.commands import Reject, SettingKeep
from core.protocol.queries import ConfigAnswer, SettingRow
from core.text.counting import count
from tui.dialogs.listings.listing import ListingDialog
from tui.dialogs.picker import PickerDialog, PickerOption
from tui.keymap import get_bindings
from tui.text import fit_line
from tui.widgets.input_line import InputLine, InputPurpose, SteadyInput
from tui.workers import start_worker

KEY_HINTS: Final = (("settings.edit", "change"), ("settings.reset", "default"), ("settings.leave", "back"))
MUTED: Final = "$foreground 60%"
_NAME_WIDTH: Final = 24
_ORIGIN_WIDTH: Final = 12
_WIDEST: Final = 100  # columns of the box
_MAX_REFUSAL_LINES: Final = 6  # lines
_ROW_MARGIN: Final = 11  # columns of a row that are margins and gaps
_NONE: Final = "No setting matches."
_REFUSED: Final = "✗ Not saved."
_EMPHASIS: Final = compile_lazily(r"\*([^*]+)\*")
_STRONGER: Final = frozenset({"project", "command line", "environment"})
Keep = Callable[[SettingKeep], Awaitable[ConfigAnswer | Reject]]


class SettingInput(InputLine):
    """The input for the value of a setting, in the file's syntax."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {
        "text": InputPurpose("text, without quotes", "save"),
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
        self._answer, self._save_setting, self._words = answer, keep, words or {}
        self._listed: list[SettingRow] = []
        self._typed: SettingRow | None = None  # the one whose value is typed; the mouse may move the mark meanwhile
        self._outcome: tuple[str, str] = ("", "")  # key and result of the last edit

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
        """Leave the keys of the list to the input while a value is typed, and those that delete where there is text."""
        is_of_list = action in {"move", "page", "reset", "edit"} and self.is_mounted
        if not is_of_list:
            return super().check_action(action, parameters)
        is_within = action == "reset" and not self.query_one("#settings-search", Input).cursor_at_end
        return not self._is_editing and not is_within

    def _list(self, index: int = 0) -> None:
        words = self.query_one("#settings-search", Input).value.lower().split()
        self._listed = _select(self._answer.settings, words)
        every = self._answer.settings
        own_count = sum(row.own is not None for row in every)
        total = f"{len(self._listed)} of {count('setting', len(every))}" if words else count("setting", len(every))
        width = min(self.size.width, _WIDEST) - _ROW_MARGIN
        signs = ("✗" if fault.level == "error" else "!" for fault in self._answer.problems)
        faults = zip(signs, self._answer.problems, strict=True)
        problems = [fit_line(f"{sign} {fault.message}", width) for sign, fault in faults]
        problems[1:] = [f"! {len(problems) - 1} more: agent-tui config check names them all."] if problems[1:] else []
        self.show_rows(
            f"{total}; your config.toml sets {own_count}",
            [_format_row(row, width) for row in self._listed],
            problems,
            index,
        )

    @on(Input.Changed, "#settings-search")
    def _search(self) -> None:
        self._list()

    def show_reason(self) -> None:
        row = self._row
        if row is None:
            self.show_note(_NONE)
            return
        key, outcome = self._outcome
        if key != row.key:
            self._outcome = ("", "")
            outcome = ""
        width = min(self.size.width, _WIDEST) - _ROW_MARGIN
        source = f"From {row.source}." if row.source else ""
        last = outcome or row.elsewhere or _explain_stronger(row) or source
        lines = (
            [Content.styled(fit_line(last, _MAX_REFUSAL_LINES * width), _choose_style(row, outcome))] if last else []
        )
        if not outcome.startswith(_REFUSED):  # otherwise the input names the valid values; space is scarce
            lines = [*_describe(row, width), *lines]
        self.query_one("#listing-reason", Static).update(Content("\n").join(lines))

    def action_page(self, step: int) -> None:
        options = self.query_one(OptionList)
        if (index := options.highlighted) is not None:
            page = max(options.scrollable_content_region.height - 1, 1)
            options.highlighted = min(max(index + step * page, 0), options.option_count - 1)

    def action_edit(self) -> None:
        if (row := self._row) is None or row.elsewhere:
            return
        words = (*row.choices, *self._words.get(row.key, ()))
        if row.kind == "flag":
            now = row.default if row.own is None else row.own
            self._change(row, "false" if now else "true")
        elif words:
            options = [PickerOption("", "–", "the default")] if row.default == "" else []
            options += [PickerOption(word, word, "the default" if word == row.default else "") for word in words]
            picker = PickerDialog(
                row.key, options, current=str(row.value), explanation=fit_line(_render_meaning(row), 200)
            )
            _ = self.app.push_screen(picker, lambda word: self._change(row, word) if word is not None else None)
        else:
            self._typed, line = row, self.query_one(SettingInput)
            line.ask(row.kind, _format_input(row.default if row.own is None else row.own))
            self.show_keys(line.hints)

    def action_reset(self) -> None:
        if (row := self._row) is None or row.elsewhere:
            return
        if row.own is None:
            self._show_outcome(row.key, f"Your config.toml doesn't set it. {_explain_stronger(row)}".strip())
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
        answer = await self._save_setting(command)
        if not self.is_attached:
            return
        if isinstance(answer, Reject):
            self._show_outcome(command.key, f"{_REFUSED} {_capitalize(answer.message)} {answer.hint}")
            return
        before = next((row.own for row in self._answer.settings if row.key == command.key), None)
        self._answer, index = answer, self.marked or 0
        if self._is_editing:
            self._close_input()
        row = next((row for row in answer.settings if row.key == command.key), None)
        if command.text is None:
            notice = f"Removed from your config.toml, where it was {_format_value(before)}."
        else:
            notice = f"Saved in your config.toml: {_format_value(row.own if row is not None else command.text)}."
        after = (_explain_stronger(row) or _show_initial_note(row)) if row is not None else ""
        self._outcome = (command.key, f"{notice} {after}".strip())
        self._list(index)

    def _show_outcome(self, key: str, text: str) -> None:
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


def _describe(row: SettingRow, width: int) -> Iterator[Content]:
    """Iterate over the meaning and the valid values of a setting."""
    if row.meaning:
        yield Content(fit_line(_render_meaning(row), 3 * width))
    default = "" if row.elsewhere else f"Default: {_format_value(row.default)}."
    valid = f"Valid: {row.valid}." if row.valid else ""
    if facts := " ".join(filter(None, (valid, default))):
        yield Content.styled(fit_line(facts, 2 * width), MUTED)


def _render_meaning(row: SettingRow) -> str:
    """Return the meaning as a sentence, without the marks that it has in the manual."""
    parts = row.meaning.split("`")
    parts[::2] = [_EMPHASIS.sub(r"\1", part) for part in parts[::2]]  # a star within code is a star
    sentence = "".join(parts) if not parts[0] else _capitalize("".join(parts))  # code identifiers are unchanged
    return sentence if not sentence or sentence.endswith((".", "?")) else f"{sentence}."


def _explain_stronger(row: SettingRow) -> str:
    """Explain which sources override the user's file, and when it applies; "" = none do."""
    value = _format_value(row.value)
    match row.origin:
        case "command line" if row.kind == "list":
            return f"{row.source} adds to your config.toml."
        case "command line":
            return f"{row.source} sets {value}. Your config.toml has no effect unless you start without it."
        case "environment":
            return f"{row.source} in the environment sets {value}. Your config.toml has no effect until it is unset."
        case "project" if row.kind == "list":
            return f"This project adds to your config.toml: {row.source}."
        case "project":
            yours = "would win" if row.kind == "text" else "holds here only if it is stricter"
            return f"This project sets {value} ({row.source}); a value of your own {yours}."
    return ""


def _show_initial_note(row: SettingRow) -> str:
    return f"It takes effect {row.begins}." if row.begins else ""


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _format_value(value: Any) -> str:
    return "–" if value in ("", None, [], {}) else _format_input(value)


def _format_input(value: Any) -> str:
    """Format a value for typing: a string without quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
