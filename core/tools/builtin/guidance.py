"""The tools for a project's guidance: its rules, its skills, and the notes that are remembered about it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta

from core.errors import ToolInputInvalid
from core.modes import Access
from core.tools.base import Asker, Reader, ReadTool, SkillRequest, Tool, ToolOutcome

_MOST_NAMES = 20
_SAVE_ACTIONS: Final = (
    ("action", "create"),
    ("action", "update"),
)  # of another agent's tool


class FetchRules(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "fetch_rules"
    argument_names: ClassVar = dict.fromkeys(("rule", "rule_names", "names", "name", "paths"), "rules")

    rules: Annotated[
        tuple[str, ...], Meta(min_length=1, max_length=_MOST_NAMES, description="Paths of rules, as listed.")
    ]

    def subject(self) -> str:
        return ", ".join(self.rules)

    async def run(self, capability: Reader) -> ToolOutcome:
        rules = await capability.fetch_rules(self.rules)
        if not rules.texts:
            hint = f"The rules are {', '.join(rules.known)}." if rules.known else "There are no rules here."
            raise ToolInputInvalid(f"No rule is called {', '.join(self.rules)}.", hint=hint)
        missing = [f"[no rule is called {', '.join(rules.unknown)}]"] if rules.unknown else []
        return ToolOutcome(content="\n".join((*rules.texts, *missing)), summary=", ".join(rules.paths))


class ActivateSkill(ReadTool, frozen=True, kw_only=True, rename={"skill": "name"}):
    name: ClassVar[str] = "activate_skill"
    argument_names: ClassVar = {"skill_name": "name", "skill": "name", "command": "name", "args": "arguments"}

    skill: Annotated[str, Meta(min_length=1, description="The skill's name, as listed.")]
    arguments: Annotated[str, Meta(description="Its arguments, if it takes any.")] = ""
    file: Annotated[str, Meta(description="A file of the skill's folder to read instead.")] = ""

    def subject(self) -> str:
        return f"{self.skill}: {self.file}" if self.file else self.skill

    async def run(self, capability: Reader) -> ToolOutcome:
        skill = await capability.open_skill(SkillRequest(self.skill, self.arguments, self.file))
        return ToolOutcome(content=skill.text, summary=skill.path)


class ProposeMemory(Tool[Asker], frozen=True, kw_only=True):
    name: ClassVar[str] = "propose_memory"
    access: ClassVar[Access] = Access.ASK
    argument_names: ClassVar = {
        **dict.fromkeys(("memory", "text", "knowledge_to_store", "fact", "content"), "note"),
        "reason": "why",
    }
    ignored_arguments: ClassVar = frozenset(("title", "existing_knowledge_id"))

    note: Annotated[str, Meta(min_length=1, description="One fact, in one or two lines.")]
    why: Annotated[str, Meta(description="Why, for the user.")] = ""

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in arguments.items() if (name, value) not in _SAVE_ACTIONS}

    def subject(self) -> str:
        return self.note

    async def run(self, capability: Asker) -> ToolOutcome:
        await capability.propose_note(self.note, self.why)
        return ToolOutcome(
            content="The user will be asked, and it is saved if they agree. Continue meanwhile.",
            summary="waiting for you: /memory",
        )
