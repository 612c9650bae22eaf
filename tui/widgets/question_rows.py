"""What a question looks like: its tabs, and the rows of its text and options. No widget, no colour but by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import QuestionAsked
from tui.text import clean, one_line, shortened
from tui.widgets.rows import Piece, cells, wrap, wrap_text

DIM: Final = "$foreground 60%"
TAB_WIDTH: Final = 18
NO_ITEM: Final = -1
TAKE: Final = -2  # the row that takes what is ticked, for the mouse
_NUMBERED: Final = re.compile(r"q?\d*")


@dataclass(slots=True)
class Choice:
    """What the user has chosen of one question so far. `marked` may be one past the options: their own words."""

    marked: int = 0
    ticked: set[str] = field(default_factory=set)
    own: str = ""
    answer: QuestionAnswer | None = None

    @classmethod
    def first(cls, question: Question) -> Choice:
        """The recommended option is marked, and ticked where several can be."""
        best = [at for at, option in enumerate(question.options) if option.recommended]
        ticked = {question.options[at].id for at in best} if question.allow_multiple else set()
        return cls(marked=best[0] if best else 0, ticked=ticked)


class Line(NamedTuple):
    """One row, and the option that a click on it chooses."""

    pieces: Sequence[Piece]
    item: int = NO_ITEM


def label_of(question: Question) -> str:
    """A few words for a tab: what the model gave, its id if that says something, else how the question begins."""
    if question.header:
        return one_line(question.header, TAB_WIDTH)
    name = question.id.replace("_", " ").replace("-", " ")
    return one_line(question.text if _NUMBERED.fullmatch(name) else name[:1].upper() + name[1:], TAB_WIDTH)


def tabs(asked: QuestionAsked, choices: Sequence[Choice], at: int, width: int) -> tuple[list[Piece], list[range]]:
    """The strip of tabs, and the columns that belong to each of them (none: it is not in sight)."""
    names = [
        f" {label_of(question)}{' ✓' if choice.answer else ''} "
        for question, choice in zip(asked.questions, choices, strict=True)
    ]
    count = f"{at + 1}/{len(names)} "
    first, last = _in_sight([cells([(name, "")]) for name in names], at, width - len(count) - 4)
    pieces: list[Piece] = [(count, DIM), ("‹ " if first else "", DIM)]
    spans = [range(0)] * len(names)
    for index in range(first, last + 1):
        left = cells(pieces)
        here = index == at
        pieces.append((names[index], "bold $background on $warning" if here else "$foreground on $foreground 10%"))
        spans[index] = range(left, cells(pieces))
        pieces.append((" ", ""))
    pieces.append(("›" if last < len(names) - 1 else "", DIM))
    return pieces, spans


def _in_sight(widths: Sequence[int], at: int, room: int) -> tuple[int, int]:
    """The first and last tab that fit, the one at hand among them."""
    first = last = at
    used = widths[at]
    while True:
        grown = False
        if last + 1 < len(widths) and used + widths[last + 1] + 1 <= room:
            last, used, grown = last + 1, used + widths[last + 1] + 1, True
        if first > 0 and used + widths[first - 1] + 1 <= room:
            first, used, grown = first - 1, used + widths[first - 1] + 1, True
        if not grown:
            return first, last


def body(question: Question, choice: Choice, title: str, width: int) -> list[Line]:
    """The text of the question, then its options."""
    lines = [Line([(one_line(title, max(width, 8)), DIM)])] if title else []
    lines += [Line(row.pieces) for row in wrap_text(shortened(clean(question.text.strip())), width, "bold")]
    for at, option in enumerate(question.options):
        here = at == choice.marked
        tick = ("☑ " if option.id in choice.ticked else "☐ ") if question.allow_multiple else ""
        taken = choice.answer is not None and option.id in choice.answer.options and not tick
        first: list[Piece] = [
            ("❯ " if here else "  ", "bold $accent"),
            (f"{at + 1} {tick}", "bold $accent" if here else ""),
        ]
        pieces: list[Piece] = [("★ ", "$success")] if option.recommended else []
        pieces += [(one_line(option.label, 400), "bold $accent" if here else "")]
        pieces += [("  recommended", "$success")] if option.recommended else []
        pieces += [("  ✓", "$success")] if taken else []
        rest: list[Piece] = [(" " * cells(first), "")]
        lines += [Line(row.pieces, at) for row in wrap(pieces, width, first=first, rest=rest)]
    if question.allow_multiple:
        lines.append(Line([("    ⏎ answer with what is marked", DIM)], TAKE))
    return lines


def hints(parts: Sequence[tuple[str, str]], width: int) -> list[Piece]:
    """Keys and what they do, as many as fit, the important ones first."""
    pieces: list[Piece] = []
    for key, words in parts:
        more: list[Piece] = [(" · " if pieces else "", DIM), (key, "bold $accent"), (f" {words}" if words else "", DIM)]
        if cells([*pieces, *more]) > width:
            break
        pieces += more
    return pieces
