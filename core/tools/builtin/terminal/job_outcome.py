"""The account for a model of a command in the background."""

from __future__ import annotations

from core.sandbox.results import JobReport, describe_end
from core.tools.base import ToolOutcome


def describe_job(report: JobReport) -> str:
    """Describe a job in one line."""
    seconds = f"{report.duration_ms / 1000:.1f} s"
    result = report.result
    if result is None:
        return f"{report.id} runs since {seconds}"
    return f"{report.id} ended: {describe_end(result.exit_code, result.ended)} · {seconds}"


def format_job_outcome(report: JobReport) -> ToolOutcome:
    """Its state, what it wrote since the last look, and what it changed if it has ended."""
    head = describe_job(report)
    parts = [head, report.output.rstrip("\n") if report.output.strip() else "(no new output)"]
    if report.result is not None:
        parts += [*report.result.notes, *([f"[{report.result.effects}]"] if report.result.effects else [])]
    return ToolOutcome(content="\n".join(parts), summary=head)
