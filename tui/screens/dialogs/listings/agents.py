"""The dialog of the kinds of subagents: what each is for, what it can do, and what is wrong with its file."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from core.protocol.queries import AgentsAnswer, LoadedAgent
from core.text.counting import count
from tui.keymap import get_bindings
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.text import fit_line, shorten_path

KEY_HINTS: Final = (("kinds.mention", "into the prompt"), ("kinds.open", "read it"), ("kinds.leave", "back"))
_LONGEST: Final = 30
_UNTRUSTED: Final = "This project is not trusted: none of its own subagents is read."
_OWN: Final = "A file .claude/agents/NAME.md makes one of your own: docs/subagents.md."


class AgentsDialog(ListingDialog[tuple[str, str]]):
    """Shows every kind, then the files that make none; answers with "open" and a path, or "mention" and a name."""

    BINDINGS = get_bindings("kinds")

    def __init__(self, answer: AgentsAnswer) -> None:
        super().__init__("Subagents")
        self._found = answer

    def set_up(self) -> None:
        self.show_keys(KEY_HINTS)
        agents = self._found.agents
        width = min(max((len(agent.name) for agent in agents), default=0), _LONGEST)
        rows = [_format_agent(agent, width) for agent in agents]
        rows += [
            Content.assemble(("! ", "$text-warning"), shorten_path(extension.path, 60))
            for extension in self._found.skipped
        ]
        notes = (_OWN,) if self._found.is_trusted else (_UNTRUSTED,)
        self.show_rows(f"{count('kind', len(agents))}; the agent gives them tasks, or you do: @agent-NAME", rows, notes)

    @property
    def _agent(self) -> LoadedAgent | None:
        index = self.marked
        return self._found.agents[index] if index is not None and index < len(self._found.agents) else None

    def show_reason(self) -> None:
        index, agent = self.marked, self._agent
        if agent is not None:
            wrong = f"It does not start: {agent.refusal}." if agent.refusal else agent.problem
            self.tell(_explain(agent), "$text-warning" if wrong else "$foreground 60%")
        elif index is not None:
            self.tell(f"No subagent: {self._found.skipped[index - len(self._found.agents)].reason}", "$text-warning")

    def action_open(self) -> None:
        index, agent = self.marked, self._agent
        if index is None:
            return
        path = agent.path if agent is not None else self._found.skipped[index - len(self._found.agents)].path
        if not path:
            self.tell("It is built in.", "$text-warning")
        elif path.startswith(("/", "~", "../")):
            self.tell(f"It lies outside of the project: {path}", "$text-warning")
        else:
            self.answer(("open", path))

    def action_mention(self) -> None:
        if (agent := self._agent) is not None and not agent.refusal:
            self.answer(("mention", agent.name))


def _explain(agent: LoadedAgent) -> str:
    if agent.refusal:
        return f"It does not start: {agent.refusal.rstrip('?.')}."
    tools = f"It has {', '.join(agent.tools) or 'no tools'}." if agent.tools is not None else ""
    return " ".join(filter(None, (agent.problem and f"{agent.problem}.", agent.description, tools)))


def _format_agent(agent: LoadedAgent, width: int) -> Content:
    can_start = not agent.refusal
    model = f"the job's model for {agent.other_model}" if agent.other_model else agent.model
    facts = [agent.source, model, "only reads" if agent.is_readonly else ""]
    if agent.tools is not None:
        facts.append(count("tool", len(agent.tools)))
    style = "" if can_start else "$foreground 60%"
    return Content.assemble(
        ("+ " if can_start else "- ", "$accent" if can_start else style),
        (fit_line(agent.name, width).ljust(width), style),
        (" !" if agent.problem or agent.refusal else "  ", "$text-warning"),
        (f" {' · '.join(filter(None, facts))}", "$foreground 60%"),
    )
