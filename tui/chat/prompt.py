"""The prompt: multi-line text with a history, completion of files and commands, and large pastes as chips.

Only the send key sends: a newline inside a paste is text, even where the terminal passes a paste on as single keys.
A binding runs at once, while letters typed just before it may still wait in this widget's queue: it would act on an
older text. So every action here passes through that queue as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import TextArea

from core.protocol.attachment_labels import LABEL_PATTERN
from tui.attachments.pasted_paths import is_wsl, parse_pasted_paths, resolve_existing
from tui.keymap import get_bindings

CHIP_MIN_CHARS: Final = 4_000
CHIP_MIN_LINES: Final = 80
MAX_HISTORY: Final = 500
BURST_WAIT: Final = 0.01  # seconds; no hand strikes two keys within it
BURST_WAIT_AFTER_PAUSE: Final = 0.002  # after a pause only what was read together with the key can belong to it

_CHIP = re.compile(r"\[pasted [^\[\]\n]{1,20} #(\d{1,4})\]")
_ANY_CHIP = re.compile(rf"{_CHIP.pattern}|{LABEL_PATTERN.pattern}")
_ENDS_IN_CHIP = re.compile(rf"(?:{_ANY_CHIP.pattern})$")
_FILE_WORD = re.compile(r"(?:^|\s)@([^\s@]*)$")
_COMMAND_WORD = re.compile(r"/([A-Za-z0-9_.:-]*)$")
_PASTE_MARK = re.compile("\x1b?\\[20[01]~")

STEERING_PLACEHOLDER: Final = "The turn runs. Enter adds to it, escape stops it."
COMMAND_PLACEHOLDER: Final = "Type a command.   ?… asks the agent   /policy confirm lets it work"
TRANSCRIPT_PLACEHOLDER: Final = "enter opens a row   c copies it   G goes to the end   esc comes back here"
QUESTION_PLACEHOLDER: Final = "Choose an answer above, or write your own here."


def _format_size(text: str) -> str:
    count = len(text.encode("utf-8", "replace"))
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{max(count / 1_000, 0.1):.1f} kB"


def _queue_action(action: Callable[[Prompt], None]) -> Callable[[Prompt], None]:
    """Let an action wait behind the letters in the prompt's queue."""

    def queue(prompt: Prompt) -> None:
        prompt.call_later(action, prompt)

    return queue


