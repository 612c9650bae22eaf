"""The tools of Debug mode: the board of hypotheses, the probes, and the runs with their logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Protocol

from msgspec import Meta, Struct

from core.debug.hypotheses import check_hypotheses
from core.debug.probe_records import compare_runs, filter_records, format_record, narrow_location
from core.errors import ToolInputInvalid
from core.modes import Access
from core.protocol.debug import CauseVerdict, ComparedLocation, Hypothesis, Probe, ProbeRecord, ProbeRun
from core.protocol.events.debug import ReproduceOutcome
from core.sandbox.results import CommandResult
from core.text.counting import count
from core.tools.base import Tool, ToolOutcome
from core.tools.builtin.terminal.run_terminal_cmd import format_outcome

_MAX_INLINE = 60  # Records in the result itself.
_OUTPUT = 6_000  # The limit for the end of the command's output, in characters.
_REPLIES = {
    "proceed": "The user followed the steps: continue with what was logged.",
    "stopped": "The user did not follow the steps; what was logged until then is kept.",
}
_MAX_ROWS = 400  # Lines, or locations.
_SIDE = 5  # Lines of either run per location.
_SIDES = {"first": "only in {0}", "second": "only in {1}", "differs": "differs", "same": "the same"}


class Reproduction(Struct, frozen=True, kw_only=True):
    """A way to reproduce the fault: a command with its time limit in `seconds`, or `steps` for the user."""

    command: str = ""
    steps: tuple[str, ...] = ()
    seconds: float = 120.0


class ReproductionReport(Struct, frozen=True, kw_only=True):
    """A reproduction. `note`: the user's remark; `lost`: probes whose location is gone; `unseen`: files of a pending
    fix that the run did not see."""

    run: ProbeRun
    outcome: ReproduceOutcome
    result: CommandResult | None = None
    note: str = ""
    lost: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


class RemovedProbes(Struct, frozen=True, kw_only=True):
    """The removed probes, and the user's verdict on the fix before the last one was removed ("" = not asked)."""

    gone: tuple[str, ...] = ()
    verdict: str = ""


class Debugger(Protocol):
    """PROBE: never changes a file that the user has or will review."""

    def hypotheses(self) -> tuple[Hypothesis, ...]: ...

    def probes(self) -> tuple[Probe, ...]: ...

    def runs(self) -> tuple[ProbeRun, ...]: ...

    def set_hypotheses(self, hypotheses: tuple[Hypothesis, ...]) -> tuple[str, ...]:
        """Replace all hypotheses. Return the files in which an unhelpful fix was reverted."""

    def judge_hypothesis(self, name: str, verdict: CauseVerdict, evidence: tuple[str, ...], reason: str) -> Hypothesis:
        """Give a verdict; `evidence` names lines of logs as `run:line`."""

    def add_probe(self, path: str, line: int, code: str, hypothesis: str) -> Probe:
        """Put a probe before a line. Raises `ToolInputInvalid` if it can't be there, or the file would not parse."""

    async def remove_probes(self, names: tuple[str, ...]) -> RemovedProbes:
        """Remove probes (() = all). Before the last one is removed, the user judges a fix; a broken one is reverted."""

    async def reproduce(self, reproduction: Reproduction) -> ReproductionReport:
        """Run with the probes in place. Raises `ToolFailed` if that is impossible or refused."""

    def records(self, run: str) -> tuple[ProbeRecord, ...]:
        """Return the records of a run. Raises `ToolInputInvalid` if there is no such run."""

    def save_output(self, run: str, text: str) -> str:
        """Save the whole log of a run in a file that `read_file` can read, and return its name, "" = there is
        no room."""


class DebugTool(Tool[Debugger], frozen=True, kw_only=True):
    """Base of the tools of Debug mode."""

    access: ClassVar[Access] = Access.PROBE


def format_hypotheses(hypotheses: tuple[Hypothesis, ...]) -> str:
    """Return one line for every hypothesis, with its verdict and the cited lines."""
    return "\n".join(map(_format_hypothesis, hypotheses))


def _format_hypothesis(hypothesis: Hypothesis) -> str:
    citation = f" ({', '.join(line.name for line in hypothesis.evidence)})" if hypothesis.evidence else ""
    return f"{hypothesis.id} {hypothesis.state.upper()}{citation}: {hypothesis.statement}"


class ProposedHypothesis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    statement: Annotated[str, Meta(min_length=1, max_length=2_000, description="The possible cause, in one sentence.")]
    expected: Annotated[str, Meta(max_length=2_000, description="What a log would show if it were true.")] = ""
    id: Annotated[str, Meta(max_length=20, description="Short, like H1; numbered if left out.")] = ""


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
            lines.append(f"The fix that did not help was reverted in {', '.join(taken_back)}.")
        return ToolOutcome(content="\n".join(lines), summary="the fix was reverted" if taken_back else "")


