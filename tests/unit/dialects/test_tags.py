"""The tags dialect: which tags are calls, whatever the chunk borders, and what the model is told."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from core.dialects.dialect import CallResult, CallStarted
from core.dialects.tag_reader import CALL_TAGS, FRAME_TAGS
from core.dialects.tags import TIMED_OUT, TagDialect, TagParser
from core.edit_formats import BLOCKS, PATCH_FRAME
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.support.heard import calls, listened, pieces, prose

BLOCK = "------- SEARCH\nold\n=======\nnew\n+++++++ REPLACE"
SNIPPETS = st.sampled_from(
    [
        "<execute_bash>",
        "</execute_bash>",
        "<execute_ipython>",
        "</execute_ipython>",
        '<file-edit filePath="a>b.py">',
        "<file-edit filePath='x.py'>",
        "</file-edit>",
        '<file_edit path="a" start=1 end=-1>',
        "</file_edit>",
        "<chat>",
        "</chat>",
        "<finish>",
        "</finish>",
        "<tool_call>",
        "</tool_call>",
        '{"name": "grep", "arguments": {"pattern": "x"}}',
        "*** Begin Patch",
        "\n*** End Patch",
        "*",
        "<tool",
        "<",
        ">",
        "</",
        "`",
        "``",
        "```",
        "```xml\n",
        "~~~\n",
        "\n",
        " ",
        "ls",
        "ctrl+c",
        BLOCK,
        f"{BLOCK}\n",
        "------- SEARCH\n",
        "=======\n",
        "+++++++ REPLACE\n",
        '"',
        "'",
        "é",
        "\r\n",
        "<execute_bash/>",
        "&amp;",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(SNIPPETS, max_size=40).map("".join), st.lists(st.integers(0, 400), max_size=30))
@example("a ``<execute_bash>ls", [3, 4, 9])
@example('<file-edit filePath="a>b.py">x</file-edit>', [5, 22, 24, 40])
def test_any_chunking_hears_the_same(text, cuts):
    assert listened(TagParser(), *pieces(text, cuts)) == listened(TagParser(), text) == listened(TagParser(), *text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_text_without_our_tags_is_text(text):
    assume(not any(sign in text for sign in (PATCH_FRAME[0], *(f"<{tag}" for tag in (*CALL_TAGS, *FRAME_TAGS)))))
    assert prose(TagParser, text) == text
    assert calls(TagParser, text) == []


def test_a_command_is_a_call_and_the_text_around_it_is_text():
    text = "I look.\n<execute_bash> ls -la </execute_bash>\nThen more."
    assert calls(TagParser, text) == [("run_terminal_cmd", {"command": "ls -la"}, "")]
    assert prose(TagParser, text) == "I look.\n\nThen more."
    assert listened(TagParser(), text)[0][1] == CallStarted(0, "run_terminal_cmd")


def test_chat_and_finish_only_frame_text():
    assert prose(TagParser, "<chat>Hello `add`.</chat><finish></finish>") == "Hello `add`."
    assert calls(TagParser, "<finish>All done.</finish>") == []


def test_an_edit_keeps_every_character_of_its_blocks():
    body = "\n------- SEARCH\n\treturn 42;\r\n=======\n+++++++ REPLACE\n"
    [(tool, arguments, problem)] = calls(
        TagParser, f'<chat>ok</chat>\n<file-edit filePath="src/a b.ts">{body}</file-edit>'
    )
    assert (tool, arguments, problem) == (BLOCKS.name, {"file_path": "src/a b.ts", "diff": body}, "")


@pytest.mark.parametrize(
    ("tag", "path"),
    [
        ('<file-edit filePath="a.py">', "a.py"),
        ("<file-edit filePath='a.py'>", "a.py"),
        ("<file-edit filePath=a.py>", "a.py"),
        ('<file-edit  lang="py"\n filePath = "a.py" >', "a.py"),
        ('<file-edit path="a&amp;b.py">', "a&b.py"),
        ('<file-edit filePath="a>b.py">', "a>b.py"),
    ],
)
def test_attributes_are_read_in_every_spelling(tag, path):
    [(_, arguments, problem)] = calls(TagParser, f"{tag}\n{BLOCK}\n</file-edit>")
    assert (arguments["file_path"], problem) == (path, "")


def test_an_edit_without_a_file_is_an_answer_that_says_so():
    [(tool, _, problem)] = calls(TagParser, f"<file-edit>\n{BLOCK}\n</file-edit>")
    assert tool == BLOCKS.name
    assert "filePath" in problem


def test_an_edit_may_hold_the_tags_themselves():
    inner = "------- SEARCH\n</file-edit>\n=======\n<execute_bash>rm x</execute_bash>\n+++++++ REPLACE"
    parsed_calls = calls(TagParser, f'<file-edit filePath="docs.md">\n{inner}\n</file-edit>\nDone.')
    assert [(tool, arguments["diff"]) for tool, arguments, _ in parsed_calls] == [(BLOCKS.name, f"\n{inner}\n")]


def test_several_edits_and_one_command_are_calls_in_their_order():
    edit = f'<file-edit filePath="a">\n{BLOCK}\n</file-edit>'
    parsed_calls = calls(TagParser, f"{edit}\n{edit}<execute_bash>make</execute_bash>")
    assert [(tool, problem) for tool, _, problem in parsed_calls] == [
        (BLOCKS.name, ""),
        (BLOCKS.name, ""),
        ("run_terminal_cmd", ""),
    ]


def test_only_the_first_block_that_executes_is_run():
    parsed_calls = calls(TagParser, "<execute_bash>a</execute_bash>\nOutput: 3\n<execute_ipython>b</execute_ipython>")
    assert [problem.split(":")[0] for _, _, problem in parsed_calls] == ["", "Not run"]


@pytest.mark.parametrize("tag", ["execute_bash", "execute_ipython", "tool_call", 'file-edit filePath="a"'])
def test_a_block_that_is_not_closed_is_not_run(tag):
    [(_, _, problem)] = calls(TagParser, f"Go.\n<{tag}>\nrm -rf build")
    assert "not closed" in problem
    assert "None of it was run" in problem


def test_an_edit_whose_markers_are_broken_is_not_closed_by_accident():
    parsed_calls = calls(
        TagParser,
        '<file-edit filePath="a">\n------- SEARCH\nx\n=======\n</file-edit>\n<execute_bash>ls</execute_bash>',
    )
    assert [tool for tool, _, _ in parsed_calls] == [BLOCKS.name]
    assert "not closed" in parsed_calls[0][2]


@pytest.mark.parametrize(
    "text",
    [
        "Use `<execute_bash>ls</execute_bash>`.",
        "``<execute_bash>``",
        "```\n<execute_bash>ls</execute_bash>\n```\n",
        "~~~xml\n<execute_bash>ls</execute_bash>\n~~~",
        "````\n```\n<tool_call>{}</tool_call>\n````",
        "<execute_bashful>",
        "a < b > c",
        "< execute_bash>ls</execute_bash>",
        "<EXECUTE_BASH>ls</EXECUTE_BASH>",
        "</execute_bash>",
    ],
)
def test_tags_that_are_only_spoken_of_are_text(text):
    assert calls(TagParser, text) == []
    assert prose(TagParser, text) == text


def test_a_tag_after_a_fence_is_a_call_again():
    assert len(calls(TagParser, "```py\nx = 1\n```\n<execute_bash>ls</execute_bash>")) == 1


def test_any_tool_can_be_called():
    text = '<tool_call>\n{"name": "read_file", "arguments": {"target_file": "a.py"}}\n</tool_call>'
    assert calls(TagParser, text * 2) == [("read_file", {"target_file": "a.py"}, "")] * 2


@pytest.mark.parametrize(
    "body", ["", "nonsense", "[]", "3", '{"arguments": {}}', '{"name": 3}', '{"name": ""}', "[" * 100_000]
)
def test_a_tool_call_of_no_form_is_answered(body):
    [(tool, _, problem)] = calls(TagParser, f"<tool_call>{body}</tool_call>")
    assert tool == "tool_call"
    assert "JSON object" in problem


def test_python_is_taken_out_of_its_indentation():
    [(tool, arguments, _)] = calls(TagParser, "<execute_ipython>\n    if x:\n        y()\n  </execute_ipython>")
    assert (tool, arguments["code"]) == ("run_python", "if x:\n    y()")
    assert calls(TagParser, "<execute_ipython> print(1) </execute_ipython>")[0][1] == {"code": "print(1)"}


def test_an_empty_block_does_nothing_but_say_so():
    assert "nothing to run" in calls(TagParser, "<execute_ipython>\n</execute_ipython>")[0][2]


@pytest.mark.parametrize(
    ("code", "tool", "arguments"),
    [
        ("open_file('/shop/a.py')", "open_file", {"path": "/shop/a.py"}),
        (
            'print(open_file("a.py", 300, context_lines=60))',
            "open_file",
            {"path": "a.py", "line_number": 300, "context_lines": 60},
        ),
        ("create_file('new.py')", "create_file", {"filename": "new.py"}),
        ("scroll_down()", "scroll_down", {}),
        ("scroll_up() # back", "scroll_up", {}),
        ("goto_line(12)", "goto_line", {"line_number": 12}),
        ("search_dir('def f', './')", "search_dir", {"search_term": "def f", "dir_path": "./"}),
        ("search_file('def f', file_path=None)", "search_file", {"search_term": "def f"}),
        ("find_file(\n    'a.py',\n    dir_path='src',\n)", "find_file", {"file_name": "a.py", "dir_path": "src"}),
    ],
)
def test_a_reading_function_that_stands_alone_in_a_block_of_python_is_a_tool(code, tool, arguments):
    assert calls(TagParser, f"<execute_ipython>\n{code}\n</execute_ipython>") == [(tool, arguments, "")]


@pytest.mark.parametrize(
    "code",
    [
        "open_file('a.py')\nscroll_down()",
        "text = open_file('a.py')",
        "open_file(path)",
        "open_file('a.py', path='b.py')",
        "open_file(*paths)",
        "open_file(**paths)",
        "scroll_down(3)",
        "open_file(b'a.py')",
        "open_file({1, 2})",
        "agent.open_file('a.py')",
        "open('a.py')",
        "print(open_file('a.py'), end='')",
        "open_file(" * 500,
        "open_file('a\0b'",
    ],
)
def test_any_other_block_of_python_is_run_as_it_is(code):
    assert calls(TagParser, f"<execute_ipython>\n{code}\n</execute_ipython>") == [("run_python", {"code": code}, "")]
    assert "No command is running" in calls(TagParser, "<execute_bash></execute_bash>")[0][2]
    assert "No command is running" in calls(TagParser, "<execute_bash> ctrl+c </execute_bash>")[0][2]


@pytest.mark.parametrize(
    ("text", "tool", "more"),
    [
        ("", "read_terminal", {"wait": 30}),
        ("yes", "write_terminal", {"text": "yes\n", "wait": 3}),
        ("Ctrl+C", "stop_terminal", {"interrupt": True}),
    ],
)
def test_while_a_command_runs_a_block_goes_to_it(text, tool, more):
    parsed_calls = calls(lambda: TagParser("job_1"), f"<execute_bash>{text}</execute_bash>")
    assert parsed_calls == [(tool, {"job": "job_1", **more}, "")]


@pytest.mark.parametrize(
    ("request_text", "tool", "arguments"),
    [
        (
            "Tell me the usa's president using google search",
            "web_search",
            {"query": "Tell me the usa's president using google search"},
        ),
        (
            "Tell me what is in http://example.com",
            "web_fetch",
            {"url": "http://example.com", "prompt": "Tell me what is in http://example.com"},
        ),
        ("https://example.com/a?b=1", "web_fetch", {"url": "https://example.com/a?b=1"}),
        ("x" * 500, "web_search", {"query": "x" * 400}),
    ],
)
def test_a_request_to_a_browser_reads_the_page_or_searches(request_text, tool, arguments):
    parsed = calls(TagParser, f"<execute_browse> {request_text} </execute_browse>")
    assert parsed == [(tool, arguments, "")]


def test_an_empty_request_to_a_browser_is_told():
    [(tool, _, problem)] = calls(TagParser, "<execute_browse>\n</execute_browse>")
    assert (tool, "nothing to look up" in problem) == ("web_search", True)


@pytest.mark.parametrize(
    ("code", "instead"),
    [
        ("x = 1\ncreate_file('a.py')", "<file-edit>, which creates a file"),
        ("append_file('a.py', 'x')", "<file-edit>"),
        ("edit_file_by_replace('a.py', to_replace='x', new_content='y')", "<file_edit path="),
    ],
)
def test_a_function_of_another_programs_python_is_answered_with_what_to_use(code, instead):
    [(tool, _, problem)] = calls(TagParser, f"<execute_ipython>\n{code}\n</execute_ipython>")
    assert (tool, instead in problem, problem.startswith("Not run: ")) == ("run_python", True, True)


@pytest.mark.parametrize(
    "code",
    ["def create_file(name):\n    pass\n\ncreate_file('a')\nprint()", "from kit import create_file\ncreate_file(1)\n1"],
)
def test_a_function_that_the_block_defines_itself_is_run(code):
    assert calls(TagParser, f"<execute_ipython>\n{code}\n</execute_ipython>") == [("run_python", {"code": code}, "")]


def test_drafts_and_blocks_for_several_files_are_a_call_each():
    draft = '<file_edit path="a.py" start=2 end=-1>\n    x\n# no changes below\n</file_edit>'
    blocks = '<file-edit filePath="b.py">\n------- SEARCH\na\n=======\nb\n+++++++ REPLACE\n</file-edit>'
    parsed_calls = calls(TagParser, f"Both.\n{draft}\n{blocks}\n{draft.replace(' start=2 end=-1', '')}")
    body = "    x\n# no changes below\n"
    assert parsed_calls[0] == ("file_edit", {"path": "a.py", "draft": body, "start": 2, "end": -1}, "")
    assert (parsed_calls[1][0], parsed_calls[1][1]["file_path"]) == ("edit_blocks", "b.py")
    assert parsed_calls[2] == ("file_edit", {"path": "a.py", "draft": body}, "")


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-*** End Patch\n+<tool_call>\n*** End Patch"


@pytest.mark.parametrize("text", [PATCH, f"Look:\n{PATCH}\nDone.", f"<apply_patch>\n{PATCH}\n</apply_patch>"])
def test_a_patch_needs_no_tag(text):
    assert calls(TagParser, text) == [("apply_patch", {"input": PATCH}, "")]


def test_several_files_are_edited_in_one_answer_each_in_its_own_way():
    code = '<edit_file target_file="b.py" instructions="Why">\n# ... existing code ...\nx = 2\n</edit_file>'
    parsed_calls = calls(TagParser, f"{PATCH}\n{code}\n<edit_file>x</edit_file>")
    arguments = {"target_file": "b.py", "instructions": "Why", "code_edit": "# ... existing code ...\nx = 2\n"}
    assert parsed_calls[:2] == [("apply_patch", {"input": PATCH}, ""), ("edit_file", arguments, "")]
    assert "file is missing" in parsed_calls[2][2]


@pytest.mark.parametrize(
    "text",
    [f"```\n{PATCH}\n```", f"> {PATCH.splitlines()[0]}\n", "*** Begin", "**bold** and *** Begin Patch", "* a\n** b\n"],
)
def test_what_only_looks_like_a_patch_is_text(text):
    assert calls(TagParser, text) == []


def test_a_patch_without_its_end_is_refused():
    [(tool, _, problem)] = calls(TagParser, PATCH.removesuffix("\n*** End Patch"))
    assert (tool, "does not end with *** End Patch" in problem) == ("apply_patch", True)


def test_a_draft_whose_range_is_no_number_or_whose_file_is_missing_is_refused():
    parsed_calls = calls(TagParser, '<file_edit path="a" start="two">x</file_edit>\n<file_edit start=1>x</file_edit>')
    assert ["'two'" in problem or "file is missing" in problem for _, _, problem in parsed_calls] == [True, True]


def test_text_flows_on_while_it_can_be_no_tag():
    listener = TagParser()
    assert [event.text for event in listener.feed("a < b and <b>c</b> and <exec")] == ["a < b and <b>c</b> and "]
    assert listener.feed("ute_ba") == []
    assert listener.feed("sh>l") == [CallStarted(0, "run_terminal_cmd")]


def test_large_and_hostile_answers_come_to_an_end():
    body = "x" * 2_000_000
    listener = TagParser()
    listener.feed("<execute_bash>")
    for start in range(0, len(body), 50):
        assert listener.feed(body[start : start + 50]) == []
    assert "not closed" in listener.finish()[0].problem
    for text in ("<" * 100_000, '<file-edit a="' * 5_000, "`" * 100_000, "<execute_bash " + "a=" * 50_000):
        assert prose(TagParser, text) == text


def test_results_are_said_by_the_user_and_roles_alternate():
    dialect = TagDialect()
    history = (
        UserMessage(content="Do it"),
        AssistantMessage(
            content="<execute_bash>ls</execute_bash>",
            tool_calls=(ToolCall(id="1", name="run_terminal_cmd", arguments="{}"),),
            dialect="tags",
        ),
        ToolMessage(call_id="1", content="OBSERVATION:\na.txt"),
        UserMessage(content="A reminder", origin="program"),
        AssistantMessage(content="Done."),
    )
    assert dialect.convert_history(history) == (
        UserMessage(content="Do it"),
        AssistantMessage(content="<execute_bash>ls</execute_bash>", dialect="tags"),
        UserMessage(content="OBSERVATION:\na.txt\n\nA reminder"),
        AssistantMessage(content="Done."),
    )


def test_function_calls_of_another_model_are_told_as_tags():
    calls_made = (
        ToolCall(id="1", name="run_terminal_cmd", arguments=json.dumps({"command": "make"})),
        ToolCall(id="2", name="grep", arguments='{"pattern": "x"}'),
        ToolCall(id="3", name="grep", arguments="broken"),
    )
    [message] = TagDialect().convert_history([AssistantMessage(content="Hm.", tool_calls=calls_made)])
    assert isinstance(message, AssistantMessage)
    parsed_calls = calls(TagParser, message.content)
    assert [(tool, arguments) for tool, arguments, _ in parsed_calls] == [
        ("run_terminal_cmd", {"command": "make"}),
        ("grep", {"pattern": "x"}),
        ("grep", {"raw": "broken"}),
    ]


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (CallResult(content="3 lines"), "OBSERVATION:\n3 lines"),
        (
            CallResult(content="", command="ls", exit_code=0, output="a\n"),
            "OBSERVATION:\na\n[Command finished. exit code 0]",
        ),
        (
            CallResult(content="", command="ls", is_running=True, output="a"),
            "OBSERVATION:\na\n[The command is still running. exit code -1]",
        ),
        (CallResult(content="", command="ls", is_timed_out=True, output="a"), f"OBSERVATION:\na\n[{TIMED_OUT}]"),
        (CallResult(content="Not run", command="ls"), "OBSERVATION:\nNot run"),
    ],
)
def test_the_model_is_told_what_came_of_a_call(result, wanted):
    assert TagDialect().format_result(result) == wanted


def test_an_attribute_without_quotes_may_hold_a_slash():
    text = "<file_edit path=src/a.py start=2 end=3>\nnew\n</file_edit>"
    expected = {"path": "src/a.py", "draft": "new\n", "start": 2, "end": 3}
    assert calls(TagParser, text) == [("file_edit", expected, "")]
