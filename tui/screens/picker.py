"""Choose one of a list by typing a part of it: models, modes, themes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.keymap import bindings
from tui.screens.dialog import Dialog
from tui.text import one_line


class Choice(NamedTuple):
    """`id` is what the picker answers; `note` stands muted beside the label."""

    id: str
    label: str
    note: str = ""


class Picker(Dialog[str | None]):
    """Answers the id of the choice, or None. With `free`, what was typed is an answer as well when nothing matches.

    `about` stands below the list; `check` says what is wrong with a typed answer ("" = nothing), which then stays.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("picker")

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        current: str = "",
        free: str = "",
        about: str = "",
        check: Callable[[str], str] = lambda _: "",
    ) -> None:
        super().__init__()
        self._title, self._choices, self._current, self._free = title, choices, current, free
        self._about, self._check = about, check
        self._shown: list[Choice] = []
        self._told = Static(classes="dialog-about")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._title), classes="dialog-title")
            typed = Input(placeholder=self._free or "type to filter", compact=True, select_on_focus=False)
            typed.cursor_blink = False
            yield typed
            options = OptionList(compact=True)
            options.can_focus = False
            self._fill(options, "")
            yield options
            self._tell(self._about)
            yield self._told

    def _tell(self, problem: str) -> None:
        self._told.display = bool(problem)
        self._told.update(Content(one_line(problem, 400)))

    def _fill(self, options: OptionList, text: str) -> None:
        words = text.lower().split()
        self._shown = [
            each for each in self._choices if all(word in f"{each.label} {each.note}".lower() for word in words)
        ]
        if words:
            self._shown.sort(key=lambda each: words[0] not in each.label.lower())
        options.set_options(Option(self._line(each)) for each in self._shown)
        at = next((index for index, each in enumerate(self._shown) if each.id == self._current and not words), 0)
        options.highlighted = at if self._shown and (words or not self.consents) else None

    def _line(self, choice: Choice) -> Content:
        mark = "● " if choice.id == self._current else "  "
        return Content.assemble(
            (mark, "$accent"), one_line(choice.label, 80), "  ", (one_line(choice.note, 80), "$foreground 60%")
        )

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(self.query_one(OptionList), event.value)
        self._tell("" if event.value else self._about)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self.give(self._shown[at].id)
        elif self._free and (typed := event.value.strip()):
            if problem := self._check(typed):
                self._tell(problem)
            else:
                self.give(typed)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.give(self._shown[event.option_index].id)

    def action_move(self, step: int) -> None:
        """Mark another choice."""
        options = self.query_one(OptionList)
        if self._shown:
            before = options.highlighted if options.highlighted is not None else -1 if step > 0 else 0
            options.highlighted = (before + step) % len(self._shown)

    def action_leave(self) -> None:
        """Choose nothing."""
        self.give(None)


class DeedPicker(Picker):
    """Its choices do something at once: none is preselected, so that Enter alone does nothing."""

    consents = True
