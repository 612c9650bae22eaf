"""probe_add: a statement that only logs, laid into the code for runs and for nothing else."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.tools.base import ToolOutcome
from core.tools.builtin.debugging.debugger import Debugger, DebugTool


class ProbeAdd(DebugTool, frozen=True, kw_only=True, rename={"hypothesis": "hypothesis_id"}):
    name: ClassVar[str] = "probe_add"
    argument_names: ClassVar = {"path": "file_path", "target_file": "file_path", "hypothesis": "hypothesis_id"}

    file_path: Annotated[str, Meta(min_length=1, description="The file.")]
    line: Annotated[int, Meta(ge=1, description="The line before which the probe runs (1-indexed).")]
    code: Annotated[
        str,
        Meta(min_length=1, max_length=10_000, description="What writes one line to the log; it is indented for you."),
    ]
    hypothesis: Annotated[str, Meta(max_length=20, description="The hypothesis that it is for, as H1.")]

    def subject(self) -> str:
        return f"{self.file_path}:{self.line}"

    def paths(self) -> tuple[str, ...]:
        return (self.file_path,)

    async def run(self, capability: Debugger) -> ToolOutcome:
        probe = capability.add_probe(self.file_path, self.line, self.code, self.hypothesis)
        count = len(capability.probes())
        return ToolOutcome(
            content=f"{probe.id} is in place before line {probe.line} of {probe.path}, for {probe.hypothesis}. "
            f"{count} {'probe is' if count == 1 else 'probes are'} in place. Only `reproduce` runs with them: no file "
            "and no other command has them.",
            summary=f"{probe.id} for {probe.hypothesis}",
        )
