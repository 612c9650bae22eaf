"""The base of the dialogs that explain a list: a sum above it, and below it the reason of the marked row and notes."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.dialogs.dialog import Dialog, T
from tui.text import fit_line
from tui.widgets.key_hints import Hint, KeyHints

_LONGEST_NOTE = 200
_MAX_REASON = 300


class ListingDialog(Dialog[T]):
    """Lists rows with a cursor, and the details of the current one (`show_reason`)."""

    shape = "page"
    _width = 0  # columns that the rows were laid out for
    _hints: tuple[Hint, ...] = ()  # the last of them closes the list

    def compose_body(self) -> ComposeResult:
        yield Static(id="listing-sum")
        rows = OptionList(compact=True, id="listing-rows")
        rows.can_focus = False  # the keys are those of the dialog
        yield rows
        yield Static(id="listing-reason")
        yield Static(id="listing-notes")
        yield KeyHints(id="listing-keys")

    def show_keys(self, hints: Sequence[Hint]) -> None:
        """Show the keys. A list without rows shows the last one alone: the others have nothing to act on."""
        self._hints = tuple(hints)
        self.query_one(KeyHints).show(hints)

    def show_rows(self, total: str, rows: Sequence[Content], notes: Sequence[str], index: int = 0) -> None:
        """Show rows with the mark on one of them, or on the last. `total`: the line above them, "" = none."""
        options = self.query_one(OptionList)
        sum_widget = self.query_one("#listing-sum", Static)
        sum_widget.update(Content.styled(fit_line(total, 200), "bold"))
        sum_widget.display = bool(total)
        self.query_one(KeyHints).show(self._hints if rows else self._hints[-1:])
        options.set_options(Option(row) for row in rows)
        options.highlighted = min(index, len(rows) - 1) if rows else None
        notes_widget = self.query_one("#listing-notes", Static)
        notes_widget.update(Content("\n".join(fit_line(note, _LONGEST_NOTE) for note in notes)))
        notes_widget.display = bool(notes)
        self.show_reason()

    def on_resize(self, event: events.Resize) -> None:
        """Lay out the rows for the new width; the cursor keeps its index."""
        before, self._width = self._width, event.size.width
        if before not in {0, event.size.width} and self.query(OptionList):
            index = self.marked
            self.set_up()
            self.query_one(OptionList).highlighted = index

    @property
    def marked(self) -> int | None:
        """The index of the current row; None = there are no rows."""
        return self.query_one(OptionList).highlighted

    def on_option_list_option_highlighted(self) -> None:
        self.show_reason()

    def show_reason(self) -> None:
        """Show the details of the current row."""

    def show_note(self, text: str, style: str = "$foreground 60%") -> None:
        self.query_one("#listing-reason", Static).update(Content.styled(fit_line(text, _MAX_REASON), style))

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if options.option_count:
            options.highlighted = ((options.highlighted or 0) + step) % options.option_count
