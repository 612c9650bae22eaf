from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from tui.terminal.frames import FrameDiff

WIDTH, HEIGHT, CUT = 12, 10, 9
CONSOLE = Console(width=WIDTH, height=HEIGHT, color_system=None)
TOKENS = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H|\x1b\[(?P<region>[\d;]*)r|\x1b\[[\d;]*m|(?P<up>\x1bM)|(?P<one>.)", re.S
)

Frame = list[tuple[str, str]]


class Vt:
    """The least of a terminal: places, margins, line feed, reverse index, letters."""

    def __init__(self) -> None:
        self.cells = [["?"] * WIDTH for _ in range(HEIGHT)]
        self.row = self.column = 0
        self.top, self.bottom = 0, HEIGHT - 1

    def feed(self, text: str) -> None:
        for token in TOKENS.finditer(text):
            if token["row"]:
                self.row, self.column = int(token["row"]) - 1, int(token["column"]) - 1
            elif token["region"] is not None:
                first, _, last = token["region"].partition(";")
                self.top, self.bottom = int(first or 1) - 1, int(last or HEIGHT) - 1
                self.row = self.column = 0
            elif token["up"]:
                self._roll(self.top, self.bottom) if self.row == self.top else None
            elif token["one"] == "\n":
                self._roll(self.bottom, self.top) if self.row == self.bottom else None
            elif token["one"] is not None:
                self.cells[self.row][self.column] = token["one"]
                self.column += 1

    def _roll(self, gained: int, lost: int) -> None:
        del self.cells[lost]
        self.cells.insert(gained, ["?"] * WIDTH)

    @property
    def lines(self) -> list[str]:
        return ["".join(row) for row in self.cells]


def strip(text: str) -> Strip:
    return Strip([Segment(text)], len(text))


def full(frame: Frame) -> LayoutUpdate:
    return LayoutUpdate([[strip(left), strip(right)] for left, right in frame], Region(0, 0, WIDTH, HEIGHT))


def partial(frame: Frame, rows: list[int], *spans: tuple[int, int], cuts: tuple[int, ...] = (CUT,)) -> ChopsUpdate:
    """Of some rows the columns of the spans, in strips that begin at the cuts."""
    spans = spans or ((0, WIDTH),)
    ends = [*cuts, WIDTH]

    def strips(row: tuple[str, str]) -> dict[int, Strip | None]:
        text = "".join(row)
        chops: dict[int, Strip | None] = {}
        for start, end in zip([0, *cuts], ends, strict=True):
            is_asked = any(start < last and first < end for first, last in spans)
            chops[start] = strip(text[start:end]) if is_asked else None
        return chops

    asked = [(y, first, last) for y in rows for first, last in spans]
    return ChopsUpdate([strips(row) for row in frame], asked, [ends] * HEIGHT)


def painted(frame_diff: FrameDiff, screen: object, update: CompositorUpdate) -> str:
    reduced_update = frame_diff.reduce_update(screen, update)
    assert isinstance(reduced_update, CompositorUpdate)
    return reduced_update.render_segments(CONSOLE)


def columns(old: tuple[str, str], new: tuple[str, str], asked: list[tuple[int, int]]) -> tuple[str, str]:
    """The old row with the columns of the new one that are asked for."""
    row, after = "".join(old), "".join(new)
    for low, high in asked:
        row = row[:low] + after[low:high] + row[high:]
    return row[:CUT], row[CUT:]


def lines(frame: Frame) -> list[str]:
    return [left + right for left, right in frame]


def numbered(first: int) -> Frame:
    return [(f"line {first + y:04}", "  |") for y in range(HEIGHT)]


left_texts = st.sampled_from(["aaaaaaaaa", "bbbbbbbbb", "ccccccccc", "ddddddddd", "         "])
frames = st.lists(st.tuples(left_texts, st.sampled_from(["  |", "  #"])), min_size=HEIGHT, max_size=HEIGHT)
spans = st.sampled_from(
    [[(0, WIDTH)], [(0, WIDTH)], [(0, CUT)], [(CUT, WIDTH)], [(2, 6)], [(0, CUT + 1)], [(0, 4), (5, WIDTH)], [(4, 5)]]
)
cuts = st.sampled_from([(CUT,), (CUT,), (4, 5), (5, CUT)])
steps = st.lists(st.tuples(st.integers(-4, 4), frames, st.booleans(), spans, cuts), min_size=1, max_size=6)


@given(first=frames, steps=steps)
def test_whatever_changes_the_terminal_shows_the_last_frame(first: Frame, steps):
    frame_diff, vt, screen = FrameDiff(), Vt(), object()
    vt.feed(painted(frame_diff, screen, full(first)))
    frame = first
    for by, fresh, whole, asked, parts in steps:
        moved = [frame[y + by] if 0 <= y + by < HEIGHT else fresh[y] for y in range(HEIGHT)]
        moved = [columns(old, new, asked) for old, new in zip(frame, moved, strict=True)]
        after = moved if whole else [*moved[:7], *frame[7:]]
        rows = [y for y in range(HEIGHT) if after[y] != frame[y]]
        if rows:
            vt.feed(painted(frame_diff, screen, partial(after, rows, *asked, cuts=parts)))
        frame = after
        assert vt.lines == lines(frame)


def test_a_conversation_that_moves_up_is_moved_and_not_written_again():
    frame_diff, vt, screen = FrameDiff(), Vt(), object()
    vt.feed(painted(frame_diff, screen, full(numbered(0))))
    sequence = painted(frame_diff, screen, partial(numbered(1), list(range(HEIGHT))))
    vt.feed(sequence)
    assert vt.lines == lines(numbered(1))
    assert sequence.count("line") == 1


def test_what_stands_there_already_is_not_written():
    frame_diff, screen = FrameDiff(), object()
    painted(frame_diff, screen, full(numbered(0)))
    assert painted(frame_diff, screen, partial(numbered(0), list(range(HEIGHT)))) == ""


def test_a_part_of_a_row_is_written_and_the_rest_of_it_is_compared_no_more():
    frame_diff, vt, screen = FrameDiff(), Vt(), object()
    vt.feed(painted(frame_diff, screen, full(numbered(0))))
    vt.feed(painted(frame_diff, screen, partial(numbered(50), [3], (0, 4))))
    vt.feed(painted(frame_diff, screen, partial(numbered(50), [3])))
    assert vt.lines[3] == "line 0053  |"


def test_all_of_a_row_that_is_drawn_in_two_parts_is_written_after_the_layout_has_changed():
    frame_diff, vt, screen = FrameDiff(), Vt(), object()
    vt.feed(painted(frame_diff, screen, full(numbered(0))))
    after = [(left.replace("line", "LINE"), " ##") for left, _ in numbered(50)]
    vt.feed(painted(frame_diff, screen, partial(after, [2, 3], (0, 4), (5, WIDTH), cuts=(4, 5))))
    assert vt.lines[2:4] == ["LINE 0052 ##", "LINE 0053 ##"]


def test_another_screen_is_written_in_full():
    frame_diff, screen = FrameDiff(), object()
    painted(frame_diff, screen, full(numbered(0)))
    assert painted(frame_diff, object(), partial(numbered(0), [0, 1])).count("line") == 2


def test_a_full_frame_is_written_in_full_so_that_it_heals_the_screen():
    frame_diff, screen = FrameDiff(), object()
    painted(frame_diff, screen, full(numbered(0)))
    assert painted(frame_diff, screen, full(numbered(0))).count("line") == HEIGHT
