"""The editor of the prompt: a text area with Vim's keys, whose long pastes are folded into chips."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from textual import events
from textual.content import Content
from textual.widgets import TextArea
from textual.widgets.text_area import Location, Selection

from core.patterns import compile_lazily
from core.protocol.attachment_labels import LABEL_PATTERN
from core.text.counting import format_size
from tui.input.keystrokes import OrderedBindings

if TYPE_CHECKING:
    from rich.style import Style
    from textual.document._document import Document
    from textual.geometry import Region
    from textual.strip import Strip
    from textual.widgets.text_area import TextAreaTheme

    from core.protocol.choices import PromptKeys
    from tui.chat.prompt.vim import Edit, Reaction, Request, VimKeys

CHIP_MIN_CHARS: Final = 4_000
CHIP_MIN_LINES: Final = 80
MAX_UNFOLDED: Final = 100_000  # maximum characters that the input displays as lines
_CHIP: Final = compile_lazily(r"\[pasted [^\[\]\n]{1,20} #(\d{1,4})\]")
ANY_CHIP: Final = compile_lazily(rf"{_CHIP.pattern}|{LABEL_PATTERN.pattern}")
_PASTE_MARK: Final = compile_lazily("\x1b?\\[20[01]~")
Span = tuple[int, int]
EditorT = TypeVar("EditorT", bound="PromptEditor")
MAX_UNDO: Final = 200


class Expansion(NamedTuple):
    """A text with expanded chips; `spans`: the ranges of the pasted texts."""

    text: str
    spans: tuple[Span, ...]


def clean_paste(text: str) -> str:
    """Normalize the newlines of pasted text, and remove bracketed-paste markers and NUL from it."""
    return _PASTE_MARK.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).replace("\x00", "")


class PastedTexts:
    """The texts that were pasted since the last prompt was sent, by the numbers in their chips."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def fold(self, text: str) -> str:
        """Return the text to insert for a paste: a chip for a long one."""
        lines = text.rstrip("\n").count("\n") + 1
        if len(text) < CHIP_MIN_CHARS and text.count("\n") < CHIP_MIN_LINES:
            return text
        self._texts.append(text)
        size = f"{lines:,} lines" if lines > 1 else format_size(len(text.encode("utf-8", "replace")))
        return f"[pasted {size} #{len(self._texts)}]"

    def expand(self, text: str) -> Expansion:
        parts, spans = list[str](), list[Span]()
        position = length = 0
        for chip in _CHIP.finditer(text):
            if (pasted_text := self._get(chip)) is None:
                continue
            parts += [text[position : chip.start()], pasted_text]
            length += chip.start() - position
            spans.append((length, length + len(pasted_text)))
            length, position = length + len(pasted_text), chip.end()
        return Expansion("".join((*parts, text[position:])), tuple(spans))

    def find_at(self, line: str, column: int) -> tuple[Span, str] | None:
        """Return the chip at the cursor, else the last one of the line, with its pasted text."""
        chips = [
            (match.span(), pasted_text)
            for match in _CHIP.finditer(line)
            if (pasted_text := self._get(match)) is not None
        ]
        near_chips = (chip for chip in chips if chip[0][0] <= column <= chip[0][1])
        return next(near_chips, chips[-1] if chips else None)

    def clear(self) -> None:
        self._texts.clear()

    def _get(self, chip: re.Match[str]) -> str | None:
        number = int(chip[1])
        return self._texts[number - 1] if 0 < number <= len(self._texts) else None


def find_chip_ending(line: str, column: int) -> int | None:
    """Return where the chip or label begins that ends at a column."""
    return next((match.start() for match in ANY_CHIP.finditer(line, 0, column) if match.end() == column), None)


def find_chip_beginning(line: str, column: int) -> int | None:
    """Return where the chip or label ends that begins at a column."""
    match = ANY_CHIP.match(line, column)
    return None if match is None else match.end()


def cuts_chip(text: str, start: int, end: int) -> Span | None:
    """Return the span with all chips that an edit would cut, None = it cuts none."""
    widest = (start, end)
    for chip in ANY_CHIP.finditer(text):
        if chip.start() < end and start < chip.end() and not (start <= chip.start() and chip.end() <= end):
            widest = min(widest[0], chip.start()), max(widest[1], chip.end())
    return None if widest == (start, end) else widest


def queue_action(action: Callable[[EditorT], None]) -> Callable[[EditorT], None]:
    """Queue an action behind the letters in the queue of its widget."""

    def queue(editor: EditorT) -> None:
        editor.call_later(action, editor)

    return queue


