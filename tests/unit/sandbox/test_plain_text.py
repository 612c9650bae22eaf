from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sandbox.plain_text import MAX_ROWS, LiveTextStream, PlainTextStream, strip_escapes
from core.state.live_text import append_piece

# What a terminal program prints: words, line ends, and the sequences that move the cursor or erase.
TOKENS = st.sampled_from(
    [
        *("ab", "x", "  ", "\r", "\n", "\r\n", "\b", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[A", "\x1b[2A", "\x1b[B"),
        *("\x1b[C", "\x1b[2D", "\x1b[3G", "\x1b[1F", "\x1b[E", "\x1b[J", "\x1b[1;32m", "\x1b[0m", "\x1b]0;t\x07"),
    ]
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\x1b[1;31mb\x1b[0m", "ab"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;Zm9v\x07x", "x"),
        ("\x9b31mx\x1bPq#0\x1b\\y", "xy"),
        ("10%\r50%\r100%\r\nnext", "100%\nnext"),
        ("a\tb\x07c\x00", "a\tbc"),
        ("\x1b", ""),
        ("downloading\rdone\x1b[K\n", "done\n"),
        ("first\nsecond\x1b[2K\x1b[1A\x1b[2K\x1b[Gthird", "third\n"),
        ("long text\rshort", "shorttext"),
        ("\x1b[2Jkept\x1b[H", "kept"),
    ],
)
def test_only_text_is_left(raw, shown):
    assert strip_escapes(raw).rstrip(" ") == shown


def draw(tokens: list[str]) -> list[str]:
    """Draw tokens on a grid of single characters, as a terminal does."""
    grid = [[" "] * 200 for _ in range(60)]
    row = column = 0
    for token in tokens:
        digits = token.lstrip("\x1b[").rstrip("ABCDEFGJK")
        count = int(digits or 1) if digits.isdigit() or not digits else 1
        match token[-1] if token[0] in "\x1b\r\n\b" else "":
            case "":
                grid[row][column : column + len(token)] = token
                column += len(token)
            case "\n" | "\r":
                row, column = row + (token[-1] == "\n"), 0
            case "\b" | "D":
                column = max(column - count, 0)
            case "C":
                column += count
            case "G":
                column = count - 1
            case "A" | "F" | "B" | "E":
                row = max(row - count, 0) if token[-1] in "AF" else row + count
                column = 0 if token[-1] in "EF" else column
            case "K":
                blank = {"": range(column, 200), "1": range(column + 1), "2": range(200)}[digits]
                grid[row] = [" " if index in blank else character for index, character in enumerate(grid[row])]
            case "J":
                grid[row][column:] = [" "] * (200 - column)
                grid[row + 1 :] = [[" "] * 200 for _ in grid[row + 1 :]]
    return ["".join(cells).rstrip() for cells in grid]


@given(st.lists(TOKENS, max_size=40))
def test_the_last_state_is_that_of_a_terminal(tokens):
    tokens = [token for token in tokens if token not in {"\x1b[B", "\x1b[E"}]  # there are no rows below the last
    plain = [line.rstrip() for line in strip_escapes("".join(tokens)).split("\n")]
    assert plain + [""] * (60 - len(plain)) == draw(tokens)


@given(st.lists(TOKENS, max_size=40), st.integers(1, 9))
def test_pieces_make_the_same_text_as_the_whole(tokens, size):
    raw, stream, text = "".join(tokens), LiveTextStream(), ""
    for place in range(0, len(raw), size):
        text = append_piece(text, stream.feed(raw[place : place + size]))
    assert append_piece(text, stream.finish()) == strip_escapes(raw)


def test_three_thousand_frames_are_one_line_and_their_number_is_known():
    stream = LiveTextStream()
    frames = (f"\rDownloading {number}/3000 [====>   ] 12.3 MB/s" for number in range(1, 3001))
    text = ""
    for frame in frames:
        text = append_piece(text, stream.feed(frame))
    assert append_piece(text, stream.finish()).rstrip("\r") == "Downloading 3000/3000 [====>   ] 12.3 MB/s"
    assert stream.rewritten >= 2_990


def test_what_is_far_above_or_in_a_very_long_line_stays():
    rows = "".join(f"{number}\n" for number in range(200))
    assert strip_escapes(f"{rows}\x1b[999Anew").count("\n") == 200
    assert strip_escapes(f"{rows}\x1b[999Anew").split("\n")[201 - MAX_ROWS].startswith("new")
    assert strip_escapes("x" * 5_000 + "\rnew") == "x" * 5_000 + "\nnew"


@given(st.text(alphabet="\x1b[]0m;\x07\\ab\n\r\x9b\x9c", max_size=80), st.integers(1, 7))
def test_pieces_that_can_not_be_withdrawn_hold_text_alone(raw, size):
    def bare(text: str) -> str:
        return "".join(character for character in text if character not in "\x1b\x07\x9b\x9c\r")

    stream = PlainTextStream()
    pieces = [stream.feed(raw[place : place + size]) for place in range(0, len(raw), size)]
    plain_text = "".join(pieces) + stream.finish()
    assert plain_text == bare(plain_text)


def test_a_sequence_cut_in_two_leaves_no_trace():
    stream = PlainTextStream()
    assert stream.feed("a\x1b[3") == "a"
    assert stream.feed("1mb\r") == "b"
    assert stream.feed("\nc") == "\nc"
    assert stream.finish() == ""
