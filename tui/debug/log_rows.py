"""The log of a debug run as rows of styled pieces. No widgets.

Data are shown field by field (`key=tea hit=false`); what does not fit a few rows is cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from core.protocol.debug import ProbeRecord
from tui.text import fit_line, render_output
from tui.widgets.text_rows import measure_pieces, measure_text

Piece = tuple[str, str]
BoardRow = tuple[Piece, ...]

MUTED, HEAD, PLAIN, BOLD = "$foreground 55%", "bold $foreground 75%", "$foreground 85%", "bold"
CHANGED: Final = "bold $text-warning"
LINE: Final = "$foreground 30%"
RECORD_ROWS: Final = 3  # of one record


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
    """Return the log of a run. `total`: number of matching records; `live`: a note that the run goes on."""
    match_note = f"  {max(total, len(records))} with “{fit_line(words, 40)}”" if words else ""
    head = (f" Log of {run}", HEAD), (f"  {live}" if live else "", "$text-warning"), (match_note, MUTED)
    rows: list[BoardRow] = [(), head]
    for record in records:
        rows += _render_record(run, record, width)
    if not records:
        rows.append((("   nothing yet" if live else "   nothing", MUTED),))
    if total > len(records):
        rows.append(((f"   {total - len(records):,} more: find words with the filter", MUTED),))
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
