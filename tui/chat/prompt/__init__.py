"""The prompt: multi-line text with a history, completion of files and commands, and chips for long pastes.

Only the send key sends: a newline inside a paste is text, even where the terminal passes a paste as single keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from textual import events
from textual.message import Message

from core.protocol.attachment_labels import LABEL_PATTERN
from tui.chat.prompt.completing import CompletingEditor
from tui.chat.prompt.editor import queue_action
from tui.clipboard import is_wsl, parse_pasted_paths, resolve_existing
from tui.keymap import get_bindings
from tui.timers import start_timer

BURST_WAIT: Final = 0.01  # seconds; no hand strikes two keys within it
BURST_WAIT_AFTER_PAUSE: Final = 0.002  # only keys read together with the first can belong to the same input
HELP_SIGN: Final = "?"
HELP_WAIT: Final = 0.2  # seconds without another key after which a lone sign asks for help
ANSWER_WAIT: Final = 0.4  # the same for a letter that answers, as a word may start with it

STEERING_PLACEHOLDER: Final = "Working… Enter adds a message, Esc stops"
COMMAND_PLACEHOLDER: Final = "Type a command   ?… ask the agent   /policy confirm to let it work"
TRANSCRIPT_PLACEHOLDER: Final = "enter open   c copy   G go to the end   esc back here"
QUESTION_PLACEHOLDER: Final = "Choose an answer above or type your own…"


class Prompt(CompletingEditor):
    """Posts the submitted text; the screen interprets it."""

    BINDINGS = get_bindings("prompt", priority=True)

    @dataclass
    class Submitted(Message):
        """The user sent `text`, with chips expanded; `pasted` holds the spans of pasted text."""

        text: str
        pasted: tuple[tuple[int, int], ...] = ()

    @dataclass
    class AttachRequested(Message):
        """Attach these files, or without any the clipboard's content; `asked`: by the key for it."""

        paths: tuple[str, ...] = ()
        asked: bool = False

    @dataclass
    class LabelClicked(Message):
        """The label of an attachment was clicked."""

        label: str

    class ContextRequested(Message):
        """The key for the row of chips was pressed."""

    class HelpRequested(Message):
        """A question mark alone was typed."""

    @dataclass
    class LetterTyped(Message):
        """A single letter was typed that answers the question above the prompt."""

        letter: str

    class SuggestionRequested(Message):
        """The send key was pressed in an empty prompt."""

    def __init__(self, *, id: str | None = None, placeholder: str = "") -> None:  # noqa: A002
        super().__init__(id=id, placeholder=placeholder)
        self.takes_commands = False  # the text is a shell command
        self.is_answer: Callable[[str], bool] = lambda _: (
            False
        )  # returns True for a letter that answers the current question
        self._pending_sends = 0
        self._hold_count = 0
        self._is_send_waiting = False

    @property
    def expanded_text(self) -> str:
        """The text with expanded chips; during a search of the history, the text before it."""
        return self.pastes.expand(self.text if self.searched_from is None else self.searched_from).text

    # Sending

    def submit(self) -> None:
        """Post the text and clear the prompt, after the end of a `hold`."""
        self._pending_sends = 0
        if self._hold_count:
            self._is_send_waiting = True
            return
        if self.text.strip():
            self.screen.post_message(
                self.Submitted(*self.pastes.expand(self.text))
            )  # not bubbled, as that would wait for the layout of the empty prompt
            self.text = ""
            self.pastes.clear()
            self.accept_letters()
        else:
            self.post_message(self.SuggestionRequested())

    def restore_text(self, text: str) -> None:
        """Restore an earlier message; in an empty prompt it is selected, so that typing replaces it."""
        if self.text:
            self.insert(f"{text}\n", (0, 0), maintain_selection_offset=True)
        else:
            self.text = text
            self.select_all()

    def hold(self) -> None:
        """Delay sending until `release`: something is on its way to the prompt."""
        self._hold_count += 1

    def release(self, labels: str, *, is_whole: bool = False) -> None:
        """End a `hold` and insert its `labels` ("" = none). A delayed send goes out if it `is_whole`."""
        self._hold_count = max(self._hold_count - 1, 0)
        if labels:
            self.insert_separated(labels)
        self._is_send_waiting = self._is_send_waiting and is_whole
        if self._is_send_waiting and not self._hold_count:
            self._is_send_waiting = False
            self.submit()

    def insert_separated(self, words: str) -> None:
        """Insert words at the cursor, with a space before and after them."""
        before = self.before_cursor
        self.insert(f"{' ' if before and not before[-1].isspace() else ''}{words} ")

    def action_send(self) -> None:
        """Send the text; with the completion open, accept its choice."""
        app: Any = self.app
        self.call_later(self._queue_send, BURST_WAIT_AFTER_PAUSE if app.key_filter.is_by_hand else BURST_WAIT)

    def _queue_send(self, wait: float) -> None:
        if self.is_completing:
            self.post_message(self.CompletionKey("send"))
            return
        self._pending_sends += 1
        if self._pending_sends == 1:  # through the app's queue, behind earlier keys
            start_timer(self, wait, lambda: self.app.call_later(self.call_later, self._send_if_pending))

    def _send_if_pending(self) -> None:
        if not self._pending_sends:
            return
        if self.is_searching:
            self._pending_sends = 0
            self.end_search(None)
        elif self.takes_letters and self._is_continued:
            self._pending_sends = 0
            self._continue_line()
        else:
            self.submit()

    @property
    def _is_continued(self) -> bool:
        """True if a single backslash precedes the cursor."""
        before = self.before_cursor
        return self.selection.is_empty and (len(before) - len(before.rstrip("\\"))) % 2 == 1

    def _continue_line(self) -> None:
        """Replace the backslash by a newline; a shell command keeps it, as its syntax needs it."""
        row, column = self.cursor_location
        start_column = column if self.takes_commands or self.text.startswith("!") else column - 1
        result = self.replace("\n", (row, start_column), (row, column), maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def _insert_pasted_newlines(self) -> bool:
        """Insert the sends of a burst as newlines of a paste; True if there were any."""
        count, self._pending_sends = self._pending_sends, 0
        if count:
            self.insert("\n" * count)
        return bool(count)

    @queue_action
    def action_newline(self) -> None:
        if not self._insert_pasted_newlines():  # else it was the second half of CR LF
            self.insert("\n")

    # Pastes and attachments

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self._insert_pasted_newlines()
        self.accept_letters()
        if not event.text.strip():  # some terminals paste nothing where a picture is on the clipboard
            self._request_attachment(self.AttachRequested())
        elif paths := resolve_existing(parse_pasted_paths(event.text, wsl=is_wsl())):
            self._request_attachment(self.AttachRequested(paths))
            return
        self.paste(event.text)

    @queue_action
    def action_attach(self) -> None:
        self._request_attachment(self.AttachRequested(asked=True))

    @queue_action
    def action_choose_context(self) -> None:
        self.post_message(self.ContextRequested())

    def _request_attachment(self, request: AttachRequested) -> None:
        self.hold()
        self.post_message(request)

    def on_click(self) -> None:
        row, column = self.cursor_location
        for match in LABEL_PATTERN.finditer(self.document.get_line(row)):
            if match.start() < column < match.end() and self.selection.is_empty:
                self.post_message(self.LabelClicked(match.group()))

    # Keys

    async def action_page(self, step: int) -> None:
        """Page this text if not all of it is visible, else the conversation; `step` 1 = down, -1 = up."""
        if self.virtual_size.height <= self.size.height:
            await self.run_action(f"chat.scroll_chat({step})")
        elif step < 0:
            self.action_cursor_page_up()
        else:
            self.action_cursor_page_down()

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "escape" and (self.is_completing or self.is_searching):
            event.stop()
            event.prevent_default()
            self.post_message(self.CompletionKey("close"))
            return
        if event.is_printable:
            self._insert_pasted_newlines()
            if event.character and not self.text and not self.is_searching:
                self._interpret_prefix(event.character)
        await super()._on_key(event)

    def _interpret_prefix(self, character: str) -> None:
        """Interpret the first character as a command if no text follows it."""
        if character == HELP_SIGN:
            self._ask_for_help_soon()
        elif not self.takes_commands and self.is_answer(character):
            start_timer(self, ANSWER_WAIT, partial(self._answer, character))

    def _answer(self, letter: str) -> None:
        if self.text in {letter, ""} and self.has_focus:  # with Vim's keys it may not be in the text
            self.text = ""
            self.post_message(self.LetterTyped(letter))

    def _ask_for_help_soon(self) -> None:
        """Ask for help if nothing is typed behind the sign: then it is the first of a prompt."""
        if not self.takes_letters:
            self.post_message(self.HelpRequested())
        elif not self.takes_commands:
            start_timer(self, HELP_WAIT, self._ask_for_help)

    def _ask_for_help(self) -> None:
        if self.text == HELP_SIGN and self.has_focus:
            self.text = ""
            self.post_message(self.HelpRequested())
