from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.message import Message

from tui.terminal.input_parser import (
    BULK,
    ESCAPE_TIMEOUT,
    LATE_TIMEOUT,
    MAX_HELD,
    MAX_WINDOW,
    REST_TIMEOUT,
    STRING_TIMEOUT,
    STRUCK_GAP,
    InputParser,
)
from tui.terminal.replies import TerminalBackground

START, END = b"\x1b[200~", b"\x1b[201~"
KEYS = (
    *(
        b"a",
        "ß語é".encode(),
        b" ",
        b"\r",
        b"\t",
        b"\x7f",
        b"\x03",
        b"\x00",
        b"\x1b[A",
        b"\x1b[1;5C",
        b"\x1bOP",
        b"\x1bf",
    ),
    *(
        b"\x1b[97;5u",
        b"\x1b[97:65;2:1u",
        b"\x1b[27;2;13~",
        b"\x1b[[A",
        b"\x1b[3$",
        b"\x1b[M !!",
        b"\x1b[<35;10;4M",
        b"\x1b\x1b",
    ),
    *(b"\x1b[I", b"\x1b[48;24;80;480;800t", b"\x1b[?2026;2$y", b"\x1b[200~two\x1b[31m\x03\nlines\x1b[201~"),
)
ANSWERS = (
    *(
        b"\x1b[?62;22c",
        b"\x1b[>0;276;0c",
        b"\x1b[?1u",
        b"\x1b[?0u",
        b"\x1b[24;80R",
        b"\x1b[1;1R",
        b"\x1b[0n",
        b"\x1b[?997;1n",
    ),
    *(
        b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
        b"\x1b]4;1;rgb:cdcd/0000/0000\x07",
        b"\x1b]52;c;aGVsbG8=\x1b\\",
        b"\x1bP>|xterm(390)\x1b\\",
    ),
    *(
        b"\x1bP1$r0m\x1b\\",
        b"\x1bP1+r544e=78\x1b\\",
        b"\x1b_Gi=31;OK\x1b\\",
        b"\x1b[8;24;80t",
        b"\x1b[4;600;800t",
        b"\x1b]lmy title\x1b\\",
    ),
    *(b"\x1b[?2031;0$y", b"\x1b[?12;1;2y", b"\x1b[>4;1m", b"\x1bP!|00000000\x1b\\"),
)
ODD = (
    *(
        b"\x1b[99999999u",
        b"\x1b[97;;1114112u",
        b"\x1b[97;;55296u",
        b"\x1b[6915012649A",
        b"\x1b[;;;u",
        b"\x1b[u",
        b"\x1b[99~",
    ),
    *(
        b"\x1b[0;0;0u",
        b"\x1b[-1u",
        b"\x1b[1;99999A",
        b"\x1b[27;2;~",
        b"\x1b[27;2;1114112~",
        b"\x1b[1;1:3A",
    ),
    *(
        b"\x1b[97;5:3u",
        b"\x1b[55296u",
        b"\x1b[48;0;0;0;0t",
        b"\x1b[48;99999;9;9;9t",
        b"\x1b[<999;1;1M",
        b"\x1b[<0;9999999999;1M",
    ),
    *(
        b"\x1b[<;;M",
        b"\x1b[<-1;-1;-1M",
        b"\x1bOz",
        b"\x1bO5",
        b"\x1b[ q",
        b"\x1b[1 2 q",
        b"\x1b[?1;2;3;4;5h",
        b"\x1b[" + b"1;" * 300 + b"m",
    ),
    *(
        b"\x1b]" + b"x" * (2 * MAX_HELD) + b"\x07",
        b"\x1b]8;;http://x\x1b\\",
        b"\x1bXsos\x1b\\",
        b"\x1b^pm\x1b\\",
        b"\x1b_\x1b\\",
        b"\x1b[57500u",
    ),
)
ANY = st.one_of(
    st.sampled_from(
        [*KEYS, *ANSWERS, *ODD, START, END, b"\x1b", b"\x1b[", b"\x1b]", b"\x1b[20", b"\x1bP", b"\x1b[M", b"\xe9"]
    ),
    st.binary(max_size=6),
)


