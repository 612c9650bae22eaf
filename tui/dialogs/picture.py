"""Pictures in half blocks: each cell shows two pixels, whose colours the engine computes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Final

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from core.protocol import queries
from core.protocol.attachment_labels import classify_attachment, describe_attachment
from core.protocol.messages import Attachment
from core.protocol.queries import PictureAnswer, PictureQuery
from tui.dialogs.dialog import Dialog
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.text import fit_line, to_content
from tui.workers import start_worker

UPPER_HALF_BLOCK: Final = "▀"
MARGINS: Final = (8, 7)  # columns and rows of a window that are not the picture's
QueryEngine = Callable[[queries.AnyQuery], Awaitable[queries.AnyAnswer]]


def render_cells(rows: Sequence[str]) -> Content:
    """Render rows of cells, in the format of `PictureAnswer`."""
    return Content("\n").join(_render_row(row) for row in rows)


def _render_row(row: str) -> Content:
    cells = [row[index : index + 12] for index in range(0, len(row) - 11, 12)]
    runs = [(cell, len(list(same))) for cell, same in groupby(cells)]
    return Content.assemble(*((UPPER_HALF_BLOCK * count, f"#{cell[:6]} on #{cell[6:]}") for cell, count in runs))


class PictureDialog(Dialog[None]):
    """A dialog that shows one of some attachments at a time."""

    BINDINGS = get_bindings("picture")
    shape = "picture"

    def __init__(self, attachments: Sequence[Attachment], ask: QueryEngine) -> None:
        super().__init__()
        self._shown, self._ask, self._index = tuple(attachments), ask, 0

    def compose_body(self) -> ComposeResult:
        yield Static(classes="picture-cells")
        yield Static(classes="picture-keys")

    def set_up(self) -> None:
        self._show()

    def on_resize(self) -> None:
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        attachment = self._shown[self._index]
        count = f"{self._index + 1} of {len(self._shown)}: " if len(self._shown) > 1 else ""
        title = f"{count}{classify_attachment(attachment)} {attachment.name or ''} {describe_attachment(attachment)}"
        self.query_one(".dialog-title", Static).update(to_content(fit_line(" ".join(title.split()), 200)))
        keymap = get_keymap(self.app)
        turn = f"{format_first_key('picture.next', keymap)} next   " if len(self._shown) > 1 else ""
        keys = f"{turn}{format_first_key('picture.leave', keymap)} back"
        self.query_one(".picture-keys", Static).update(Content(keys))
        start_worker(self, self._draw, attachment, group="picture", exclusive=True)

    async def _draw(self, attachment: Attachment) -> None:
        cells = self.query_one(".picture-cells", Static)
        if not attachment.width:
            cells.update(Content("Can't show a PDF here."))
            return
        columns, rows = self.app.size.width - MARGINS[0], self.app.size.height - MARGINS[1]
        answer = await self._ask(PictureQuery(digest=attachment.digest, columns=max(columns, 4), rows=max(rows, 2)))
        if isinstance(answer, PictureAnswer):
            cells.update(render_cells(answer.rows))
        else:
            cells.update(to_content(getattr(answer, "message", "Can't show it.")))

    def action_turn(self, step: int) -> None:
        self._index = (self._index + step) % len(self._shown)
        self._show()
