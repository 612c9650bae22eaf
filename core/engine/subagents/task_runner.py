"""Run one subagent at the task that a model gave it: one turn, and the answer for that model."""

from __future__ import annotations

from typing import Final

from core.agent.gate.task_results import describe_unfinished
from core.agent.turn.budget import SubagentLimits
from core.attachments.preparation import PreparedAttachment
from core.engine.session.session import Session
from core.engine.subagents.agent_types import AgentType
from core.engine.subagents.runner import SubagentEnd, SubagentRunner
from core.prompts import render
from core.protocol.events import SubagentMerged, SubagentStarted
from core.protocol.messages import ToolMessage
from core.tools.base import SubagentReport, SubagentTask

MAX_PICTURES: Final = 3  # that go with a report


class TaskRunner(SubagentRunner):
    """Runs one subagent at its task, for the tool call `call`.

    One that goes on is sent the new prompt alone: it was told of its part when it began.
    """

    def __init__(
        self, parent: Session, child: Session, agent: AgentType, task: SubagentTask, limits: SubagentLimits, call: str
    ) -> None:
        self.agent = agent
        self.task = task
        started = SubagentStarted(id=child.id, title=task.description, agent=agent.name, call=call)
        super().__init__(parent, child, started, limits)

    async def work(self) -> SubagentEnd:
        self.reporter.repeat_questions()
        is_new = not self.child.state.messages
        instruction = render(
            "task_subagent", prompt=self.task.prompt, agent=self.agent, is_readonly=self.is_readonly, is_new=is_new
        )
        return await self.run_turn(self.task.description, instruction)

    @property
    def is_readonly(self) -> bool:
        """True if nothing that it does is kept."""
        return self.child.state.mode == "ask"

    def build_report(self, end: SubagentEnd, merged: SubagentMerged | None) -> SubagentReport:
        """Build the answer for the model that gave the task: the subagent's last words, and what became of its work."""
        said = self.reporter.last_words
        if end.reason != "done":
            why = end.message or "it was stopped"
            known = self.parent.state.subagents[self.id]
            rest = describe_unfinished(known, why, is_readonly=self.is_readonly)
            return SubagentReport(text="\n\n".join(filter(None, (said, rest))), summary=why, has_failed=True)
        rows = [f"{self.agent.name} {self.id} is done."]
        if merged is not None and merged.paths:
            rows.append(f"Its changes are among yours now: {', '.join(merged.paths)}.")
        if merged is not None and merged.conflicts:
            rows.append(f"They clash in {', '.join(merged.conflicts)}: the user settles that in the review.")
        if merged is not None and merged.generated:
            rows.append(f"{merged.generated} generated files came with them.")
        rows += merged.notes if merged is not None else ()
        count = len(merged.paths) if merged is not None else 0
        summary = "" if not count else f"{count} file{'' if count == 1 else 's'} changed"
        text = "\n\n".join(filter(None, (said or "It said nothing.", f"[{' '.join(rows)}]")))
        pictures = list_pictures(self.child) if self.agent.has_browser else ()
        return SubagentReport(text=text, summary=summary or f"{self.reporter.calls} calls", attachments=pictures)


def list_pictures(child: Session) -> tuple[PreparedAttachment, ...]:
    """List the last pictures that tools of a subagent brought."""
    brought = [each for said in child.state.messages if isinstance(said, ToolMessage) for each in said.attachments]
    last = {each.digest: each for each in brought}.values()
    kept = [each for each in last if each.media_type.startswith("image/")][-MAX_PICTURES:]
    return tuple(PreparedAttachment(attachment=each, data=child.shadow.blobs.get(each.digest)) for each in kept)
