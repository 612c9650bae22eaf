"""A conflict, place by place: keep mine, take theirs, both, or write what is to stand there.

Nothing is written by it: the result waits for a verdict, made from the file as it is on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static, TextArea

from core.protocol.review import Choice, ThreeSides
from tui.keymap import bindings, key_of
from tui.screens.dialog import Dialog
from tui.text import named, one_line
from tui.widgets.clash_view import NAMES, ClashView, Side
from tui.widgets.side import hint

CHOSEN: Final = {"mine": "yours is kept", "theirs": "the agent's is taken", "both": "both", "text": "as you wrote it"}
OF_TODOS: Final = {**CHOSEN, "mine": "what is pending is kept", "theirs": "the other one is taken"}
HINTS: Final = (("mine", "mine"), ("theirs", "theirs"), ("both", "both"), ("edit", "edit"), ("next", "next"))
WRITING: Final = (("editor.save", "take this text"), ("editor.cancel", "leave the place as it was"))


class PlaceEditor(TextArea):
    """What the user writes for one place; its keys are the dialog's."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("editor", priority=True)

    def action_save(self) -> None:
        """Take the text."""
        cast("ConflictScreen", self.screen).written(self.text)

    def action_cancel(self) -> None:
        """Leave the place as it was."""
        cast("ConflictScreen", self.screen).written(None)


class ConflictScreen(Dialog[tuple[Choice, ...] | None]):
    """Answers one choice for each clash, or None."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("conflict")

    def __init__(self, sides: ThreeSides) -> None:
        super().__init__()
        self._sides = sides
        self._choices: list[Choice | None] = [None] * len(sides.clashes)
        self._at = 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(id="conflict-title", classes="dialog-title")
            yield ClashView(self._names())
            # Always there: Textual may draw what is being removed once more, without its styles.
            editor = PlaceEditor(soft_wrap=False, tab_behavior="indent")
            editor.cursor_blink = editor.display = False
            yield editor
            yield Static(id="conflict-keys")

    def _names(self) -> Mapping[Side, str]:
        """Whose the sides are: yours and the agent's, or those of the two todos that clash."""
        sides = self._sides
        if not sides.theirs_is:
            return NAMES
        return {
            "mine": f"pending, for {one_line(sides.mine_is, 60)}",
            "base": "before both",
            "theirs": f"for {one_line(sides.theirs_is, 60)}",
        }

    def opened(self) -> None:
        self._show()
        self.query_one(ClashView).focus()

    def _show(self) -> None:
        clash, choice = self._sides.clashes[self._at], self._choices[self._at]
        count, left = len(self._choices), self._choices.count(None)
        keymap = getattr(self.app, "keymap", {})
        title = [("Conflict  ", "bold $text-warning"), (named(self._sides.path, 60), "bold")]
        where = "the whole file" if self._sides.whole else f"line {clash.start}"
        title.append((f"   place {self._at + 1} of {count}, {where}", "$foreground 60%"))
        told = (OF_TODOS if self._sides.theirs_is else CHOSEN)[choice.take] if choice else ""
        decided = (f"   {told}", "$text-success") if told else ("   not decided", "$text-warning")
        title.append(decided)
        self.query_one("#conflict-title", Static).update(Content.assemble(*title))
        self.query_one(ClashView).show(clash, choice)
        writes = self.query_one(PlaceEditor).display
        self.query_one("#conflict-keys", Static).update(hint(WRITING, keymap) if writes else self._hint(left))

    def _hint(self, left: int) -> Content:
        keymap = getattr(self.app, "keymap", {})
        useless = {"both", "edit", "next"} if self._sides.whole else {"next"} if len(self._choices) == 1 else set()
        named = [each for each in HINTS if each[0] not in useless]
        parts: list[tuple[str, str]] = []
        for name, word in named:
            parts += [(f" {key_of(f'conflict.{name}', keymap)}", "$accent"), (f" {word} ", "")]
        apply = f" {key_of('conflict.apply', keymap)}"
        ready = (" apply ", "bold") if not left else (f" apply ({left} left) ", "")
        out = ((f" {key_of('conflict.leave', keymap)}", "$accent"), (" back", ""))
        return Content.assemble(*parts, (apply, "$accent" if not left else "$foreground 50%"), ready, *out)

    def action_take(self, side: str) -> None:
        """Decide about this place, and go to the next one that is open."""
        if self._sides.whole and side == "both":
            self.notify("This file can only be taken whole: m or t.", markup=False)
            return
        self._decide(Choice(take="mine" if side == "mine" else "theirs" if side == "theirs" else "both"))

    def _decide(self, choice: Choice) -> None:
        self._choices[self._at] = choice
        count = len(self._choices)
        following = [each % count for each in range(self._at + 1, self._at + count)]
        self._at = next((each for each in following if self._choices[each] is None), self._at)
        self._show()

    def action_move(self, step: int) -> None:
        """Another place."""
        self._at = (self._at + step) % len(self._choices)
        self._show()

    def action_edit(self) -> None:
        """Write what is to stand here, beginning with both sides."""
        editor = self.query_one(PlaceEditor)
        if self._sides.whole or editor.display:
            return
        clash, choice = self._sides.clashes[self._at], self._choices[self._at]
        text = choice.text if choice and choice.take == "text" else "\n".join((*clash.mine, *clash.theirs))
        editor.load_text(text)
        self.query_one(ClashView).display = False
        editor.display = True
        editor.focus()
        self._show()

    def written(self, text: str | None) -> None:
        """The editor of a place closes; None: without a result."""
        self.query_one(PlaceEditor).display = False
        view = self.query_one(ClashView)
        view.display = True
        view.focus()
        self._show()
        if text is not None:
            self._decide(Choice(take="text", text=text))

    def action_apply(self) -> None:
        """Close with the choices, once every place is decided."""
        chosen = tuple(each for each in self._choices if each is not None)
        if len(chosen) == len(self._choices):
            self.give(chosen)
        else:
            self._at = self._choices.index(None)
            self._show()

    def action_leave(self) -> None:
        """Leave the conflict as it is."""
        self.give(None)
