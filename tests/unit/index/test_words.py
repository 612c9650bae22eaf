"""The words of the index: identifiers whole and in parts, stems that bring the forms of a word together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.index.words import MAX_WORD, split_words, stem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("parseHTTPHeaders", ["parsehttpheaders", "pars", "http", "header"]),
        ("state_dict", ["state_dict", "stat", "dict"]),
        ("__init__", ["__init__", "init"]),
        ("HTML5Parser", ["html5parser", "html", "parser"]),
        ("sha256(x)", ["sha256", "sha", "256", "x"]),
        ("Größe_alt", ["größe_alt", "größ", "alt"]),
        ("status 404, not 7", ["status", "404", "not"]),
    ],
)
def test_an_identifier_is_itself_and_its_parts(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize(
    "forms", ["parse parses parsed parsing", "query queries", "stop stopped stopping", "class classes", "cache caching"]
)
def test_the_forms_of_a_word_are_one(forms):
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize("word", ["string", "bring", "status", "this", "class", "red", "is"])
def test_what_only_looks_like_a_suffix_stays(word):
    assert stem(word) == word


def test_data_gives_no_words():
    assert split_words("A" * (MAX_WORD + 1)) == []


@given(st.text(max_size=200))
def test_any_text_gives_words_that_can_be_stored(text):
    assert all(word and len(word) <= 2 * MAX_WORD and " " not in word for word in split_words(text))
