"""The list of sessions above the prompt at the start: open ones, ones with pending work, the latest.

The prompt has the focus, so that typing starts a new session; the key for the row below focuses the list, and letters
that are no keys of the list go to the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import time
from typing import Final

from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from core.protocol.queries import SessionInfo
from core.text.counting import count
from tui.keymap import get_bindings
from tui.sessions.rows import format_short, group_sessions, is_quiet_run, is_unavailable
from tui.text import fit_line
from tui.widgets.key_hints import Hint

RECENT: Final = 6  # sessions of a group
RUNS: Final = "runs"


class HomeList(OptionList):
    """Sessions in groups. Hidden without any."""

    BINDINGS = get_bindings("home")
    hints: tuple[Hint, ...] = (
        ("home.open", "open"),
        ("home.rename", "rename"),
        ("home.tag", "tag"),
        ("home.delete", "delete"),
        ("home.export", "export"),
        ("home.search", "search"),
        ("home.new", "new"),
    )

    @dataclass
    class Acted(Message):
        """The key of `action` was pressed on a session ("" = on none): open, rename, tag, delete, export or search."""

        action: str
        session: str

    class Left(Message):
        """The user returned to the prompt."""

    def __init__(self, *, id: str | None = None, now: int | None = None) -> None:  # noqa: A002
        super().__init__(id=id, markup=False, compact=True)
        self._now, self._sessions, self._place = now, tuple[SessionInfo, ...](), ""

    def show(self, sessions: Sequence[SessionInfo], location: str) -> None:
        """Show these sessions; `location`: project, branch and model, in words."""
        self._sessions, self._place = tuple(sessions), location
        self._fill()

    def on_resize(self) -> None:
        self._fill()

    def _fill(self) -> None:
        marked_option = self.highlighted_option
        now = self._now if self._now is not None else int(time() * 1000)
        width = max(self.size.width - 5, 20)
        options = [Option(Content.styled(fit_line(self._place, width), "bold"), disabled=True)] if self._place else []
        for heading, sessions in group_sessions(self._sessions):
            options.append(Option(Content.styled(heading, "$foreground 60%"), disabled=True))
            options += [
                Option(
                    Content.assemble("  ", format_short(session, now, width)),
                    id=session.id,
                    disabled=is_unavailable(session),
                )
                for session in sessions[:RECENT]
            ]
        runs, hidden_count = sum(map(is_quiet_run, self._sessions)), self._count_more()
        parts = [count("more session", hidden_count)] * bool(hidden_count) + [f"{count('run', runs)} of -p"] * bool(
            runs
        )
        if parts:
            options.append(Option(Content.styled(f"  {' and '.join(parts)}…", "$foreground 60%"), id=RUNS))
        self.set_options(options)
        self.set_class(any(option.id for option in options), "-filled")
        marked_id = marked_option.id if marked_option is not None else None
        position = next((index for index, option in enumerate(options) if option.id and option.id == marked_id), None)
        self.highlighted = position if self.has_focus else None

    def _count_more(self) -> int:
        return sum(max(len(group.sessions) - RECENT, 0) for group in group_sessions(self._sessions))

    def on_focus(self) -> None:
        if self.highlighted is None:
            self.action_first()

    def on_blur(self) -> None:
        self.highlighted = None

    def action_move(self, step: int) -> None:
        """Move to the row below or above; beyond the ends, to the prompt."""
        rows = [index for index, option in enumerate(self.options) if not option.disabled]
        position = rows.index(self.highlighted) + step if self.highlighted in rows else 0
        if 0 <= position < len(rows):
            self.highlighted = rows[position]
        else:
            self.post_message(self.Left())

    def action_act(self, action: str) -> None:
        option = self.highlighted_option
        session = option.id or "" if option is not None else ""
        if session == RUNS:
            action, session = "search", ""
        self.post_message(self.Acted(action, session))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_act("open")

    def action_leave(self) -> None:
        self.post_message(self.Left())
