from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from core.providers.openai.chat import MergedPieces


def merged(*pieces):
    whole = MergedPieces()
    for piece in pieces:
        whole.add(piece)
    return whole.build_value()


def test_texts_are_joined_and_what_comes_whole_is_kept():
    assert merged({"reasoning_content": "ha", "id": "x"}, {"reasoning_content": "ha", "id": "x"}) == {
        "reasoning_content": "haha",
        "id": "x",
    }
    assert merged({"vendor": "same"}, {"vendor": "same"}) == {"vendor": "same"}
    assert merged({"notes": "a"}, {"notes": "b"}, {"notes": None}) == {"notes": "ab"}


def test_reasoning_details_are_put_together_by_place_and_type():
    def details(*elements):
        return {"reasoning_details": list(elements)}

    first = {"type": "reasoning.text", "index": 0, "text": "I lo", "format": "anthropic-claude-v1"}
    second = {"type": "reasoning.text", "index": 0, "text": "ok.", "signature": "c2ln"}
    hidden = {"type": "reasoning.encrypted", "index": 1, "data": "xx", "id": "rs_1"}
    assert merged(details(first), details(second), details(hidden)) == details(
        {**first, "text": "I look.", "signature": "c2ln"}, hidden
    )
    assert merged(details({"type": "a", "text": "1"}), details({"type": "a", "text": "2"}, 7)) == details(
        {"type": "a", "text": "1"}, {"type": "a", "text": "2"}, 7
    )


def test_objects_are_merged_to_any_depth():
    first = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    assert merged(first, {"extra_content": {"google": {"thought": True}}}) == {
        "extra_content": {"google": {"thought_signature": "c2ln", "thought": True}}
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "index", "type"]), JSON, max_size=4), max_size=4))
def test_whatever_comes_is_put_together_into_json(pieces):
    whole = merged(*pieces)
    assert json.loads(json.dumps(whole)) == whole


@given(st.dictionaries(st.sampled_from("abc"), st.text(min_size=1, max_size=3), max_size=3))
def test_what_comes_in_one_piece_stays_as_it_is(piece):
    assert merged(piece) == piece
