from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.input.keystrokes import BURST_GAP, Keystroke, KeystrokeBuffer

MOVES, COMMANDS = "jk", "arcelosuwtb"


class Hand:
    """Strikes letters at moments, and writes down what became of them."""

    def __init__(self, *, takes_focus: bool = True) -> None:
        self._takes_focus = takes_focus  # the prompt does, unless a dialog is open
        self.done, self.text, self.now = "", "", 10.0
        self.strokes = KeystrokeBuffer(act=self._run_binding, write=self._write, wait=lambda: None)

    def _run_binding(self, stroke: Keystroke) -> None:
        self.done += stroke.character

    def _write(self, text: str) -> None:
        self.text += text

    def strike(self, letters: str, *, apart: float) -> Hand:
        for letter in letters:
            self.now += apart
            kind = "move" if letter in MOVES else "command" if letter in COMMANDS else "none"
            if self.text and self._takes_focus:
                self.text += letter
            else:
                self.strokes.add(Keystroke(letter, self.now, kind))
        return self

    def rest(self) -> Hand:
        self.strokes.flush()
        return self


WORDS = ["add a test", "reject", "are there", "jar", "use", "now", "akin", "clear it", "ok go"]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("apart", [0.0, 0.03, 0.149])
@pytest.mark.parametrize("takes_focus", [True, False])
def test_n7b_a_sentence_is_text_and_nothing_is_judged(words, apart, takes_focus):
    hand = Hand(takes_focus=takes_focus).strike(words, apart=apart).rest()
    assert hand.text == words
    assert set(hand.done) <= set(MOVES)


@pytest.mark.parametrize("keys", ["a", "jaja", "jajr", "aaa", "rrr", "jjjj", "kak", "jjja"])
@pytest.mark.parametrize("apart", [0.02, 0.1, 0.15, 1.0])
def test_n7b_quick_commands_are_carried_out_in_their_order(keys, apart):
    hand = Hand().strike(keys, apart=apart).rest()
    assert (hand.done, hand.text) == (keys, "")


def test_n7b_different_verdicts_are_carried_out_when_they_are_struck_apart():
    assert Hand().strike("ararwe", apart=BURST_GAP).rest().done == "ararwe"


def test_n7b_a_verdict_waits_for_what_comes_next_and_a_move_does_not():
    hand = Hand().strike("ja", apart=0.1)
    assert (hand.done, hand.strokes.is_pending) == ("j", True)
    hand.strike("a", apart=0.2)
    assert hand.done == "ja"
    hand.strokes.clear()
    assert hand.rest().done == "ja"


def test_n7b_what_comes_faster_than_a_hand_strikes_is_no_verdict():
    hand = Hand().strike("aaaa", apart=0.0).rest()
    assert (hand.done, hand.text) == ("", "aaaa")


@given(st.text(MOVES + COMMANDS + " dx", max_size=12), st.floats(0.0, 0.14), st.booleans())
def test_n7b_in_one_burst_nothing_is_lost_and_what_is_text_has_done_nothing_but_move(letters, apart, takes_focus):
    hand = Hand(takes_focus=takes_focus).strike(letters, apart=apart).rest()
    if hand.text:
        assert hand.text == letters
        assert set(hand.done) <= set(MOVES) or letters[0] in MOVES
    else:
        assert hand.done == letters or len(letters) == 1
