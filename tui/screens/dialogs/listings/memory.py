"""The dialog of the memory: notes about the project, those that the agent proposes judged like hunks.

A kept note is forgotten by a key struck twice; one that only waits is dropped at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input

from core.protocol.commands import MemoryJudge
from core.protocol.queries import MemoryNote
from core.text.counting import count
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.text import expose_line, render_prose
from tui.widgets.input_line import InputLine, InputPurpose
from tui.workers import start_worker

KEY_HINTS: Final = (
    ("memory.accept", "keep"),
    ("memory.reject", "drop"),
    ("memory.edit", "edit"),
    ("memory.leave", "back"),
)
_NONE: Final = "No notes yet. /memory TEXT keeps one; what the agent proposes waits here for your yes."
_LONGEST_ROW: Final = 400
Judge = Callable[[Sequence[MemoryJudge]], Awaitable[Sequence[MemoryNote] | None]]


class NoteInput(InputLine):
    """Asks for the words of a note."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {"note": InputPurpose("What is to be remembered", "keep")}


class MemoryDialog(ListingDialog[None]):
    """Shows notes, those that wait first. `judge` carries verdicts out and returns the notes then, None = failed."""

    BINDINGS = get_bindings("memory")

    def __init__(self, notes: Sequence[MemoryNote], judge: Judge) -> None:
        super().__init__("Memory of the project")
        self._notes = _sort(notes)
        self._judge = judge
        self._asked = ""  # the id of the kept note that the key was struck for once

    def compose_body(self) -> ComposeResult:
        yield from super().compose_body()
        yield NoteInput(select_on_focus=False)

    def set_up(self) -> None:
        self.show_keys(KEY_HINTS)
        self._show(0)

    def _show(self, index: int) -> None:
        waiting = sum(not note.is_kept for note in self._notes)
        summary = f"{count('note', len(self._notes) - waiting)} kept"
        total = f"{waiting} waiting · {summary}" if waiting else summary
        self.show_rows(total, [_format(note) for note in self._notes], (), index)

    @property
    def _note(self) -> MemoryNote | None:
        return self._notes[self.marked] if self.marked is not None and self.marked < len(self._notes) else None

    def show_reason(self) -> None:
        note = self._note
        if note is None:
            self.tell(_NONE)
            return
        if note.id == self._asked:
            self.tell(f"{format_first_key('memory.reject', get_keymap(self.app))} again forgets it.", "$text-warning")
            return
        self._asked = ""
        day = time.strftime("%Y-%m-%d", time.localtime(note.at / 1000))
        reason = f": {note.why}" if note.why else ""
        self.tell(f"{'Kept' if note.is_kept else 'Proposed'} {day}{reason}")

    def action_accept(self) -> None:
        if (note := self._note) is not None and not note.is_kept:
            self._carry_out(MemoryJudge(id=note.id, verdict="accept"))

    def action_accept_all(self) -> None:
        self._carry_out(*(MemoryJudge(id=note.id, verdict="accept") for note in self._notes if not note.is_kept))

    def action_reject(self) -> None:
        if (note := self._note) is None:
            return
        if note.is_kept and self._asked != note.id:
            self._asked = note.id
            self.show_reason()
        else:
            self._carry_out(MemoryJudge(id=note.id, verdict="reject"))

    def action_edit(self) -> None:
        if (note := self._note) is not None:
            line = self.query_one(NoteInput)
            line.ask("note", render_prose(note.text))
            self.show_keys(line.hints)

    @on(Input.Submitted)
    def _apply_edit(self, event: Input.Submitted) -> None:
        self._close_input()
        text = event.value.strip()
        if (note := self._note) is not None and text and (text != note.text or not note.is_kept):
            self._carry_out(MemoryJudge(id=note.id, verdict="accept", text=text))

    @on(InputLine.Cancelled)
    def _close_input(self) -> None:
        self.query_one(NoteInput).close()
        self.show_keys(KEY_HINTS)
        self.set_focus(None)

    def _carry_out(self, *verdicts: MemoryJudge) -> None:
        if verdicts:
            start_worker(self, self._submit, verdicts, group="memory")

    async def _submit(self, verdicts: Sequence[MemoryJudge]) -> None:
        index = self.marked or 0
        if (notes := await self._judge(verdicts)) is not None and self.is_attached:
            self._notes, self._asked = _sort(notes), ""
            self._show(index)


def _sort(notes: Sequence[MemoryNote]) -> list[MemoryNote]:
    return sorted(notes, key=lambda note: (note.is_kept, note.at))


def _format(note: MemoryNote) -> Content:
    mark = ("✓ ", "$text-success") if note.is_kept else ("? ", "$text-warning")
    return Content.assemble(mark, expose_line(note.text, _LONGEST_ROW))
