"""How the debug board is written: rows of pieces with styles, for the width that there is. Nothing here is a widget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from textual.content import Content

from core.protocol.debug import Hypothesis, ProbeRecord, ProbeRun
from core.protocol.queries import ProbeLog
from tui.debug_fold import DebugView
from tui.text import one_line

Row = tuple[tuple[str, str], ...]

SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "open": ("○", "$foreground 60%"),
    "confirmed": ("●", "bold $text-success"),
    "rejected": ("✕", "$text-error"),
    "inconclusive": ("◐", "$text-warning"),
}
SIDES: Final[Mapping[str, tuple[str, str]]] = {
    "same": ("=", "$foreground 45%"),
    "differs": ("≠", "bold $text-warning"),
    "first": ("−", "$text-error"),
    "second": ("+", "$text-success"),
}
MUTED, HEAD, PLAIN = "$foreground 55%", "bold $foreground 75%", "$foreground 85%"
CITED, SHOWN_DATA = 6, 4


def top_rows(view: DebugView, width: int, *, run: str, hypothesis: str) -> list[Row]:
    """Hypotheses, what goes on, and the runs; `run` and `hypothesis` are those whose log is shown."""
    count = len(view.probes)
    probes = f"  {count} {'probe' if count == 1 else 'probes'} in place" if count else ""
    rows: list[Row] = [((" Hypotheses", HEAD), (probes, "$text-warning"))]
    for each in view.hypotheses.values():
        rows += _hypothesis(each, width, marked=each.id == hypothesis)
    if view.reproducing is not None:
        rows += [(), *_card(view, width)]
    if view.runs:
        rows += [(), ((" Runs", HEAD),)]
        rows += [_run(each, width, marked=each.id == run) for each in view.runs.values()]
    return rows


def _wrapped(text: str, width: int, indent: str, style: str) -> Iterator[Row]:
    for line in Content(one_line(text, 2_000)).wrap(max(width - len(indent) - 2, 10)):
        yield ((indent, style), (line.plain.rstrip(), style))


def _hypothesis(each: Hypothesis, width: int, *, marked: bool) -> Iterator[Row]:
    sign, colour = SIGNS[each.state]
    count = len(each.evidence)
    cited = f" · {count} {'line' if count == 1 else 'lines'}" if count else ""
    mark = "▸" if marked else " "
    yield (
        (mark, "$accent"),
        (f"{sign} ", colour),
        (one_line(each.id, 20), "bold"),
        (f" {each.state}", colour),
        (cited, MUTED),
    )
    yield from _wrapped(each.statement, width, "   ", PLAIN)
    for evidence in each.evidence[:CITED]:
        yield (
            (f"     {one_line(evidence.name, 24)} ", "$accent"),
            (one_line(evidence.text, max(width - 14, 12)), MUTED),
        )
    if count > CITED:
        yield ((f"     and {count - CITED} more", MUTED),)


def _card(view: DebugView, width: int) -> Iterator[Row]:
    """What is being shown, by a command or by the user."""
    asked = view.reproducing
    assert asked is not None
    yield ((f" Reproduce {asked.run}", "bold $warning"),)
    if asked.command:
        yield from _wrapped(f"$ {asked.command}", width, "   ", PLAIN)
        return
    for number, step in enumerate(asked.steps, start=1):
        yield from _wrapped(f"{number}. {step}", width, "   ", PLAIN)
    yield from _wrapped("What you run with !command has the probes. Answer below when it is done.", width, "   ", MUTED)


def _run(each: ProbeRun, width: int, *, marked: bool) -> Row:
    code = f"exit code {each.exit_code}" if each.exit_code is not None else each.ended.replace("_", " ")
    good = "$text-success" if each.exit_code == 0 else "$text-error" if each.exit_code is not None else MUTED
    counted = ", ".join(f"{one_line(name, 20) or '–'} {count}" for name, count in each.counts.items())
    fixed = " after the fix" if each.after_fix else ""
    broken = f" · {each.broken} broken" if each.broken else ""
    told = f"· {each.records} lines{f' ({counted})' if counted else ''}{broken}"
    mark = "▸" if marked else " "
    return (
        (mark, "$accent"),
        (f"{one_line(each.id, 20)} ", "bold"),
        (code, good),
        (fixed, "$text-primary"),
        (f" {one_line(told, max(width, 20))}", MUTED),
    )


def log_rows(run: str, records: Sequence[ProbeRecord], wanted: str, *, live: bool = False) -> list[Row]:
    """The log of a run, one record a row."""
    what = f" Log of {run}"
    found = f"  {len(records)} with “{one_line(wanted, 40)}”" if wanted else ""
    rows: list[Row] = [(), ((what, HEAD), ("  live" if live else "", "$text-warning"), (found, MUTED))]
    rows += [_record(run, each) for each in records]
    if not records:
        rows.append((("   nothing", MUTED),))
    return rows


def _record(run: str, each: ProbeRecord) -> Row:
    return (
        (f" {run}:{each.line} ", "$accent"),
        (f"{one_line(each.hypothesis_id, 20)} " if each.hypothesis_id else "", "bold"),
        (f"{one_line(each.location, 60)} " if each.location else "", MUTED),
        (one_line(each.message, 400), PLAIN),
        (f" {one_line(each.data, 600)}" if each.data else "", "$foreground 70%"),
    )


def compared_rows(log: ProbeLog, width: int) -> list[Row]:
    """Two runs side by side: the earlier one on the left."""
    half = max((width - 5) // 2, 8)
    left, right = log.compare_with, log.run
    rows: list[Row] = [(), ((f" {left:<{half}} │ {right}", HEAD),)]
    for place in log.places:
        sign, colour = SIDES[place.side]
        where = one_line(f"{place.hypothesis} {place.location} {place.message}".strip(), width)
        rows.append(((f" {sign} ", colour), (where, PLAIN)))
        if place.side == "same":
            continue
        for number in range(min(max(len(place.first), len(place.second)), SHOWN_DATA)):
            one, other = (_data(side, number, half) for side in (place.first, place.second))
            rows.append(((f" {one:<{half}} ", MUTED), ("│ ", "$foreground 30%"), (other, "$foreground 80%")))
    if not log.places:
        rows.append((("   nothing was logged", MUTED),))
    return rows


def _data(records: Sequence[ProbeRecord], number: int, width: int) -> str:
    return one_line(records[number].data or records[number].message, width) if number < len(records) else ""
