"""Hypotheses about a cause and their verdicts: three to five different ones, decided by logged lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from core.debug.probe_records import format_record
from core.errors import ToolInputInvalid
from core.patterns import compile_lazily
from core.protocol.debug import CauseVerdict, Evidence, Hypothesis, ProbeRecord

MIN_HYPOTHESES, MAX_HYPOTHESES = 3, 5
_ID = compile_lazily(r"[A-Za-z0-9_-]{1,20}")
_CITED = compile_lazily(r"(?P<run>[A-Za-z0-9_-]{1,20}):(?P<line>\d{1,9})")
_QUOTED = 300


def check_hypotheses(hypotheses: Sequence[Hypothesis]) -> None:
    """Raise `ToolInputInvalid` unless there are three to five, with unique ids and statements."""
    if not MIN_HYPOTHESES <= len(hypotheses) <= MAX_HYPOTHESES:
        raise ToolInputInvalid(
            f"{MIN_HYPOTHESES} to {MAX_HYPOTHESES} hypotheses are needed; these are {len(hypotheses)}.",
            hint="Think of different causes: wrong input, wrong state, wrong order, wrong assumption.",
        )
    for hypothesis in hypotheses:
        if _ID.fullmatch(hypothesis.id) is None:
            raise ToolInputInvalid(f"{hypothesis.id!r} is not a valid id.", hint="Use H1, H2, ….")
        if not hypothesis.statement.strip():
            raise ToolInputInvalid(f"{hypothesis.id} is empty.", hint="Say in one sentence what may be the cause.")
    statements = [" ".join(hypothesis.statement.casefold().split()) for hypothesis in hypotheses]
    for label, values in (("id", [hypothesis.id for hypothesis in hypotheses]), ("statement", statements)):
        duplicates = [value for value, count in Counter(values).items() if count > 1]
        if duplicates:
            raise ToolInputInvalid(f"Two hypotheses have the {label} {duplicates[0]!r}.", hint="They have to differ.")


def find_hypothesis(hypotheses: Sequence[Hypothesis], name: str) -> Hypothesis:
    """Find the hypothesis with that id. Raises `ToolInputInvalid`, which lists the existing ids."""
    hypothesis = next((candidate for candidate in hypotheses if candidate.id == name), None)
    if hypothesis is None:
        names = ", ".join(candidate.id for candidate in hypotheses)
        raise ToolInputInvalid(
            f"There is no hypothesis {name!r}.", hint=f"There are {names}." if names else "Set them first."
        )
    return hypothesis


def resolve_evidence(evidence: Sequence[str], logs: Mapping[str, Sequence[ProbeRecord]]) -> tuple[Evidence, ...]:
    """Resolve `run:line` references to records. Raises `ToolInputInvalid` for a line that was not logged."""
    return tuple(_resolve_line(reference, logs) for reference in dict.fromkeys(evidence))


def _resolve_line(name: str, logs: Mapping[str, Sequence[ProbeRecord]]) -> Evidence:
    match = _CITED.fullmatch(name.strip())
    if match is None:
        raise ToolInputInvalid(f"{name[:80]!r} does not cite a log line.", hint="Write run:line, as in r1:3.")
    run, line = match["run"], int(match["line"])
    if run not in logs:
        hint = f"The runs are {', '.join(logs)}." if logs else "There is no run yet: call reproduce."
        raise ToolInputInvalid(f"There is no run {run!r}.", hint=hint)
    if not 1 <= line <= len(logs[run]):
        raise ToolInputInvalid(
            f"The log of {run} has {len(logs[run])} lines; line {line} does not exist.", hint="See read_probe_log."
        )
    return Evidence(run=run, line=line, text=format_record(logs[run][line - 1])[:_QUOTED])


def record_verdict(
    hypothesis: Hypothesis, verdict: CauseVerdict, evidence: tuple[Evidence, ...], reason: str
) -> Hypothesis:
    """Return the hypothesis with its verdict. Raises `ToolInputInvalid` for a deciding verdict without evidence."""
    if verdict != "inconclusive" and not evidence:
        raise ToolInputInvalid(
            f"{hypothesis.id} can't be {verdict} without a log line that shows it.",
            hint="Cite lines as r1:3, or call it inconclusive.",
        )
    return replace(hypothesis, state=verdict, evidence=evidence, reason=reason)
