"""The comparison of two debug runs: a card of the board, and the same as Markdown.

The earlier run comes first. Records start with the first difference, grouped by location.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Final

from core.patterns import compile_lazily
from core.protocol.debug import ComparedLocation, ProbeRecord, ProbeRun
from core.protocol.queries import ProbeLogAnswer
from core.text.counting import count
from tui.debug.board_rows import BOLD, HEAD, LINE, MUTED, PLAIN, BoardRow, Piece, flow_pieces, format_fields
from tui.text import fit_line, render_output
from tui.widgets.text_rows import measure_pieces

SIDES: Final[Mapping[str, tuple[str, str]]] = {
    "same": ("=", "$foreground 45%"),
    "differs": ("≠", "bold $text-warning"),
    "first": ("−", "$text-error"),
    "second": ("+", "$text-success"),
}
PAIRS: Final = 4  # maximum records of a location
NARROW: Final = 72  # cells below which two runs are stacked
_FENCES: Final = compile_lazily(r"`+")

Runs = Mapping[str, ProbeRun]


def render_comparison(log: ProbeLogAnswer, width: int, runs: Runs, *, copy_key: str = "") -> list[BoardRow]:
    """Return the card: the ends of both runs and a summary, then every location, side by side or stacked below
    `NARROW` cells. `copy_key` copies it."""
    half = max((width - 5) // 2, 8)
    is_wide = width >= NARROW
    heads = [f"{run_name} {_describe_end(runs.get(run_name))}".strip() for run_name in (log.compare_with, log.run)]
    rule: BoardRow = ((f" {'─' * max(width - 2, 1)}", LINE),)
    rows: list[BoardRow] = [(), rule]
    if is_wide:
        rows.append(((f" {fit_line(heads[0], half):<{half}} │ {fit_line(heads[1], half)}", HEAD),))
    else:
        rows += [((f" {fit_line(head, width - 2)}", HEAD),) for head in heads]
    summary: list[Piece] = [(f" {_summarize(log)}", MUTED)]
    summary += [("  ", ""), (copy_key, "$accent"), (" copy as Markdown", MUTED)] if copy_key else []
    rows += [*flow_pieces(summary, width, indent=1, max_rows=2), rule]
    for compared_location in log.places:
        rows += _render_place(compared_location, width)
        if compared_location.side != "same":
            rows += (
                _render_beside(compared_location, half)
                if is_wide
                else _render_stacked(compared_location, width, log.compare_with, log.run)
            )
    if not log.places:
        rows.append((("   nothing was logged", MUTED),))
    return [*rows, rule]


def format_comparison(log: ProbeLogAnswer, runs: Runs) -> str:
    """Format the comparison as Markdown: a table of both runs, then a diff per differing location."""
    names = (log.compare_with, log.run)
    both = [runs.get(run_name) for run_name in names]
    rows = {
        "command": [
            _quote(probe_run.command) if probe_run is not None and probe_run.command else "by hand"
            for probe_run in both
        ],
        "ended": [_describe_end(probe_run) for probe_run in both],
        "lines": [f"{probe_run.records:,}" if probe_run is not None else "" for probe_run in both],
    }
    lines = [f"### {names[0]} and {names[1]}: {_summarize(log)}", ""]
    lines += [f"| | {names[0]} | {names[1]} |", "|---|---|---|"]
    lines += [f"| {name} | {cells[0]} | {cells[1]} |" for name, cells in rows.items()]
    for compared_location in log.places:
        who = f"**{fit_line(compared_location.hypothesis, 40)}** " if compared_location.hypothesis else ""
        heading = _quote(f"{compared_location.location} {compared_location.message}".strip())
        lines += ["", f"{SIDES[compared_location.side][0]} {who}{heading} ({_count_lines(compared_location)})"]
        if compared_location.side != "same":
            records = [
                f"{sign} {render_output(probe_record.data or probe_record.message)}"
                for sign, probe_record in _list_records(compared_location)
            ]
            fence = "`" * max([3, *(len(backticks) + 1 for backticks in _FENCES.findall("\n".join(records)))])
            lines += [f"{fence}diff", *records, fence]
    return "\n".join(lines) + "\n"


def _list_records(compared_location: ComparedLocation) -> Iterator[tuple[str, ProbeRecord]]:
    for sign, records in (("-", compared_location.first), ("+", compared_location.second)):
        yield from ((sign, record) for record in records)


def _quote(text: str) -> str:
    """Return code of Markdown for one cell of a table."""
    return f"`{fit_line(text, 200).replace('`', chr(39)).replace('|', '¦')}`"


def _describe_end(run: ProbeRun | None) -> str:
    if run is None:
        return ""
    ending = f"exit code {run.exit_code}" if run.exit_code is not None else run.ended.replace("_", " ")
    return f"{ending}, after the fix" if run.after_fix else ending


def _summarize(log: ProbeLogAnswer) -> str:
    """Summarize the differences in a line."""
    side_counts = Counter(compared_location.side for compared_location in log.places)
    summaries = (
        (side_counts["differs"], f"{count('place', side_counts['differs'])} with other values"),
        (side_counts["first"], f"{side_counts['first']} only in {log.compare_with}"),
        (side_counts["second"], f"{side_counts['second']} only in {log.run}"),
        (side_counts["same"], f"{side_counts['same']} the same"),
    )
    return ", ".join(text for number, text in summaries if number) or "nothing was logged"


def _count_lines(compared_location: ComparedLocation) -> str:
    one, other = (
        compared_location.first_count or len(compared_location.first),
        compared_location.second_count or len(compared_location.second),
    )
    return count("line", one) if one == other else f"{one} → {other} lines"


def _render_place(compared_location: ComparedLocation, width: int) -> Iterator[BoardRow]:
    sign, colour = SIDES[compared_location.side]
    who = fit_line(compared_location.hypothesis, 20)
    heading: list[Piece] = [(f" {sign} ", colour), (f"{who} " if who else "", BOLD)]
    heading += [
        (
            fit_line(
                f"{compared_location.location} {render_output(compared_location.message)}",
                max(width - 16 - len(who), 12),
            ),
            PLAIN,
        )
    ]
    yield (*heading, (f"  {_count_lines(compared_location)}", MUTED))


def _pair_records(compared_location: ComparedLocation) -> Iterator[tuple[ProbeRecord | None, ProbeRecord | None]]:
    return islice(zip_longest(compared_location.first, compared_location.second), PAIRS)


def _format_record(record: ProbeRecord | None, other: ProbeRecord | None) -> list[Piece]:
    if record is None:
        return []
    if not record.data:
        return [(fit_line(render_output(record.message), 400), PLAIN)]
    return format_fields(record.data, other.data if other is not None else None)


def _render_beside(compared_location: ComparedLocation, half: int) -> Iterator[BoardRow]:
    for one, other in _pair_records(compared_location):
        left_rows = flow_pieces(_format_record(one, other), half, indent=0, max_rows=2)
        right = flow_pieces(_format_record(other, one), half, indent=0, max_rows=2)
        for cell, after in zip_longest(left_rows, right, fillvalue=()):
            filler = " " * max(half - measure_pieces(cell), 0)
            yield ((" ", ""), *cell, (filler, ""), (" │ ", LINE), *after)


def _render_stacked(compared_location: ComparedLocation, width: int, left_name: str, right: str) -> Iterator[BoardRow]:
    for one, other in _pair_records(compared_location):
        for name, this, that in ((left_name, one, other), (right, other, one)):
            if this is not None:
                lead = (f"   {name} ", "$accent")
                yield from flow_pieces([lead, *_format_record(this, that)], width, indent=6, max_rows=2)
