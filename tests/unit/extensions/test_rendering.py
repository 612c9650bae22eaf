"""Arguments and commands in the texts of skills and command files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.extensions.rendering import PromptArguments, PromptPart, render_parts


def fill(body, text="", **more):
    return "".join(part.text for part in render_parts(body, PromptArguments(text=text, **more)))


@pytest.mark.parametrize(
    ("body", "said", "wanted"),
    [
        ("Fix $ARGUMENTS.", "one two", "Fix one two."),
        ("$0 then $1, no $2.", "'a b' c", "a b then c, no ."),
        ("$ARGUMENTS[1]!", "a b", "b!"),
        ("Costs \\$1 and $1", "a b", "Costs $1 and b"),
        ("Fix it.", "now", "Fix it.\n\nARGUMENTS: now"),
        ("Fix $ARGUMENTS.", "", "Fix ."),
        ("awk '{print $1}' $HOME $100", "", "awk '{print $1}' $HOME $100"),
        ("$0", "it's", "it's"),
    ],
)
def test_arguments_come_to_their_places_as_claude_has_them(body, said, wanted):
    assert fill(body, said) == wanted


def test_the_first_argument_is_another_number_for_codex_and_cursor_has_no_places():
    assert fill("$1-$2-$ARGUMENTS", "a b", dialect="codex") == "a-b-a b"
    assert fill("Costs $1. !`x`", "a b", dialect="plain") == "Costs $1. !`x`\n\na b"


def test_named_arguments_and_variables_are_filled_and_unknown_ones_stay():
    assert fill("$issue on $branch, $other", "7 main", names=("issue", "branch")) == "7 on main, $other"
    assert fill("${CLAUDE_SKILL_DIR}/x ${OTHER}", variables={"CLAUDE_SKILL_DIR": "/s"}) == "/s/x ${OTHER}"


def test_commands_are_found_at_the_start_of_a_line_and_behind_a_blank():
    body = "Status: !`git status`\n!`ls $0`\nnot!`this` nor `that`\n```!\nmake\nmake test\n```\nEnd"
    parts = render_parts(body, PromptArguments(text="src"))
    assert [part.text for part in parts if part.is_command] == ["git status", "ls src", "make\nmake test"]
    assert parts[0] == PromptPart("Status: ")


@given(st.text(max_size=60), st.text(alphabet="ab !`$0\\\n'\"[]{}ARGUMENTS", max_size=60))
def test_no_argument_brings_a_command_in(body, argument_text):
    count = sum(part.is_command for part in render_parts(body, PromptArguments()))
    assert sum(part.is_command for part in render_parts(body, PromptArguments(text=argument_text))) == count


@given(st.text(alphabet="abc `!\n#", max_size=80))
def test_a_text_without_places_is_sent_as_it_stands(body):
    parts = render_parts(body, PromptArguments())
    if not any(part.is_command for part in parts):
        assert "".join(part.text for part in parts) == body
