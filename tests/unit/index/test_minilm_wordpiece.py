"""WordPiece: the pieces are those of the `tokenizers` library (0.23.3, `BertWordPieceTokenizer`) for the same words."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.index import minilm
from core.index.minilm import WordPieces, load_word_pieces

VOCABULARY = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
BEGIN, END, UNKNOWN = 101, 102, 100
PIECES = minilm._VOCABULARY.read_text(encoding="utf-8").split("\n")


def cut(text, most=1_000):
    first, *numbers, last = load_word_pieces().encode(text, most)
    assert (first, last) == (BEGIN, END)
    return [PIECES[number] for number in numbers]


def test_the_vocabulary_is_that_of_bert_base_uncased():
    assert hashlib.sha256(minilm._VOCABULARY.read_bytes()).hexdigest() == VOCABULARY
    assert len(PIECES) == 30_522 + 1


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unaffable", "una ##ffa ##ble"),
        ("Hello, world!", "hello , world !"),
        ("naïve café İstanbul", "naive cafe istanbul"),
        ("日本語 and 한국어", "日 本 語 and ᄒ ##ᅡ ##ᆫ ##ᄀ ##ᅮ ##ᆨ ##ᄋ ##ᅥ"),
        ("Ελληνικά ΑΣ", "ε ##λ ##λ ##η ##ν ##ι ##κ ##α α ##σ"),
        ("foo_bar(x->y)::Baz", "foo _ bar ( x - > y ) : : ba ##z"),
        ("def parseHTTPHeaders(self):", "def par ##se ##ht ##tp ##head ##ers ( self ) :"),
        ("a\u200bb\x00c\ufffdd", "abc ##d"),
        ("x\u2028y\u00a0z €5 ½", "x y z € ##5 ½"),
        ("A" * 101, "[UNK]"),
        ("😀 emoji", "[UNK] em ##oj ##i"),
        ("", ""),
    ],
)
def test_a_text_is_cut_as_the_library_cuts_it(text, pieces):
    assert cut(text) == pieces.split()


def test_a_mark_in_a_text_is_only_text():
    assert cut("[SEP]") == ["[", "sep", "]"]


def test_what_stands_behind_the_most_that_are_read_is_left_out():
    assert load_word_pieces().encode("one two three four", 4) == [BEGIN, *load_word_pieces().encode("one two", 9)[1:]]


def test_a_word_without_a_piece_for_its_end_is_unknown_as_a_whole():
    pieces = WordPieces(["[UNK]", "[CLS]", "[SEP]", "a", "##b"])
    assert pieces.encode("ab abc b", 9) == [1, 3, 4, 0, 0, 2]


@given(st.text(max_size=200))
def test_any_text_is_cut_and_ends_with_its_marks(text):
    numbers = load_word_pieces().encode(text, 32)
    assert (numbers[0], numbers[-1]) == (BEGIN, END)
    assert len(numbers) <= 32
    assert not {BEGIN, END, 0} & set(numbers[1:-1])
