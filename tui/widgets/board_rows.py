"""What the debug board says of hypotheses, cards and runs, as rows of styled pieces, for the width that there is.

Nothing here is a widget. A card stands first: it waits for the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from textual.content import Content

from core.protocol.debug import ASKED_IF_FIXED, Evidence, Hypothesis, ProbeRun
from core.protocol.events import FixJudged
from tui.debug_fold import DebugView
from tui.text import one_line
from tui.widgets.board_log import BOLD, HEAD, MUTED, PLAIN, Piece, Row, flowed, values

SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "open": ("○", "$foreground 60%"),
    "confirmed": ("●", "bold $text-success"),
    "rejected": ("✕", "$text-error"),
    "inconclusive": ("◐", "$text-warning"),
}
CITED: Final = 6
SHOWN_BY_YOU: Final = {"proceed": "shown by you", "fixed": "marked as fixed", "broken": "still broken"}
CHIP: Final = "$foreground on $primary 35%"


class Chip(NamedTuple):
    """Where an option can be clicked: its row, and the columns from `start` to before `end`."""

    row: int
    start: int
    end: int
    option: str


def card_rows(view: DebugView, width: int, keys: Mapping[str, str]) -> tuple[list[Row], list[Chip]]:
    """What waits for the user (the steps, or whether the fault is gone), and where the options stand."""
    asked = view.asked
    if asked is None:
        return [], []
    question = asked.questions[0]
    rows: list[Row] = []
    if question.id == ASKED_IF_FIXED:
        rows.append(((" Is the fault gone?", "bold $warning"),))
        for fact in filter(None, question.text.split("\n")[1:]):
            rows += flowed([("   ", ""), (one_line(fact, 400), PLAIN)], width, indent=5, most=3)
    elif view.reproducing is not None:
        rows += _steps(view, width)
    chips: list[Chip] = []
    line, used = [("  ", "")], 2
    for option in question.options:
        text = f" {keys.get(option.id, '')} {one_line(option.label, 40)} "
        if used > 2 and used + len(text) > width:
            rows.append(tuple(line))
            line, used = [("  ", "")], 2
        chips.append(Chip(len(rows), used, used + len(text), option.id))
        line += [(text, CHIP), (" ", "")]
        used += len(text) + 1
    return [*rows, tuple(line), ()], chips


def _steps(view: DebugView, width: int) -> Iterator[Row]:
    asked = view.reproducing
    assert asked is not None
    yield ((f" Reproduce {asked.run}", "bold $warning"), ("  waits for you", MUTED))
    for number, step in enumerate(asked.steps, start=1):
        yield from flowed([(f"   {number}. ", PLAIN), (one_line(step, 2_000), PLAIN)], width, indent=6, most=6)
    if view.holds:
        yield from _wrapped("What you run with !command has the probes.", width, "   ", MUTED)


def top_rows(view: DebugView, width: int, *, run: str, hypothesis: str) -> list[Row]:
    """Hypotheses, what goes on, and the runs; `run` and `hypothesis` are those whose log is shown."""
    rows: list[Row] = list(_head(view, width))
    for each in view.hypotheses.values():
        rows += _hypothesis(each, width, marked=each.id == hypothesis)
    if view.reproducing is not None and view.reproducing.command:
        goes_on = (f" Reproduce {view.reproducing.run}", "bold $warning"), ("  runs", MUTED)
        command = [("   $ ", MUTED), (one_line(view.reproducing.command, 2_000), PLAIN)]
        rows += [(), goes_on, *flowed(command, width, indent=5, most=3)]
    if view.runs:
        rows += [(), ((" Runs", HEAD),)]
        for one in view.runs.values():
            rows += _run(one, width, marked=one.id == run)
    if view.judged is not None:
        rows += _judged(view.judged, width)
    return rows


def _head(view: DebugView, width: int) -> Iterator[Row]:
    count = len(view.probes)
    told: Piece = ("", "")
    if count:
        told = (f"{count} {'probe' if count == 1 else 'probes'} in place", "$text-warning")
    elif not view.holds:
        told = ("no probes: nothing here holds what a run does", "$text-warning")
    elif view.checked is not None and view.checked.left:
        told = (f"marks of probes are left in {one_line(', '.join(view.checked.left), 200)}", "$text-error")
    elif view.checked is not None:
        files = view.checked.files
        told = (f"no probe is left ({files} {'file' if files == 1 else 'files'} searched)", "$text-success")
    yield from flowed([(" Hypotheses  ", HEAD), told], width, indent=3, most=3)


def _wrapped(text: str, width: int, indent: str, style: str) -> Iterator[Row]:
    for line in Content(one_line(text, 2_000)).wrap(max(width - len(indent), 10)):
        yield ((indent, style), (line.plain.rstrip(), style))


def _hypothesis(each: Hypothesis, width: int, *, marked: bool) -> Iterator[Row]:
    sign, colour = SIGNS[each.state]
    count = len(each.evidence)
    cited = f" · {count} {'line' if count == 1 else 'lines'}" if count else ""
    yield (
        ("▸" if marked else " ", "$accent"),
        (f"{sign} ", colour),
        (one_line(each.id, 20), BOLD),
        (f" {each.state}", colour),
        (cited, MUTED),
    )
    yield from _wrapped(each.statement, width, "   ", PLAIN)
    if each.state == "open" and each.expects:
        yield from flowed([("   if so: ", MUTED), (one_line(each.expects, 400), MUTED)], width, indent=5, most=2)
    for evidence in each.evidence[:CITED]:
        yield from _evidence(evidence, each.id, width)
    if count > CITED:
        yield ((f"     and {count - CITED} more", MUTED),)
    if each.reason:
        yield from flowed([("   → ", colour), (one_line(each.reason, 600), MUTED)], width, indent=5, most=3)


def _evidence(evidence: Evidence, name: str, width: int) -> list[Row]:
    """The line that was cited, without what the hypothesis above it says already."""
    said, brace, data = evidence.text.removeprefix(f"[{name}] ").partition(" {")
    pieces: list[Piece] = [(f"     {one_line(evidence.name, 24)} ", "$accent"), (f"{one_line(said, 200)}  ", MUTED)]
    return flowed([*pieces, *(values(f"{{{data}") if brace else [])], width, indent=7, most=2)


def _run(each: ProbeRun, width: int, *, marked: bool) -> list[Row]:
    by_hand = SHOWN_BY_YOU.get(each.ended, each.ended.replace("_", " "))
    code = f"exit code {each.exit_code}" if each.exit_code is not None else by_hand
    good = "$text-success" if each.exit_code == 0 else "$text-error" if each.exit_code is not None else MUTED
    counted = ", ".join(f"{one_line(name, 20) or '–'} {count}" for name, count in each.counts.items())
    more = [f"{each.records:,} {'line' if each.records == 1 else 'lines'}{f' ({counted})' if counted else ''}"]
    more += [f"{each.broken} broken"] if each.broken else []
    more += [f"{each.left:,} not kept"] if each.left else []
    pieces: list[Piece] = [("▸" if marked else " ", "$accent"), (f"{one_line(each.id, 20)} ", BOLD), (code, good)]
    pieces += [(" after the fix" if each.after_fix else "", "$text-primary"), (f" · {' · '.join(more)}", MUTED)]
    return flowed(pieces, width, indent=4, most=2)


def _judged(said: FixJudged, width: int) -> list[Row]:
    files = f": the fix was taken back in {', '.join(said.taken_back)}" if said.taken_back else ""
    told: Mapping[str, Piece] = {
        "fixed": ("✓ you marked it as fixed", "$text-success"),
        "broken": (f"✕ still broken{files}", "$text-error"),
        "unsure": ("nobody could be asked" if said.by == "program" else "you did not judge the fix", MUTED),
    }
    text, style = told[said.outcome]
    return flowed([("   ", ""), (one_line(text, 600), style)], width, indent=5, most=3)
