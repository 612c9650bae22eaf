"""The rows of the debug board: the question card, hypotheses, runs, and the log of probes. No widgets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from textual.content import Content

from core.protocol.debug import FIXED_QUESTION, Evidence, Hypothesis, ProbeRecord, ProbeRun
from core.protocol.events import FixJudged
from core.text.counting import count
from tui.state.view import DebugView
from tui.text import fit_line, render_output
from tui.widgets.text_rows import measure_pieces, measure_text

Piece = tuple[str, str]
BoardRow = tuple[Piece, ...]
MUTED, HEAD, PLAIN, BOLD = "$foreground 55%", "bold $foreground 75%", "$foreground 85%", "bold"
CHANGED: Final = "bold $text-warning"
LINE: Final = "$foreground 30%"
RECORD_ROWS: Final = 3  # of one record
SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "open": ("○", "$foreground 60%"),
    "confirmed": ("●", "bold $text-success"),
    "rejected": ("✕", "$text-error"),
    "inconclusive": ("◐", "$text-warning"),
}
MAX_EVIDENCE: Final = 6
RUN_ENDINGS: Final = {"proceed": "reproduced by you", "fixed": "marked as fixed", "broken": "still broken"}
CHIP_STYLE: Final = "$foreground on $marked-row"


def flow_pieces(pieces: Sequence[Piece], width: int, *, indent: int, max_rows: int) -> list[BoardRow]:
    """Break pieces at spaces into at most `max_rows` rows of `width` cells; rows after the first are indented."""
    rows: list[list[Piece]] = [[]]
    column = 0
    for word in _split_words(pieces):
        size, room = measure_pieces(word), width - column
        if size - word[-1][0].endswith(" ") > room and column > indent:
            if len(rows) == max_rows:
                rows[-1].append(("…", MUTED))
                break
            rows.append([(" " * indent, "")])
            column, room = indent, width - indent
        for text, style in word:
            if room <= 0:
                break
            visible_text = text if measure_text(text.rstrip()) <= room else f"{_cut_to_width(text, room - 1)}…"
            rows[-1].append((visible_text, style))
            column, room = column + measure_text(visible_text), room - measure_text(visible_text)
    return [tuple(row) for row in rows]


def _split_words(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield the pieces that stay together: up to the next space, across styles."""
    word: list[Piece] = []
    for text, style in pieces:
        *complete_words, last = text.split(" ")
        for complete_word in complete_words:
            yield [*word, (f"{complete_word} ", style)]
            word = []
        if last:
            word.append((last, style))
    if word:
        yield word


def _cut_to_width(text: str, room: int) -> str:
    """Return the longest start of `text` that fits `room` cells."""
    text = text[: max(room, 0)]
    while measure_text(text) > room:
        text = text[:-1]
    return text


def parse_fields(data: str) -> dict[str, str]:
    """Return the values of logged JSON by name; anything but an object is one value under the name ""."""
    try:
        value = json.loads(data) if data.startswith("{") else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not value:
        return {"": data} if data else {}
    return {name: _format_value(member) for name, member in value.items()}


