"""The dialog of a conflict: both versions of every region, and the user's choice among them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Final, Literal, NamedTuple, cast

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.widgets import Static, TextArea

from core.protocol.review import ConflictChoice, ConflictRegion, ConflictSides
from tui.dialogs.dialog import Dialog
from tui.keymap import get_bindings
from tui.text import expose_text, fit_line, format_path, shorten_lines
from tui.widgets.key_hints import Hint, KeyHints
from tui.widgets.row_view import RowView
from tui.widgets.text_rows import measure_text

Side = Literal["mine", "base", "theirs"]
SIDE_BY_SIDE_WIDTH: Final = 90
NAMES: Final[dict[Side, str]] = {"mine": "yours, on disk", "base": "base, before both", "theirs": "the agent's"}
COLOURS: Final[dict[Side, str]] = {"mine": "$text-primary", "base": "$foreground 60%", "theirs": "$text-success"}
BACKGROUNDS: Final[dict[Side, str]] = {"mine": "on $primary 9%", "base": "", "theirs": "on $success 8%"}
TAKEN_BACKGROUNDS: Final[dict[Side, str]] = {"mine": "on $primary 24%", "base": "", "theirs": "on $success 22%"}
UNDECIDED: Final = "undecided: stays in conflict"
CHOICE_TEXTS: Final = {
    "mine": "keeping yours",
    "theirs": "taking the agent's",
    "both": "both",
    "text": "your own text",
}
TODO_CHOICE_TEXTS: Final = {**CHOICE_TEXTS, "mine": "keeping what is pending", "theirs": "taking the other one"}
KEY_HINTS: Final = (("mine", "mine"), ("theirs", "theirs"), ("both", "both"), ("edit", "edit"), ("next", "next"))
EDITOR_HINTS: Final = (("editor.save", "use this text"), ("editor.cancel", "cancel"))


class ConflictCell(NamedTuple):
    """One line of a side; `side` None: of both sides."""

    text: str
    side: Side | None = None
    is_heading: bool = False
    is_result: bool = False


class ConflictView(RowView):
    """Shows the three sides of a conflict, and the choice for it."""

    def __init__(self, names: Mapping[Side, str] = NAMES) -> None:
        super().__init__()
        self._names = names
        self._clash: ConflictRegion | None = None
        self._choice: ConflictChoice | None = None
        self._rows: list[tuple[ConflictCell, ...]] = []

    def show(self, clash: ConflictRegion, choice: ConflictChoice | None) -> None:
        self._clash, self._choice = clash, choice
        self._lay_out()
        self.scroll_to(0, 0, animate=False, force=True)

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        if (clash := self._clash) is None:
            return
        sides = {side: [ConflictCell(text, side) for text in getattr(clash, side) or ["(nothing)"]] for side in NAMES}
        rows: list[tuple[ConflictCell, ...]] = [(ConflictCell(text),) for text in clash.before]
        room = self.size.width // 3 - 2
        longest = max((measure_text(cell.text) for lines in sides.values() for cell in lines), default=0)
        if self.size.width >= SIDE_BY_SIDE_WIDTH and longest <= room:
            rows.append(tuple(ConflictCell(self._names[side], side, True) for side in sides))
            for cells in zip_longest(*sides.values()):
                rows.append(tuple(cell or ConflictCell("", side) for side, cell in zip(sides, cells, strict=True)))
        else:
            for side in ("mine", "theirs", "base"):
                rows.append((ConflictCell(self._names[side], side, True),))
                rows += [(part,) for cell in sides[side] for part in _fold_cell(cell, self.size.width)]
        rows.append((ConflictCell("result", None, True),))
        rows += [(part,) for cell in self._list_result(clash) for part in _fold_cell(cell, self.size.width)]
        self._rows = rows
        self.virtual_size = Size(0, len(rows))
        self.redraw()

    def _list_result(self, clash: ConflictRegion) -> list[ConflictCell]:
        """Return the resulting lines of the conflict, tinted by their side."""
        if self._choice is None:
            return [ConflictCell(UNDECIDED)]
        if self._choice.take == "text":
            return [ConflictCell(text, is_result=True) for text in self._choice.text.split("\n")]
        sides: tuple[Side, ...] = ("mine", "theirs") if self._choice.take == "both" else (self._choice.take,)
        lines = [ConflictCell(text, side, is_result=True) for side in sides for text in getattr(clash, side)]
        return lines or [ConflictCell("(nothing)", sides[0], is_result=True)]

    def get_row_text(self, row: int) -> str:
        return "  ".join(cell.text for cell in self._rows[row]) if row < len(self._rows) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        cells = self._rows[row]
        cell_width = max((width - len(cells) + 1) // len(cells), 1)
        divider = self.render_pieces([("│", self.resolve_style("$foreground 20%"))])
        *first, last = cells
        strips = [strip for cell in first for strip in (self._render_cell(cell, cell_width), divider)]
        return Strip.join([*strips, self._render_cell(last, width - len(first) * (cell_width + 1))])

    def _render_cell(self, cell: ConflictCell, width: int) -> Strip:
        take = self._choice.take if self._choice is not None else ""
        is_taken = cell.side in ("mine", "theirs") and take in (cell.side, "both")
        tints = TAKEN_BACKGROUNDS if is_taken else BACKGROUNDS
        style = self.resolve_style(tints[cell.side] if cell.side else "")
        parse = self.app.stylesheet.parse_style
        if cell.is_heading:
            colour = COLOURS[cell.side] if cell.side else "$text-warning"
            is_ticked = is_taken or (not cell.side and self._choice is not None)
            text = f" {'✓ ' if is_ticked else ''}{cell.text}"
            strip = self.render_pieces([(text, style + parse(f"bold {colour}"))])
            return strip.adjust_cell_length(width, style.rich_style)
        text = expose_text(shorten_lines(cell.text, 2_000)).replace("\n", "␊")
        is_faint = not cell.side and not cell.is_result
        ink = style + parse(COLOURS["base"] if cell.side == "base" or is_faint else "")
        return self.render_pieces([(f" {text}", ink)]).adjust_cell_length(width, style.rich_style)


def _fold_cell(cell: ConflictCell, width: int) -> list[ConflictCell]:
    """Split a line into as many cells as show all of it."""
    room = max(width - 2, 10)
    text = expose_text(shorten_lines(cell.text, 2_000)).replace("\n", "␊")
    return [cell._replace(text=part.plain) for part in Content(text).fold(room)] or [cell]


class PlaceEditor(TextArea):
    """The editor for the text of one conflict; its keys belong to the dialog."""

    BINDINGS = get_bindings("editor", priority=True)

    def action_save(self) -> None:
        self.call_later(self._save)  # earlier keys may still be on their way to the text

    def _save(self) -> None:
        cast("ConflictDialog", self.screen).close_editor(self.text)

    def action_cancel(self) -> None:
        cast("ConflictDialog", self.screen).close_editor(None)


class ConflictDialog(Dialog[tuple[ConflictChoice, ...]]):
    """Asks for a choice per conflict; None = leave the file in conflict."""

    BINDINGS = get_bindings("conflict")
    shape = "wide"

    def __init__(self, sides: ConflictSides) -> None:
        super().__init__()
        self._sides = sides
        self._choices: list[ConflictChoice | None] = [None] * len(sides.clashes)
        self._index = 0

    def compose_body(self) -> ComposeResult:
        yield ConflictView(self._name_sides())
        # Mounted permanently: Textual may draw a widget once more during its removal, without its styles.
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
        clash, choice = self._sides.clashes[self._index], self._choices[self._index]
        count, undecided_count = len(self._choices), self._choices.count(None)
        title = [("Conflict  ", "bold $text-warning"), (format_path(self._sides.path, 60), "bold")]
        location = "the whole file" if self._sides.whole else f"line {clash.start}"
        title.append((f"  {self._index + 1} of {count}, {location}", "$foreground 60%"))
        texts = TODO_CHOICE_TEXTS if self._sides.theirs_is else CHOICE_TEXTS
        title.append((f"  {texts[choice.take]}", "$text-success") if choice else ("  undecided", "$text-warning"))
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
            self.notify("Take this file whole: m or t.", markup=False)
            return
        self._decide(ConflictChoice(take="mine" if side == "mine" else "theirs" if side == "theirs" else "both"))

    def _decide(self, choice: ConflictChoice) -> None:
        self._choices[self._index] = choice
        count = len(self._choices)
        following = [index % count for index in range(self._index + 1, self._index + count)]
        self._index = next((index for index in following if self._choices[index] is None), self._index)
        self._refresh()

    def action_move(self, step: int) -> None:
        self._index = (self._index + step) % len(self._choices)
        self._refresh()

    def action_edit(self) -> None:
        """Edit the text of this conflict, starting with both sides."""
        editor = self.query_one(PlaceEditor)
        if self._sides.whole or editor.display:
            return
        clash, choice = self._sides.clashes[self._index], self._choices[self._index]
        text = choice.text if choice and choice.take == "text" else "\n".join((*clash.mine, *clash.theirs))
        editor.load_text(text)
        self.query_one(ConflictView).display = False
        editor.display = True
        editor.focus()
        self._refresh()

    def close_editor(self, text: str | None) -> None:
        """Close the editor of a conflict; None: without a result."""
        self.query_one(PlaceEditor).display = False
        view = self.query_one(ConflictView)
        view.display = True
        view.focus()
        self._refresh()
        if text is not None:
            self._decide(ConflictChoice(take="text", text=text))

    def action_apply(self) -> None:
        """Close with the choices, once every conflict has one."""
        choices = tuple(choice for choice in self._choices if choice is not None)
        if len(choices) == len(self._choices):
            self.answer(choices)
        else:
            self._index = self._choices.index(None)
            self._refresh()
