"""JSON as people write it becomes JSON, and JSON stays what it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.text.json_repairs import decode_marked, to_strict_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_json_keeps_its_value_whatever_its_texts_hold(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert json.loads(to_strict_json(text.encode("utf-8", "replace"))) == json.loads(
        text.encode("utf-8", "replace").decode()
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // one\n "b": [2, 3,], /* two */}', {"a": 1, "b": [2, 3]}),
        ('{"a": "//", "b": "/* */", "c": ",]"}', {"a": "//", "b": "/* */", "c": ",]"}),
        ('{"a": "\\"//", }', {"a": '"//'}),
        ("[1, /* a */ // b\n ]", [1]),
        ("[1]// end", [1]),
        ("[1] /* no end", [1]),
    ],
)
def test_comments_and_last_commas_are_blanks(text, value):
    assert json.loads(to_strict_json(text.encode())) == value


def test_an_error_names_the_place_that_it_has_in_the_file():
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(to_strict_json(b'// one\n{"a": 1,\n "b" 2}'))
    assert (caught.value.lineno, caught.value.colno) == (3, 6)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbf{}", "{}"),
        ("{}".encode("utf-16"), "{}"),
        (b"\xfe\xff\x00{\x00}", "{}"),
        (b"\xff\xfe{", "\ufffd\ufffd{"),
        (b"caf\xe9", "caf\ufffd"),
    ],
)
def test_a_byte_order_mark_says_what_a_file_is_in_and_goes(data, text):
    assert decode_marked(data) == text


@given(st.binary(max_size=100))
def test_any_bytes_are_taken(data):
    assert isinstance(to_strict_json(data), bytes)