class HypothesisVerdict(DebugTool, frozen=True, kw_only=True, rename={"hypothesis": "id"}):
    name: ClassVar[str] = "hypothesis_verdict"
    argument_names: ClassVar = {"hypothesis_id": "id", "hypothesisId": "id"}

    hypothesis: Annotated[str, Meta(min_length=1, max_length=20, description="The hypothesis, like H1.")]
    verdict: Annotated[CauseVerdict, Meta(description="confirmed, rejected or inconclusive.")]
    evidence: Annotated[
        tuple[str, ...], Meta(max_length=50, description="Log lines that show it, like r1:3 (run and line).")
    ] = ()
    reason: Annotated[str, Meta(max_length=4_000, description="One sentence: what these lines show.")] = ""

    def subject(self) -> str:
        return f"{self.hypothesis}: {self.verdict}"

    async def run(self, capability: Debugger) -> ToolOutcome:
        hypothesis = capability.judge_hypothesis(self.hypothesis, self.verdict, self.evidence, self.reason)
        lines = [format_hypotheses(capability.hypotheses())]
        if hypothesis.state == "confirmed":
            lines.append("Fix this cause now, with the smallest change; then reproduce again and compare.")
        elif all(
            other_hypothesis.state in {"rejected", "inconclusive"} for other_hypothesis in capability.hypotheses()
        ):
            lines.append("None is confirmed: set new hypotheses from what you learned, or probe elsewhere.")
        return ToolOutcome(content="\n".join(lines), summary=", ".join(line.name for line in hypothesis.evidence))


class ProbeAdd(DebugTool, frozen=True, kw_only=True, rename={"hypothesis": "hypothesis_id"}):
    name: ClassVar[str] = "probe_add"
    argument_names: ClassVar = {"path": "file_path", "target_file": "file_path", "hypothesis": "hypothesis_id"}

    file_path: Annotated[str, Meta(min_length=1, description="The file.")]
    line: Annotated[int, Meta(ge=1, description="The line before which the probe runs (1-indexed).")]
    code: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=10_000,
            description="The statement that writes one line to the log; it is indented for you.",
        ),
    ]
    hypothesis: Annotated[str, Meta(max_length=20, description="The hypothesis it tests, like H1.")]

    def subject(self) -> str:
        return f"{self.file_path}:{self.line}"

    def paths(self) -> tuple[str, ...]:
        return (self.file_path,)

    async def run(self, capability: Debugger) -> ToolOutcome:
        probe = capability.add_probe(self.file_path, self.line, self.code, self.hypothesis)
        count = len(capability.probes())
        return ToolOutcome(
            content=f"{probe.id} is added before line {probe.line} of {probe.path}, for "
            f"{probe.hypothesis}. {count} {'probe is' if count == 1 else 'probes are'} active. "
            "Only `reproduce` runs with them: no file and no other command has them.",
            summary=f"{probe.id} for {probe.hypothesis}",
        )


class ProbeRemove(DebugTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "probe_remove"
    argument_names: ClassVar = {"probes": "ids", "probe_ids": "ids"}

    ids: Annotated[tuple[str, ...], Meta(max_length=200, description="Which, like p1; all if left out.")] = ()

    def subject(self) -> str:
        return ", ".join(self.ids) or "all probes"

    async def run(self, capability: Debugger) -> ToolOutcome:
        removed_probes = await capability.remove_probes(self.ids)
        removed_ids = removed_probes.gone
        remaining_ids = ", ".join(probe.id for probe in capability.probes())
        in_place = remaining_ids or "none, and no file has a probe marker"
        report = f"Removed: {', '.join(removed_ids) or 'nothing, there was none'}. Active: {in_place}."
        return ToolOutcome(content=f"{removed_probes.verdict}\n{report}".strip(), summary=f"{len(removed_ids)} removed")


class Reproduce(DebugTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "reproduce"
    argument_names: ClassVar = {"cmd": "command", "time_limit": "timeout"}

    command: Annotated[str, Meta(max_length=100_000, description="What shows the fault, in bash.")] = ""
    steps: Annotated[tuple[str, ...], Meta(max_length=20, description="Instead of a command: steps for the user.")] = ()
    timeout: Annotated[int, Meta(ge=0, le=600, description="Seconds for the command, at most 600 (default 120).")] = 0
    explanation: Annotated[str, Meta(description="For the user: why this is run, in one sentence.")] = ""

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
            for record in capability.records(run.id)[:_MAX_INLINE]
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
    parts = [f"Run {run.id}{when}: {count('probe', run.probes)} active,"]
    parts.append(f"{count('line', run.records)} logged{f' ({breakdown})' if breakdown else ''}.")
    if run.broken:
        parts.append(f"{run.broken} lines of the log were not JSON objects.")
    if report.lost:
        parts.append(f"The code around {', '.join(report.lost)} has changed: these probes were not run.")
    if run.left:
        parts.append(f"{run.left} lines more were logged than are kept.")
    if report.unseen:
        parts.append(
            "This run used the files on disk, without the pending changes in "
            f"{', '.join(report.unseen)}: ask the user to accept those first."
        )
    parts += filter(None, (_REPLIES.get(report.outcome, ""), report.note))
    return " ".join(parts)


class ReadProbeLog(DebugTool, frozen=True, kw_only=True, rename={"hypothesis": "hypothesis_id", "named": "run"}):
    name: ClassVar[str] = "read_probe_log"
    argument_names: ClassVar = {"run_id": "run", "hypothesis": "hypothesis_id"}

    named: Annotated[str, Meta(max_length=20, description="The run, like r1; the latest if left out.")] = ""
    compare_with: Annotated[str, Meta(max_length=20, description="Another run, to see what differs.")] = ""
    hypothesis: Annotated[str, Meta(max_length=20, description="Only lines of this hypothesis.")] = ""
    containing: Annotated[str, Meta(max_length=200, description="Only lines with this text.")] = ""
    offset: Annotated[int, Meta(ge=0, description="How many lines to skip.")] = 0

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
        part = records[self.offset : self.offset + _MAX_ROWS]
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
        part = rows[self.offset : self.offset + _MAX_ROWS]
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
