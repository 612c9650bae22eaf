"""Hypotheses, cards and runs of the debug board as rows of styled pieces. No widgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from textual.content import Content

from core.protocol.debug import FIXED_QUESTION, Evidence, Hypothesis, ProbeRun
from core.protocol.events import FixJudged
from core.text.counting import count
from tui.debug.log_rows import BOLD, HEAD, MUTED, PLAIN, BoardRow, Piece, flow_pieces, format_fields
from tui.state.view import DebugView
from tui.text import fit_line

SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "open": ("○", "$foreground 60%"),
    "confirmed": ("●", "bold $text-success"),
    "rejected": ("✕", "$text-error"),
    "inconclusive": ("◐", "$text-warning"),
}
MAX_EVIDENCE: Final = 6
RUN_ENDINGS: Final = {"proceed": "shown by you", "fixed": "marked as fixed", "broken": "still broken"}
CHIP_STYLE: Final = "$foreground on $marked-row"


class OptionChip(NamedTuple):
    """A clickable option: its row and the columns [start, end)."""

    row: int
    start: int
    end: int
    option: str


def render_card(view: DebugView, width: int, keys: Mapping[str, str]) -> tuple[list[BoardRow], list[OptionChip]]:
    """Return the card that waits for the user (steps, or whether the fault is gone) and its clickable options."""
    asked = view.question
    if asked is None:
        return [], []
    question = asked.questions[0]
    rows: list[BoardRow] = []
    if question.id == FIXED_QUESTION:
        rows.append(((" Is the fault gone?", "bold $warning"),))
        for fact in filter(None, question.text.split("\n")[1:]):
            rows += flow_pieces([("   ", ""), (fit_line(fact, 400), PLAIN)], width, indent=5, max_rows=3)
    elif view.reproduction is not None:
        rows += _render_steps(view, width)
    chips: list[OptionChip] = []
    line, used = [("  ", "")], 2
    for option in question.options:
        text = f" {keys.get(option.id, '')} {fit_line(option.label, 40)} "
        if used > 2 and used + len(text) > width:
            rows.append(tuple(line))
            line, used = [("  ", "")], 2
        chips.append(OptionChip(len(rows), used, used + len(text), option.id))
        line += [(text, CHIP_STYLE), (" ", "")]
        used += len(text) + 1
    return [*rows, tuple(line), ()], chips


def _render_steps(view: DebugView, width: int) -> Iterator[BoardRow]:
    asked = view.reproduction
    assert asked is not None
    yield ((f" Reproduce {asked.run}", "bold $warning"), ("  waits for you", MUTED))
    for number, step in enumerate(asked.steps, start=1):
        yield from flow_pieces([(f"   {number}. ", PLAIN), (fit_line(step, 2_000), PLAIN)], width, indent=6, max_rows=6)
    if view.can_probe:
        yield from _wrap_text("What you run with !command has the probes.", width, "   ", MUTED)


def render_overview(view: DebugView, width: int, *, run: str, hypothesis: str) -> list[BoardRow]:
    """Return hypotheses, what runs now, and the runs; `run` and `hypothesis` are marked."""
    rows: list[BoardRow] = list(_render_probe_status(view, width))
    for each in view.hypotheses.values():
        rows += _render_hypothesis(each, width, marked=each.id == hypothesis)
    if view.reproduction is not None and view.reproduction.command:
        goes_on = (f" Reproduce {view.reproduction.run}", "bold $warning"), ("  runs", MUTED)
        command = [("   $ ", MUTED), (fit_line(view.reproduction.command, 2_000), PLAIN)]
        rows += [(), goes_on, *flow_pieces(command, width, indent=5, max_rows=3)]
    if view.runs:
        rows += [(), ((" Runs", HEAD),)]
        for one in view.runs.values():
            rows += _render_run(one, width, marked=one.id == run)
    if view.fix_verdict is not None:
        rows += _render_fix_verdict(view.fix_verdict, width)
    return rows


def _render_probe_status(view: DebugView, width: int) -> Iterator[BoardRow]:
    told: Piece = ("", "")
    if view.probes:
        told = (f"{count('probe', len(view.probes))} in place", "$text-warning")
    elif not view.can_probe:
        told = ("no probes: nothing here holds what a run does", "$text-warning")
    elif view.probe_check is not None and view.probe_check.left:
        told = (f"marks of probes are left in {fit_line(', '.join(view.probe_check.left), 200)}", "$text-error")
    elif view.probe_check is not None:
        told = (f"no probe is left ({count('file', view.probe_check.files)} searched)", "$text-success")
    yield from flow_pieces([(" Hypotheses  ", HEAD), told], width, indent=3, max_rows=3)


def _wrap_text(text: str, width: int, indent: str, style: str) -> Iterator[BoardRow]:
    for line in Content(fit_line(text, 2_000)).wrap(max(width - len(indent), 10)):
        yield ((indent, style), (line.plain.rstrip(), style))


def _render_hypothesis(each: Hypothesis, width: int, *, marked: bool) -> Iterator[BoardRow]:
    sign, colour = SIGNS[each.state]
    cited = f" · {count('line', len(each.evidence))}" if each.evidence else ""
    yield (
        ("▸" if marked else " ", "$accent"),
        (f"{sign} ", colour),
        (fit_line(each.id, 20), BOLD),
        (f" {each.state}", colour),
        (cited, MUTED),
    )
    yield from _wrap_text(each.statement, width, "   ", PLAIN)
    if each.state == "open" and each.expects:
        yield from flow_pieces([(f"   if so: {fit_line(each.expects, 400)}", MUTED)], width, indent=5, max_rows=2)
    for evidence in each.evidence[:MAX_EVIDENCE]:
        yield from _render_evidence(evidence, each.id, width)
    if (more := len(each.evidence) - MAX_EVIDENCE) > 0:
        yield ((f"     and {more} more", MUTED),)
    if each.reason:
        yield from flow_pieces([("   → ", colour), (fit_line(each.reason, 600), MUTED)], width, indent=5, max_rows=3)


def _render_evidence(evidence: Evidence, name: str, width: int) -> list[BoardRow]:
    """Return a cited line without the hypothesis's own name in front."""
    said, brace, data = evidence.text.removeprefix(f"[{name}] ").partition(" {")
    pieces: list[Piece] = [(f"     {fit_line(evidence.name, 24)} ", "$accent"), (f"{fit_line(said, 200)}  ", MUTED)]
    return flow_pieces([*pieces, *(format_fields(f"{{{data}") if brace else [])], width, indent=7, max_rows=2)


