"""The capability of the tools of Debug mode: the board of hypotheses, the probes, and the runs with their logs."""

from __future__ import annotations

from typing import ClassVar, Protocol

from msgspec import Struct

from core.modes import Access
from core.protocol.debug import CauseVerdict, Hypothesis, Probe, ProbeRecord, ProbeRun
from core.protocol.events.debug import ReproduceOutcome
from core.sandbox.results import CommandResult
from core.tools.base import Tool


class Reproduction(Struct, frozen=True, kw_only=True):
    """A way to show the fault: by a command, or by the user, who follows the steps. `seconds` a command may take."""

    command: str = ""
    steps: tuple[str, ...] = ()
    seconds: float = 120.0


class ReproductionReport(Struct, frozen=True, kw_only=True):
    """A reproduction. `note`: what the user said; `lost`: probes without a place; `unseen`: files of a pending fix."""

    run: ProbeRun
    outcome: ReproduceOutcome
    result: CommandResult | None = None
    note: str = ""
    lost: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


class RemovedProbes(Struct, frozen=True, kw_only=True):
    """The probes that are gone, and what the user said of the fix when they were about to go ("" = not asked)."""

    gone: tuple[str, ...] = ()
    said: str = ""


class Debugger(Protocol):
    """PROBE: nothing of it changes a file that the user has, or will be asked about."""

    def hypotheses(self) -> tuple[Hypothesis, ...]: ...

    def probes(self) -> tuple[Probe, ...]: ...

    def runs(self) -> tuple[ProbeRun, ...]: ...

    def set_hypotheses(self, hypotheses: tuple[Hypothesis, ...]) -> tuple[str, ...]:
        """Replace them all. Files in which a fix that did not help was taken back."""

    def give_verdict(self, name: str, verdict: CauseVerdict, evidence: tuple[str, ...], reason: str) -> Hypothesis:
        """Give a verdict; `evidence` names lines of logs as `run:line`."""

    def add_probe(self, path: str, line: int, code: str, hypothesis: str) -> Probe:
        """Put a probe before a line. `ToolInputInvalid`: it can't stand there, or the file would not parse."""

    async def remove_probes(self, names: tuple[str, ...]) -> RemovedProbes:
        """Take probes away (none named: all). Before the last goes, the user judges a fix; a broken one is reverted."""

    async def reproduce(self, reproduction: Reproduction) -> ReproductionReport:
        """Run with the probes in place. `ToolFailed` when that can't be done or is refused."""

    def records(self, run: str) -> tuple[ProbeRecord, ...]:
        """Return what a run logged. `ToolInputInvalid`: there is no such run."""

    def save_output(self, run: str, text: str) -> str:
        """Put the whole log of a run aside in a file that `read_file` takes; its name there, "" = there is no room."""


class DebugTool(Tool[Debugger], frozen=True, kw_only=True):
    """Base of the tools of Debug mode."""

    access: ClassVar[Access] = Access.PROBE


def format_hypotheses(hypotheses: tuple[Hypothesis, ...]) -> str:
    """One line for each, with its verdict and the lines that it cites."""
    return "\n".join(map(_format_hypothesis, hypotheses))


def _format_hypothesis(hypothesis: Hypothesis) -> str:
    citation = f" ({', '.join(line.name for line in hypothesis.evidence)})" if hypothesis.evidence else ""
    return f"{hypothesis.id} {hypothesis.state.upper()}{citation}: {hypothesis.statement}"
