from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.terminal.early_terminal import SEQUENCE_GAP, TypedText

KEYS = (
    *("a", "ß", "語", "é", " ", "/", "@", "\x7f", "\r", "\t", "\x01", "\x1b[A", "\x1b[1;5C", "\x1bOP", "\x1bf"),
    *("\x1b[200~two words\x1b[201~", "\x1b[200~a\nb\x1b[201~", "\x1b[200~/etc/hosts\x1b[201~", "\x1b[200~\x1b[201~"),
    *("\x1b]11;rgb:1414/1616/1c1c\x1b\\", "\x1b[?2026;2$y", "\x1b[I", "\x1b[<35;10;4M", "\x1bP>|xterm\x1b\\"),
)


def typed(*pieces: bytes, apart: float = 0.0) -> TypedText:
    text = TypedText()
    for number, piece in enumerate(pieces):
        text.feed(piece, number * apart)
    text.end()
    return text


def buffered(text: TypedText) -> bytes:
    return b"".join(keys.data for keys in text.buffered)


@given(keys=st.lists(st.sampled_from(KEYS), max_size=12), data=st.data())
def test_however_the_bytes_are_cut_the_text_and_the_kept_keys_are_the_same(keys, data):
    whole = "".join(keys).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    one, several = typed(whole), typed(*pieces)
    assert (one.text, buffered(one)) == (several.text, buffered(several))


@given(letters=st.text(st.characters(exclude_categories=("C", "Z")), max_size=20), keys=st.lists(st.sampled_from(KEYS)))
def test_no_byte_is_lost_and_none_goes_two_ways(letters, keys):
    rest = "\x1b[A" + "".join(keys)
    text = typed((letters + rest).encode())
    assert (text.text, buffered(text)) == (letters, rest.encode())


def test_backspace_takes_the_letter_before_and_nothing_from_an_empty_prompt():
    assert typed(b"\x7fhex\x7f\x7f\x7f\x7fok").text == "ok"


def test_a_short_paste_is_text_and_one_that_means_more_is_for_the_prompt():
    assert typed(b"say \x1b[200~two words\x1b[201~ x").text == "say two words x"
    for paste in ("a\nb", "/etc/hosts", "", "x" * 500):
        text = typed(f"say \x1b[200~{paste}\x1b[201~".encode())
        assert (text.text, buffered(text)) == ("say ", f"\x1b[200~{paste}\x1b[201~".encode())


def test_answers_of_the_terminal_stop_no_letters():
    answer = b"\x1b]11;rgb:1414/1616/1c1c\x1b\\"
    text = typed(b"a" + answer[:7], answer[7:] + b"b")
    assert (text.text, buffered(text)) == ("ab", answer)


def test_escape_is_a_key_of_its_own_if_nothing_follows_it_soon():
    assert [keys.data for keys in typed(b"\x1b", b"f", apart=2 * SEQUENCE_GAP).buffered] == [b"\x1b", b"f"]
    assert [keys.data for keys in typed(b"\x1b", b"f").buffered] == [b"\x1bf"]


def test_ctrl_c_is_noticed_wherever_it_comes_but_in_a_paste():
    assert typed(b"a\x1b[A\x03").is_interrupted
    assert not typed(b"\x1b[200~a\x03b\x1b[201~").is_interrupted
