"""The session picker: a list that narrows with the query, including hits in all transcripts.

The query is matched with titles, tags and branches at once, and after a moment with the transcripts. Keys rename, tag,
export or delete the current session without closing the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import Final, Literal, NamedTuple, Protocol

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.protocol import commands
from core.protocol.queries import SessionInfo, TranscriptHit, TranscriptSearchAnswer
from core.protocol.queries.sessions import build_export_name
from core.text.counting import count
from tui.dialogs.dialog import Dialog
from tui.dialogs.pages import ConfirmDialog
from tui.keymap import get_bindings
from tui.sessions.rows import format_hit, format_session, is_quiet_run, is_unavailable, matches
from tui.text import fit_line
from tui.timers import start_timer
from tui.widgets.input_line import SteadyInput
from tui.widgets.key_hints import KeyHints
from tui.workers import start_worker

SEARCH_WAIT: Final = 0.12  # seconds without a letter after which the transcripts are searched
LEAST_WORD: Final = 2  # characters
FIND: Final = "Search titles, tags and conversations"
_HIT: Final = "hit:"
_HINTS: Final = (
    ("sessions.rename", "rename"),
    ("sessions.tag", "tag"),
    ("sessions.export", "export"),
    ("sessions.delete", "delete"),
    ("sessions.cancel", "back"),
)
Label = Literal["rename", "tag"]
SessionChange = commands.SessionRename | commands.SessionTag | commands.SessionDelete | commands.SessionExport


class SessionChoice(NamedTuple):
    """A session to open, and the block to scroll to (`place` as in a hit, "" = the end)."""

    session: str
    place: str = ""


class SessionActions(Protocol):
    """The sessions of the workspace at the engine."""

    async def change(self, command: SessionChange) -> bool:
        """Change a session. Return False for a rejection, which was displayed."""

    async def load(self) -> tuple[SessionInfo, ...]:
        """Return all of them, the latest first."""

    async def search(self, words: str) -> TranscriptSearchAnswer | None:
        """Return the hits in transcripts, whose last word may be incomplete; None: the engine can't search."""


