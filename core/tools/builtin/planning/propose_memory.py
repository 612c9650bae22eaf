"""propose_memory: ask the user to keep a note about the project for later sessions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta

from core.modes import Access
from core.tools.base import Asker, Tool, ToolOutcome

_KEEPING: Final = (("action", "create"), ("action", "update"))  # what else another agent's tool does with notes


class ProposeMemory(Tool[Asker], frozen=True, kw_only=True):
    name: ClassVar[str] = "propose_memory"
    access: ClassVar[Access] = Access.ASK
    argument_names: ClassVar = {"memory": "note", "text": "note", "knowledge_to_store": "note", "reason": "why"}
    ignored_arguments: ClassVar = frozenset(("title", "existing_knowledge_id"))

    note: Annotated[str, Meta(min_length=1, description="One fact, in one or two lines.")]
    why: Annotated[str, Meta(description="Why, for the user.")] = ""

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in arguments.items() if (name, value) not in _KEEPING}

    def subject(self) -> str:
        return self.note

    async def run(self, capability: Asker) -> ToolOutcome:
        await capability.propose_note(self.note, self.why)
        return ToolOutcome(
            content="The user will be asked, and it is kept if they say yes. Go on meanwhile.",
            summary="waits for you: /memory",
        )
