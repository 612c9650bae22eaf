"""The prompt: many lines, a history, completion of files and commands, and large pastes as chips.

Nothing but the send key sends: a newline inside a paste is text, also where the terminal passes a paste on as single
keys. What is typed is never lost, also not before the engine is there.

A binding runs at once, while the letters typed just before it may still wait in the queue of this widget: after a burst
of keys it would act on an older text. So every action here passes through that queue as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import TextArea

from core.protocol.attachments import LABEL
from tui.attaching.paths import existing, is_wsl, picture_paths
from tui.keymap import bindings

CHIP_FROM: Final = 4_000
CHIP_LINES: Final = 80
HISTORY_KEPT: Final = 500
BURST: Final = 0.01  # seconds; no hand strikes two keys within it
FOLLOWING: Final = 0.002  # the same after a pause: only what was read together with the key can still belong to it

_CHIP = re.compile(r"\[pasted [^\[\]\n]{1,20} #(\d{1,4})\]")
_ANY_CHIP = re.compile(rf"{_CHIP.pattern}|{LABEL.pattern}")
_ENDS_IN_CHIP = re.compile(rf"(?:{_ANY_CHIP.pattern})$")
_FILE_WORD = re.compile(r"(?:^|\s)@([^\s@]*)$")
_COMMAND_WORD = re.compile(r"/([a-z_]*)$")
_PASTE_MARK = re.compile("\x1b?\\[20[01]~")

PLACEHOLDERS: Final = {
    "agent": "What shall be done?   @ file   / command   shift+tab mode",
    "plan": "What shall be planned? Nothing is changed.",
    "ask": "Ask about the code. Nothing is changed.",
    "debug": "What goes wrong, and how do you see it?",
}
STEERING: Final = "The turn runs. Enter adds to it, escape stops it."
TYPING: Final = "Type a command.   ?… asks the agent   /policy confirm lets it work"
READING: Final = "enter opens a row   c copies it   G goes to the end   esc comes back here"
ANSWERING: Final = "Choose an answer above, or write your own here."


def _size(text: str) -> str:
    count = len(text.encode("utf-8", "replace"))
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{max(count / 1_000, 0.1):.1f} kB"


class Prompt(TextArea):
    """Posts what was written; whoever has it decides what it means."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("prompt", priority=True)

    @dataclass
    class Submitted(Message):
        """The user sent `text`; chips are expanded."""

        text: str

    @dataclass
    class Completing(Message):
        """The word before the cursor asks for completion: `kind` is "@", "/" or "" (none)."""

        kind: str
        pattern: str

    @dataclass
    class Attach(Message):
        """These files belong to what is written; none: what is on the clipboard does. `asked`: by a key of its own."""

        paths: tuple[str, ...] = ()
        asked: bool = False

    @dataclass
    class Look(Message):
        """The user wants to see what a label stands for."""

        label: str

    class TakeSuggestion(Message):
        """The send key on an empty prompt."""

    class TakeBack(Message):
        """The key for the prompt before this one, while what was said waits to be sent."""

    class CompletionKey(Message):
        """A key that belongs to the open completion: `action` is next, previous, accept, send or close."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(
            id=id, tab_behavior="focus", compact=True, highlight_cursor_line=False, placeholder=PLACEHOLDERS["agent"]
        )
        self.cursor_blink = False
        self.completing = False
        self.has_queue = False
        self._pasted: list[str] = []
        self._history: list[str] = []
        self._place = 0
        self._draft = ""
        self._word = ("", "")
        self._enters = 0
        self._held = 0
        self._send_when_free = False

    def say(self, placeholder: str) -> None:
        """The text of the empty prompt."""
        if str(self.placeholder) != placeholder:
            self.placeholder = Content(placeholder)

    def set_history(self, prompts: Sequence[str]) -> None:
        """What was typed in this workspace, oldest first; what was sent meanwhile stays the newest."""
        sent = [each for each in self._history if each not in prompts]
        self._history = [*prompts, *sent][-HISTORY_KEPT:]
        self._place = len(self._history)

    def remember(self, text: str) -> None:
        """Add to the history."""
        if text and (not self._history or self._history[-1] != text):
            self._history.append(text)
        self._place = len(self._history)

    @property
    def expanded(self) -> str:
        """The text with what chips stand for."""
        return _CHIP.sub(self._expand, self.text)

    def _expand(self, chip: re.Match[str]) -> str:
        number = int(chip.group(1))
        return self._pasted[number - 1] if 0 < number <= len(self._pasted) else chip.group()

    def submit(self) -> None:
        """Post what is written, and be empty: what is typed from now on is another prompt. Waits for what is held."""
        self._enters = 0
        if self._held:
            self._send_when_free = True
            return
        if self.text.strip():
            text = self.expanded
            self.screen.post_message(self.Submitted(text))  # not bubbled: it would wait for the empty prompt's layout
            self.text = ""
            self._pasted.clear()
        else:
            self.post_message(self.TakeSuggestion())

    def give_back(self, text: str) -> None:
        """Put what was said before into the prompt. In the empty one all of it is marked: whoever types on without
        looking says what they type, and `older` has the rest."""
        if self.text:
            self.insert(f"{text}\n", (0, 0), maintain_selection_offset=True)
        else:
            self.text = text
            self.select_all()

    def hold(self) -> None:
        """Something is under way to the prompt: it is not sent before `release`."""
        self._held += 1

    def release(self, labels: str, *, is_whole: bool = False) -> None:
        """It has come: `labels` stand for it, "" = it has not. What was to be sent is sent if it is `is_whole`."""
        self._held = max(self._held - 1, 0)
        if labels:
            row, column = self.cursor_location
            apart = " " if column and not self.document.get_line(row)[column - 1].isspace() else ""
            self.insert(f"{apart}{labels} ")
        self._send_when_free = self._send_when_free and is_whole
        if self._send_when_free and not self._held:
            self._send_when_free = False
            self.submit()

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self._break_lines()
        if not event.text.strip():  # some terminals paste nothing where a picture is on the clipboard
            self._want(self.Attach())
        elif paths := existing(picture_paths(event.text, wsl=is_wsl())):
            self._want(self.Attach(paths))
            return
        self.paste(event.text)

    def paste(self, text: str) -> None:
        """Text from a clipboard, as a chip where it is long."""
        text = _PASTE_MARK.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).replace("\x00", "")
        if len(text) >= CHIP_FROM or text.count("\n") >= CHIP_LINES:
            self._pasted.append(text)
            text = f"[pasted {_size(text)} #{len(self._pasted)}]"
        if result := self._replace_via_keyboard(text, *self.selection):
            self.move_cursor(result.end_location)

    def on_text_area_changed(self) -> None:
        """See whether the word before the cursor asks for completion."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        kind, found = "", None
        if row == 0 and (found := _COMMAND_WORD.fullmatch(before)):
            kind = "/"
        elif found := _FILE_WORD.search(before):
            kind = "@"
        word = (kind, found.group(1) if found else "")
        if word != self._word:
            self._word = word
            self.post_message(self.Completing(*word))

    def complete(self, text: str) -> None:
        """Put `text` in the place of the word before the cursor."""
        row, column = self.cursor_location
        start = column - len(self._word[1])
        self._word = ("", "")
        self.replace(text + " ", (row, start), (row, column))

    def action_attach(self) -> None:
        """Take what is on the clipboard of the desktop."""
        self.call_later(self._want, self.Attach(asked=True))

    def _want(self, wanted: Attach) -> None:
        self.hold()
        self.post_message(wanted)

    def action_delete_left(self) -> None:
        """The character before the cursor, or all of the label or chip that ends there."""
        row, column = self.cursor_location
        found = _ENDS_IN_CHIP.search(self.document.get_line(row)[:column]) if self.selection.is_empty else None
        if found is None:
            super().action_delete_left()
        else:
            self._delete_via_keyboard((row, found.start()), (row, column))

    def action_delete_right(self) -> None:
        """The character after the cursor, or all of the label or chip that begins there."""
        row, column = self.cursor_location
        found = _ANY_CHIP.match(self.document.get_line(row), column) if self.selection.is_empty else None
        if found is None:
            super().action_delete_right()
        else:
            self._delete_via_keyboard((row, column), (row, found.end()))

    def on_click(self) -> None:
        """A label that was clicked shows what it stands for."""
        row, column = self.cursor_location
        for found in LABEL.finditer(self.document.get_line(row)):
            if found.start() < column < found.end() and self.selection.is_empty:
                self.post_message(self.Look(found.group()))

    def action_send(self) -> None:
        """Send what is written; with the completion open, take its choice."""
        app: Any = self.app
        self.call_later(self._enter, FOLLOWING if app.door.is_by_hand else BURST)

    def _enter(self, wait: float) -> None:
        if self.completing:
            self.post_message(self.CompletionKey("send"))
            return
        self._enters += 1
        if self._enters == 1:  # through the queue of the app, behind the keys that wait there
            self.set_timer(wait, lambda: self.app.call_later(self.call_later, self._send))

    def _send(self) -> None:
        if self._enters:
            self.submit()

    def _break_lines(self) -> bool:
        """More of the same burst follows: what came as the send key was a newline of a paste. True: there was one."""
        count, self._enters = self._enters, 0
        if count:
            self.insert("\n" * count)
        return bool(count)

    def action_newline(self) -> None:
        """A new line at the cursor."""
        self.call_later(self._newline)

    def _newline(self) -> None:
        if not self._break_lines():  # else it was the second half of CR LF
            self.insert("\n")

    def action_complete(self) -> None:
        """Take the completion that is marked, else go on to the next pane."""
        self.call_later(self._complete)

    def _complete(self) -> None:
        if self.completing:
            self.post_message(self.CompletionKey("accept"))
        else:
            self.screen.focus_next()

    def action_older(self) -> None:
        """The prompt before this one, from the first line; else a line up."""
        self.call_later(self._older)

    def _older(self) -> None:
        if self.completing:
            self.post_message(self.CompletionKey("previous"))
        elif self.has_queue and self.cursor_at_first_line and self._place == len(self._history):
            self.post_message(self.TakeBack())
        elif not self.cursor_at_first_line or self._place == 0:
            self.action_cursor_up()
        else:
            if self._place == len(self._history):
                self._draft = self.text
            self._recall(self._place - 1)

    def action_newer(self) -> None:
        """The prompt after this one, from the last line; else a line down."""
        self.call_later(self._newer)

    def _newer(self) -> None:
        if self.completing:
            self.post_message(self.CompletionKey("next"))
        elif not self.cursor_at_last_line or self._place >= len(self._history):
            self.action_cursor_down()
        else:
            self._recall(self._place + 1)

    async def action_page(self, step: int) -> None:
        """A screenful up or down: of this text if not all of it is seen, else of the conversation."""
        if self.virtual_size.height <= self.size.height:
            await self.run_action(f"screen.page_chat({step})")
        elif step < 0:
            self.action_cursor_page_up()
        else:
            self.action_cursor_page_down()

    def _recall(self, place: int) -> None:
        self._place = place
        self.text = self._draft if place == len(self._history) else self._history[place]
        self._word = ("", "")
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if self.completing and event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(self.CompletionKey("close"))
            return
        if event.key == "enter":  # sending has its own binding; a remapped one leaves enter without effect
            event.prevent_default()
            return
        if event.is_printable:
            self._break_lines()
        await super()._on_key(event)

    def get_line(self, line_index: int) -> Any:
        """A line as it is drawn; hidden characters of a paste are seen (the text itself stays as it is)."""
        from tui.text import seen

        line = super().get_line(line_index)
        harmless = seen(line.plain)
        if harmless != line.plain:
            line.plain = harmless
        for found in _ANY_CHIP.finditer(line.plain):
            line.stylize("bold", found.start(), found.end())
        return line
