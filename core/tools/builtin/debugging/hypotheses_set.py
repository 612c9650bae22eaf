"""hypotheses_set: three to five possible causes, before anything is changed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from core.debug.hypotheses import check_hypotheses
from core.protocol.debug import Hypothesis
from core.tools.base import ToolOutcome
from core.tools.builtin.debugging.debugger import Debugger, DebugTool, format_hypotheses


class ProposedHypothesis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    statement: Annotated[str, Meta(min_length=1, max_length=2_000, description="The possible cause, in one sentence.")]
    expected: Annotated[str, Meta(max_length=2_000, description="What a log would show if it were true.")] = ""
    id: Annotated[str, Meta(max_length=20, description="Short, as H1; left out: numbered.")] = ""


class HypothesesSetTool(DebugTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "hypotheses_set"

    hypotheses: Annotated[tuple[ProposedHypothesis, ...], Meta(description="Three to five, the likeliest first.")]

    def subject(self) -> str:
        return f"{len(self.hypotheses)} hypotheses"

    async def run(self, capability: Debugger) -> ToolOutcome:
        hypotheses = tuple(
            Hypothesis(
                id=hypothesis.id or f"H{number}",
                statement=hypothesis.statement.strip(),
                expects=hypothesis.expected.strip(),
            )
            for number, hypothesis in enumerate(self.hypotheses, start=1)
        )
        check_hypotheses(hypotheses)
        taken_back = capability.set_hypotheses(hypotheses)
        lines = [format_hypotheses(hypotheses)]
        if taken_back:
            lines.append(f"The fix that did not help was taken back in {', '.join(taken_back)}.")
        return ToolOutcome(content="\n".join(lines), summary="the fix was taken back" if taken_back else "")
