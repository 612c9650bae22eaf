"""Two debug runs beside each other: a card of the board, and the same as Markdown to give away.

The earlier run stands first. Records are those from the first difference on, place by place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Final

from core.protocol.debug import ComparedLocation, ProbeRecord, ProbeRun
from core.protocol.queries import ProbeLogAnswer
from core.text.counting import count
from tui.debug.log_rows import BOLD, HEAD, LINE, MUTED, PLAIN, BoardRow, Piece, flow_pieces, format_fields
from tui.text import fit_line, render_output
from tui.widgets.text_rows import measure_pieces

SIDES: Final[Mapping[str, tuple[str, str]]] = {
    "same": ("=", "$foreground 45%"),
    "differs": ("≠", "bold $text-warning"),
    "first": ("−", "$text-error"),
    "second": ("+", "$text-success"),
}
PAIRS: Final = 4  # records of a place that are seen
NARROW: Final = 72  # cells below which two runs stand one above the other
_FENCES: Final = re.compile(r"`+")

Runs = Mapping[str, ProbeRun]


def render_comparison(log: ProbeLogAnswer, width: int, runs: Runs, *, copy_key: str = "") -> list[BoardRow]:
    """Return the card: how both runs ended and what differs, then place by place, side by side, or stacked below
    `NARROW` cells. `copy_key` copies it."""
    half = max((width - 5) // 2, 8)
    is_wide = width >= NARROW
    heads = [f"{each} {_describe_end(runs.get(each))}".strip() for each in (log.compare_with, log.run)]
    rule: BoardRow = ((f" {'─' * max(width - 2, 1)}", LINE),)
    rows: list[BoardRow] = [(), rule]
    if is_wide:
        rows.append(((f" {fit_line(heads[0], half):<{half}} │ {fit_line(heads[1], half)}", HEAD),))
    else:
        rows += [((f" {fit_line(each, width - 2)}", HEAD),) for each in heads]
    said: list[Piece] = [(f" {_summarize(log)}", MUTED)]
    said += [("  ", ""), (copy_key, "$accent"), (" copies it as Markdown", MUTED)] if copy_key else []
    rows += [*flow_pieces(said, width, indent=1, max_rows=2), rule]
    for place in log.places:
        rows += _render_place(place, width)
        if place.side != "same":
            rows += _render_beside(place, half) if is_wide else _render_stacked(place, width, log.compare_with, log.run)
    if not log.places:
        rows.append((("   nothing was logged", MUTED),))
    return [*rows, rule]


def format_comparison(log: ProbeLogAnswer, runs: Runs) -> str:
    """Return the comparison as Markdown: a table of both runs, then a diff for each place that is not the same."""
    names = (log.compare_with, log.run)
    both = [runs.get(each) for each in names]
    rows = {
        "command": [_quote(each.command) if each is not None and each.command else "by hand" for each in both],
        "ended": [_describe_end(each) for each in both],
        "lines": [f"{each.records:,}" if each is not None else "" for each in both],
    }
    lines = [f"### {names[0]} and {names[1]}: {_summarize(log)}", ""]
    lines += [f"| | {names[0]} | {names[1]} |", "|---|---|---|"]
    lines += [f"| {name} | {cells[0]} | {cells[1]} |" for name, cells in rows.items()]
    for place in log.places:
        who = f"**{fit_line(place.hypothesis, 40)}** " if place.hypothesis else ""
        where = _quote(f"{place.location} {place.message}".strip())
        lines += ["", f"{SIDES[place.side][0]} {who}{where} ({_count_lines(place)})"]
        if place.side != "same":
            records = [f"{sign} {render_output(each.data or each.message)}" for sign, each in _list_records(place)]
            fence = "`" * max([3, *(len(found) + 1 for found in _FENCES.findall("\n".join(records)))])
            lines += [f"{fence}diff", *records, fence]
    return "\n".join(lines) + "\n"


def _list_records(place: ComparedLocation) -> Iterator[tuple[str, ProbeRecord]]:
    for sign, records in (("-", place.first), ("+", place.second)):
        yield from ((sign, each) for each in records)


def _quote(text: str) -> str:
    """Return code of Markdown for one cell of a table."""
    return f"`{fit_line(text, 200).replace('`', chr(39)).replace('|', '¦')}`"


def _describe_end(run: ProbeRun | None) -> str:
    if run is None:
        return ""
    how = f"exit code {run.exit_code}" if run.exit_code is not None else run.ended.replace("_", " ")
    return f"{how}, after the fix" if run.after_fix else how


def _summarize(log: ProbeLogAnswer) -> str:
    """Return what differs, in a line."""
    found = Counter(place.side for place in log.places)
    told = (
        (found["differs"], f"{count('place', found['differs'])} with other values"),
        (found["first"], f"{found['first']} only in {log.compare_with}"),
        (found["second"], f"{found['second']} only in {log.run}"),
        (found["same"], f"{found['same']} the same"),
    )
    return ", ".join(text for number, text in told if number) or "nothing was logged"


def _count_lines(place: ComparedLocation) -> str:
    one, other = place.first_count or len(place.first), place.second_count or len(place.second)
    return count("line", one) if one == other else f"{one} → {other} lines"


def _render_place(place: ComparedLocation, width: int) -> Iterator[BoardRow]:
    sign, colour = SIDES[place.side]
    who = fit_line(place.hypothesis, 20)
    where: list[Piece] = [(f" {sign} ", colour), (f"{who} " if who else "", BOLD)]
    where += [(fit_line(f"{place.location} {render_output(place.message)}", max(width - 16 - len(who), 12)), PLAIN)]
    yield (*where, (f"  {_count_lines(place)}", MUTED))


def _pair_records(place: ComparedLocation) -> Iterator[tuple[ProbeRecord | None, ProbeRecord | None]]:
    return islice(zip_longest(place.first, place.second), PAIRS)


def _format_record(record: ProbeRecord | None, other: ProbeRecord | None) -> list[Piece]:
    if record is None:
        return []
    if not record.data:
        return [(fit_line(render_output(record.message), 400), PLAIN)]
    return format_fields(record.data, other.data if other is not None else None)


def _render_beside(place: ComparedLocation, half: int) -> Iterator[BoardRow]:
    for one, other in _pair_records(place):
        left = flow_pieces(_format_record(one, other), half, indent=0, max_rows=2)
        right = flow_pieces(_format_record(other, one), half, indent=0, max_rows=2)
        for cell, after in zip_longest(left, right, fillvalue=()):
            filler = " " * max(half - measure_pieces(cell), 0)
            yield ((" ", ""), *cell, (filler, ""), (" │ ", LINE), *after)


def _render_stacked(place: ComparedLocation, width: int, left: str, right: str) -> Iterator[BoardRow]:
    for one, other in _pair_records(place):
        for name, this, that in ((left, one, other), (right, other, one)):
            if this is not None:
                lead = (f"   {name} ", "$accent")
                yield from flow_pieces([lead, *_format_record(this, that)], width, indent=6, max_rows=2)
