"""switch_mode: ask the user to go on in another mode."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.modes import Access, Mode
from core.tools.base import Asker, Tool, ToolOutcome


class SwitchMode(Tool[Asker], frozen=True, kw_only=True):
    name: ClassVar[str] = "switch_mode"
    access: ClassVar[Access] = Access.ASK
    argument_names: ClassVar = {"mode": "target_mode_id", "mode_id": "target_mode_id"}

    target_mode_id: Annotated[Mode, Meta(description="The mode to go on in.")]
    explanation: Annotated[str, Meta(description="For the user: why that mode fits better.")] = ""

    def subject(self) -> str:
        return self.target_mode_id.value

    async def run(self, capability: Asker) -> ToolOutcome:
        mode = self.target_mode_id.value
        if await capability.request_mode(mode, self.explanation):
            return ToolOutcome(content=f"The user agreed: you are in {mode} mode now.", summary=f"now in {mode} mode")
        content = f"The user did not agree to {mode} mode. Go on in the present one, or say what you can't do in it."
        return ToolOutcome(content=content, summary="declined")
