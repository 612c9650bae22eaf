"""The dialog that chooses an earlier session: a list that narrows as one types."""

from __future__ import annotations

from time import time
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.queries import SessionInfo
from tui.keymap import get_bindings
from tui.quantities import count, format_age
from tui.screens.dialogs.dialog import Dialog
from tui.text import fit_line

TITLE: Final = 70


class SessionPicker(Dialog[str | None]):
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

    # Up and down work while the field has the focus, so that one never has to leave it.
    BINDINGS: ClassVar[list[BindingType]] = get_bindings("sessions")

    def __init__(self, sessions: tuple[SessionInfo, ...], *, now: int | None = None, current: str = "") -> None:
        """`now`: ms since the epoch; `current`: the session open in this window."""
        super().__init__()
        self._current = current
        self._sessions = sessions
        self._now = int(time() * 1000) if now is None else now

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(placeholder="Search sessions by title, model or day", compact=True)
            yield OptionList(markup=False, compact=True)
            yield Static("", classes="sessions--none")

    def set_up(self) -> None:
        self._show_matches("")
        field = self.query_one(Input)
        field.cursor_blink = False  # a blinking cursor writes to the terminal while nothing happens
        field.focus()

    def _show_matches(self, words: str) -> None:
        wanted = words.casefold().split()
        found = [each for each in self._sessions if all(word in _search_text(each) for word in wanted)]
        choices = self.query_one(OptionList)
        choices.set_options(
            [
                Option(
                    _format_session(each, self._now, is_current=each.id == self._current),
                    id=each.id,
                    disabled=_is_unavailable(each),
                )
                for each in found
            ]
        )
        choices.display = bool(found)
        none = self.query_one(".sessions--none", Static)
        none.display = not found
        none.update("No session has all of these words." if self._sessions else "There is no earlier session here.")
        choices.highlighted = next((index for index, each in enumerate(found) if not _is_unavailable(each)), None)

    @on(Input.Changed)
    def _on_words_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show_matches(event.value)

    @on(Input.Submitted)
    def _on_words_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        choices = self.query_one(OptionList)
        if choices.highlighted is not None:
            self._dismiss_with(choices.get_option_at_index(choices.highlighted).id)

    @on(OptionList.OptionSelected)
    def _on_session_clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._dismiss_with(event.option_id)

    def action_move(self, step: int) -> None:
        choices = self.query_one(OptionList)
        if step > 0:
            choices.action_cursor_down()
        else:
            choices.action_cursor_up()

    def action_cancel(self) -> None:
        self._dismiss_with(None)

    def _dismiss_with(self, chosen: str | None) -> None:
        _ = self.dismiss(chosen)  # a screen must not wait for its own end


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
