"""An editor with completion of commands and files, and with ghost text from the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from textual.content import Content
from textual.message import Message

from core.patterns import compile_lazily
from tui.chat.prompt.editor import PromptEditor, queue_action

if TYPE_CHECKING:
    from tui.chat.prompt.vim import Request

MAX_HISTORY: Final = 1_000
MIN_GHOST: Final = 2  # characters that are typed before an end is offered
MAX_GHOST: Final = 200
WordKind = Literal["@", "/", ";", ""]
_MENTION: Final = compile_lazily(r"(?:^|\s)@([^\s@]*)$")
_COMMAND: Final = compile_lazily(r"/([A-Za-z0-9_.:-]*)")
_SNIPPET: Final = compile_lazily(r"(?:^|\s);([A-Za-z0-9_.-]*)$")
_PATH: Final = compile_lazily(r"(?:^|[\s\"'=(])((?:[\w.+~-]+/)+[\w.+~-]*|[\w+~-]{2,}\.\w*)$")
SEARCH_PLACEHOLDER: Final = "Search earlier prompts…   enter use   esc back"


class PromptHistory:
    """Prompts, oldest first, and the index of the displayed one; the draft follows the last prompt."""

    def __init__(self) -> None:
        self._prompts: list[str] = []
        self._index = 0
        self._draft = ""

    def set(self, prompts: Sequence[str]) -> None:
        """Adopt the prompts of earlier sessions; prompts sent meanwhile stay the newest."""
        known_prompts = set(prompts)
        recent_prompts = [prompt for prompt in self._prompts if prompt not in known_prompts]
        self._prompts = [*prompts, *recent_prompts][-MAX_HISTORY:]
        self._index = len(self._prompts)

    def add(self, text: str) -> None:
        if text and (not self._prompts or self._prompts[-1] != text):
            self._prompts.append(text)
        self._index = len(self._prompts)

    @property
    def is_at_draft(self) -> bool:
        return self._index >= len(self._prompts)

    @property
    def is_at_oldest(self) -> bool:
        return self._index == 0

    def step(self, direction: int, text: str) -> str:
        """Return the previous (-1) or next (1) prompt; `text` is saved if it is the draft."""
        if self.is_at_draft:
            self._draft = text
        self._index = min(max(self._index + direction, 0), len(self._prompts))
        return self._draft if self.is_at_draft else self._prompts[self._index]

    def find_ghost(self, text: str) -> str:
        """Return the rest of the newest prompt that starts with `text`; "" = none. The rest is a single line, as
        only one line can be displayed."""
        if len(text) < MIN_GHOST or "\n" in text:
            return ""
        candidate = next(
            (prompt for prompt in reversed(self._prompts) if prompt.startswith(text) and prompt != text), ""
        )
        ghost = candidate[len(text) :]
        return ghost if len(ghost) <= MAX_GHOST and "\n" not in ghost else ""


def get_next_word(ghost: str) -> str:
    """Return the next word of a ghost text, with the blanks before it."""
    end = len(ghost) - len(ghost.lstrip())
    while end < len(ghost) and not ghost[end].isspace():
        end += 1
    return ghost[:end]


class CompletedWord(NamedTuple):
    """The word to complete: its sign, and the text behind the sign."""

    kind: WordKind
    pattern: str


NO_WORD: Final = CompletedWord("", "")


def find_completed_word(before: str, *, is_first_line: bool) -> CompletedWord:
    """Return the word to complete at the end of a line before the cursor."""
    if is_first_line and (match := _COMMAND.fullmatch(before)):
        return CompletedWord("/", match[1])
    if match := _MENTION.search(before):
        return CompletedWord("@", match[1])
    if match := _SNIPPET.search(before):
        return CompletedWord(";", match[1])
    return NO_WORD


def find_typed_path(before: str) -> str:
    """Return the end of a line that may be a path, with a slash or a dot; "" = there is none."""
    match = _PATH.search(before)
    return match[1] if match else ""


def remove_word(text: str, row: int, column: int, *, length: int) -> str:
    """Return a text without the last `length` characters before a cursor."""
    lines = text.split("\n")
    lines[row] = lines[row][: column - length] + lines[row][column:]
    return "\n".join(lines)


class CompletingEditor(PromptEditor):
    """Requests completions from the screen, and inserts the chosen one."""

    @dataclass
    class CompletionRequested(Message):
        """The word before the cursor needs candidates; `kind` is its sign, "history" for a search of the history, or
        "" (none)."""

        kind: str
        pattern: str

    class RecallRequested(Message):
        """The key for the previous prompt was pressed while messages wait to be sent."""

    class BelowRequested(Message):
        """The key for the next prompt was pressed in an empty prompt without a next one."""

    @dataclass
    class CompletionKey(Message):
        """A key for the open completion; `action` is next, previous, accept, send or close."""

        action: str

    def __init__(self, *, id: str | None = None, placeholder: str = "") -> None:  # noqa: A002
        self.past = PromptHistory()
        self.is_completing = False
        self.has_queue = False
        self.searched_from: str | None = None  # the text that the search of the history replaces
        self._completed_word = NO_WORD
        super().__init__(id=id, placeholder=placeholder)

    def set_placeholder(self, placeholder: str) -> None:
        if self.is_searching:
            placeholder = SEARCH_PLACEHOLDER
        if str(self.placeholder) != placeholder:
            self.placeholder = Content(placeholder)

    # Completion

    def on_text_area_changed(self) -> None:
        if self.is_searching:
            self.post_message(self.CompletionRequested("history", self.text))
            return
        word = self._find_word()
        if word != self._completed_word:
            self._completed_word = word
            self.post_message(self.CompletionRequested(*word))

    def _find_word(self) -> CompletedWord:
        return find_completed_word(self.before_cursor, is_first_line=self.cursor_location[0] == 0)

    @property
    def completed_pattern(self) -> str:
        """The word to complete before the cursor, without its sign; "" = none."""
        return self.text if self.is_searching else self._completed_word.pattern

    def complete(self, text: str, *, with_sign: bool = False, cursor: int | None = None) -> None:
        """Replace the word to complete, and its sign if `text` includes it. `cursor`: the cursor's index in `text`,
        None = behind it."""
        row, column = self.cursor_location
        start = column - len(self._completed_word.pattern) - with_sign
        self._completed_word = NO_WORD
        result = self.replace(text, (row, start), (row, column), maintain_selection_offset=False)
        start_index = self.find_index((row, start))
        self.move_cursor(result.end_location if cursor is None else self.locate(start_index + cursor))

    @queue_action
    def action_complete(self) -> None:
        if self.is_completing:
            self.post_message(self.CompletionKey("accept"))
        elif self.suggestion:
            self.accept_ghost()
        else:
            self.screen.focus_next()

    def set_completing(self, is_completing: bool) -> None:
        """Note that candidates are displayed, or no longer: keys choose among them, and ghosts are suppressed."""
        self.is_completing = is_completing
        if is_completing:
            self.suggestion = ""

    @property
    def settled_text(self) -> str:
        """The text without the word to complete, or without the query of a search of the history."""
        if self.searched_from is not None:
            return self.searched_from
        kind, pattern = self._completed_word
        if not self.is_completing or kind not in {"@", ";"}:
            return self.text
        return remove_word(self.text, *self.cursor_location, length=len(pattern) + 1)

    # Ghost text: a dim proposal behind the text

    def update_suggestion(self) -> None:
        may_end = self.is_at_end and self.takes_letters and not self.is_searching and self._find_word() == NO_WORD
        self.suggestion = self.past.find_ghost(self.text) if may_end and self.document.line_count == 1 else ""

    def offer_ghost(self, text: str, ghost: str) -> None:
        """Display a ghost if `text` is still current and no candidates are displayed."""
        may_end = self.is_at_end and self.takes_letters and not self.is_searching and not self.is_completing
        if may_end and not self.suggestion and self.text == text:
            self.suggestion = ghost

    def watch_selection(self) -> None:
        if self.suggestion and not self.is_at_end:
            self.suggestion = ""

    def accept_ghost(self, *, by_word: bool = False) -> None:
        """Insert the ghost, or its next word."""
        self.insert(get_next_word(self.suggestion) if by_word else self.suggestion)

    def action_cursor_line_end(self, select: bool = False) -> None:
        if self.suggestion and not select:
            self.accept_ghost()
        else:
            super().action_cursor_line_end(select)

    def action_cursor_word_right(self, select: bool = False) -> None:
        if self.suggestion and not select:
            self.accept_ghost(by_word=True)
        else:
            super().action_cursor_word_right(select)

    # Earlier prompts

    @property
    def is_searching(self) -> bool:
        """True while the text is words of an earlier prompt, which is searched for."""
        return self.searched_from is not None

    @queue_action
    def action_search_history(self) -> None:
        self.begin_search()

    def begin_search(self) -> None:
        """Search for an earlier prompt, with the text as its words; a second time: the one before."""
        if self.is_searching:
            self.post_message(self.CompletionKey("next"))
            return
        self.accept_letters()
        self.searched_from, self._completed_word = self.text, NO_WORD
        self.suggestion = ""
        self.set_placeholder(SEARCH_PLACEHOLDER)
        self.post_message(self.CompletionRequested("history", self.text))

    def end_search(self, prompt: str | None) -> None:
        """End the search with the matching prompt, None = restore the earlier text."""
        before, self.searched_from = self.searched_from or "", None
        self.replace_text(before if prompt is None else prompt)
        self._completed_word = self._find_word()

    @queue_action
    def action_older(self) -> None:
        if self.is_completing:
            self.post_message(self.CompletionKey("previous"))
        else:
            self._go_older()

    def _go_older(self) -> None:
        if self.has_queue and self.cursor_at_first_line and self.past.is_at_draft:
            self.post_message(self.RecallRequested())
        elif not self.cursor_at_first_line or self.past.is_at_oldest:
            self.action_cursor_up()
        else:
            self._show_earlier(-1)

    @queue_action
    def action_newer(self) -> None:
        if self.is_completing:
            self.post_message(self.CompletionKey("next"))
        else:
            self._go_newer()

    def _go_newer(self) -> None:
        if not self.text and self.past.is_at_draft:
            self.post_message(self.BelowRequested())
        elif not self.cursor_at_last_line or self.past.is_at_draft:
            self.action_cursor_down()
        else:
            self._show_earlier(1)

    def _show_earlier(self, step: int) -> None:
        self.set_text(self.past.step(step, self.text))
        self._completed_word = NO_WORD
        self.suggestion = ""

    def handle_request(self, request: Request) -> None:
        match request:
            case "older":
                self._go_older()
            case "newer":
                self._go_newer()
            case "search":
                self.begin_search()
