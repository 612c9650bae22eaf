"""read_probe_log: what the probes logged, by hypothesis and by run, and two runs side by side."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.debug.comparing import compared, picked
from core.debug.records import shown
from core.errors import ToolInputInvalid
from core.modes import Access
from core.protocol.debug import ComparedPlace
from core.tools.base import Outcome, Tool
from core.tools.debugging import Debugger
from core.tools.reproduce import shown_line

_MOST = 400
_SIDES = {"first": "only in {0}", "second": "only in {1}", "differs": "differs", "same": "the same"}


class ReadProbeLog(Tool[Debugger], frozen=True, kw_only=True, rename={"hypothesis": "hypothesis_id", "named": "run"}):
    name: ClassVar[str] = "read_probe_log"
    access: ClassVar[Access] = Access.PROBE
    argument_names: ClassVar = {"run_id": "run", "hypothesis": "hypothesis_id"}

    named: Annotated[str, Meta(max_length=20, description="The run, as r1; left out: the latest.")] = ""
    compare_with: Annotated[str, Meta(max_length=20, description="Another run, to see what differs.")] = ""
    hypothesis: Annotated[str, Meta(max_length=20, description="Only lines of this hypothesis.")] = ""
    containing: Annotated[str, Meta(max_length=200, description="Only lines with this text in them.")] = ""
    offset: Annotated[int, Meta(ge=0, description="How many lines to leave out at the beginning.")] = 0

    def subject(self) -> str:
        runs = " and ".join(filter(None, (self.named, self.compare_with))) or "the latest run"
        return f"{runs}{f' ({self.hypothesis})' if self.hypothesis else ''}"

    async def run(self, capability: Debugger) -> Outcome:
        runs = [each.id for each in capability.runs()]
        if not runs:
            raise ToolInputInvalid("Nothing was logged yet.", hint="Call reproduce first.")
        name = self.named or runs[-1]
        records = picked(capability.records(name), hypothesis=self.hypothesis, containing=self.containing)
        if self.compare_with:
            other = picked(
                capability.records(self.compare_with), hypothesis=self.hypothesis, containing=self.containing
            )
            return self._compared(name, compared(records, other))
        part = records[self.offset : self.offset + _MOST]
        lines = [shown_line(name, each.line, shown(each)) for each in part]
        left = len(records) - self.offset - len(part)
        told = [f"{len(records)} lines of {name}:", *lines, *([f"[{left} more]"] if left > 0 else [])]
        return Outcome(content="\n".join(told), summary=f"{len(records)} lines")

    def _compared(self, name: str, rows: tuple[ComparedPlace, ...]) -> Outcome:
        other = self.compare_with
        told = [f"{name} and {other}, place by place:"]
        for row in rows[self.offset : self.offset + _MOST]:
            side = _SIDES[row.side].format(name, other)
            told.append(f"{side}: [{row.hypothesis}] {row.location}: {row.message}")
            if row.side != "same":
                told += [
                    f"  {shown_line(run, each.line, each.data)}"
                    for run, side_records in ((name, row.first), (other, row.second))
                    for each in side_records[:5]
                ]
        differing = sum(row.side != "same" for row in rows)
        return Outcome(content="\n".join(told), summary=f"{differing} of {len(rows)} places differ")