def _render_run(each: ProbeRun, width: int, *, marked: bool) -> list[BoardRow]:
    by_hand = RUN_ENDINGS.get(each.ended, each.ended.replace("_", " "))
    code = f"exit code {each.exit_code}" if each.exit_code is not None else by_hand
    good = "$text-success" if each.exit_code == 0 else "$text-error" if each.exit_code is not None else MUTED
    counted = ", ".join(f"{fit_line(name, 20) or '–'} {count}" for name, count in each.counts.items())
    more = [f"{count('line', each.records)}{f' ({counted})' if counted else ''}"]
    more += [f"{each.broken} broken"] if each.broken else []
    more += [f"{each.left:,} not kept"] if each.left else []
    pieces: list[Piece] = [("▸" if marked else " ", "$accent"), (f"{fit_line(each.id, 20)} ", BOLD), (code, good)]
    pieces += [(" after the fix" if each.after_fix else "", "$text-primary"), (f" · {' · '.join(more)}", MUTED)]
    return flow_pieces(pieces, width, indent=4, max_rows=2)


def _render_fix_verdict(said: FixJudged, width: int) -> list[BoardRow]:
    files = f": the fix was taken back in {', '.join(said.taken_back)}" if said.taken_back else ""
    told: Mapping[str, Piece] = {
        "fixed": ("✓ you marked it as fixed", "$text-success"),
        "broken": (f"✕ still broken{files}", "$text-error"),
        "unsure": ("nobody could be asked" if said.by == "program" else "you did not judge the fix", MUTED),
    }
    text, style = told[said.outcome]
    return flow_pieces([("   ", ""), (fit_line(text, 600), style)], width, indent=5, max_rows=3)
