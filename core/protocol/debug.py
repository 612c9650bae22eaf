"""Records of debugging: hypotheses with their evidence, probes in the code, and the runs that they logged in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from core.ids import Id

HypothesisState = Literal["open", "confirmed", "rejected", "inconclusive"]
CauseVerdict = Literal["confirmed", "rejected", "inconclusive"]


class Evidence(Struct, frozen=True, kw_only=True):
    """A line of a run's log that a verdict cites. `line` is 1-indexed, `text` is that line as displayed."""

    run: str
    line: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.run}:{self.line}"


class Hypothesis(Struct, frozen=True, kw_only=True):
    """A possible cause. `expects`: what a log would contain if it were true; `reason`: the reason for its verdict."""

    id: str
    statement: str
    expects: str = ""
    state: HypothesisState = "open"
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""


class Probe(Struct, frozen=True, kw_only=True):
    """Lines that only log, to be run before line `line` (1-indexed) of a file. They are in no file, but are inserted
    into a copy of it for a run. `above` and `below` are the lines around them, by which their position is found again;
    None: the beginning or the end of the file."""

    id: str
    path: str
    line: int
    code: str
    hypothesis: str = ""
    above: str | None = None
    below: str | None = None


class ProbeRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One line of a log. `data` is JSON text, `timestamp` in ms since the epoch (0 = none). `cut`: it was longer."""

    line: int
    run_id: str = ""
    hypothesis_id: str = ""
    location: str = ""
    message: str = ""
    data: str = ""
    timestamp: int = 0
    session_id: str = ""
    cut: bool = False


class ProbeRun(Struct, frozen=True, kw_only=True):
    """A run with probes. `log` names the stored records (sha256), `records` counts them, `broken` the invalid lines,
    `left` the records over the limit; `counts` are the records of every hypothesis. `after_fix`: a change was made on
    evidence before it."""

    id: Id
    command: str = ""
    exit_code: int | None = None
    ended: str = "exited"
    log: str = ""
    records: int = 0
    broken: int = 0
    left: int = 0
    probes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    after_fix: bool = False
    duration_ms: int = 0


class ComparedLocation(Struct, frozen=True, kw_only=True):
    """The records of two runs at one location with one message; the output of commands is one location. `side`: the run
    that alone has records there, or whether both have the same. `first` and `second` hold the records of each from the
    first difference on, at most so many; the counts are those of all."""

    side: Literal["first", "second", "differs", "same"]
    hypothesis: str
    location: str
    message: str
    first: tuple[ProbeRecord, ...] = ()
    second: tuple[ProbeRecord, ...] = ()
    first_count: int = 0
    second_count: int = 0


REPRODUCE_QUESTION, FIXED_QUESTION = "reproduce", "fixed"  # The ids of the questions on a card of the board.