class Prompt(TextArea):
    """Posts what was written; the screen decides what it means."""

    BINDINGS = get_bindings("prompt", priority=True)

    @dataclass
    class Submitted(Message):
        """The user sent `text`; chips are expanded, to what stands at `pasted`."""

        text: str
        pasted: tuple[tuple[int, int], ...] = ()

    @dataclass
    class CompletionRequested(Message):
        """The word before the cursor asks for completion; `kind` is "@", "/" or "" (none)."""

        kind: str
        pattern: str

    @dataclass
    class AttachRequested(Message):
        """Attach these files, or without any the clipboard's content; `asked`: by the key for it."""

        paths: tuple[str, ...] = ()
        asked: bool = False

    @dataclass
    class LabelClicked(Message):
        """The attachment behind a label is to be shown."""

        label: str

    class ContextRequested(Message):
        """The key for what goes with the prompt was struck."""

    class SuggestionRequested(Message):
        """The send key was struck on an empty prompt."""

    class RecallRequested(Message):
        """The key for the previous prompt was struck while messages wait to be sent."""

    class BelowRequested(Message):
        """The key for the newer prompt was struck where there is none and nothing is written."""

    @dataclass
    class CompletionKey(Message):
        """A key for the open completion; `action` is next, previous, accept, send or close."""

        action: str

    def __init__(self, *, id: str | None = None, placeholder: str = "") -> None:  # noqa: A002
        super().__init__(
            id=id, tab_behavior="focus", compact=True, highlight_cursor_line=False, placeholder=placeholder
        )
        self.cursor_blink = False
        self.is_completing = False
        self.has_queue = False
        self._pastes: list[str] = []
        self._history: list[str] = []
        self._history_index = 0
        self._draft = ""
        self._completed_word = ("", "")
        self._pending_sends = 0
        self._hold_count = 0
        self._is_send_waiting = False

    def set_text(self, text: str) -> None:
        """Replace the text; the cursor is at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    def set_placeholder(self, placeholder: str) -> None:
        if str(self.placeholder) != placeholder:
            self.placeholder = Content(placeholder)

    def set_history(self, prompts: Sequence[str]) -> None:
        """Set the prompts of this workspace, oldest first; those sent meanwhile stay the newest."""
        sent = [each for each in self._history if each not in prompts]
        self._history = [*prompts, *sent][-MAX_HISTORY:]
        self._history_index = len(self._history)

    def add_to_history(self, text: str) -> None:
        if text and (not self._history or self._history[-1] != text):
            self._history.append(text)
        self._history_index = len(self._history)

    @property
    def expanded_text(self) -> str:
        """The text with chips replaced by what was pasted."""
        return self._expand_chips()[0]

    def _expand_chips(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return the text with what was pasted, and where that stands in it."""
        text, parts, spans = self.text, list[str](), list[tuple[int, int]]()
        taken = length = 0
        for chip in _CHIP.finditer(text):
            number = int(chip[1])
            if not 0 < number <= len(self._pastes):
                continue
            pasted = self._pastes[number - 1]
            parts += [text[taken : chip.start()], pasted]
            length += chip.start() - taken
            spans.append((length, length + len(pasted)))
            length, taken = length + len(pasted), chip.end()
        return "".join((*parts, text[taken:])), tuple(spans)

    @property
    def settled_text(self) -> str:
        """The text without the `@` word that is still being typed."""
        word = f"@{self._completed_word[1]}"
        if not self.is_completing or self._completed_word[0] != "@":
            return self.text
        row, column = self.cursor_location
        lines = self.text.split("\n")
        lines[row] = lines[row][: column - len(word)] + lines[row][column:]
        return "\n".join(lines)

    def submit(self) -> None:
        """Post the text and empty the prompt; waits while something is held."""
        self._pending_sends = 0
        if self._hold_count:
            self._is_send_waiting = True
            return
        if self.text.strip():
            self.screen.post_message(
                self.Submitted(*self._expand_chips())
            )  # not bubbled: it would wait for the empty prompt's layout
            self.text = ""
            self._pastes.clear()
        else:
            self.post_message(self.SuggestionRequested())

    def restore_text(self, text: str) -> None:
        """Put an earlier message into the prompt; in an empty one it is selected, so that typing on replaces it."""
        if self.text:
            self.insert(f"{text}\n", (0, 0), maintain_selection_offset=True)
        else:
            self.text = text
            self.select_all()

    def hold(self) -> None:
        """Delay sending until `release`: something is on its way to the prompt."""
        self._hold_count += 1

    def release(self, labels: str, *, is_whole: bool = False) -> None:
        """End a `hold` and insert its `labels` ("" = nothing came). A waiting send goes out if it `is_whole`."""
        self._hold_count = max(self._hold_count - 1, 0)
        if labels:
            self.insert_apart(labels)
        self._is_send_waiting = self._is_send_waiting and is_whole
        if self._is_send_waiting and not self._hold_count:
            self._is_send_waiting = False
            self.submit()

    def insert_apart(self, words: str) -> None:
        """Insert words at the cursor, with a space before and after them."""
        row, column = self.cursor_location
        apart = " " if column and not self.document.get_line(row)[column - 1].isspace() else ""
        self.insert(f"{apart}{words} ")

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self._insert_pasted_newlines()
        if not event.text.strip():  # some terminals paste nothing where a picture is on the clipboard
            self._request_attachment(self.AttachRequested())
        elif paths := resolve_existing(parse_pasted_paths(event.text, wsl=is_wsl())):
            self._request_attachment(self.AttachRequested(paths))
            return
        self.paste(event.text)

    def paste(self, text: str) -> None:
        """Insert clipboard text, as a chip where it is long."""
        text = _PASTE_MARK.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).replace("\x00", "")
        if len(text) >= CHIP_MIN_CHARS or text.count("\n") >= CHIP_MIN_LINES:
            self._pastes.append(text)
            text = f"[pasted {_format_size(text)} #{len(self._pastes)}]"
        if result := self._replace_via_keyboard(text, *self.selection):
            self.move_cursor(result.end_location)

    def on_text_area_changed(self) -> None:
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        kind, found = "", None
        if row == 0 and (found := _COMMAND_WORD.fullmatch(before)):
            kind = "/"
        elif found := _FILE_WORD.search(before):
            kind = "@"
        word = (kind, found.group(1) if found else "")
        if word != self._completed_word:
            self._completed_word = word
            self.post_message(self.CompletionRequested(*word))

    @property
    def completed_pattern(self) -> str:
        """The word before the cursor that asks for completion, without its sign; "" = none does."""
        return self._completed_word[1]

    def complete(self, text: str) -> None:
        row, column = self.cursor_location
        start = column - len(self._completed_word[1])
        self._completed_word = ("", "")
        self.replace(text + " ", (row, start), (row, column))

    @_queue_action
    def action_attach(self) -> None:
        self._request_attachment(self.AttachRequested(asked=True))

    @_queue_action
    def action_choose_context(self) -> None:
        self.post_message(self.ContextRequested())

    def _request_attachment(self, wanted: AttachRequested) -> None:
        self.hold()
        self.post_message(wanted)

    def action_delete_left(self) -> None:
        """Delete the character before the cursor, or the whole label or chip that ends there."""
        row, column = self.cursor_location
        found = _ENDS_IN_CHIP.search(self.document.get_line(row)[:column]) if self.selection.is_empty else None
        if found is None:
            super().action_delete_left()
        else:
            self._delete_via_keyboard((row, found.start()), (row, column))

    def action_delete_right(self) -> None:
        """Delete the character after the cursor, or the whole label or chip that begins there."""
        row, column = self.cursor_location
        found = _ANY_CHIP.match(self.document.get_line(row), column) if self.selection.is_empty else None
        if found is None:
            super().action_delete_right()
        else:
            self._delete_via_keyboard((row, column), (row, found.end()))

    def on_click(self) -> None:
        row, column = self.cursor_location
        for found in LABEL_PATTERN.finditer(self.document.get_line(row)):
            if found.start() < column < found.end() and self.selection.is_empty:
                self.post_message(self.LabelClicked(found.group()))

    def action_send(self) -> None:
        """Send the text; with the completion open, accept its choice."""
        app: Any = self.app
        self.call_later(self._queue_send, BURST_WAIT_AFTER_PAUSE if app.key_filter.is_by_hand else BURST_WAIT)

    def _queue_send(self, wait: float) -> None:
        if self.is_completing:
            self.post_message(self.CompletionKey("send"))
            return
        self._pending_sends += 1
        if self._pending_sends == 1:  # through the queue of the app, behind the keys that wait there
            self.set_timer(wait, lambda: self.app.call_later(self.call_later, self._send_if_pending))

    def _send_if_pending(self) -> None:
        if self._pending_sends:
            self.submit()

    def _insert_pasted_newlines(self) -> bool:
        """Insert the sends of a burst as newlines of a paste; True if there were any."""
        count, self._pending_sends = self._pending_sends, 0
        if count:
            self.insert("\n" * count)
        return bool(count)

    @_queue_action
    def action_newline(self) -> None:
        if not self._insert_pasted_newlines():  # else it was the second half of CR LF
            self.insert("\n")

    @_queue_action
    def action_complete(self) -> None:
        if self.is_completing:
            self.post_message(self.CompletionKey("accept"))
        else:
            self.screen.focus_next()

    @_queue_action
    def action_older(self) -> None:
        if self.is_completing:
            self.post_message(self.CompletionKey("previous"))
        elif self.has_queue and self.cursor_at_first_line and self._history_index == len(self._history):
            self.post_message(self.RecallRequested())
        elif not self.cursor_at_first_line or self._history_index == 0:
            self.action_cursor_up()
        else:
            if self._history_index == len(self._history):
                self._draft = self.text
            self._show_history(self._history_index - 1)

    @_queue_action
    def action_newer(self) -> None:
        if self.is_completing:
            self.post_message(self.CompletionKey("next"))
        elif not self.text and self._history_index >= len(self._history):
            self.post_message(self.BelowRequested())
        elif not self.cursor_at_last_line or self._history_index >= len(self._history):
            self.action_cursor_down()
        else:
            self._show_history(self._history_index + 1)

    async def action_page(self, step: int) -> None:
        """Page this text if not all of it is visible, else the conversation; `step` 1 = down, -1 = up."""
        if self.virtual_size.height <= self.size.height:
            await self.run_action(f"chat.scroll_chat({step})")
        elif step < 0:
            self.action_cursor_page_up()
        else:
            self.action_cursor_page_down()

    def _show_history(self, place: int) -> None:
        self._history_index = place
        self.set_text(self._draft if place == len(self._history) else self._history[place])
        self._completed_word = ("", "")

    async def _on_key(self, event: events.Key) -> None:
        if self.is_completing and event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(self.CompletionKey("close"))
            return
        if event.key == "enter":  # sending has its own binding; a remapped one leaves enter without effect
            event.prevent_default()
            return
        if event.is_printable:
            self._insert_pasted_newlines()
        await super()._on_key(event)

    def get_line(self, line_index: int) -> Any:
        """Return a line as it is drawn: hidden characters are visible, chips are bold."""
        from tui.text import replace_hidden

        line = super().get_line(line_index)
        if (harmless := replace_hidden(line.plain)) != line.plain:
            line.plain = harmless
        for found in _ANY_CHIP.finditer(line.plain):
            line.stylize("bold", found.start(), found.end())
        return line
