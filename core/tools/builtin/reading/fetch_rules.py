"""fetch_rules: whole rules that the model was only told the subject of."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.errors import ToolInputInvalid
from core.tools.base import Reader, ReadTool, ToolOutcome

_MOST_NAMES = 20


class FetchRules(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "fetch_rules"
    argument_names: ClassVar = {"rule": "rules", "rule_names": "rules", "names": "rules", "paths": "rules"}

    rules: Annotated[
        tuple[str, ...], Meta(min_length=1, max_length=_MOST_NAMES, description="Paths of rules, as they were listed.")
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
