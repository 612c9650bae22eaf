"""A log as rows of styled pieces, and two of them side by side, for the width that there is. Nothing here is a widget.

Data are read field by field (`key=tea hit=false`): what is logged is a handful of values, and braces and quotes hide
them. What does not fit into a few rows is cut; copying a row gives what is seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from core.protocol.debug import ComparedPlace, ProbeRecord
from core.protocol.queries import ProbeLog
from tui.text import one_line
from tui.widgets.code_view import cells

Piece = tuple[str, str]
Row = tuple[Piece, ...]

SIDES: Final[Mapping[str, tuple[str, str]]] = {
    "same": ("=", "$foreground 45%"),
    "differs": ("≠", "bold $text-warning"),
    "first": ("−", "$text-error"),
    "second": ("+", "$text-success"),
}
MUTED, HEAD, PLAIN, BOLD = "$foreground 55%", "bold $foreground 75%", "$foreground 85%", "bold"
CHANGED: Final = "bold $text-warning"
LINE: Final = "$foreground 30%"
RECORD_ROWS: Final = 3  # of one record
PAIRS: Final = 4  # records of a place that are seen
NARROW: Final = 72  # cells below which two runs stand one above the other


def flowed(pieces: Sequence[Piece], width: int, *, indent: int, most: int) -> list[Row]:
    """Pieces in rows of a width, broken at spaces; the rows after the first one are indented, the last may be cut."""
    rows: list[list[Piece]] = [[]]
    used = 0
    for word in _words(pieces):
        size, room = sum(cells(text) for text, _ in word), width - used
        if size - word[-1][0].endswith(" ") > room and used > indent:
            if len(rows) == most:
                rows[-1].append(("…", MUTED))
                break
            rows.append([(" " * indent, "")])
            used, room = indent, width - indent
        for text, style in word:
            if room <= 0:
                break
            shown = text if cells(text.rstrip()) <= room else f"{_cut(text, room - 1)}…"
            rows[-1].append((shown, style))
            used, room = used + cells(shown), room - cells(shown)
    return [tuple(row) for row in rows]


def _words(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """What stays together: up to the next space, whatever the styles are."""
    word: list[Piece] = []
    for text, style in pieces:
        *whole, last = text.split(" ")
        for each in whole:
            yield [*word, (f"{each} ", style)]
            word = []
        if last:
            word.append((last, style))
    if word:
        yield word


def _cut(text: str, room: int) -> str:
    """The beginning of a text that fits into so many cells."""
    text = text[: max(room, 0)]
    while cells(text) > room:
        text = text[:-1]
    return text


def fields(data: str) -> dict[str, str]:
    """The values of logged data (JSON) by name; of anything but an object the whole, under no name."""
    try:
        value = json.loads(data) if data.startswith("{") else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not value:
        return {"": data} if data else {}
    return {name: _value(each) for name, each in value.items()}


def _value(value: object) -> str:
    if isinstance(value, str) and value and not set(value) & set(' ="\\\n') and value not in {"true", "false", "null"}:
        return value if not value.lstrip("-").replace(".", "").isdigit() else json.dumps(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def values(data: str, other: str | None = None) -> list[Piece]:
    """`name=value` pieces; with `other`, those that differ there stand out."""
    there = fields(other) if other is not None else None
    pieces: list[Piece] = []
    for name, value in fields(data).items():
        differs = there is not None and there.get(name) != value
        style = CHANGED if differs else MUTED if there is not None else PLAIN
        label = f"{one_line(name, 60)}=" if name else ""
        pieces += [(label, CHANGED if differs else MUTED), (f"{one_line(value, 600)} ", style)]
    return pieces


def log_rows(
    run: str, records: Sequence[ProbeRecord], width: int, *, words: str = "", total: int = 0, live: str = ""
) -> list[Row]:
    """The log of a run. `total`: how many records there are of those that were looked for; `live`: what is said of one
    that goes on."""
    found = f"  {max(total, len(records))} with “{one_line(words, 40)}”" if words else ""
    rows: list[Row] = [(), ((f" Log of {run}", HEAD), (f"  {live}" if live else "", "$text-warning"), (found, MUTED))]
    for each in records:
        rows += _record(run, each, width)
    if not records:
        rows.append((("   nothing yet" if live else "   nothing", MUTED),))
    if total > len(records):
        rows.append(((f"   {total - len(records):,} more: find words with the filter", MUTED),))
    return rows


def _record(run: str, each: ProbeRecord, width: int) -> list[Row]:
    who = one_line(each.hypothesis_id, 20)
    pieces: list[Piece] = [(f" {run}:{each.line} ", "$accent"), (f"{who} " if who else "", BOLD)]
    pieces += [(f"{one_line(each.location, 60)} " if each.location else "", MUTED)]
    pieces += [(f"{one_line(each.message, 400)}  " if each.message else "", PLAIN), *values(each.data)]
    return flowed(pieces, width, indent=6, most=RECORD_ROWS)


def compared_rows(log: ProbeLog, width: int) -> list[Row]:
    """Two runs place by place: side by side, the earlier one on the left; where it is narrow, one above the other."""
    left, right = log.compare_with, log.run
    half = max((width - 5) // 2, 8)
    is_wide = width >= NARROW
    head = f" {left:<{half}} │ {right}" if is_wide else f" {left} and {right}"
    rows: list[Row] = [(), ((head, HEAD),)]
    for place in log.places:
        rows += _place(place, width)
        if place.side != "same":
            rows += _beside(place, half) if is_wide else _stacked(place, width, left, right)
    if not log.places:
        rows.append((("   nothing was logged", MUTED),))
    return rows


def _place(place: ComparedPlace, width: int) -> Iterator[Row]:
    sign, colour = SIDES[place.side]
    one, other = place.first_count or len(place.first), place.second_count or len(place.second)
    count = f"{one}" if one == other else f"{one} → {other}"
    who = one_line(place.hypothesis, 20)
    where: list[Piece] = [(f" {sign} ", colour), (f"{who} " if who else "", BOLD)]
    where += [(one_line(f"{place.location} {place.message}", max(width - 16 - len(who), 12)), PLAIN)]
    yield (*where, (f"  {count} {'line' if count == '1' else 'lines'}", MUTED))


def _pairs(place: ComparedPlace) -> Iterator[tuple[ProbeRecord | None, ProbeRecord | None]]:
    for number in range(min(max(len(place.first), len(place.second)), PAIRS)):
        yield (
            place.first[number] if number < len(place.first) else None,
            place.second[number] if number < len(place.second) else None,
        )


def _said(record: ProbeRecord | None, other: ProbeRecord | None) -> list[Piece]:
    if record is None:
        return []
    if not record.data:
        return [(one_line(record.message, 400), PLAIN)]
    return values(record.data, other.data if other is not None else None)


def _beside(place: ComparedPlace, half: int) -> Iterator[Row]:
    for one, other in _pairs(place):
        left, right = (flowed(_said(*each), half, indent=0, most=2) for each in ((one, other), (other, one)))
        for number in range(max(len(left), len(right))):
            cell = left[number] if number < len(left) else ()
            filler = half - sum(cells(text) for text, _ in cell)
            after = right[number] if number < len(right) else ()
            yield ((" ", ""), *cell, (" " * max(filler, 0), ""), (" │ ", LINE), *after)


def _stacked(place: ComparedPlace, width: int, left: str, right: str) -> Iterator[Row]:
    for one, other in _pairs(place):
        for name, this, that in ((left, one, other), (right, other, one)):
            if this is not None:
                lead = (f"   {name} ", "$accent")
                yield from flowed([lead, *_said(this, that)], width, indent=6, most=2)
