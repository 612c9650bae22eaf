"""The dialog of the context: every part of the next request with its tokens and why it is there; some can be left out.

Leaving a part out costs the provider's cache from there on, so the key has to be struck twice, and the line says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from textual.content import Content

from core.protocol.queries import ContextAnswer, ContextPart
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.text import fit_line
from tui.workers import start_worker

KEY_HINTS: Final = (("context.drop", "leave it out"), ("context.leave", "back"))
DropPart = Callable[[str], Awaitable[ContextAnswer | None]]


class ContextDialog(ListingDialog[None]):
    """Shows a report. `drop` leaves a part out and returns the report after that; None = it was refused."""

    BINDINGS = get_bindings("context")

    def __init__(self, report: ContextAnswer, drop: DropPart) -> None:
        super().__init__("Context")
        self._report, self._drop = report, drop
        self._asked = ""  # the id of the part that the key was struck for once

    def set_up(self) -> None:
        self.show_keys(KEY_HINTS)
        self._show(0)

    def _show(self, index: int) -> None:
        report = self._report
        window = f" of {report.window:,}" if report.window else ""
        rows = [_format_part(part) for part in report.parts]
        self.show_rows(f"{report.used:,}{window} tokens", rows, report.notes, index)

    @property
    def _part(self) -> ContextPart | None:
        index = self.marked
        return self._report.parts[index] if index is not None and index < len(self._report.parts) else None

    def show_reason(self) -> None:
        part = self._part
        if part is None:
            return
        if self._asked and part.id == self._asked:
            key = format_first_key("context.drop", get_keymap(self.app))
            text = f"{key} again leaves out {part.tokens:,} tokens; what the provider has cached is lost from there on."
            self.tell(text, "$text-warning")
            return
        self._asked = ""
        objection = f" It can't be left out: {part.problem}." if part.problem else ""
        self.tell(f"{part.reason[:1].upper()}{part.reason[1:]}.{objection}" if part.reason else objection)

    def action_drop(self) -> None:
        part = self._part
        if part is None:
            return
        if part.problem or not part.id:
            self.tell(f"It can't be left out: {part.problem or 'it is no part of the conversation'}.", "$text-warning")
        elif self._asked != part.id:
            self._asked = part.id
            self.show_reason()
        else:
            self._asked = ""
            start_worker(self, self._leave_out, part.id, group="drop")

    async def _leave_out(self, part: str) -> None:
        index = self.marked or 0
        if (report := await self._drop(part)) is not None and self.is_attached:
            self._report = report
            self._show(index)


def _format_part(part: ContextPart) -> Content:
    detail = f"  {fit_line(part.detail, 60)}" if part.detail else ""
    sign = " " if part.problem or not part.id else "·"
    name = fit_line(part.name, 60)
    return Content.assemble((f"{part.tokens:>9,} ", "$accent"), f"{sign} {name}", (detail, "$foreground 60%"))
