"""task: a task for a subagent, which has a separate context and a separate copy of the pending files."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.modes import Access
from core.tools.base import Spawner, SubagentTask, Tool, ToolOutcome


class TaskTool(Tool[Spawner], frozen=True, kw_only=True):
    name: ClassVar[str] = "task"
    access: ClassVar[Access] = Access.SPAWN
    argument_names: ClassVar = {"subagentType": "subagent_type", "agent": "subagent_type", "task": "prompt"}
    ignored_arguments: ClassVar = frozenset(("attachments", "isolation", "max_turns", "name", "team_name"))

    description: Annotated[str, Meta(min_length=1, max_length=200, description="The task in three to five words.")]
    prompt: Annotated[str, Meta(min_length=1, description="All it needs to know; it sees nothing else.")]
    subagent_type: Annotated[str, Meta(description="Which subagent.")] = "generalPurpose"
    model: Annotated[str, Meta(description="Another model: provider/name, or fast.")] = ""
    resume: Annotated[str, Meta(description="The id of an earlier subagent to continue.")] = ""
    readonly: Annotated[bool, Meta(description="Drop its changes.")] = False
    run_in_background: bool = False  # For models of other agents; all tasks of one message run in parallel anyway.

    def subject(self) -> str:
        return f"{self.subagent_type}: {self.description}"

    async def run(self, capability: Spawner) -> ToolOutcome:
        report = await capability.run(
            SubagentTask(
                description=" ".join(self.description.split()),
                prompt=self.prompt,
                agent=self.subagent_type,
                model=self.model,
                resume=self.resume,
                readonly=self.readonly,
            )
        )
        return ToolOutcome(
            content=report.text, summary=report.summary, failed=report.has_failed, attachments=report.attachments
        )
