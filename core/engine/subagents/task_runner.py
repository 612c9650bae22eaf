"""Run one subagent at the task that a model gave it: one turn, and the answer for that model."""

from __future__ import annotations

from typing import Final

from core.agent.base.budget import SubagentLimits
from core.agent.gate.call_results import describe_unfinished
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
        start_event = SubagentStarted(id=child.id, title=task.description, agent=agent.name, call=call)
        super().__init__(parent, child, start_event, limits)

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

    def build_report(self, end: SubagentEnd, merge: SubagentMerged | None) -> SubagentReport:
        """Build the answer for the model that gave the task: the subagent's last words, and what became of its work."""
        last_words = self.reporter.last_words
        if end.reason != "done":
            reason = end.message or "it was stopped"
            subagent = self.parent.state.subagents[self.id]
            rest = describe_unfinished(subagent, reason, is_readonly=self.is_readonly)
            return SubagentReport(text="\n\n".join(filter(None, (last_words, rest))), summary=reason, has_failed=True)
        rows = [f"{self.agent.name} {self.id} is done."]
        if merge is not None and merge.paths:
            rows.append(f"Its changes are among yours now: {', '.join(merge.paths)}.")
        if merge is not None and merge.conflicts:
            rows.append(f"They clash in {', '.join(merge.conflicts)}: the user settles that in the review.")
        if merge is not None and merge.generated:
            rows.append(f"{merge.generated} generated files came with them.")
        rows += merge.notes if merge is not None else ()
        count = len(merge.paths) if merge is not None else 0
        summary = "" if not count else f"{count} file{'' if count == 1 else 's'} changed"
        text = "\n\n".join(filter(None, (last_words or "It said nothing.", f"[{' '.join(rows)}]")))
        pictures = list_pictures(self.child) if self.agent.has_browser else ()
        return SubagentReport(text=text, summary=summary or f"{self.reporter.calls} calls", attachments=pictures)


def list_pictures(child: Session) -> tuple[PreparedAttachment, ...]:
    """List the last pictures that tools of a subagent brought."""
    brought = [
        attachment
        for message in child.state.messages
        if isinstance(message, ToolMessage)
        for attachment in message.attachments
    ]
    last = {attachment.digest: attachment for attachment in brought}.values()
    pictures = [attachment for attachment in last if attachment.media_type.startswith("image/")][-MAX_PICTURES:]
    return tuple(
        PreparedAttachment(attachment=attachment, data=child.shadow.blobs.get(attachment.digest))
        for attachment in pictures
    )
