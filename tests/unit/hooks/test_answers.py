from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hooks.answers import MAX_TEXT, HookAnswer, HookRun, find_strictest_answer, read_answer
from core.hooks.dialect_names import HookEvent
from core.hooks.parsing import Hook


def hook(event: HookEvent = HookEvent.PRE_TOOL, **more: Any) -> Hook:
    fields = {"dialect": "cursor", "scope": "project", "source": "a", "command": "x", **more}
    return Hook(event=event, **fields)


def answer(output: Any = "", code: int | None = 0, *, of: Hook | None = None, **more: Any) -> HookAnswer:
    text = output if isinstance(output, str) else json.dumps(output)
    return read_answer(of or hook(), HookRun(exit_code=code, stdout=text, **more))


NESTED = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}


@pytest.mark.parametrize(
    "said",
    [
        {"permission": "deny", "agent_message": "no"},
        {"permission": "deny", "agentMessage": "no"},
        {"hookSpecificOutput": NESTED},
        {"decision": "block", "reason": "no"},
        {"continue": False, "stopReason": "no"},
    ],
)
@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_refusal_in_any_spelling_counts_with_any_exit_code(said, code):
    hook_answer = answer(said, code)
    assert (hook_answer.permission, hook_answer.reason) == ("deny", "no")


DENY = json.dumps({"hookSpecificOutput": NESTED})


@pytest.mark.parametrize(
    "text",
    [
        f"Welcome\n{DENY}",
        f"{DENY}\nDone.",
        f"Welcome {DENY}",
        f"\ufeff{DENY}",
        f"\x1b[32m{DENY}\x1b[0m",
        f"```json\n{DENY}\n```",
        f"[{DENY}]",
        f"{{}}\n{DENY}",
        f'{{"continue": true}}\n{DENY}\n{{"suppressOutput": true}}',
        f"set {{a}} {{ b\n{DENY}",
        DENY.replace("permissionDecision", "permission_decision").replace("hookSpecificOutput", "hook_specific_output"),
        DENY.replace('"deny"', '" Deny "'),
        json.dumps({"continue": "false", "reason": "no"}),
    ],
)
@pytest.mark.parametrize("dialect", ["claude", "cursor"])
@pytest.mark.parametrize("event", [HookEvent.PRE_TOOL, HookEvent.BEFORE_PROMPT])
def test_a_refusal_counts_wherever_it_stands_in_what_was_printed(text, dialect, event):
    hook_answer = answer(text, of=hook(event, dialect=dialect))
    assert (hook_answer.permission, hook_answer.failure) == ("deny", None)


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (f"Welcome\n{DENY[:-2]}", ""),
        (DENY.replace('"', "'"), ""),
        (json.dumps(DENY), ""),
        ('{"deny": true}', ""),
        ('{"action": "block", "why": "no"}', ""),
        ("", DENY),
    ],
)
def test_a_refusal_that_can_not_be_read_is_a_failure_that_is_told(text, errors):
    hook_answer = answer(text, of=hook(dialect="claude"), stderr=errors)
    assert (hook_answer.permission, bool(hook_answer.failure)) == (None, True)


@pytest.mark.parametrize("text", ["It is Monday.", 'See {"decision": "approve"} of the docs.', "Formatted {3} files."])
def test_words_with_braces_in_them_are_words(text):
    assert answer(text, of=hook(HookEvent.BEFORE_PROMPT, dialect="claude")).context == text


@pytest.mark.parametrize("text", ["{}", '{"suppressOutput": true}', "", "checked 3 files"])
def test_what_says_nothing_of_a_refusal_is_no_failure(text):
    assert answer(text, of=hook(dialect="claude")) == HookAnswer()


def test_an_answer_to_a_question_of_claudes_is_read():
    asked = hook(HookEvent.PERMISSION_REQUEST, dialect="claude")
    output = {"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no", "interrupt": True}}}
    hook_answer = answer(output, of=asked)
    assert (hook_answer.permission, hook_answer.reason, hook_answer.ends_turn, hook_answer.failure) == (
        "deny",
        "no",
        True,
        None,
    )
    hook_answer = answer({"hookSpecificOutput": {"decision": {"behavior": "allow"}}}, of=asked)
    assert (hook_answer.permission, hook_answer.reason, hook_answer.ends_turn, hook_answer.failure) == (
        "allow",
        "",
        False,
        None,
    )
    assert answer({"decision": {"behavior": "perhaps"}}, of=asked).failure


