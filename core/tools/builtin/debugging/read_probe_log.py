"""read_probe_log: what the probes logged, by hypothesis and by run, and two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from core.debug.probe_records import compare_runs, filter_records, format_record, narrow_location
from core.errors import ToolInputInvalid
from core.protocol.debug import ComparedLocation, ProbeRecord
from core.text.counting import count
from core.tools.base import ToolOutcome
from core.tools.builtin.debugging.debugger import Debugger, DebugTool
from core.tools.builtin.debugging.reproduce import format_probe_line

_MOST = 400  # lines, or places
_SIDE = 5  # lines of each run at a place
_SIDES = {"first": "only in {0}", "second": "only in {1}", "differs": "differs", "same": "the same"}


class ReadProbeLog(DebugTool, frozen=True, kw_only=True, rename={"hypothesis": "hypothesis_id", "named": "run"}):
    name: ClassVar[str] = "read_probe_log"
    argument_names: ClassVar = {"run_id": "run", "hypothesis": "hypothesis_id"}

    named: Annotated[str, Meta(max_length=20, description="The run, as r1; left out: the latest.")] = ""
    compare_with: Annotated[str, Meta(max_length=20, description="Another run, to see what differs.")] = ""
    hypothesis: Annotated[str, Meta(max_length=20, description="Only lines of this hypothesis.")] = ""
    containing: Annotated[str, Meta(max_length=200, description="Only lines with this text in them.")] = ""
    offset: Annotated[int, Meta(ge=0, description="How many lines to leave out at the beginning.")] = 0

    def subject(self) -> str:
        runs = " and ".join(filter(None, (self.named, self.compare_with))) or "the latest run"
        return f"{runs}{f' ({self.hypothesis})' if self.hypothesis else ''}"

    async def run(self, capability: Debugger) -> ToolOutcome:
        runs = [probe_run.id for probe_run in capability.runs()]
        if not runs:
            raise ToolInputInvalid("Nothing was logged yet.", hint="Call reproduce first.")
        name = self.named or runs[-1]
        all_records = capability.records(name)
        records = self._filter_records(all_records)
        if self.compare_with:
            other = self._filter_records(capability.records(self.compare_with))
            return self._compare_runs(name, compare_runs(records, other))
        part = records[self.offset : self.offset + _MOST]
        lines = [
            f"{count('line', len(records))} of {name}:",
            *(format_probe_line(name, record.line, format_record(record)) for record in part),
        ]
        remaining_count = len(records) - self.offset - len(part)
        if remaining_count > 0:
            full_log = "\n".join(format_probe_line(name, record.line, format_record(record)) for record in all_records)
            file = capability.save_output(name, full_log)
            lines.append(f"[{remaining_count} more{f'; the whole log: read_file {file}' if file else ''}]")
        return ToolOutcome(content="\n".join(lines), summary=count("line", len(records)))

    def _filter_records(self, records: tuple[ProbeRecord, ...]) -> tuple[ProbeRecord, ...]:
        return filter_records(records, hypothesis=self.hypothesis, words=(self.containing,) if self.containing else ())

    def _compare_runs(self, name: str, rows: tuple[ComparedLocation, ...]) -> ToolOutcome:
        other = self.compare_with
        part = rows[self.offset : self.offset + _MOST]
        lines = [f"{name} and {other}, place by place:"]
        for row in part:
            lines += _format_comparison(row, name, other)
        remaining_count = len(rows) - self.offset - len(part)
        lines += [f"[{remaining_count} places more]"] if remaining_count > 0 else []
        differing = sum(row.side != "same" for row in rows)
        return ToolOutcome(content="\n".join(lines), summary=f"{differing} of {len(rows)} places differ")


def _format_comparison(row: ComparedLocation, name: str, other: str) -> Iterator[str]:
    yield (
        f"{_SIDES[row.side].format(name, other)}: [{row.hypothesis}] {row.location}: {row.message} "
        f"({row.first_count} and {row.second_count} lines)"
    )
    if row.side != "same":
        compared_location = narrow_location(row, _SIDE)
        for run, records in ((name, compared_location.first), (other, compared_location.second)):
            yield from (f"  {format_probe_line(run, record.line, record.data or record.message)}" for record in records)
