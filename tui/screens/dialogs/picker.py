"""The picker: choose one of a list by typing a part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.keymap import get_bindings
from tui.screens.dialogs.dialog import Dialog
from tui.text import fit_line
from tui.widgets.input_line import SteadyInput


class PickerOption(NamedTuple):
    """One option of a picker. `id` is its answer; `note` stands muted beside the label."""

    id: str
    label: str
    note: str = ""


class PickerDialog(Dialog[str]):
    """Asks for one option by id; None = nothing chosen.

    With `free_text` (the placeholder), typed text is an answer as well when nothing matches. `about` stands below
    the list; `check` says what is wrong with a typed answer ("" = nothing), which then stays.
    """

    BINDINGS = get_bindings("picker")

    def __init__(
        self,
        title: str,
        choices: Sequence[PickerOption],
        *,
        current: str = "",
        free_text: str = "",
        about: str = "",
    ) -> None:
        super().__init__(title)
        self._choices, self._current, self._free, self._about = choices, current, free_text, about
        self.check: Callable[[str], str] = lambda _: ""
        self._shown: list[PickerOption] = []
        self._about_line = Static(classes="dialog-about")

    def compose_body(self) -> ComposeResult:
        yield SteadyInput(placeholder=self._free or "type to filter", compact=True, select_on_focus=False)
        options = OptionList(compact=True)
        options.can_focus = False
        self._fill_list(options, "")
        yield options
        self._show_about(self._about)
        yield self._about_line

    def _show_about(self, problem: str) -> None:
        self._about_line.display = bool(problem)
        self._about_line.update(Content(fit_line(problem, 400)))

    def _fill_list(self, options: OptionList, text: str) -> None:
        words = text.lower().split()
        texts = [(each, f"{each.label} {each.note}".lower()) for each in self._choices]
        self._shown = [each for each, shown in texts if all(word in shown for word in words)]
        if words:
            self._shown.sort(key=lambda each: words[0] not in each.label.lower())
        options.set_options(Option(self._format_option(each)) for each in self._shown)
        at = next((index for index, each in enumerate(self._shown) if each.id == self._current and not words), 0)
        options.highlighted = at if self._shown and (words or not self.asks_consent) else None

    def _format_option(self, choice: PickerOption) -> Content:
        mark = ("● " if choice.id == self._current else "  ", "$accent")
        return Content.assemble(mark, fit_line(choice.label, 80), "  ", (fit_line(choice.note, 80), "$foreground 60%"))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill_list(self.query_one(OptionList), event.value)
        self._show_about("" if event.value else self._about)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self.answer(self._shown[at].id)
        elif self._free and (typed := event.value.strip()):
            if problem := self.check(typed):
                self._show_about(problem)
            else:
                self.answer(typed)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.answer(self._shown[event.option_index].id)

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if self._shown:
            before = options.highlighted if options.highlighted is not None else -1 if step > 0 else 0
            options.highlighted = (before + step) % len(self._shown)


class ActionPickerDialog(PickerDialog):
    """A picker whose options do something at once: none is preselected, so that Enter alone does nothing."""

    asks_consent = True