class PromptEditor(TextArea, OrderedBindings):
    """A text area with chips for long pastes, and either its default keys or Vim's."""

    def __init__(self, *, id: str | None = None, placeholder: str = "") -> None:  # noqa: A002
        self.pastes = PastedTexts()
        self.vim: VimKeys | None = None
        self._styled_for: tuple[TextAreaTheme, Style] | None = None
        self._batch_before: object = None  # the newest change when the current one began
        super().__init__(
            id=id,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder=placeholder,
            max_checkpoints=MAX_UNDO,
        )
        self.cursor_blink = False

    def set_text(self, text: str) -> None:
        """Replace the text; the cursor is at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    def replace_text(self, text: str) -> None:
        """Replace the text as a change that can be undone; the cursor is at its end."""
        self.history.checkpoint()
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self.history.checkpoint()
        self.move_cursor(self.document.end)

    @property
    def before_cursor(self) -> str:
        """The line of the cursor, up to that."""
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    @property
    def is_at_end(self) -> bool:
        """True while letters would be added behind the text, and nothing is selected."""
        return self.selection.is_empty and self.cursor_location == self.document.end

    # Drawing

    def notify_style_update(self) -> None:
        self._styled_for = None
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render as `TextArea` does, without resolving all of its styles for each frame, which costs more than a
        letter."""
        style_key = (self._theme, self.rich_style)
        if style_key != self._styled_for:
            self._theme.apply_css(self)
            self._styled_for = style_key
        return super(TextArea, self).render_lines(crop)

    # Keys

    async def _on_key(self, event: events.Key) -> None:
        is_done = self.vim is not None and self._press_vim_key(event)
        if is_done or (not event.is_printable and await self._run_binding(event.key)):
            event.stop()
            event.prevent_default()
        elif event.key != "enter":  # sending has its own binding; a remapped one leaves enter without effect
            await super()._on_key(event)
        else:
            event.prevent_default()

    @queue_action
    def action_word_left(self) -> None:
        self.action_cursor_word_left()

    @queue_action
    def action_word_right(self) -> None:
        self.action_cursor_word_right()

    @queue_action
    def action_erase_word_left(self) -> None:
        self.action_delete_word_left()

    @queue_action
    def action_erase_word_right(self) -> None:
        self.action_delete_word_right()

    @queue_action
    def action_take_back(self) -> None:
        self.undo()

    @queue_action
    def action_do_again(self) -> None:
        self.redo()

    def undo(self) -> None:
        self._leave_line()
        super().undo()
        self._rewrap_and_refresh_virtual_size()

    def redo(self) -> None:
        self._leave_line()
        super().redo()
        self._rewrap_and_refresh_virtual_size()

    def _leave_line(self) -> None:
        """Move the cursor to the first line, because its line may be gone when Textual measures the remaining text;
        Textual restores the cursor afterwards. This also avoids wrapping all lines after several edits."""
        if self.cursor_location[0]:
            self.selection = Selection.cursor((0, 0))

    # Chips

    def paste(self, text: str) -> None:
        """Insert clipboard text, as a chip where it is long."""
        if result := self._replace_via_keyboard(self.pastes.fold(clean_paste(text)), *self.selection):
            self.move_cursor(result.end_location)

    @queue_action
    def action_unfold(self) -> None:
        """Replace the chip at the cursor, else the last one of the line, by its pasted text."""
        row, column = self.cursor_location
        if (chip := self.pastes.find_at(self.document.get_line(row), column)) is None:
            self.app.notify("No [pasted …] in this line.", markup=False)
        elif len(chip[1]) > MAX_UNFOLDED:
            self.app.notify("Too long to edit here. It is sent in full.", markup=False)
        else:
            (start, end), text = chip
            result = self.replace(text, (row, start), (row, end), maintain_selection_offset=False)
            self.move_cursor(result.end_location)

    def action_delete_left(self) -> None:
        self._delete_chip(super().action_delete_left, find_chip_ending)

    def action_delete_word_left(self) -> None:
        self._delete_chip(super().action_delete_word_left, find_chip_ending)

    def action_delete_right(self) -> None:
        self._delete_chip(super().action_delete_right, find_chip_beginning)

    def action_delete_word_right(self) -> None:
        self._delete_chip(super().action_delete_word_right, find_chip_beginning)

    def _delete_chip(self, otherwise: Callable[[], None], find: Callable[[str, int], int | None]) -> None:
        """Delete the chip at the cursor as a whole, or run the key's default action."""
        row, column = self.cursor_location
        other_end = find(self.document.get_line(row), column) if self.selection.is_empty else None
        if other_end is None:
            otherwise()
        else:
            self._delete_via_keyboard((row, column), (row, other_end))

    def get_line(self, line_index: int) -> Any:
        """Return a line for drawing: hidden characters are visible, chips are bold."""
        from tui.text import replace_hidden

        line = super().get_line(line_index)
        if (harmless := replace_hidden(line.plain)) != line.plain:
            line.plain = harmless
        for match in ANY_CHIP.finditer(line.plain):
            line.stylize("bold", match.start(), match.end())
        return line

    # Vim

    def use_keys(self, keys: PromptKeys) -> None:
        """Switch to the user's preferred keys without changing the text."""
        if keys == "vim":
            from tui.chat.prompt.vim import VimKeys

            self.vim = self.vim or VimKeys()
        else:
            self.vim = None
        self.show_keys()

    def show_keys(self) -> None:
        """Show the mode of Vim's keys below the text; without them nothing."""
        title = (self.vim.title or "INSERT") if self.vim is not None else ""
        self.border_subtitle = Content(title)
        self.set_class(not self.takes_letters, "-commanded")

    def accept_letters(self) -> None:
        """Enter Vim's insert mode, as an empty prompt does."""
        if self.vim is not None:
            self.vim.insert()
            self.show_keys()

    @property
    def takes_letters(self) -> bool:
        """True if a letter is text instead of a command of Vim's."""
        return self.vim is None or self.vim.mode == "insert"

    @property
    def wants_redo(self) -> bool:
        """True while Ctrl+R redoes a change that Vim's `u` undid."""
        return not self.takes_letters and self.has_focus and bool(self.history.redo_stack)

    def handle_request(self, request: Request) -> None:
        """Carry out a request of a Vim key to the prompt."""

    def _press_vim_key(self, event: events.Key) -> bool:
        """Pass a key to Vim's keys. Return False if the key has its default meaning."""
        assert self.vim is not None
        key = event.character if event.is_printable and event.character and event.character != " " else event.key
        was_insert = self.vim.mode == "insert"
        if was_insert and key != "escape":
            return False
        cursor, anchor = self._read_selection()
        reaction = self.vim.press(key, self.text, cursor, anchor)
        if reaction is None:
            return event.is_printable
        if not was_insert:
            self.history.checkpoint()
            self._batch_before = next(reversed(self.history.undo_stack), None)
        self._carry_out(reaction)
        if self.vim.mode != "insert" and not reaction.undone:
            self._join_changes()
        self.update_suggestion()
        self.show_keys()
        if reaction.request:
            self.handle_request(reaction.request)
            self._move_onto_letter()
        return True

    def _read_selection(self) -> tuple[int, int | None]:
        """Return the cursor and the anchor of the selection; both are on a character."""
        start, end = (self.find_index(location) for location in self.selection)
        if start == end:
            return end, None
        return (end - 1, start) if start < end else (end, start - 1)

    def _carry_out(self, reaction: Reaction) -> None:
        cursor = reaction.cursor
        for edit in reaction.edits:
            if not self._apply(edit):
                cursor = min(cursor, self.find_index(self.cursor_location))
        for _ in range(abs(reaction.undone)):
            (self.undo if reaction.undone > 0 else self.redo)()
        if reaction.undone:
            self._move_onto_letter()
        elif reaction.anchor is None:
            self.move_cursor(self.locate(cursor))
        elif reaction.anchor <= cursor:
            self.selection = Selection(self.locate(reaction.anchor), self.locate(cursor + 1))
        else:
            self.selection = Selection(self.locate(reaction.anchor + 1), self.locate(cursor))

    def _move_onto_letter(self) -> None:
        """Move the cursor onto a character for Vim's commands; insert mode allows the end of a line."""
        from tui.chat.prompt.vim import clamp

        if not self.takes_letters:
            self.move_cursor(self.locate(clamp(self.text, self.find_index(self.cursor_location))))

    def _apply(self, edit: Edit) -> bool:
        """Apply an edit. One that would cut a chip covers all of it, or is dropped if it inserts text."""
        start, end = edit.start, edit.end
        if chip_span := cuts_chip(self.text, start, end):
            if edit.text:
                return False
            start, end = chip_span
        self.replace(edit.text, self.locate(start), self.locate(end), maintain_selection_offset=False)
        return (start, end) == (edit.start, edit.end)

    def _join_changes(self) -> None:
        """Join all text typed since a command began into one change, as for Vim's `u`."""
        changes, batch = self.history._undo_stack, list[Any]()
        while changes and changes[-1] is not self._batch_before:
            batch[:0] = changes.pop()
        if batch:
            changes.append(batch)
        self.history.checkpoint()

    def find_index(self, location: Location) -> int:
        """Return the number of characters before a location."""
        document = cast("Document", self.document)
        return document.get_index_from_location(location)

    def locate(self, index: int) -> Location:
        """Return the location behind so many characters of the text."""
        document = cast("Document", self.document)
        return document.get_location_from_index(min(index, len(self.text)))