def _format_value(value: object) -> str:
    if isinstance(value, str) and value and not set(value) & set(' ="\\\n') and value not in {"true", "false", "null"}:
        return value if not value.lstrip("-").replace(".", "").isdigit() else json.dumps(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def format_fields(data: str, other: str | None = None) -> list[Piece]:
    """Return `name=value` pieces; those that differ from `other` are emphasised."""
    other_fields = parse_fields(other) if other is not None else None
    pieces: list[Piece] = []
    for name, value in parse_fields(data).items():
        differs = other_fields is not None and other_fields.get(name) != value
        style = CHANGED if differs else MUTED if other_fields is not None else PLAIN
        label = f"{fit_line(name, 60)}=" if name else ""
        pieces += [(label, CHANGED if differs else MUTED), (f"{fit_line(render_output(value), 600)} ", style)]
    return pieces


def render_log(
    run: str, records: Sequence[ProbeRecord], width: int, *, words: str = "", total: int = 0, live: str = ""
) -> list[BoardRow]:
    """Return the log of a run. `total`: number of matching records; `live`: a note that the run has not ended."""
    match_note = f"  {max(total, len(records))} with “{fit_line(words, 40)}”" if words else ""
    head = (f" Log of {run}", HEAD), (f"  {live}" if live else "", "$text-warning"), (match_note, MUTED)
    rows: list[BoardRow] = [(), head]
    for record in records:
        rows += _render_record(run, record, width)
    if not records:
        rows.append((("   nothing yet" if live else "   nothing", MUTED),))
    if total > len(records):
        rows.append(((f"   {total - len(records):,} more: use the filter to find them", MUTED),))
    return rows


def _render_record(run: str, record: ProbeRecord, width: int) -> list[BoardRow]:
    who = fit_line(record.hypothesis_id, 20)
    pieces: list[Piece] = [(f" {run}:{record.line} ", "$accent"), (f"{who} " if who else "", BOLD)]
    pieces += [(f"{fit_line(record.location, 60)} " if record.location else "", MUTED)]
    pieces += [
        (f"{fit_line(render_output(record.message), 400)}  " if record.message else "", PLAIN),
        *format_fields(record.data),
    ]
    return flow_pieces(pieces, width, indent=6, max_rows=RECORD_ROWS)


class OptionChip(NamedTuple):
    """A clickable option: its row and the columns [start, end)."""

    row: int
    start: int
    end: int
    option: str


def render_card(view: DebugView, width: int, keys: Mapping[str, str]) -> tuple[list[BoardRow], list[OptionChip]]:
    """Return the card with a question for the user (steps, or the verdict on a fix) and its clickable options."""
    request = view.question
    if request is None:
        return [], []
    question = request.questions[0]
    rows: list[BoardRow] = []
    if question.id == FIXED_QUESTION:
        rows.append(((" Is the bug gone?", "bold $warning"),))
        for fact in filter(None, question.text.split("\n")[1:]):
            rows += flow_pieces([("   ", ""), (fit_line(fact, 400), PLAIN)], width, indent=5, max_rows=3)
    elif view.reproduction is not None:
        rows += _render_steps(view, width)
    chips: list[OptionChip] = []
    line, column = [("  ", "")], 2
    for option in question.options:
        text = f" {keys.get(option.id, '')} {fit_line(option.label, 40)} "
        if column > 2 and column + len(text) > width:
            rows.append(tuple(line))
            line, column = [("  ", "")], 2
        chips.append(OptionChip(len(rows), column, column + len(text), option.id))
        line += [(text, CHIP_STYLE), (" ", "")]
        column += len(text) + 1
    return [*rows, tuple(line), ()], chips


def _render_steps(view: DebugView, width: int) -> Iterator[BoardRow]:
    reproduction = view.reproduction
    assert reproduction is not None
    yield ((f" Reproduce {reproduction.run}", "bold $warning"), ("  waiting for you", MUTED))
    for number, step in enumerate(reproduction.steps, start=1):
        yield from flow_pieces([(f"   {number}. ", PLAIN), (fit_line(step, 2_000), PLAIN)], width, indent=6, max_rows=6)
    if view.can_probe:
        yield from _wrap_text("Commands you run with ! include the probes.", width, "   ", MUTED)


def render_overview(view: DebugView, width: int, *, run: str, hypothesis: str) -> list[BoardRow]:
    """Return hypotheses, current activity and runs; `run` and `hypothesis` are marked."""
    rows: list[BoardRow] = list(_render_probe_status(view, width))
    for entry in view.hypotheses.values():
        rows += _render_hypothesis(entry, width, is_marked=entry.id == hypothesis)
    if view.reproduction is not None and view.reproduction.command:
        goes_on = (f" Reproduce {view.reproduction.run}", "bold $warning"), ("  running", MUTED)
        command = [("   $ ", MUTED), (fit_line(view.reproduction.command, 2_000), PLAIN)]
        rows += [(), goes_on, *flow_pieces(command, width, indent=5, max_rows=3)]
    if view.runs:
        rows += [(), ((" Runs", HEAD),)]
        for one in view.runs.values():
            rows += _render_run(one, width, is_marked=one.id == run)
    if view.fix_verdict is not None:
        rows += _render_fix_verdict(view.fix_verdict, width)
    return rows


def _render_probe_status(view: DebugView, width: int) -> Iterator[BoardRow]:
    status: Piece = ("", "")
    if view.probes:
        status = (f"{count('probe', len(view.probes))} in place", "$text-warning")
    elif not view.can_probe:
        status = ("no probes: runs here are not sandboxed", "$text-warning")
    elif view.probe_check is not None and view.probe_check.left:
        status = (f"probe marks left in {fit_line(', '.join(view.probe_check.left), 200)}", "$text-error")
    elif view.probe_check is not None:
        status = (f"no probes left ({count('file', view.probe_check.files)} searched)", "$text-success")
    yield from flow_pieces([(" Hypotheses  ", HEAD), status], width, indent=3, max_rows=3)


def _wrap_text(text: str, width: int, indent: str, style: str) -> Iterator[BoardRow]:
    for line in Content(fit_line(text, 2_000)).wrap(max(width - len(indent), 10)):
        yield ((indent, style), (line.plain.rstrip(), style))


def _render_hypothesis(hypothesis: Hypothesis, width: int, *, is_marked: bool) -> Iterator[BoardRow]:
    sign, colour = SIGNS[hypothesis.state]
    citation_note = f" · {count('line', len(hypothesis.evidence))}" if hypothesis.evidence else ""
    yield (
        ("▸" if is_marked else " ", "$accent"),
        (f"{sign} ", colour),
        (fit_line(hypothesis.id, 20), BOLD),
        (f" {hypothesis.state}", colour),
        (citation_note, MUTED),
    )
    yield from _wrap_text(hypothesis.statement, width, "   ", PLAIN)
    if hypothesis.state == "open" and hypothesis.expects:
        yield from flow_pieces(
            [(f"   if true: {fit_line(hypothesis.expects, 400)}", MUTED)], width, indent=5, max_rows=2
        )
    for evidence in hypothesis.evidence[:MAX_EVIDENCE]:
        yield from _render_evidence(evidence, hypothesis.id, width)
    if (remaining := len(hypothesis.evidence) - MAX_EVIDENCE) > 0:
        yield ((f"     and {remaining} more", MUTED),)
    if hypothesis.reason:
        yield from flow_pieces(
            [("   → ", colour), (fit_line(hypothesis.reason, 600), MUTED)], width, indent=5, max_rows=3
        )


def _render_evidence(evidence: Evidence, name: str, width: int) -> list[BoardRow]:
    """Return a cited line without the hypothesis's own name in front."""
    message, brace, data = evidence.text.removeprefix(f"[{name}] ").partition(" {")
    pieces: list[Piece] = [(f"     {fit_line(evidence.name, 24)} ", "$accent"), (f"{fit_line(message, 200)}  ", MUTED)]
    return flow_pieces([*pieces, *(format_fields(f"{{{data}") if brace else [])], width, indent=7, max_rows=2)


def _render_run(run: ProbeRun, width: int, *, is_marked: bool) -> list[BoardRow]:
    by_hand = RUN_ENDINGS.get(run.ended, run.ended.replace("_", " "))
    code = f"exit code {run.exit_code}" if run.exit_code is not None else by_hand
    good = "$text-success" if run.exit_code == 0 else "$text-error" if run.exit_code is not None else MUTED
    breakdown = ", ".join(f"{fit_line(name, 20) or '–'} {count}" for name, count in run.counts.items())
    facts = [f"{count('line', run.records)}{f' ({breakdown})' if breakdown else ''}"]
    facts += [f"{run.broken} unreadable"] if run.broken else []
    facts += [f"{run.left:,} not saved"] if run.left else []
    pieces: list[Piece] = [("▸" if is_marked else " ", "$accent"), (f"{fit_line(run.id, 20)} ", BOLD), (code, good)]
    pieces += [(" after the fix" if run.after_fix else "", "$text-primary"), (f" · {' · '.join(facts)}", MUTED)]
    return flow_pieces(pieces, width, indent=4, max_rows=2)


def _render_fix_verdict(verdict: FixJudged, width: int) -> list[BoardRow]:
    files = f": fix undone in {', '.join(verdict.taken_back)}" if verdict.taken_back else ""
    labels: Mapping[str, Piece] = {
        "fixed": ("✓ you marked it fixed", "$text-success"),
        "broken": (f"✕ still broken{files}", "$text-error"),
        "unsure": ("nobody to ask" if verdict.by == "program" else "you gave no verdict on the fix", MUTED),
    }
    text, style = labels[verdict.outcome]
    return flow_pieces([("   ", ""), (fit_line(text, 600), style)], width, indent=5, max_rows=3)
