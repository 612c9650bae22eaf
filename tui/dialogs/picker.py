"""The picker: choose one of a list by typing a part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.dialogs.dialog import Dialog
from tui.keymap import get_bindings
from tui.text import fit_line
from tui.widgets.input_line import SteadyInput

LONGEST_LABEL: Final = 32  # columns that labels are aligned in; a longer one pushes its note


class PickerOption(NamedTuple):
    """One option of a picker. `id` is its answer; `note` is a muted text behind the label."""

    id: str
    label: str
    note: str = ""


class PickerDialog(Dialog[str]):
    """Asks for one option by id; None = nothing chosen.

    With `free_text` (the placeholder), typed text without a match is an answer as well. `explanation` is displayed
    below the list; `check` returns the error of a typed answer ("" = valid), which then isn't accepted.
    """

    BINDINGS = get_bindings("picker")

    def __init__(
        self,
        title: str,
        choices: Sequence[PickerOption],
        *,
        current: str = "",
        free_text: str = "",
        explanation: str = "",
    ) -> None:
        super().__init__(title)
        self._choices, self._current, self._free, self._about = choices, current, free_text, explanation
        self.check: Callable[[str], str] = lambda _: ""
        self.preview: Callable[[str], None] | None = None  # called with the option at the cursor
        self._shown: list[PickerOption] = []
        self._rows: list[Option] = []
        self._column = max((min(len(choice.label), LONGEST_LABEL) for choice in choices if choice.note), default=0)
        self._about_line = Static(classes="dialog-about")

    def compose_body(self) -> ComposeResult:
        yield SteadyInput(placeholder=self._free or "type to filter", compact=True, select_on_focus=False)
        options = OptionList(compact=True)
        options.can_focus = False
        yield options
        yield self._about_line

    def set_up(self) -> None:
        self.show_about(self._about, is_problem=False)
        self.fill_list("")

    @property
    def has_choices(self) -> bool:
        """True if something can be chosen now."""
        return bool(self._shown)

    def find_shown(self, row: Option) -> PickerOption | None:
        """Return the option of a row; None: the list was refilled since."""
        return next((choice for choice, other in zip(self._shown, self._rows, strict=True) if other is row), None)

    def show_about(self, text: str, *, is_problem: bool = True) -> None:
        """Show a line below the list; "" = none."""
        self._about_line.display = bool(text)
        self._about_line.set_class(not is_problem, "-note")
        self._about_line.update(Content(fit_line(text, 400)))

    def fill_list(self, text: str) -> None:
        """Fill the list with the options that match a text."""
        options, has_words = self.query_one(OptionList), bool(text.split())
        self._shown = self.select_choices(text)
        self._rows = [Option(self.format_choice(choice)) for choice in self._shown]
        options.set_options(self._rows)
        position = next(
            (index for index, choice in enumerate(self._shown) if choice.id == self._current and not has_words), 0
        )
        options.highlighted = position if self._shown and (has_words or not self.asks_consent) else None

    def select_choices(self, text: str) -> list[PickerOption]:
        """Return the choices that have all words of a text, those with the first one in their name before the rest."""
        words = text.lower().split()
        texts = [(choice, f"{choice.label} {choice.note}".lower()) for choice in self._choices]
        matches = [choice for choice, haystack in texts if all(word in haystack for word in words)]
        return sorted(matches, key=lambda choice: words[0] not in choice.label.lower()) if words else matches

    def format_choice(self, choice: PickerOption) -> Content:
        """Format one line of the list."""
        mark = ("● " if choice.id == self._current else "  ", "$accent")
        label = f"{fit_line(choice.label, 80):<{self._column}}"
        return Content.assemble(mark, label, "  ", (fit_line(choice.note, 80), "$foreground 60%"))

    def on_input_changed(self, event: Input.Changed) -> None:
        self.show_about("" if event.value else self._about, is_problem=False)
        self.fill_list(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        index = self.query_one(OptionList).highlighted
        if index is not None:
            self.answer(self._shown[index].id)
        elif self._free and (text := event.value.strip()):
            if problem := self.check(text):
                self.show_about(problem)
            else:
                self.answer(text)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if choice := self.find_shown(event.option):
            self.answer(choice.id)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if self.preview is not None and event.option_index < len(self._shown):
            self.preview(self._shown[event.option_index].id)

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if self._shown:
            before = options.highlighted if options.highlighted is not None else -1 if step > 0 else 0
            options.highlighted = (before + step) % len(self._shown)


class ActionPickerDialog(PickerDialog):
    """A picker whose options act immediately: none is preselected, so that Enter alone does nothing."""

    asks_consent = True
