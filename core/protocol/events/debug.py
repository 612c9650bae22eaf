"""Events of debugging: hypotheses and their verdicts, probes in place, and the runs that they logged in."""

from __future__ import annotations

from typing import Literal

from core.protocol.debug import Hypothesis, Probe, ProbeRecord, ProbeRun
from core.protocol.events.base import Event, LossyEvent

ReproduceOutcome = Literal["ran", "proceed", "fixed", "broken", "stopped"]

FixOutcome = Literal["fixed", "broken", "unsure"]


class HypothesesSet(Event, frozen=True, kw_only=True, tag="hypotheses.set"):
    """All of them, in place of those before. `taken_back`: files in which a fix that did not help was undone."""

    hypotheses: tuple[Hypothesis, ...]
    taken_back: tuple[str, ...] = ()


class HypothesisJudged(Event, frozen=True, kw_only=True, tag="hypothesis.judged"):
    """The hypothesis with its verdict and the lines that it cites."""

    hypothesis: Hypothesis


class ProbeAdded(Event, frozen=True, kw_only=True, tag="probe.added"):
    """A probe was put in place, or another one in the place of one with the same id."""

    probe: Probe


class ProbeRemoved(Event, frozen=True, kw_only=True, tag="probe.removed"):
    """`by` program: the turn ended, or Debug was left."""

    ids: tuple[str, ...]
    by: Literal["agent", "user", "program"] = "agent"


class ProbesChecked(Event, frozen=True, kw_only=True, tag="probes.checked"):
    """The turn has ended, and marks of probes were looked for in `files` files: those that were probed, everything that
    is pending, and what is kept of ignored paths. `left`: the files in which one was found."""

    files: int
    left: tuple[str, ...] = ()


class ProbeLogged(LossyEvent, frozen=True, kw_only=True, tag="probe.logged"):
    """Lossy: records of a run that goes on, as they come."""

    run: str
    records: tuple[ProbeRecord, ...]


class ReproduceRequested(Event, frozen=True, kw_only=True, tag="reproduce.requested"):
    """The fault is to be shown: by a command, or by the user, who follows the steps."""

    run: str
    call: str = ""
    command: str = ""
    steps: tuple[str, ...] = ()


class ReproduceEnded(Event, frozen=True, kw_only=True, tag="reproduce.ended"):
    """`outcome`: the command ran, or what the user said of it; "stopped": it came to no end, so there is no run."""

    run: str
    outcome: ReproduceOutcome


class FixJudged(Event, frozen=True, kw_only=True, tag="fix.judged"):
    """The user's verdict on the fix; "unsure": they can't say, or (`by` program) nobody could be asked. `run` showed
    the fix, `taken_back` are the files in which a fix that did not help was undone."""

    run: str
    outcome: FixOutcome
    taken_back: tuple[str, ...] = ()
    by: Literal["user", "program"] = "user"


class RunRecorded(Event, frozen=True, kw_only=True, tag="run.recorded"):
    """A run has ended and its log is stored."""

    run: ProbeRun
