from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import records
from core.providers.base import ReasoningDelta, TextDelta, ToolCallDelta
from core.providers.connection.failures import Api
from core.providers.openai.chat import ChatAnswer, ThinkTagSplitter


def told_apart(*pieces):
    tags = ThinkTagSplitter()
    deltas = [delta for piece in pieces for delta in tags.feed(piece)]
    deltas += tags.flush()
    thought = "".join(reasoning_delta.text for reasoning_delta in deltas if isinstance(reasoning_delta, ReasoningDelta))
    return thought, "".join(text_delta.text for text_delta in deltas if isinstance(text_delta, TextDelta))


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>a\nb</think>\n\nSo. ", "a\nb", "So. "),
        ("<think>a</think>\n ", "a", ""),
        (" \n<think>a</think>x", "a", "x"),
        ("<think>a</think><think>b</think>x", "ab", "x"),
        ("x <think>a</think>", "", "x <think>a</think>"),
        ("<think>a</think>Write `<think>` and `</think>`.", "a", "Write `<think>` and `</think>`."),
        ("<thin", "", "<thin"),
        ("<thinking>a", "", "<thinking>a"),
        ("<think>never closed </thi", "never closed </thi", ""),
        ("", "", ""),
        ("  ", "", "  "),
    ],
)
def test_thinking_at_the_beginning_is_reasoning_and_later_it_is_text(text, thought, said):
    assert told_apart(text) == (thought, said)
    assert told_apart(*text) == (thought, said)


PARTS = st.lists(st.sampled_from(["<think>", "</think>", "<", "a", " ", "\n", "`"]), max_size=8).map("".join)


@given(PARTS | st.text("<>/think a\n", max_size=30), st.data())
def test_where_the_stream_was_cut_does_not_matter(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert told_apart(*pieces) == told_apart(text)


@pytest.mark.parametrize("is_named_again", [False, True])
def test_of_a_call_in_many_pieces_nothing_is_parsed_before_its_end(is_named_again, monkeypatch):
    parsed = []
    guard = records._guard
    monkeypatch.setattr(records, "_guard", lambda work: parsed.append(work) or guard(work))
    answer = ChatAnswer(set(), api=Api(label="a server", base_url=""))
    head = {"index": 0, "id": "call_1", "type": "function"}

    def feed(name, arguments):
        function = ({"name": name} if name else {}) | {"arguments": arguments}
        call = (head if name else {"index": 0}) | {"function": function}
        return list(answer.feed({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))

    pieces = ['{"path": "a.txt", "contents": "one', *(f" word {number}," for number in range(4_000))]
    deltas = feed("write", "")
    for piece in pieces:
        deltas += feed("write" if is_named_again else "", piece)
    assert not parsed
    deltas += [*feed("", '"}'), *answer.finish()]
    assert parsed, "but the whole is"
    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert "".join(call.arguments for call in calls) == "".join([*pieces, '"}'])
