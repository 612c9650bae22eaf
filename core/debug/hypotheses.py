"""What may be supposed, and how it is judged: three to five hypotheses that differ, and lines that were logged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from core.debug.records import shown
from core.errors import ToolInputInvalid
from core.protocol.debug import Evidence, Hypothesis, Judgement, ProbeRecord

FEWEST, MOST = 3, 5
_ID = re.compile(r"[A-Za-z0-9_-]{1,20}")
_CITED = re.compile(r"(?P<run>[A-Za-z0-9_-]{1,20}):(?P<line>\d{1,9})")
_QUOTED = 300


def check_set(hypotheses: Sequence[Hypothesis]) -> None:
    """Raises `ToolInputInvalid` unless they are three to five, with ids and statements of their own."""
    if not FEWEST <= len(hypotheses) <= MOST:
        raise ToolInputInvalid(
            f"{FEWEST} to {MOST} hypotheses are needed; these are {len(hypotheses)}.",
            hint="Think of causes that differ: wrong input, wrong state, wrong order, wrong assumption.",
        )
    for each in hypotheses:
        if _ID.fullmatch(each.id) is None:
            raise ToolInputInvalid(f"{each.id!r} is no id.", hint="Use H1, H2, ….")
        if not each.statement.strip():
            raise ToolInputInvalid(f"{each.id} says nothing.", hint="Say in one sentence what may be the cause.")
    for what, values in (
        ("id", [each.id for each in hypotheses]),
        ("statement", [" ".join(each.statement.casefold().split()) for each in hypotheses]),
    ):
        doubled = [value for value, count in Counter(values).items() if count > 1]
        if doubled:
            raise ToolInputInvalid(f"Two hypotheses have the {what} {doubled[0]!r}.", hint="They have to differ.")


def known(hypotheses: Sequence[Hypothesis], name: str) -> Hypothesis:
    """The hypothesis of that id. `ToolInputInvalid` names those that there are."""
    found = next((each for each in hypotheses if each.id == name), None)
    if found is None:
        names = ", ".join(each.id for each in hypotheses)
        raise ToolInputInvalid(
            f"There is no hypothesis {name!r}.", hint=f"There are {names}." if names else "Set them first."
        )
    return found


def cited(evidence: Sequence[str], logs: Mapping[str, Sequence[ProbeRecord]]) -> tuple[Evidence, ...]:
    """What `run:line` names stand for. `ToolInputInvalid` for a line that was not logged."""
    return tuple(_cited(each, logs) for each in dict.fromkeys(evidence))


def _cited(name: str, logs: Mapping[str, Sequence[ProbeRecord]]) -> Evidence:
    match = _CITED.fullmatch(name.strip())
    if match is None:
        raise ToolInputInvalid(f"{name[:80]!r} cites no line of a log.", hint="Write run:line, as in r1:3.")
    run, line = match["run"], int(match["line"])
    if run not in logs:
        told = f"The runs are {', '.join(logs)}." if logs else "There was no run yet: call reproduce."
        raise ToolInputInvalid(f"There is no run {run!r}.", hint=told)
    if not 1 <= line <= len(logs[run]):
        raise ToolInputInvalid(
            f"The log of {run} has {len(logs[run])} lines; there is no line {line}.", hint="See read_probe_log."
        )
    return Evidence(run=run, line=line, text=shown(logs[run][line - 1])[:_QUOTED])


def judged(hypothesis: Hypothesis, verdict: Judgement, evidence: tuple[Evidence, ...], reason: str) -> Hypothesis:
    """The hypothesis with its verdict. `ToolInputInvalid`: a verdict that decides needs a line that says so."""
    if verdict != "inconclusive" and not evidence:
        raise ToolInputInvalid(
            f"{hypothesis.id} can't be {verdict} without a line of a log that says so.",
            hint="Cite lines as r1:3, or call it inconclusive.",
        )
    return replace(hypothesis, state=verdict, evidence=evidence, reason=reason)