def describe(message: Message) -> tuple[object, ...]:
    match message:
        case events.Key():
            return "key", message.key, message.character
        case events.Paste():
            return "paste", message.text
        case events.Resize():
            return "size", *message.size
        case events.MouseEvent():
            return type(message).__name__, message.x, message.y, message.button
        case _:
            return (type(message).__name__,)


def parsed(*pieces: bytes | float) -> list[tuple[object, ...]]:
    """What pieces of the input mean, as they come; a number is seconds of silence, and there are ten at the end."""
    parser, now, heard = InputParser(), 0.0, list[Message]()
    for piece in (*pieces, 10.0):
        if isinstance(piece, bytes):
            heard += parser.feed(piece, now)
        else:
            now += piece
            heard += parser.tick(now)
    return [describe(message) for message in heard]


def keys(*pieces: bytes | float) -> list[str]:
    return [str(what[1]) for what in parsed(*pieces) if what[0] == "key"]


def typed(*pieces: bytes | float) -> str:
    """The letters that are written by what comes."""
    written = (what[-1] for what in parsed(*pieces) if what[0] in {"key", "paste"})
    return "".join(str(letter) for letter in written if letter is not None)


@given(pieces=st.lists(ANY, max_size=12), data=st.data())
def test_however_the_bytes_are_cut_they_mean_the_same(pieces, data):
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    cut = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert parsed(*cut) == parsed(whole) == parsed(*(bytes([byte]) for byte in whole))


@given(pieces=st.lists(ANY, max_size=20), gaps=st.lists(st.floats(0, 3), min_size=20, max_size=20))
def test_after_anything_at_any_pace_and_a_moment_of_silence_a_key_is_a_key(pieces, gaps):
    timed = [part for pair in zip(pieces, gaps, strict=False) for part in pair]
    assert parsed(*timed, LATE_TIMEOUT, b"\x03")[-1] == ("key", "ctrl+c", "\x03")


@given(pieces=st.lists(ANY, max_size=12), gaps=st.lists(st.floats(0, 3), min_size=12, max_size=12))
def test_silence_completes_all_that_is_unfinished_at_the_times_that_the_parser_names(pieces, gaps):
    parser, now, ticks = InputParser(), 0.0, 0
    for piece, gap in zip(pieces, gaps, strict=False):
        now += gap
        list(parser.feed(piece, now))
    while (wait := parser.get_wait(now)) is not None:
        now, ticks = now + wait + 1e-6, ticks + 1
        list(parser.tick(now))
        assert wait <= STRING_TIMEOUT
    assert ticks <= 3
    assert list(parser.tick(now + LATE_TIMEOUT)) == []


def test_nothing_is_awaited_behind_a_whole_key_and_an_escape_is_awaited_for_a_moment():
    parser = InputParser()
    waits = [parser.get_wait(0.0)]
    for piece in (b"x", b"\x1b[A", b"\x1b"):
        list(parser.feed(piece, 1.0))
        waits.append(parser.get_wait(1.0))
    assert waits == [None, None, None, pytest.approx(ESCAPE_TIMEOUT)]
    assert [describe(message) for message in parser.tick(1.0 + ESCAPE_TIMEOUT)] == [("key", "escape", "\x1b")]
    assert parser.get_wait(2.0) is None


@given(text=st.text(st.characters(exclude_characters="\x00", exclude_categories=("Cs",))))
def test_every_letter_of_a_paste_arrives_and_none_is_a_key(text):
    pasted = text.encode().replace(END, b"")
    assert parsed(START + pasted + END) == [("paste", pasted.decode())]


@given(data=st.binary(max_size=40))
def test_a_paste_of_any_bytes_is_one_paste(data):
    (what,) = parsed(START + data.replace(END, b"").replace(b"\x1b", b"") + END)
    assert what[0] == "paste"


@pytest.mark.parametrize("at", range(1, len(START)))
@pytest.mark.parametrize("pause", [0.0, 0.2, 0.5, 0.9])
def test_a_start_marker_that_comes_in_two_pieces_begins_a_paste(at, pause):
    pieces = parsed(START[:at], pause, START[at:] + b"one\x11\rtwo" + END)
    assert [what for what in pieces if what != ("key", "escape", "\x1b")] == [("paste", "one\x11\rtwo")]


