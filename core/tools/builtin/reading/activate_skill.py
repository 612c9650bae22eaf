"""activate_skill: the instructions of a skill that the model was only told the name of, or a file beside them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.tools.base import Reader, ReadTool, SkillRequest, ToolOutcome


class ActivateSkill(ReadTool, frozen=True, kw_only=True, rename={"skill": "name"}):
    name: ClassVar[str] = "activate_skill"
    argument_names: ClassVar = {"skill_name": "name", "skill": "name", "command": "name", "args": "arguments"}

    skill: Annotated[str, Meta(min_length=1, description="The skill's name, as it was listed.")]
    arguments: Annotated[str, Meta(description="Words for it, where it takes any.")] = ""
    file: Annotated[str, Meta(description="A file of the skill's folder, to be read instead of its text.")] = ""

    def subject(self) -> str:
        return f"{self.skill}: {self.file}" if self.file else self.skill

    async def run(self, capability: Reader) -> ToolOutcome:
        skill = await capability.open_skill(SkillRequest(self.skill, self.arguments, self.file))
        return ToolOutcome(content=skill.text, summary=skill.path)
