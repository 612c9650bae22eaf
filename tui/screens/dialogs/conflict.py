"""The conflict editor, place by place: keep mine, take theirs, both, or write the text.

It writes nothing: the result waits for a verdict, made from the file as it is on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static, TextArea

from core.protocol.review import ConflictChoice, ConflictSides
from tui.keymap import get_bindings
from tui.review.conflict_view import NAMES, ConflictView, Side
from tui.screens.dialogs.dialog import Dialog
from tui.text import fit_line, format_path
from tui.widgets.key_hints import Hint, KeyHints

CHOICE_TEXTS: Final = {
    "mine": "yours is kept",
    "theirs": "the agent's is taken",
    "both": "both",
    "text": "as you wrote it",
}
TODO_CHOICE_TEXTS: Final = {**CHOICE_TEXTS, "mine": "what is pending is kept", "theirs": "the other one is taken"}
KEY_HINTS: Final = (("mine", "mine"), ("theirs", "theirs"), ("both", "both"), ("edit", "edit"), ("next", "next"))
EDITOR_HINTS: Final = (("editor.save", "take this text"), ("editor.cancel", "leave the place as it was"))


class PlaceEditor(TextArea):
    """The editor for the text of one place; its keys are the dialog's."""

    BINDINGS = get_bindings("editor", priority=True)

    def action_save(self) -> None:
        self.call_later(self._save)  # what was typed before it may still be on its way to the text

    def _save(self) -> None:
        cast("ConflictDialog", self.screen).close_editor(self.text)

    def action_cancel(self) -> None:
        cast("ConflictDialog", self.screen).close_editor(None)


class ConflictDialog(Dialog[tuple[ConflictChoice, ...]]):
    """Asks for one choice for each conflicting place; None = leave the conflict."""

    BINDINGS = get_bindings("conflict")
    shape = "wide"

    def __init__(self, sides: ConflictSides) -> None:
        super().__init__()
        self._sides = sides
        self._choices: list[ConflictChoice | None] = [None] * len(sides.clashes)
        self._at = 0

    def compose_body(self) -> ComposeResult:
        yield ConflictView(self._name_sides())
        # Always there: Textual may draw what is being removed once more, without its styles.
        editor = PlaceEditor(soft_wrap=False, tab_behavior="indent")
        editor.cursor_blink = editor.display = False
        yield editor
        yield KeyHints(id="conflict-keys")

    def _name_sides(self) -> Mapping[Side, str]:
        """Name the sides: yours and the agent's, or those of the two todos or subagents that conflict."""
        sides = self._sides
        if not sides.theirs_is:
            return NAMES
        return {
            "mine": f"pending, for {fit_line(sides.mine_is, 60)}" if sides.mine_is else "pending",
            "base": "before both",
            "theirs": f"for {fit_line(sides.theirs_is, 60)}",
        }

    def set_up(self) -> None:
        self._refresh()
        self.query_one(ConflictView).focus()

    def _refresh(self) -> None:
        clash, choice = self._sides.clashes[self._at], self._choices[self._at]
        count, undecided_count = len(self._choices), self._choices.count(None)
        title = [("Conflict  ", "bold $text-warning"), (format_path(self._sides.path, 60), "bold")]
        location = "the whole file" if self._sides.whole else f"line {clash.start}"
        title.append((f"  {self._at + 1} of {count}, {location}", "$foreground 60%"))
        texts = TODO_CHOICE_TEXTS if self._sides.theirs_is else CHOICE_TEXTS
        title.append((f"  {texts[choice.take]}", "$text-success") if choice else ("  not decided", "$text-warning"))
        self.query_one(".dialog-title", Static).update(Content.assemble(*title))
        self.query_one(ConflictView).show(clash, choice)
        writes = self.query_one(PlaceEditor).display
        self.query_one("#conflict-keys", KeyHints).show(EDITOR_HINTS if writes else self._list_hints(undecided_count))

    def _list_hints(self, undecided_count: int) -> list[Hint]:
        useless = {"both", "edit", "next"} if self._sides.whole else {"next"} if len(self._choices) == 1 else set()
        takes = [(f"conflict.{name}", word) for name, word in KEY_HINTS if name not in useless]
        return [
            *takes,
            ("conflict.apply", f"apply ({undecided_count} left)" if undecided_count else "apply"),
            ("conflict.leave", "back"),
        ]

    def action_take(self, side: str) -> None:
        if self._sides.whole and side == "both":
            self.notify("This file can only be taken whole: m or t.", markup=False)
            return
        self._decide(ConflictChoice(take="mine" if side == "mine" else "theirs" if side == "theirs" else "both"))

    def _decide(self, choice: ConflictChoice) -> None:
        self._choices[self._at] = choice
        count = len(self._choices)
        following = [index % count for index in range(self._at + 1, self._at + count)]
        self._at = next((index for index in following if self._choices[index] is None), self._at)
        self._refresh()

    def action_move(self, step: int) -> None:
        self._at = (self._at + step) % len(self._choices)
        self._refresh()

    def action_edit(self) -> None:
        """Write the text for this place, beginning with both sides."""
        editor = self.query_one(PlaceEditor)
        if self._sides.whole or editor.display:
            return
        clash, choice = self._sides.clashes[self._at], self._choices[self._at]
        text = choice.text if choice and choice.take == "text" else "\n".join((*clash.mine, *clash.theirs))
        editor.load_text(text)
        self.query_one(ConflictView).display = False
        editor.display = True
        editor.focus()
        self._refresh()

    def close_editor(self, text: str | None) -> None:
        """Close the editor of a place; None: without a result."""
        self.query_one(PlaceEditor).display = False
        view = self.query_one(ConflictView)
        view.display = True
        view.focus()
        self._refresh()
        if text is not None:
            self._decide(ConflictChoice(take="text", text=text))

    def action_apply(self) -> None:
        """Close with the choices, once every place is decided."""
        choices = tuple(choice for choice in self._choices if choice is not None)
        if len(choices) == len(self._choices):
            self.answer(choices)
        else:
            self._at = self._choices.index(None)
            self._refresh()
