"""The dialog of a patch in git's format: of pending changes, or of accepted, uncommitted ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.widgets import Static

from tui.dialogs.dialog import Dialog
from tui.keymap import get_bindings
from tui.text import expose_text, fit_line, restore_blanks, shorten_lines
from tui.widgets.key_hints import Hint, KeyHints
from tui.widgets.row_view import RowView
from tui.widgets.text_rows import measure_text

MAX_LINE: Final = 2_000  # maximum displayed characters of a line
HINTS: Final[tuple[Hint, ...]] = (
    ("patch.next_file", "next file"),
    ("patch.previous_file", "previous file"),
    ("patch.copy", "copy all"),
    ("patch.leave", "back"),
)
_FILE: Final = "diff --git "


class PatchView(RowView):
    """Shows the lines of a patch."""

    BINDINGS = get_bindings("code")

    def __init__(self, patch: str) -> None:
        super().__init__()
        self._lines = [expose_text(shorten_lines(line, MAX_LINE)) for line in patch.removesuffix("\n").split("\n")]
        self._styles = list(_style_lines(self._lines))
        self.virtual_size = Size(max(map(measure_text, self._lines)) + 1, len(self._lines))

    def get_row_text(self, row: int) -> str:
        return self._lines[row] if row < len(self._lines) else ""

    def copy_span(self, text: str, start: int, end: int) -> str:
        return restore_blanks(text, start, end)

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        base = self.resolve_style(self._styles[row])
        text = self.render_text(self._lines[row], base, row=row)
        return text.crop(shift, shift + width).adjust_cell_length(width, base.rich_style)

    def move_file(self, step: int) -> None:
        """Scroll to the next file, or to the one before."""
        current_row = self.scroll_offset.y
        starts = [index for index, line in enumerate(self._lines) if line.startswith(_FILE)]
        targets = [start for start in starts if (start > current_row if step > 0 else start < current_row)]
        if targets:
            self.scroll_to(y=targets[0] if step > 0 else targets[-1], animate=False, force=True)


def _style_lines(lines: list[str]) -> list[str]:
    """Return the style of each line; the head of a file extends to its first hunk."""
    styles, is_head = list[str](), False
    for line in lines:
        is_head = (is_head and not line.startswith("@@")) or line.startswith(_FILE)
        if is_head:
            styles.append("bold" if line.startswith(_FILE) else "$foreground 60%")
        elif line.startswith("@@"):
            styles.append("$text-primary")
        else:
            styles.append({"+": "on $added-line", "-": "on $removed-line"}.get(line[:1], ""))
    return styles


class PatchDialog(Dialog[None]):
    """Shows a patch; `copy` copies the whole patch. `note`: omitted changes and why."""

    DEFAULT_CSS = """
    PatchDialog > .dialog { height: 92%; }
    PatchDialog .patch--note { height: 1; }
    """

    BINDINGS = get_bindings("patch")
    shape = "wide hits"

    def __init__(self, title: str, patch: str, note: str, copy: Callable[[str], None]) -> None:
        super().__init__(title)
        self._patch, self._note, self._copy = patch, note, copy

    def compose_body(self) -> ComposeResult:
        yield PatchView(self._patch)
        if self._note:
            yield Static(Content.styled(fit_line(self._note, 300), "$text-warning"), classes="patch--note")
        yield KeyHints(HINTS)

    def set_up(self) -> None:
        self.query_one(PatchView).focus()

    def action_move_file(self, step: int) -> None:
        self.query_one(PatchView).move_file(step)

    def action_copy(self) -> None:
        self._copy(self._patch)
