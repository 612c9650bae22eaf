"""hypothesis_verdict: whether a hypothesis holds, by lines that were really logged."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.protocol.debug import CauseVerdict
from core.tools.base import ToolOutcome
from core.tools.builtin.debugging.debugger import Debugger, DebugTool, format_hypotheses


class HypothesisVerdict(DebugTool, frozen=True, kw_only=True, rename={"hypothesis": "id"}):
    name: ClassVar[str] = "hypothesis_verdict"
    argument_names: ClassVar = {"hypothesis_id": "id", "hypothesisId": "id"}

    hypothesis: Annotated[str, Meta(min_length=1, max_length=20, description="The hypothesis, as H1.")]
    verdict: Annotated[CauseVerdict, Meta(description="confirmed, rejected or inconclusive.")]
    evidence: Annotated[
        tuple[str, ...], Meta(max_length=50, description="Lines of logs that say so, as r1:3 (run and line).")
    ] = ()
    reason: Annotated[str, Meta(max_length=4_000, description="One sentence: what these lines show.")] = ""

    def subject(self) -> str:
        return f"{self.hypothesis}: {self.verdict}"

    async def run(self, capability: Debugger) -> ToolOutcome:
        hypothesis = capability.give_verdict(self.hypothesis, self.verdict, self.evidence, self.reason)
        lines = [format_hypotheses(capability.hypotheses())]
        if hypothesis.state == "confirmed":
            lines.append("Mend this cause now, with as small a change as it takes; then reproduce again and compare.")
        elif all(
            other_hypothesis.state in {"rejected", "inconclusive"} for other_hypothesis in capability.hypotheses()
        ):
            lines.append("None is confirmed: set new hypotheses from what you learned, or probe elsewhere.")
        return ToolOutcome(content="\n".join(lines), summary=", ".join(line.name for line in hypothesis.evidence))
