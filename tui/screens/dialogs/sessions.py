"""The dialog that chooses an earlier session: a list that narrows as one types."""

from __future__ import annotations

from time import time
from typing import Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.queries import SessionInfo
from tui.keymap import get_bindings
from tui.quantities import count, format_age
from tui.screens.dialogs.dialog import Dialog
from tui.text import fit_line
from tui.widgets.input_line import SteadyInput

TITLE: Final = 70


class SessionPicker(Dialog[str]):
    """Dismissed with the id of a session, or None. One that is open elsewhere or damaged cannot be chosen."""

    DEFAULT_CSS = """
    SessionPicker { align: center middle; background: $background 60%; }
    SessionPicker > Vertical { width: 90%; max-width: 96; height: auto; max-height: 80%; background: $surface; }
    SessionPicker > Vertical { padding: 1 2; }
    SessionPicker Input { border: none; height: 1; padding: 0 1; background: $panel; margin-bottom: 1; }
    SessionPicker OptionList { height: auto; max-height: 1fr; border: none; padding: 0; background: $surface; }
    SessionPicker OptionList:focus { border: none; }
    SessionPicker .sessions--none { height: auto; color: $text-muted; }
    """

    BINDINGS = get_bindings("sessions")

    def __init__(self, sessions: tuple[SessionInfo, ...], *, now: int | None = None, current: str = "") -> None:
        """`now`: ms since the epoch; `current`: the session open in this window."""
        super().__init__()
        self._sessions, self._current = sessions, current
        self._now = int(time() * 1000) if now is None else now

    def compose(self) -> ComposeResult:
        with Vertical():
            yield SteadyInput(placeholder="Search sessions by title, model or day", compact=True)
            yield OptionList(markup=False, compact=True)
            yield Static("", classes="sessions--none")

    def set_up(self) -> None:
        self._show_matches("")
        self.query_one(Input).focus()

    def _show_matches(self, words: str) -> None:
        wanted = words.casefold().split()
        found = [each for each in self._sessions if all(word in _search_text(each) for word in wanted)]
        choices = self.query_one(OptionList)
        choices.set_options(self._build_option(each) for each in found)
        choices.display = bool(found)
        none = self.query_one(".sessions--none", Static)
        none.display = not found
        none.update("No session has all of these words." if self._sessions else "There is no earlier session here.")
        choices.highlighted = next((index for index, each in enumerate(found) if not _is_unavailable(each)), None)

    def _build_option(self, session: SessionInfo) -> Option:
        shown = _format_session(session, self._now, is_current=session.id == self._current)
        return Option(shown, id=session.id, disabled=_is_unavailable(session))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show_matches(event.value)

    def on_input_submitted(self) -> None:
        if (marked := self.query_one(OptionList).highlighted_option) is not None:
            self.answer(marked.id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.answer(event.option_id)

    def action_move(self, step: int) -> None:
        choices = self.query_one(OptionList)
        if step > 0:
            choices.action_cursor_down()
        else:
            choices.action_cursor_up()


def _is_unavailable(session: SessionInfo) -> bool:
    return session.locked or bool(session.problem)


def _search_text(session: SessionInfo) -> str:
    return f"{session.title} {session.model} {session.mode} {session.id}".casefold()


def _format_session(session: SessionInfo, now: int, *, is_current: bool) -> Content:
    title = fit_line(session.title, TITLE) or "without a title"
    what = (count("turn", session.turns), fit_line(session.model, 40), fit_line(session.mode, 12))
    details = " · ".join(filter(None, (format_age(now - session.updated), *what)))
    parts = [Content.styled(title, "$foreground 50%" if _is_unavailable(session) else "bold $foreground")]
    parts.append(Content.styled(f"\n  {details}", "$foreground 55%"))
    if session.pending:
        parts.append(Content.styled(f" · {session.pending} to review", "$text-warning"))
    if is_current:
        parts.append(Content.styled(" · this session", "$accent"))
    elif session.locked:
        parts.append(Content.styled(" · open in another window", "$text-warning"))
    if session.problem:
        parts.append(Content.styled(f" · {fit_line(session.problem, 120)}", "$text-error"))
    return Content.assemble(*parts)