@pytest.mark.parametrize("at", range(1, len(END)))
@pytest.mark.parametrize("pause", [0.0, 0.2, 0.9, REST_TIMEOUT, 3.0])
def test_an_end_marker_that_comes_in_two_pieces_is_never_typed(at, pause):
    assert parsed(START + b"one" + END[:at], pause, END[at:] + b"x") == [("paste", "one"), ("key", "x", "x")]


def test_a_paste_without_an_end_is_a_paste_after_a_second_and_keys_are_keys_again():
    assert parsed(START + b"one", REST_TIMEOUT, b"x", b"\x03")[:3] == [
        *(("paste", "one"), ("key", "x", "x"), ("key", "ctrl+c", "\x03"))
    ]


@pytest.mark.parametrize("key", [b"\x03", b"\x11", b"\x1b[99;5u", b"\x1b", b"\x1b[<35;10;4M\x1b[<35;11;4M", b"q"])
def test_keys_that_are_struck_do_not_keep_a_paste_open(key):
    presses = [part for _ in range(5) for part in (STRUCK_GAP, key)]
    assert parsed(START + b"one", *presses)[0][0] == "paste"


def test_what_comes_late_in_bulk_or_with_the_marker_behind_it_is_text():
    late = b"rm -r x\r" * 3
    assert parsed(START + b"one", 1.5, late, 0.5, late + END) == [("paste", "one"), ("paste", (late * 2).decode())]
    assert parsed(START + b"one", 1.5, b"x\r" + END) == [("paste", "one"), ("paste", "x\r")]
    assert parsed(START + b"one", 1.5, END) == [("paste", "one")]
    log = b"\x1b[31mthe end of a log\r"
    assert parsed(START + b"one", 1.5, log) == [("paste", "one"), ("paste", log.decode())]
    assert parsed(START + b"one", 1.5, START + log + END) == [("paste", "one"), ("paste", log.decode())]
    assert parsed(START + b"one", 1.5, b"\x1b[A" * BULK)[1:] == [("key", "up", None)] * BULK
    assert parsed(START + b"one", 1.5, LATE_TIMEOUT, b"x" * BULK)[1:] == [("key", "x", "x")] * BULK


def test_an_empty_paste_is_one_and_a_start_marker_alone_is_none():
    assert parsed(START + END) == [("paste", "")]
    assert parsed(START) == []


def test_start_markers_in_a_paste_are_text_and_its_first_end_marker_ends_it():
    assert parsed(START + START + b"x" + END + END + b"y") == [("paste", "\x1b[200~x"), ("key", "y", "y")]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("pause", [0.0, 0.3, 0.9])
def test_an_answer_of_the_terminal_is_never_a_key_however_late_it_comes(answer, pause):
    for at in range(2 if pause else 1, len(answer)):
        heard = parsed(b"x", answer[:at], pause, answer[at:], b"y")
        assert [what for what in heard if what[0] == "key" and what[1] not in "xy"] == [], (answer, at)


def test_the_background_is_told_whole_and_in_pieces():
    parser = InputParser()
    pieces = (b"\x1b]", b"11;rgb:ffff/", b"ffff/ff", b"ff\x1b", b"\\")
    (message,) = (parsed_message for at, piece in enumerate(pieces) for parsed_message in parser.feed(piece, at * 0.05))
    assert isinstance(message, TerminalBackground)
    assert message.brightness == pytest.approx(1.0)


@pytest.mark.parametrize("sequence", ODD)
def test_an_odd_sequence_writes_nothing_and_the_next_key_is_heard(sequence):
    heard = keys(sequence, STRING_TIMEOUT, b"x")
    assert heard[-1] == "x"
    assert typed(sequence, STRING_TIMEOUT, b"x") in {"x", "ax"}  # of a text that can't be, the key is left


@pytest.mark.parametrize("start", [b"\x1b]11;rgb:", b"\x1bP>|x", b"\x1b_G", b"\x1b[1;", b"\x1b[?", b"\x1b]0;title"])
def test_what_is_never_ended_swallows_no_control_character_and_after_a_while_no_letter(start):
    assert keys(start + b"\x03") == ["ctrl+c"]
    assert keys(start, b"\x03") == ["ctrl+c"]
    assert keys(start, STRING_TIMEOUT, b"more") == list("more")
    if start[1:2] in b"]P_":
        assert keys(start, STRUCK_GAP, b"m", b"o") == list("mo")


