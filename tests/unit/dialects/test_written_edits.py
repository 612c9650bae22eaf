"""Edits in the text of a model that has function calls: what is one, what is not, and that pieces do not matter."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.dialects.dialect import AnswerText, CallFinished, CallStarted
from core.dialects.written_edits import WrittenEdit, WrittenEditParser

BLOCK = "------- SEARCH\nx = 1\n=======\nx = 2\n+++++++ REPLACE\n"
AIDER = "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n"
TAGGED = f'<file-edit filePath="a.py">\n{BLOCK}</file-edit>'
DRAFT = '<file_edit path="a.py" start=1 end=1>\nx = 2\n</file_edit>'
NEW_CODE = '<edit_file target_file="a.py">\nx = 2\n</edit_file>'
PATCH = "*** Begin Patch\n*** Update File: a.py\n-x = 1\n+x = 2\n*** End Patch"
UNIFIED = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"


def heard(text: str, pieces: list[int] | None = None, *, accepts: bool = True) -> tuple[str, list[tuple[str, dict]]]:
    """The text that is said and the calls, each with its arguments; in place of a call the text has `§`."""
    listener = WrittenEditParser(lambda _: accepts)
    cuts = sorted({0, len(text), *(at % (len(text) + 1) for at in pieces or [])})
    parts = [text[start:end] for start, end in pairwise(cuts)]
    events = [event for part in parts for event in listener.feed(part)] + listener.finish()
    answer_text, calls = "", []
    for event in events:
        match event:
            case AnswerText(more):
                answer_text += more
            case CallStarted(index):
                assert index == len(calls)
                answer_text += "§"
            case CallFinished():
                assert event.problem == ""
                calls.append((event.name, json.loads(event.arguments)))
    return answer_text, calls


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        (TAGGED, "edit_blocks"),
        (DRAFT, "file_edit"),
        ('<file_edit path="a.py">x = 2</file_edit>', "file_edit"),
        (NEW_CODE, "edit_file"),
        (PATCH, "apply_patch"),
        (f"<apply_patch>\n{PATCH}\n</apply_patch>", "apply_patch"),
        (f"```\n{PATCH}\n```", "apply_patch"),
        (f"```diff\n{UNIFIED}```", "apply_patch"),
        (f"~~~~patch\n\n{UNIFIED}~~~~", "apply_patch"),
        (f"```python a.py\n{AIDER}```", ""),
        (f"```src/a.py\n{AIDER}```", "edit_blocks"),
        (f"```python:src/a.py\n{BLOCK}```", "edit_blocks"),
    ],
)
def test_an_edit_that_is_whole_is_heard(text, tool):
    answer_text, calls = heard(f"I change it.\n\n{text}\nDone.\n")
    if not tool:
        assert (answer_text, calls) == (f"I change it.\n\n{text}\nDone.\n", [])
        return
    assert [name for name, _ in calls] == [tool]
    assert answer_text == "I change it.\n\n§Done.\n"


@pytest.mark.parametrize(
    "line", ["a.py", "src/a.py:", "**src/a.py**", "`src/a.py`", "### src/a.py", "#### `src/a.py`:"]
)
@pytest.mark.parametrize("fence", ["", "```\n", "```python\n"])
def test_blocks_belong_to_the_file_whose_name_stands_above(line, fence):
    answer_text, calls = heard(f"{line}\n{fence}{AIDER}{fence[:3]}\n")
    assert [(name, arguments["file_path"]) for name, arguments in calls] == [("edit_blocks", line.strip("#*`: "))]
    assert answer_text.startswith(f"{line}\n§")


@pytest.mark.parametrize(
    "text",
    [
        f"Write it like this: {TAGGED}\n",
        f"- {TAGGED}\n",
        f"`{TAGGED}`\n",
        f"```xml\n{TAGGED}\n```\n",
        f"````markdown\n```diff\n{UNIFIED}```\n````\n",
        f"```python\nprint(1)\n{PATCH}\n```\n",
        f"```markdown\n{PATCH}\n```\n",
        f"```diff\n-x\n+y\n{UNIFIED}```\n",
        f"See these blocks.\n\n{AIDER}",
        AIDER,
        '<file-edit filePath="a.py">\nnothing\n',
        f'<file-edit filePath="a.py">\n{BLOCK}',
        "*** Begin Patch\n*** Update File: a.py\n-x = 1\n",
        f"    {PATCH}\n",
        "<file-edit>\nno path\n</file-edit>\n",
        "<file-editor>x</file-editor>\n",
        "<execute_bash>\nls\n</execute_bash>\n",
        '<tool_call>{"name": "write"}</tool_call>\n',
        "---\n\n--- a line\n<<<<<<< HEAD\n",
    ],
)
def test_what_shows_or_breaks_off_is_text_as_it_stands(text):
    assert heard(text) == (text, [])


def test_what_is_not_accepted_is_text_as_it_stands():
    text = f"One\n{TAGGED}\n{PATCH}\n```diff\n{UNIFIED}```\nsrc/a.py\n{AIDER}\nend"
    assert heard(text, accepts=False) == (text, [])


def test_several_edits_of_one_answer_are_heard_in_order():
    answer_text, calls = heard(f"First\n{TAGGED}\nthen\n{PATCH}\n```diff\n{UNIFIED}```\n")
    assert [name for name, _ in calls] == ["edit_blocks", "apply_patch", "apply_patch"]
    assert answer_text == "First\n§then\n§§"


FENCED = "--- a/a.md\n+++ b/a.md\n@@ -1,5 +1,5 @@\n Use\n```\n-foo\n+bar\n```\n end\n"


@pytest.mark.parametrize(
    "patch",
    [
        FENCED,
        FENCED.replace("1,5", "1,9"),
        FENCED.replace("-1,5 +1,5 @@", "@@"),
        "*** Begin Patch\n*** Update File: a.md\n@@\n Use\n```\n-foo\n+bar\n```\n*** End Patch\n",
    ],
)
@given(st.lists(st.integers(0, 200), max_size=4))
def test_a_bare_fence_within_a_fenced_patch_does_not_end_it(patch, pieces):
    answer_text, calls = heard(f"Look:\n```diff\n{patch}```\nThat is all.\n- one\n", pieces)
    assert answer_text == "Look:\n§That is all.\n- one\n"
    assert calls == [("apply_patch", {"input": patch})]


def test_a_fenced_patch_without_its_end_is_text():
    text = f"```\n{PATCH.removesuffix('*** End Patch')}```\nThat is all.\n"
    assert heard(text) == (text, [])


def test_an_edit_may_hold_the_tag_that_ends_it():
    text = f'<file-edit filePath="a.md">\n{BLOCK.replace("x = 2", "</file-edit>")}</file-edit>\n'
    answer_text, calls = heard(text)
    assert answer_text == "§"
    assert "</file-edit>" in calls[0][1]["diff"]


def test_code_flows_on_as_it_comes():
    listener = WrittenEditParser(lambda _: True)
    assert listener.feed("```python\npri") == [AnswerText("```python\npri")]
    assert listener.feed("nt(1)") == [AnswerText("nt(1)")]
    assert listener.feed("\nx = 1\n```\nSo") == [AnswerText("\nx = 1\n```\nSo")]


CALL = '<tool_call>\n{"name": "grep", "arguments": {"pattern": "x"}}\n</tool_call>'


@pytest.mark.parametrize("text", [CALL, f"I look.\n{CALL}\nSo.", CALL.replace("\n", ""), CALL[:-3], CALL[:-12]])
@pytest.mark.parametrize("accepts", [True, False])
def test_a_call_that_is_written_out_is_text_and_objected_to_when_it_is_meant(text, accepts):
    asked: list[WrittenEdit] = []
    listener = WrittenEditParser(lambda candidate: asked.append(candidate) or accepts)
    answer_text = "".join(
        event.text for event in [*listener.feed(text), *listener.finish()] if isinstance(event, AnswerText)
    )
    assert answer_text == text
    assert [(written_edit.tool, written_edit.is_call) for written_edit in asked] == [("grep", True)]
    assert ("(grep)" in listener.ending.problem) is accepts


@pytest.mark.parametrize(
    "text", [f"```\n{CALL}\n```", f"Write {CALL}", "<tool_call>\n{broken\n</tool_call>", f"> {CALL}"]
)
def test_a_call_that_is_shown_or_broken_is_text_alone(text):
    listener = WrittenEditParser(lambda _: True)
    assert "".join(event.text for event in [*listener.feed(text), *listener.finish()]) == text
    assert listener.ending.problem == ""


PARTS = [
    TAGGED, DRAFT, NEW_CODE, CALL, PATCH, AIDER, BLOCK, UNIFIED, "```diff\n", "```\n", "```python\n", "~~~\n", "a.py\n",
    "\n", "Text `code` ", "*** ", "<file", "--", "<<<<<<<", "- item\n", "é\u2028", "x = 1\n", "*** End Patch",
    "</file-edit>",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=14), st.lists(st.integers(0, 2_000), max_size=40), st.booleans())
@example(["```diff\n", UNIFIED, "```\n"], list(range(80)), True)
@example(["a.py\n", "```python\n", AIDER, "```\n", TAGGED], list(range(300)), True)
def test_pieces_do_not_matter_and_no_text_is_lost(parts, pieces, accepts):
    text = "".join(parts)
    whole = heard(text, accepts=accepts)
    assert heard(text, pieces, accepts=accepts) == whole
    assert heard(text, list(range(len(text))), accepts=accepts) == whole
    if not accepts:
        assert whole == (text, [])
    assert "".join(whole[0].split("§")) == whole[0].replace("§", "")
