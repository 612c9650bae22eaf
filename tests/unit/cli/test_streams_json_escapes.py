"""JSON that is printed is the same value for every reader, whatever the encoding of the stream."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cli.streams import escape_sign, write_json

ENCODINGS = ["utf-8", "UTF8", "latin-1", "ascii", "gbk", "cp1252", "shift_jis", "euc_kr"]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(ENCODINGS))
def test_a_value_is_read_again_as_utf_8_whatever_the_encoding_of_the_stream(text, encoding):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    write_json(json.dumps({text: text}, ensure_ascii=False), stream)
    stream.flush()
    assert json.loads(raw.getvalue().decode("utf-8")) == {text: text}


@pytest.mark.parametrize("sign", ["é", "→", "😀", "\ud800"])
def test_an_escape_stands_for_its_character(sign):
    assert json.loads(f'"{escape_sign(sign)}"') == sign