@pytest.mark.parametrize(
    ("sequence", "key"),
    [
        (b"\x1b[27;2;13~", "shift+enter"),
        (b"\x1b[27;5;13~", "ctrl+enter"),
        (b"\x1b[27;6;13~", "ctrl+shift+enter"),
        (b"\x1b[27;3;13~", "alt+enter"),
        (b"\x1b[27;1;13~", "enter"),
        (b"\x1b[27;;13~", "enter"),
        (b"\x1b[27;2;9~", "shift+tab"),
        (b"\x1b[27;5;9~", "ctrl+tab"),
        (b"\x1b[27;5;127~", "ctrl+backspace"),
        (b"\x1b[27;2;27~", "shift+escape"),
        (b"\x1b[27;5;46~", "ctrl+full_stop"),
        (b"\x1b[27;5;105~", "ctrl+i"),
        (b"\x1b[27;6;67~", "ctrl+shift+c"),
        (b"\x1b[27;5;113~", "ctrl+q"),
        (b"\x1b[13;2u", "shift+enter"),
        (b"\x1b[13;2:1u", "shift+enter"),
        (b"\x1b[13;2:2u", "shift+enter"),
        (b"\x1b[99;5u", "ctrl+c"),
        (b"\x1b[99:67;5:1u", "ctrl+c"),
        (b"\x1b[97;1:1u", "a"),
        (b"\x1b[65;2u", "A"),
        (b"\x1b[97:65;2u", "A"),
        (b"\x1b[97;3u", "alt+a"),
        (b"\x1b[A", "up"),
        (b"\x1b[1;5:1A", "ctrl+up"),
        (b"\x1b[1;3A", "alt+up"),
        (b"\x1b[3;5:2~", "ctrl+delete"),
        (b"\x1b[1;2R", "shift+f3"),
        (b"\x1b[5A", "ctrl+up"),
        (b"\x1b[25~", "f13"),
        (b"\x1b[Z", "shift+tab"),
        (b"\x1bOR", "f3"),
        (b"\x1bx", "alt+x"),
        (b"\x1b\x7f", "ctrl+w"),
    ],
)
def test_a_key_has_one_name_in_every_form_that_terminals_send_it_in(sequence, key):
    assert keys(sequence) == [key]


@pytest.mark.parametrize("sequence", [b"\x1b[97;1:3u", b"\x1b[1;1:3A", b"\x1b[13;2:3u", b"\x1b[3;1:3~"])
def test_a_key_that_is_let_go_is_none(sequence):
    assert parsed(sequence) == []


@pytest.mark.parametrize(("sequence", "text"), [(b"\x1b[97;2u", "A"), (b"\x1b[27;2;65~", "A"), (b"\x1b[97;;228u", "ä")])
def test_a_letter_in_a_sequence_is_written(sequence, text):
    assert typed(sequence) == text


def test_escape_is_a_key_if_nothing_follows_it_and_part_of_what_follows_at_once():
    assert keys(b"\x1b", ESCAPE_TIMEOUT, b"a") == ["escape", "a"]
    assert keys(b"\x1b", b"a") == ["alt+a"]
    assert keys(b"\x1b\x1b[A") == ["escape", "up"]
    assert keys(b"\x1bO", REST_TIMEOUT, b"k") == ["alt+shift+o", "k"]
    assert keys(b"\x1b]11;rgb", STRUCK_GAP, b"\x1b") == ["escape"]


def test_bytes_that_are_no_utf_8_are_letters_of_latin_1_and_none_is_held_back():
    assert typed(b"\xe9", ESCAPE_TIMEOUT, b"a") == typed(b"\xe9a") == "éa"
    assert typed(START + b"caf\xe9\xff\xc3\xa9\x80" + END) == "caféÿé�"


@pytest.mark.parametrize("size", [(1, 1), (MAX_WINDOW, MAX_WINDOW), (24, 80)])
def test_a_size_that_a_window_can_have_is_taken_also_without_pixels(size):
    rows, columns = size
    assert parsed(f"\x1b[48;{rows};{columns};0;0t".encode()) == [("size", columns, rows)]
    after = parsed(f"\x1b[48;{rows};{columns};{rows * 9};{columns * 9}t".encode(), b"\x1b[<0;5;5M")
    assert [what[0] for what in after] == ["size", "MouseDown"]