class SessionPicker(Dialog[SessionChoice]):
    """Dismissed with a choice, or None. A session that is open elsewhere or damaged cannot be chosen."""

    DEFAULT_CSS = """
    SessionPicker { align: center middle; background: $background 60%; }
    SessionPicker > Vertical { width: 90%; max-width: 110; height: auto; max-height: 90%; background: $surface; }
    SessionPicker > Vertical { padding: 1 2; }
    SessionPicker.-narrow > Vertical { width: 100%; max-width: 100%; }
    SessionPicker.-low > Vertical { padding: 0 2; max-height: 100%; }
    SessionPicker Input { border: none; height: 1; padding: 0 1; background: $panel; margin-bottom: 1; }
    SessionPicker OptionList { height: auto; max-height: 1fr; border: none; padding: 0; background: $surface; }
    SessionPicker OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
    SessionPicker OptionList:focus { border: none; }
    SessionPicker .sessions--none { height: auto; color: $text-muted; }
    """

    BINDINGS = get_bindings("sessions")

    def __init__(
        self,
        sessions: tuple[SessionInfo, ...],
        *,
        now: int | None = None,
        current: str = "",
        shelf: SessionActions | None = None,
        begin: tuple[str, str] = ("", ""),
    ) -> None:
        """`now`: ms since the epoch; `current`: the session open in this window; `begin`: an action of this dialog and
        the session that it is for, done at once."""
        super().__init__()
        self._sessions, self._current, self._shelf, self._begin = sessions, current, shelf, begin
        self._now = int(time() * 1000) if now is None else now
        self._hits: tuple[TranscriptHit, ...] = ()
        self._labelled: tuple[Label, str] | None = None  # purpose of the input, and its session
        self._words = ""
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical():
            yield SteadyInput(placeholder=FIND, compact=True)
            yield OptionList(markup=False, compact=True)
            yield Static("", classes="sessions--none")
            if self._shelf is not None:
                yield KeyHints(_HINTS)

    def set_up(self) -> None:
        self._show_matches()
        self.query_one(Input).focus()
        action, session = self._begin
        if action:
            self._mark(session)
            getattr(self, f"action_{action}")()

    # The list

    def _show_matches(self, marked_id: str = "") -> None:
        words = self._words.casefold().split()
        sessions = [session for session in self._sessions if self._is_listed(session) and matches(session, words)]
        sessions = [session for session in sessions if words or not is_quiet_run(session)]
        choices = self.query_one(OptionList)
        options = [self._build_option(session) for session in sessions]
        if self._hits:
            options.append(Option(Content.styled("In conversations", "$foreground 60%"), disabled=True))
        options += [
            Option(format_hit(hit, self._now), id=f"{_HIT}{position}") for position, hit in enumerate(self._hits)
        ]
        choices.set_options(options)
        choices.display = bool(options)
        none = self.query_one(".sessions--none", Static)
        runs = sum(map(is_quiet_run, self._sessions)) if not words else 0
        none.display = not options or bool(runs)
        message = "No session matches." if self._sessions else "No earlier sessions here."
        none.update(Content(f"and {count('run', runs)} of -p: type to find them" if options else message))
        choices.highlighted = next((index for index, option in enumerate(options) if not option.disabled), None)
        if marked_id:
            self._mark(marked_id)

    def _is_listed(self, session: SessionInfo) -> bool:
        """False for an empty session of this window."""
        return session.id != self._current or bool(session.turns or session.pending)

    def _build_option(self, session: SessionInfo) -> Option:
        content = format_session(session, self._now, is_current=session.id == self._current)
        return Option(content, id=session.id, disabled=is_unavailable(session) and session.id != self._current)

    def _mark(self, session: str) -> None:
        choices = self.query_one(OptionList)
        position = next((index for index, option in enumerate(choices.options) if option.id == session), None)
        choices.highlighted = position if position is not None else choices.highlighted

    def _find_marked(self) -> SessionInfo | None:
        """Return the session that is marked, also by a hit in it."""
        choice = self._find_choice()
        return next(
            (session for session in self._sessions if choice is not None and session.id == choice.session), None
        )

    def _find_choice(self) -> SessionChoice | None:
        option = self.query_one(OptionList).highlighted_option
        if option is None or option.id is None:
            return None
        if not option.id.startswith(_HIT):
            return SessionChoice(option.id)
        hit = self._hits[int(option.id.removeprefix(_HIT))]
        return SessionChoice(hit.session, hit.place)

    # Input

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._labelled is not None or event.value == self._words:
            return
        self._words, self._hits = event.value, ()
        self._show_matches()
        if self._timer is not None:
            self._timer.stop()
        if self._shelf is not None and len(event.value.strip()) >= LEAST_WORD:
            self._timer = start_timer(self, SEARCH_WAIT, self._start_search)

    def _start_search(self) -> None:
        start_worker(self, self._search, self._words, group="transcripts", exclusive=True)

    async def _search(self, words: str) -> None:
        """Show the hits; while logs are read for the first time, more hits arrive."""
        unread, is_reading = 0, True
        while is_reading and self._shelf is not None:
            answer = await self._shelf.search(words)
            if answer is None or words != self._words or self._labelled is not None:
                return
            is_reading = 0 < answer.unread != unread  # unreadable logs are not waited for
            unread = answer.unread
            marked_session = self._find_marked()
            self._hits = answer.hits
            self._show_matches(marked_session.id if marked_session is not None else "")
            if unread:
                none = self.query_one(".sessions--none", Static)
                none.display = True
                none.update(Content(f"Reading {count('conversation', unread)} for the first time…"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self._labelled is not None:
            self._submit_label(event.value)
        elif (choice := self._find_choice()) is not None:
            self._choose(choice)

    def on_option_list_option_selected(self) -> None:
        if (choice := self._find_choice()) is not None:
            self._choose(choice)

    def _choose(self, choice: SessionChoice) -> None:
        info = next((session for session in self._sessions if session.id == choice.session), None)
        if info is not None and is_unavailable(info) and info.id != self._current:
            self.app.notify(f"Can't open it here: {fit_line(info.problem or 'it is open elsewhere.')}", markup=False)
        else:
            self.answer(choice)

    def action_move(self, step: int) -> None:
        choices = self.query_one(OptionList)
        if step > 0:
            choices.action_cursor_down()
        else:
            choices.action_cursor_up()

    def action_leave(self) -> None:
        """Leave the input for a session, else the dialog."""
        if self._labelled is not None:
            self._end_label()
        else:
            super().action_leave()

    # Operations on a session

    def action_rename(self) -> None:
        if (info := self._find_marked()) is not None and self._shelf is not None:
            self._ask_label("rename", info, info.title, "New title")

    def action_tag(self) -> None:
        if (info := self._find_marked()) is not None and self._shelf is not None:
            self._ask_label("tag", info, " ".join(info.tags), "Tags, separated by spaces; empty removes all")

    def _ask_label(self, label: Label, info: SessionInfo, text: str, placeholder: str) -> None:
        self._labelled = (label, info.id)
        line = self.query_one(Input)
        line.placeholder, line.value = placeholder, text
        line.cursor_position = len(text)
        line.focus()

    def _submit_label(self, text: str) -> None:
        assert self._labelled is not None
        label, session = self._labelled
        self._end_label()
        if label == "rename":
            self._start_change(commands.SessionRename(session=session, title=text))
        else:
            self._start_change(commands.SessionTag(session=session, tags=parse_tags(text)))

    def _end_label(self) -> None:
        self._labelled = None
        line = self.query_one(Input)
        line.placeholder, line.value = FIND, self._words
        line.cursor_position = len(self._words)

    def action_export(self) -> None:
        if (info := self._find_marked()) is not None:
            name = build_export_name(info.title, "html")
            self._start_change(commands.SessionExport(session=info.id, path=name, format="html"), f"Saved: {name}")

    def action_delete(self) -> None:
        """Ask before the marked session is deleted."""
        if (info := self._find_marked()) is None:
            return
        pending_work = " and ".join(
            filter(
                None, (f"{info.pending} to review" * bool(info.pending), f"{info.asked} to answer" * bool(info.asked))
            )
        )
        explanation = (
            f"You would lose {pending_work}." if pending_work else "Its shadow and checkpoints are deleted too."
        )
        dialog = ConfirmDialog(f"Delete “{fit_line(info.title, 60) or info.id}”?", "delete", explanation=explanation)
        command = commands.SessionDelete(session=info.id, confirmed=True)
        _ = self.app.push_screen(dialog, lambda is_agreed: self._start_change(command) if is_agreed else None)

    def _start_change(self, command: SessionChange, notice: str = "") -> None:
        start_worker(self, self._change, command, notice, group="changes")

    async def _change(self, command: SessionChange, notice: str) -> None:
        if self._shelf is None or not await self._shelf.change(command):
            return
        if notice:
            self.app.notify(fit_line(notice), markup=False)
        self._sessions = await self._shelf.load()
        self._hits = tuple(hit for hit in self._hits if any(hit.session == info.id for info in self._sessions))
        self._show_matches(command.session)


def parse_tags(text: str) -> tuple[str, ...]:
    """Return the words of a text as tags, without duplicates."""
    words: Sequence[str] = text.replace(",", " ").replace("#", " ").split()
    return tuple(dict.fromkeys(word[:40] for word in words))