def test_exit_code_2_refuses_whatever_was_printed():
    assert answer({"permission": "allow"}, 2, stderr="because\n").permission == "deny"
    assert answer('{"permission": "al', 2, stderr="because\n").reason == "because"
    assert answer("", 2).permission == "deny"


@pytest.mark.parametrize("code", [1, 126, 127, 139])
def test_another_exit_code_is_no_answer_and_a_no_only_where_the_hook_fails_closed(code):
    opened = answer("", code, stderr="line\nnot found\n")
    assert (opened.permission, opened.failure) == (None, f"it ended with {code}: not found")
    closed = answer("", code, of=hook(fails_closed=True))
    assert (closed.permission, closed.failure) == ("deny", f"it ended with {code}")


@pytest.mark.parametrize("text", ['{"permission": "al', "{", '{"a": 1} {"b": 2}', "fine!", '{"permission": "perhaps"}'])
def test_half_a_json_is_no_answer(text):
    assert answer(text).failure
    assert answer(text).permission is None
    assert answer(text, of=hook(fails_closed=True)).permission == "deny"


def test_what_hung_is_no_answer_even_if_it_had_said_no_such_thing():
    hook_answer = read_answer(hook(fails_closed=True), HookRun(problem="it was still running after 2 s"))
    assert (hook_answer.permission, hook_answer.failure) == ("deny", "it was still running after 2 s")
    assert "it was still running" in hook_answer.reason


def test_words_of_claudes_hooks_are_context_where_that_is_meant_and_nothing_elsewhere():
    assert answer("It is Monday.", of=hook(HookEvent.BEFORE_PROMPT, dialect="claude")).context == "It is Monday."
    assert answer("It is Monday.", of=hook(HookEvent.PRE_TOOL, dialect="claude")) == HookAnswer()
    assert answer("Formatted 3 files.", of=hook(HookEvent.AFTER_EDIT)) == HookAnswer()


@pytest.mark.parametrize("event", [HookEvent.STOP, HookEvent.SUBAGENT_STOP])
def test_a_refusal_of_the_end_is_what_to_go_on_with(event):
    assert answer({"decision": "block", "reason": "Run the tests."}, of=hook(event)).followup == "Run the tests."
    assert answer({"followup_message": "Run the tests."}, of=hook(event)).followup == "Run the tests."
    assert answer("", 2, stderr="Run the tests.", of=hook(event)).followup == "Run the tests."
    assert answer("", 2, of=hook(event)).permission is None


def test_a_refusal_of_what_was_done_is_a_word_to_the_model():
    for output, code, errors in (({"decision": "block", "reason": "lint it"}, 0, ""), ("", 2, "lint it")):
        hook_answer = answer(output, code, stderr=errors, of=hook(HookEvent.POST_TOOL))
        assert (hook_answer.permission, hook_answer.context) == (None, "lint it")


def test_long_texts_are_cut_and_say_so():
    hook_answer = answer({"additional_context": "x" * (MAX_TEXT + 7)})
    assert hook_answer.context.endswith("[… 7 characters left out]")


def test_the_strictest_answer_decides_and_of_equals_the_first():
    answers = [
        (hook(command=str(n)), HookAnswer(permission=word)) for n, word in enumerate(["allow", "ask", None, "ask"])
    ]
    strictest_pair = find_strictest_answer(answers)
    assert strictest_pair is not None
    assert (strictest_pair[0].command, strictest_pair[1].permission) == ("1", "ask")
    assert find_strictest_answer([(hook(), HookAnswer())]) is None


@given(
    st.text()
    | st.dictionaries(
        st.sampled_from(["permission", "continue", "env", "reason"]), st.none() | st.text() | st.booleans()
    ).map(json.dumps),
    st.sampled_from([0, 1, 2, None]),
    st.sampled_from(HookEvent),
    st.booleans(),
)
def test_anything_that_is_printed_is_read_without_a_fault(text, code, event, closed):
    hook_answer = answer(text, code, of=hook(event, fails_closed=closed))
    assert hook_answer.permission in {None, "allow", "ask", "deny"}
    assert code != 2 or hook_answer.permission == "deny" or hook_answer.context or hook_answer.followup
