"""finish: the end of a turn, for models that end theirs by a call. What it says is the answer."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.tools.base import Reader, ReadTool, ToolOutcome


class FinishTool(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "finish"
    argument_names: ClassVar = dict.fromkeys(("result", "answer", "response", "summary", "text", "output"), "message")
    ignored_arguments: ClassVar = frozenset(("thought", "task_completed", "command"))

    message: Annotated[str, Meta(description="What the user is told.")] = ""

    def subject(self) -> str:
        return ""

    async def run(self, capability: Reader) -> ToolOutcome:
        return ToolOutcome(content="The turn ends here.", summary="")
