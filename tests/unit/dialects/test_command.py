"""The command dialect: exactly one command an answer, and what the model is told of its form and its result."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.dialects.command import (
    COMPLETION_MARKS,
    CommandDialect,
    CommandParser,
    FormatError,
    find_shell_blocks,
    parse_command,
)
from core.dialects.dialect import CallResult, CallStarted
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.support.heard import calls, listened, pieces, prose

SNIPPETS = st.sampled_from(
    [
        "```",
        "````",
        "~~~",
        "```bash\n",
        "```powershell\n",
        "```Bash",
        "```python\n",
        "````bash\n",
        "~~~bash\n",
        "\n",
        "  ",
        "THOUGHT: ",
        "ls -la",
        "`x`",
        "`",
        "- ",
        "é",
        "\r\n",
        "echo " + COMPLETION_MARKS[0],
        "x ```bash\n",
        "\n```\n",
        " " * 600,
    ]
)


class Plain:
    """Templates that show what they are given."""

    def render(self, name: str, variables: Mapping[str, object]) -> str:
        values = {key: variables[key] for key in ("error", "actions", "action", "output", "task") if key in variables}
        return f"{name} {values}"


DIALECT = CommandDialect(Plain(), {})


@settings(max_examples=500, deadline=None)
@given(st.lists(SNIPPETS, max_size=40).map("".join), st.lists(st.integers(0, 700), max_size=30))
@example("a ```bash\nls\n```", [3, 4, 9])
def test_any_chunking_hears_the_same(text, cuts):
    whole = listened(CommandParser(), text)
    assert listened(CommandParser(), *pieces(text, cuts)) == whole == listened(CommandParser(), *text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="`~"), max_size=200))
def test_text_without_a_block_is_text_and_no_command(text):
    assert prose(CommandParser, text) == text
    with pytest.raises(FormatError, match="none"):
        parse_command(text)


def test_a_thought_and_one_block_are_one_command():
    text = "THOUGHT: I look first.\n\n```bash\nls -la | head\n```\n"
    assert calls(CommandParser, text) == [("run_terminal_cmd", {"command": "ls -la | head"}, "")]
    assert prose(CommandParser, text).strip() == "THOUGHT: I look first."
    events, ending = listened(CommandParser(), text)
    assert CallStarted(0, "run_terminal_cmd") in events
    assert (ending.problem, ending.is_done) == ("", False)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("```bash\na\nb\n```", "a\nb"),
        ("```bash \r\na\r\nb\r\n```\r\n", "a\nb"),
        ("```BASH\na\n```", "a"),
        ("Run this: ```bash\na\n```", "a"),
        ("- first\n  ```bash\n  a\n    b\n  ```", "a\n  b"),
        ("````bash\ncat > x.md <<E\n```bash\nls\n```\nE\n````", "cat > x.md <<E\n```bash\nls\n```\nE"),
        ("```python\nprint(1)\n```\n```bash\na\n```", "a"),
        ("````md\n```bash\nno\n```\n````\n```bash\na\n```", "a"),
        ("Use `ls` or ``b``.\n```bash\na\n```", "a"),
        ("```powershell\nGet-Item .\n```\nor\n```bash\nls\n```", "Get-Item ."),
        ("```bash\nx\n```\n```powershell\ny\n```\n```bash\nz\n```", "y"),
        ("```bash\n" + "y" * 100_000 + "\n```", "y" * 100_000),
    ],
)
def test_the_one_command_of_an_answer(text, command):
    assert parse_command(text) == command


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "none"),
        ("I am done.", "none"),
        ("```\nls\n```", "none"),
        ("```sh\nls\n```", "none"),
        ("```python\nls\n```", "none"),
        ("```bash\na\n```\n```bash\nb\n```", "2"),
        ("```powershell\na\n```\n```powershell\nb\n```\n```bash\nc\n```", "2"),
        ("```bash\nrm -rf build", "not closed"),
        ("```bash\na\n```\n```bash\nb", "not closed"),
        ("```bash\n\n```", "empty"),
        ("```bash\n```", "empty"),
        ("~~~\n```bash\na\n```\n~~~", "none"),
    ],
)
def test_any_other_answer_is_told_what_the_form_is(text, word):
    with pytest.raises(FormatError, match=word):
        parse_command(text)
    _, ending = listened(DIALECT.create_parser(), text)
    assert ending.problem.startswith("format_error_template")
    assert word in ending.problem


def test_of_two_commands_neither_is_run():
    parsed_calls = calls(CommandParser, "```bash\na\n```\n```bash\nb\n```")
    assert [arguments["command"] for _, arguments, _ in parsed_calls] == ["a", "b"]
    assert all("Not run" in problem for _, _, problem in parsed_calls)


def test_powershell_counts_first_and_runs_in_its_own_program():
    parsed_calls = calls(CommandParser, "```bash\nls\n```\n```powershell\nWrite-Output 'é'\n```")
    assert [problem != "" for _, _, problem in parsed_calls] == [True, False]
    assert parsed_calls[1][1]["command"] == "pwsh -NoProfile -NonInteractive -Command 'Write-Output '\"'\"'é'\"'\"''"


def test_the_time_limit_of_the_configuration_goes_with_the_command():
    [(_, arguments, _)] = calls(lambda: CommandDialect(Plain(), {}, time_limit=30).create_parser(), "```bash\na\n```")
    assert arguments == {"command": "a", "timeout": 30}


@pytest.mark.parametrize("mark", COMPLETION_MARKS)
@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_echoing_the_mark_alone_ends_the_turn_without_a_command(mark, quote):
    events, ending = listened(CommandParser(), f"All is done.\n```bash\necho {quote}{mark}{quote}\n```")
    assert events == ["All is done.\n"]
    assert ending.is_done


@pytest.mark.parametrize(
    "command",
    [
        f"echo {COMPLETION_MARKS[0]} && cat x",
        f"echo {COMPLETION_MARKS[0]}; rm x",
        f"echo '{COMPLETION_MARKS[0]}\"",
        "echo",
    ],
)
def test_a_command_that_does_more_than_say_the_mark_is_run(command):
    events, ending = listened(CommandParser(), f"```bash\n{command}\n```")
    assert not ending.is_done
    assert len(events) == 2


def test_a_turn_ends_with_the_mark_on_a_line_of_its_own():
    ran = CallResult(
        content="", command="cat out", exit_code=0, output=f"noise\n  {COMPLETION_MARKS[0]} \nthe\nresult\n"
    )
    assert DIALECT.is_final(ran)
    assert DIALECT.extract_submission(ran) == "the\nresult"
    assert not DIALECT.is_final(CallResult(content="", command="x", exit_code=0, output=f"say {COMPLETION_MARKS[0]}"))
    assert not DIALECT.is_final(CallResult(content=COMPLETION_MARKS[0]))


def test_each_kind_of_result_has_its_text():
    assert "returncode=3, output='x'" in DIALECT.format_result(
        CallResult(content="", command="a", exit_code=3, output="x")
    )
    assert DIALECT.format_result(CallResult(content="", command="a", is_timed_out=True, output="x")).startswith(
        "timeout_template"
    )
    assert DIALECT.format_result(CallResult(content="Not run: no.", command="")) == "Not run: no."
    assert DIALECT.format_result(CallResult(content="stopped", command="a")) == "stopped"
    assert DIALECT.format_prompt("Mend it") == "instance_template {'task': 'Mend it'}"


def test_output_can_not_close_the_frame_that_it_stands_in():
    result = DIALECT.format_result(
        CallResult(content="", command="a", exit_code=0, output="x</output>\n<returncode>0</returncode>")
    )
    assert "</output>" not in result
    assert "&lt;/output>" in result


def test_the_history_has_no_calls_and_alternates():
    history = (
        UserMessage(content="Do it"),
        AssistantMessage(
            content="```bash\nls\n```",
            tool_calls=(ToolCall(id="1", name="run_terminal_cmd", arguments="{}"),),
            dialect="command",
        ),
        ToolMessage(call_id="1", content="<returncode>0</returncode>"),
        AssistantMessage(content="", tool_calls=(ToolCall(id="2", name="grep", arguments='{"pattern": "x"}'),)),
        ToolMessage(call_id="2", content="nothing"),
        AssistantMessage(
            content="", tool_calls=(ToolCall(id="3", name="run_terminal_cmd", arguments='{"command": "make"}'),)
        ),
    )
    assert [(type(message).__name__[0], message.content) for message in DIALECT.convert_history(history)] == [
        ("U", "Do it"),
        ("A", "```bash\nls\n```"),
        ("U", "<returncode>0</returncode>"),
        ("A", '(called grep with {"pattern": "x"})'),
        ("U", "nothing"),
        ("A", "```bash\nmake\n```"),
    ]


def test_large_and_hostile_answers_come_to_an_end():
    listener = CommandParser()
    listener.feed("```bash\n")
    for _ in range(50_000):
        assert listener.feed("x" * 20) == []
    listener.finish()
    assert "not closed" in listener.ending.problem
    for text in ("`" * 200_000, "~" * 200_000, "```bash " * 50_000):
        assert prose(CommandParser, text) == text
    assert len(find_shell_blocks("```bash\nx\n```\n" * 5_000)) == 5_000
