"""Parts of a history: each with its reason, and dropping one, which replays from the log."""

from __future__ import annotations

from core.agent.context.history_parts import list_history_parts
from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from core.state.steps import _read_messages, _replace_spans

FIRST = (
    '<project_layout>\na.py\nb.py\n</project_layout>\n\n<rules>\n<rule path="r.mdc">\nBe kind.\n</rule>\n</rules>\n\n'
    '<attached_files>\n<file path="p" note="shown above"/>\n<file path="a.py" lines="3-9" symbol="add">\n'
    'def add(): ...\n</file>\n<file path="b.py">\nx = 1\n</file>\n</attached_files>\n\n'
    "<user_query>\nfix add in a.py\n</user_query>\n\n"
    "<system_reminder>\nAgent mode.\n</system_reminder>"
)
HISTORY = [
    UserMessage(content=FIRST),
    AssistantMessage(content="Let me look.", tool_calls=(ToolCall(id="c1", name="read_file", arguments="{}"),)),
    ToolMessage(call_id="c1", content="1 def add(): ..."),
    UserMessage(content="Go on, please.", origin="program"),
]


def drop(messages, name):
    [part] = [history_part for history_part in list_history_parts(messages) if history_part.name == name]
    return ev.ContextDropped(name=name, spans=part.spans, note="(left out by the user: about 9 tokens)")


def test_every_block_is_a_part_with_its_reason():
    parts = {part.name: part for part in list_history_parts(HISTORY)}
    assert list(parts) == [
        "project layout", "r.mdc", "add · a.py:3-9", "b.py", "“fix add in a.py”", "reminder", "answers",
        "results of read_file",
    ]  # fmt: skip
    assert parts["add · a.py:3-9"].reason == "sent with “fix add in a.py”"
    problem_names = {name for name, part in parts.items() if part.problem}
    assert problem_names == {"r.mdc", "“fix add in a.py”", "reminder", "answers"}
    assert len({part.id for part in parts.values()}) == len(parts)


def test_a_dropped_block_leaves_a_line_within_its_tags_and_nothing_else_moves():
    messages = list(HISTORY)
    _replace_spans(messages, drop(messages, "add · a.py:3-9"))
    assert messages[0].content == FIRST.replace("def add(): ...", "(left out by the user: about 9 tokens)")
    assert messages[1:] == HISTORY[1:]
    [again] = [history_part for history_part in list_history_parts(messages) if history_part.name == "add · a.py:3-9"]
    assert again.problem == "it is already left out"


def test_the_results_of_a_tool_go_together():
    messages = list(HISTORY)
    _replace_spans(messages, drop(messages, "results of read_file"))
    assert messages[2].content.startswith("(left out")
    assert messages[2].call_id == "c1"


def test_a_rewound_conversation_reads_what_was_dropped_from_the_log():
    events = [*(ev.MessageAppended(message=message) for message in HISTORY), drop(HISTORY, "b.py")]
    records = [ev.Envelope(seq=n, session="s", at=0, event=event) for n, event in enumerate(events, 1)]
    assert "x = 1" not in _read_messages(records)[0].content
    assert "x = 1" in _read_messages(records[:-1])[0].content
