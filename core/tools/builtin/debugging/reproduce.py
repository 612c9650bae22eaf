"""reproduce: show the fault with the probes in place, by a command or by the user's hand, and keep what they log."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.debug.probe_records import format_record
from core.errors import ToolInputInvalid
from core.text.counting import count
from core.tools.base import ToolOutcome
from core.tools.builtin.debugging.debugger import Debugger, DebugTool, Reproduction, ReproductionReport
from core.tools.builtin.terminal.run_terminal_cmd import format_outcome

_FIRST = 60  # records that are told at once
_OUTPUT = 6_000  # characters of the command's output, its end
_SAID = {
    "proceed": "The user followed the steps: proceed with what was logged.",
    "stopped": "The user did not follow the steps; what was logged until then is kept.",
}


class Reproduce(DebugTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "reproduce"
    argument_names: ClassVar = {"cmd": "command", "time_limit": "timeout"}

    command: Annotated[str, Meta(max_length=100_000, description="What shows the fault; the shell is bash.")] = ""
    steps: Annotated[
        tuple[str, ...], Meta(max_length=20, description="Instead of a command: what the user is to do, step by step.")
    ] = ()
    timeout: Annotated[int, Meta(ge=0, le=600, description="Seconds for the command, at most 600 (default 120).")] = 0
    explanation: Annotated[str, Meta(description="One sentence for the user: why this is run.")] = ""

    def subject(self) -> str:
        return self.command or (self.steps[0] if self.steps else "")

    async def run(self, capability: Debugger) -> ToolOutcome:
        if bool(self.command.strip()) is bool(self.steps) or "\0" in self.command:
            raise ToolInputInvalid("Give either a command or steps for the user.", hint="A command is better.")
        reproduction = Reproduction(command=self.command, steps=self.steps, seconds=float(self.timeout or 120))
        report = await capability.reproduce(reproduction)
        run = report.run
        lines = [
            format_probe_line(run.id, record.line, format_record(record))
            for record in capability.records(run.id)[:_FIRST]
        ]
        remaining_count = run.records - len(lines)
        parts = [_format_head(report), *lines]
        if remaining_count > 0:
            parts.append(f"[{remaining_count} more: read_probe_log {{run: {run.id}}}]")
        if report.result is not None:
            content = format_outcome(self.command, report.result).content
            parts.append(content if len(content) <= _OUTPUT else f"[…]\n{content[-_OUTPUT:]}")
        summary = f"{run.id}: {count('line', run.records)} logged"
        return ToolOutcome(content="\n".join(parts), summary=summary, failed=report.outcome == "stopped")


def format_probe_line(run: str, line: int, text: str) -> str:
    return f"{run}:{line} {text}"


def _format_head(report: ReproductionReport) -> str:
    run = report.run
    breakdown = ", ".join(f"{name or 'no hypothesis'} {number}" for name, number in run.counts.items())
    when = " (after a change on evidence)" if run.after_fix else ""
    parts = [f"Run {run.id}{when}: {count('probe', run.probes)} in place,"]
    parts.append(f"{count('line', run.records)} logged{f' ({breakdown})' if breakdown else ''}.")
    if run.broken:
        parts.append(f"{run.broken} lines of the log were no JSON objects.")
    if report.lost:
        parts.append(f"The code around {', '.join(report.lost)} has changed: they have no place any more.")
    if run.left:
        parts.append(f"{run.left} lines more were logged than are kept.")
    if report.unseen:
        parts.append(
            f"This run saw the files on disk, not what is pending in {', '.join(report.unseen)}: ask the user to "
            "accept that first."
        )
    parts += filter(None, (_SAID.get(report.outcome, ""), report.note))
    return " ".join(parts)
