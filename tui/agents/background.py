"""The pane of background agents: those of this machine or of the team, whatever session they were started from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from textual.message import Message

from core.protocol.queries import BackgroundAgentInfo
from core.text.counting import count
from tui.agents.roster import RosterList, RosterPane
from tui.agents.roster_rows import Condition, RosterEntry
from tui.keymap import get_bindings
from tui.quantities import format_cost, format_elapsed
from tui.state import ViewState
from tui.widgets.key_hints import NOTHING_HINTS, Hint

EMPTY: Final = (
    "No background agent yet\n\n& before a prompt sends it to the background: the agent works in the shadow without a "
    "screen, and what it changes waits until you pull it into your review."
)
_CONDITIONS: Final[dict[str, Condition]] = {
    "queued": "working",
    "running": "working",
    "waiting": "asking",
    "done": "done",
    "failed": "failed",
    "stopped": "stopped",
}


class BackgroundList(RosterList):
    """Lists background agents."""

    BINDINGS = get_bindings("background")
    empty = EMPTY

    @dataclass
    class Opened(Message):
        """An agent's work is to be brought here, or its session be opened."""

        id: str

    @dataclass
    class Stopped(Message):
        """An agent is to be stopped."""

        id: str

    @dataclass
    class Deleted(Message):
        """An agent is to be forgotten."""

        id: str

    @property
    def hints(self) -> tuple[Hint, ...]:
        if (current := self.current) is None:
            return NOTHING_HINTS
        if current.is_working:
            return (("background.stop", "stop"),)
        return (("background.open", "pull and open"), ("background.delete", "forget"))

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self.current.id))

    def action_stop(self) -> None:
        if self.current is not None and self.current.is_working:
            self.post_message(self.Stopped(self.current.id))

    def action_delete(self) -> None:
        if self.current is not None and not self.current.is_working:
            self.post_message(self.Deleted(self.current.id))


class BackgroundPane(RosterPane):
    """Shows the background agents, the newest below."""

    def __init__(self) -> None:
        super().__init__(BackgroundList())

    def show_state(self, state: ViewState) -> None:
        now = time.time() * 1000
        self.list.show([build_entry(agent, now) for agent in reversed(state.background)])


def build_entry(agent: BackgroundAgentInfo, now: float) -> RosterEntry:
    """Build the entry of an agent. `now`: ms since 1970."""
    is_working = agent.state in {"queued", "running", "waiting"}
    message = f"waits for you: {agent.waits_for}" if agent.waits_for else agent.message or agent.place
    waiting = f"{count('file', agent.pending)} to review" if agent.pending and not agent.pulled else ""
    facts = ("pulled" if agent.pulled else waiting, format_cost(agent.cost) if agent.cost else "")
    return RosterEntry(
        id=agent.id,
        title=agent.title,
        kind=agent.state,
        condition=_CONDITIONS[agent.state],
        said=message,
        facts=tuple(filter(None, facts)),
        elapsed=format_elapsed(max(round(now - agent.created), 0)) if is_working else "",
    )
