"""Events of debugging: hypotheses and their verdicts, probes, and the runs that they logged in."""

from __future__ import annotations

from typing import Literal

from core.protocol.base import Event, LossyEvent
from core.protocol.debug import Hypothesis, Probe, ProbeRecord, ProbeRun

ReproduceOutcome = Literal["ran", "proceed", "fixed", "broken", "stopped"]

FixOutcome = Literal["fixed", "broken", "unsure"]


class HypothesesSet(Event, frozen=True, kw_only=True, tag="hypotheses.set"):
    """The new hypotheses replace all earlier ones. `taken_back`: files in which an unhelpful fix was reverted."""

    hypotheses: tuple[Hypothesis, ...]
    taken_back: tuple[str, ...] = ()


class HypothesisJudged(Event, frozen=True, kw_only=True, tag="hypothesis.judged"):
    """A hypothesis has a verdict, with the lines that it cites."""

    hypothesis: Hypothesis


class ProbeAdded(Event, frozen=True, kw_only=True, tag="probe.added"):
    """A probe was added, or replaced the one with the same id."""

    probe: Probe


class ProbeRemoved(Event, frozen=True, kw_only=True, tag="probe.removed"):
    """Probes were removed. `by` program: the turn ended, or Debug mode was left."""

    ids: tuple[str, ...]
    by: Literal["agent", "user", "program"] = "agent"


class ProbesChecked(Event, frozen=True, kw_only=True, tag="probes.checked"):
    """The turn has ended, and `files` files were searched for marks of probes: probed files, pending files, and stored
    files of ignored paths. `left`: the files that contain one."""

    files: int
    left: tuple[str, ...] = ()


class ProbeLogged(LossyEvent, frozen=True, kw_only=True, tag="probe.logged"):
    """Lossy: the records of a running run as they come."""

    run: str
    records: tuple[ProbeRecord, ...]


class ReproduceRequested(Event, frozen=True, kw_only=True, tag="reproduce.requested"):
    """A reproduction of the fault begins: by a command, or by the user, who follows the steps."""

    run: str
    call: str = ""
    command: str = ""
    steps: tuple[str, ...] = ()


class ReproduceEnded(Event, frozen=True, kw_only=True, tag="reproduce.ended"):
    """A reproduction ended. `outcome`: the command ran, or the user's report; "stopped": it did not finish, so there is
    no run."""

    run: str
    outcome: ReproduceOutcome


class FixJudged(Event, frozen=True, kw_only=True, tag="fix.judged"):
    """The user judged the fix; "unsure": they can't tell, or (`by` program) nobody could be asked. `run` tested the
    fix; `taken_back`: the files in which an unhelpful fix was reverted."""

    run: str
    outcome: FixOutcome
    taken_back: tuple[str, ...] = ()
    by: Literal["user", "program"] = "user"


class RunRecorded(Event, frozen=True, kw_only=True, tag="run.recorded"):
    """A run has ended and its log is stored."""

    run: ProbeRun
