"""Tools that have others work: `task` gives a task to a subagent, which has a separate context and a separate copy of
the pending files; `consult_advisor` asks a stronger model."""

from __future__ import annotations

from textwrap import shorten
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from core.modes import Access
from core.tools.base import Spawner, SubagentTask, Tool, ToolOutcome

_PROMPTS = ("task", "message", "instructions")
_LONGEST_TITLE = 60  # In characters.
_LONGEST_QUESTION = 30  # In characters; the model and the cost stand behind it.


class TaskTool(Tool[Spawner], frozen=True, kw_only=True):
    name: ClassVar[str] = "task"
    access: ClassVar[Access] = Access.SPAWN
    argument_names: ClassVar = {
        **dict.fromkeys(("agent", "agent_type", "agent_name", "subagent_name"), "subagent_type"),
        **dict.fromkeys(_PROMPTS, "prompt"),
        **dict.fromkeys(("task_name", "label"), "description"),
        "task_id": "resume",
    }
    ignored_arguments: ClassVar = frozenset(
        (
            "attachments",
            "isolation",
            "max_turns",
            "name",
            "team_name",
            "command",
            "timeout",
            "effort",
            "reasoning_effort",
        )
    )

    description: Annotated[str, Meta(max_length=200, description="The task in three to five words.")] = ""
    prompt: Annotated[str, Meta(min_length=1, description="All it needs to know; it sees nothing else.")]
    subagent_type: Annotated[str, Meta(description="Which subagent.")] = "generalPurpose"
    model: Annotated[str, Meta(description="Another model: provider/name, or fast.")] = ""
    resume: Annotated[str, Meta(description="The id of an earlier subagent to continue.")] = ""
    readonly: Annotated[bool, Meta(description="Drop its changes.")] = False
    run_in_background: bool = False  # For models of other agents; all tasks of one message run in parallel anyway.

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Take a description without a prompt for the prompt."""
        if "description" in arguments and arguments.keys().isdisjoint(("prompt", *_PROMPTS)):
            rest = {name: value for name, value in arguments.items() if name != "description"}
            return {**rest, "prompt": arguments["description"]}
        return arguments

    @property
    def title(self) -> str:
        """The description, or the beginning of the prompt."""
        words = " ".join(self.description.split()) or " ".join(self.prompt.split())
        return words if self.description else shorten(words, _LONGEST_TITLE, placeholder=" …")

    def subject(self) -> str:
        return f"{self.subagent_type}: {self.title}"

    async def run(self, capability: Spawner) -> ToolOutcome:
        report = await capability.run(
            SubagentTask(
                description=self.title,
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


class ConsultAdvisor(Tool[Spawner], frozen=True, kw_only=True):
    name: ClassVar[str] = "consult_advisor"
    access: ClassVar[Access] = Access.SPAWN
    argument_names: ClassVar = dict.fromkeys(("prompt", "query", "task", "message"), "question")

    question: Annotated[
        str, Meta(min_length=1, max_length=20_000, description="What you want judged, with what you have tried.")
    ]

    def subject(self) -> str:
        return shorten(self.question, _LONGEST_QUESTION, placeholder=" …")

    async def run(self, capability: Spawner) -> ToolOutcome:
        advice = await capability.consult(self.question)
        content = f"{advice.model} says:\n\n{advice.text}\n\n[It saw the conversation as text, but not the project.]"
        return ToolOutcome(content=content, summary=" · ".join(filter(None, (advice.model, advice.cost))))
