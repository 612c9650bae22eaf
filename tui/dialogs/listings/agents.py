"""The list of kinds of subagents, and the conversation of one subagent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from textual.app import ComposeResult
from textual.content import Content
from textual.timer import Timer

from core.protocol.events import Envelope
from core.protocol.queries import AgentsAnswer, LoadedAgent
from core.text.counting import count
from tui.chat.transcript import Transcript
from tui.dialogs.dialog import Dialog
from tui.dialogs.listings.listing import ListingDialog
from tui.keymap import get_bindings
from tui.state import ViewState, show_event
from tui.state.batches import FLUSH_INTERVAL
from tui.text import fit_line, shorten_path
from tui.widgets.key_hints import Hint, KeyHints
from tui.workers import start_worker

_KIND_HINTS: Final = (("kinds.mention", "add to prompt"), ("kinds.open", "open file"), ("kinds.leave", "back"))
_MAX_NAME: Final = 30
_UNTRUSTED: Final = "This project is not trusted: its own subagents are not loaded."
_OWN: Final = "To add one, create .claude/agents/NAME.md: see /help rules-and-skills."
Follow = Callable[[str], AsyncIterator[Envelope]]
LEAVE: Hint = ("subagent.leave", "back")
_SUBAGENT_HINTS: tuple[Hint, ...] = (("transcript.next", "next"), ("transcript.toggle", "open"), LEAVE)


class AgentsDialog(ListingDialog[tuple[str, str]]):
    """Shows every kind, then files that define none; answers with "open" and a path, or "mention" and a name."""

    BINDINGS = get_bindings("kinds")

    def __init__(self, answer: AgentsAnswer) -> None:
        super().__init__("Subagents")
        self._answer = answer

    def set_up(self) -> None:
        self.show_keys(_KIND_HINTS)
        agents = self._answer.agents
        width = min(max((len(agent.name) for agent in agents), default=0), _MAX_NAME)
        rows = [_format_agent(agent, width) for agent in agents]
        rows += [
            Content.assemble(("! ", "$text-warning"), shorten_path(extension.path, 60))
            for extension in self._answer.skipped
        ]
        notes = (_OWN,) if self._answer.is_trusted else (_UNTRUSTED,)
        self.show_rows(f"{count('subagent', len(agents))}; used by the agent, or by you with @agent-NAME", rows, notes)

    @property
    def _agent(self) -> LoadedAgent | None:
        index = self.marked
        return self._answer.agents[index] if index is not None and index < len(self._answer.agents) else None

    def show_reason(self) -> None:
        index, agent = self.marked, self._agent
        if agent is not None:
            wrong = f"It can't start: {agent.refusal}." if agent.refusal else agent.problem
            self.show_note(_explain(agent), "$text-warning" if wrong else "$foreground 60%")
        elif index is not None:
            self.show_note(
                f"Not a subagent: {self._answer.skipped[index - len(self._answer.agents)].reason}", "$text-warning"
            )

    def action_open(self) -> None:
        index, agent = self.marked, self._agent
        if index is None:
            return
        path = agent.path if agent is not None else self._answer.skipped[index - len(self._answer.agents)].path
        if not path:
            self.show_note("It is built in.", "$text-warning")
        elif path.startswith(("/", "~", "../")):
            self.show_note(f"Outside the project: {path}", "$text-warning")
        else:
            self.answer(("open", path))

    def action_mention(self) -> None:
        if (agent := self._agent) is not None and not agent.refusal:
            self.answer(("mention", agent.name))


def _explain(agent: LoadedAgent) -> str:
    if agent.refusal:
        return f"It can't start: {agent.refusal.rstrip('.')}{'' if agent.refusal.endswith('?') else '.'}"
    tools = f"Tools: {', '.join(agent.tools) or 'none'}." if agent.tools is not None else ""
    return " ".join(filter(None, (agent.problem and f"{agent.problem}.", agent.description, tools)))


def _format_agent(agent: LoadedAgent, width: int) -> Content:
    can_start = not agent.refusal
    model = f"this job's model instead of {agent.other_model}" if agent.other_model else agent.model
    facts = [agent.source, model, "read-only" if agent.is_readonly else ""]
    if agent.tools is not None:
        facts.append(count("tool", len(agent.tools)))
    style = "" if can_start else "$foreground 60%"
    return Content.assemble(
        ("+ " if can_start else "- ", "$accent" if can_start else style),
        (fit_line(agent.name, width).ljust(width), style),
        (" !" if agent.problem or agent.refusal else "  ", "$text-warning"),
        (f" {' · '.join(filter(None, facts))}", "$foreground 60%"),
    )


class SubagentDialog(Dialog[str]):
    """Shows the conversation of a subagent; answers with its id to stop it. `follow`: its events."""

    BINDINGS = get_bindings("subagent")
    shape = "subagent"

    def __init__(self, name: str, title: str, follow: Follow, *, is_working: bool) -> None:
        super().__init__(fit_line(title, 120))
        self._subagent, self._follow, self._is_working = name, follow, is_working
        self._view = ViewState(session_id=name)
        self._timer: Timer | None = None

    def compose_body(self) -> ComposeResult:
        yield Transcript()
        yield KeyHints(id="subagent-keys")

    def set_up(self) -> None:
        self._show_keys()
        self.query_one(Transcript).focus()
        self._timer = self.set_interval(FLUSH_INTERVAL, self._show, pause=True)
        start_worker(self, self._read, group="subagent", exclusive=True)

    def _show_keys(self) -> None:
        hints = (*_SUBAGENT_HINTS[:-1], ("subagent.stop", "stop"), LEAVE) if self._is_working else _SUBAGENT_HINTS
        for widget in self.query(KeyHints):  # none: it is being closed
            widget.show(hints)

    async def _read(self) -> None:
        async for envelope in self._follow(self._subagent):
            if show_event(self._view, envelope) and self._timer is not None:
                self._timer.resume()
        self._is_working = False
        self._show_keys()
        self._show()

    def _show(self) -> None:
        """Show new events; nothing is drawn without any, or after closing."""
        if self._timer is not None:
            self._timer.pause()
        if self not in self.app.screen_stack:
            return
        for transcript in self.query(Transcript):
            transcript.show(self._view.blocks)

    def action_stop(self) -> None:
        if self._is_working:
            self.answer(self._subagent)
