from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hooks.dialect_names import EVENTS_BY_NAME, RULES, HookEvent
from core.hooks.parsing import HookFile, HookOwner, parse_hook_file
from core.permissions.foreign_rules import parse_foreign_rules

CURSOR = HookOwner(dialect="cursor", scope="project", source=".cursor/hooks.json")
CLAUDE = HookOwner(dialect="claude", scope="project", source=".claude/settings.json")
OWN = HookOwner(dialect="own", scope="project", source=".agent-tui/hooks.json")


def parsed(hooks: Any, owner: HookOwner = CURSOR, **beside: Any) -> HookFile:
    return parse_hook_file(json.dumps({"version": 1, "hooks": hooks, **beside}).encode(), owner)


def test_both_shapes_give_the_same_kind_of_record():
    flat = parsed({"preToolUse": [{"command": "guard", "matcher": "Shell", "timeout": 5}]})
    nested = parsed(
        {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "guard", "timeout": 5}]}]}, CLAUDE
    )
    assert [(hook.event, hook.command, hook.timeout) for hook in (*flat.hooks, *nested.hooks)] == [
        (HookEvent.PRE_TOOL, "guard", 5.0)
    ] * 2
    assert (flat.problems, nested.problems) == ((), ())


def test_entries_of_one_dialect_in_the_file_of_the_other_are_understood_and_told_once():
    both = {
        "sessionStart": [{"command": "bash start.sh"}],
        "userPromptSubmit": [{"command": "bash prompt.sh"}],
        "SessionStart": [{"hooks": [{"type": "command", "command": "bash start.sh"}]}],
    }
    hook_file = parsed(both, CLAUDE)
    assert [(hook.event, hook.command) for hook in hook_file.hooks] == [
        (HookEvent.SESSION_START, "bash start.sh"),
        (HookEvent.BEFORE_PROMPT, "bash prompt.sh"),
    ]


def test_a_list_of_entries_that_name_their_event_is_understood():
    hook_file = parsed([{"event": "stop", "command": "bash done.sh"}])
    assert [(hook.event, hook.command) for hook in hook_file.hooks] == [(HookEvent.STOP, "bash done.sh")]


@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        ({"preToolUze": [{"command": "x"}]}, "there is no such event. Did you mean preToolUse?"),
        ({"afterTabFileEdit": [{"command": "x"}]}, "does not exist here"),
        ({"stop": {"command": "x"}}, "a list of hooks is expected"),
        ({"stop": ["x"]}, "an object with a command"),
        ({"stop": [{"command": "  "}]}, "has no command"),
        ({"stop": [{"type": "prompt", "prompt": "is it done?"}]}, "of type 'prompt' are not run"),
        ({"stop": [{"command": "x", "failclosed": True}]}, "Did you mean failClosed?"),
        ({"stop": [{"command": "x", "timeout": "soon"}]}, "not a number of seconds"),
        ({"stop": [{"command": "x", "timeout": 4000}]}, "exceeds the 600 s"),
        ({"stop": [{"command": "x", "async": True}]}, "it runs synchronously"),
        ({"preToolUse": [{"command": "x", "matcher": "("}]}, "is not a valid pattern"),
        (None, 'has no "hooks"'),
    ],
)
def test_what_is_wrong_is_told_with_its_file(hooks, why):
    hook_file = parsed(hooks)
    assert [problem.source for problem in hook_file.problems] == [".cursor/hooks.json"]
    assert why in hook_file.problems[0].message or hooks is None


def test_a_matcher_that_is_no_pattern_is_a_glob_and_told_of():
    hook_file = parsed({"preToolUse": [{"command": "x", "matcher": "*.py"}]})
    assert [(hook.matcher, hook.is_glob) for hook in hook_file.hooks] == [("*.py", True)]
    assert (
        "'*.py' is not a valid pattern: nothing to repeat at position 0; it is used as a glob"
    ) in hook_file.problems[0].message


@pytest.mark.parametrize(
    ("matcher", "is_glob", "said"),
    [
        ("Bahs", False, "is not the name of a tool here: the hook may never run."),
        ("bash", False, "is not the name of a tool here"),
        ("src/*.py", True, "is not the name of a tool here: it is used as a glob"),
        ("/^Bash$/", True, "is not the name of a tool here: it is used as a glob"),
        ("**/*.{ts,tsx}", True, "is not a valid pattern"),
        ("[", True, "is not a valid pattern"),
        (7, False, "is not text: the hook runs for everything"),
        ({"tool": "Bash"}, False, "is not text"),
    ],
)
def test_a_matcher_that_can_match_no_tool_is_told_of(matcher, is_glob, said):
    hook_file = parsed({"PreToolUse": [{"matcher": matcher, "hooks": [{"command": "x"}]}]}, CLAUDE)
    assert [hook.is_glob for hook in hook_file.hooks] == [is_glob]
    assert said in hook_file.problems[0].message


@pytest.mark.parametrize(
    "matcher",
    ["Bash", "Edit|Write", "Edit, Write", "*", "", ".*", "mcp__*", "Notebook(Edit|Read)", "create_plan", None],
)
def test_a_matcher_that_may_match_a_tool_is_no_problem(matcher):
    assert parsed({"PreToolUse": [{"matcher": matcher, "hooks": [{"command": "x"}]}]}, CLAUDE).problems == ()


def test_names_in_a_list_and_a_permission_rule_are_matchers():
    entries = [{"matcher": ["Bash", "Edit"], "command": "x"}, {"matcher": "Bash(git push *)", "command": "y"}]
    listed, rule = parsed({"PreToolUse": entries}, CLAUDE).hooks
    assert (listed.matcher, listed.condition) == ("Bash|Edit", "")
    assert (rule.matcher, rule.condition) == ("Bash", "Bash(git push *)")


HOOK = '{"hooks": {"PreToolUse": [{"hooks": [{"command": "echo // no /* comment */ ,]"}]}]}}'


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{HOOK}",
        f"// mine\n{HOOK}",
        f"/* mine\n */ {HOOK} // end",
        HOOK.replace("}]}]}}", "},]}, // last\n],},}"),
        HOOK.replace("{", "{\n").replace("\n", "\r\n"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_settings_are_read_as_people_write_them(text, encoding):
    hook_file = parse_hook_file(text.removeprefix("\ufeff" if encoding == "utf-16" else "").encode(encoding), CLAUDE)
    assert [hook.command for hook in hook_file.hooks] == ["echo // no /* comment */ ,]"]
    assert hook_file.problems == ()


@pytest.mark.parametrize("text", ["{'hooks': {}}", '{"hooks": ', "hooks:\n  - x", "", '{"hooks": {}} {"hooks": {}}'])
def test_a_file_that_can_not_be_read_is_told_of(text):
    (problem,) = parse_hook_file(text.encode(), CLAUDE).problems
    assert problem.message.startswith("none of its hooks runs: it is not JSON")


def test_rules_beside_the_hooks_are_no_fault_since_they_are_read_elsewhere():
    text = b'{"permissions": {"deny": ["Read(.env)", "Bash(rm *)"]}}'
    assert parse_hook_file(text, CLAUDE) == HookFile()
    assert len(parse_foreign_rules(".claude/settings.json", text, Path("/project")).rules) == 3


def test_only_our_own_hooks_fail_closed_without_being_told_to_and_only_where_they_can_refuse():
    entries = {"preToolUse": [{"command": "x"}], "postToolUse": [{"command": "x"}]}
    assert [hook.fails_closed for hook in parsed(entries, OWN).hooks] == [True, False]
    assert [hook.fails_closed for hook in parsed(entries).hooks] == [False, False]
    opened = parsed({"preToolUse": [{"command": "x", "failClosed": False}]}, OWN)
    assert [hook.fails_closed for hook in opened.hooks] == [False]


def test_claudes_settings_without_hooks_are_no_problem_and_its_switch_is_heard():
    assert parse_hook_file(b'{"permissions": {"allow": []}}', CLAUDE) == HookFile()
    assert not parsed({"Stop": [{"hooks": [{"command": "x"}]}]}, CLAUDE, disableAllHooks=True).hooks


def test_arguments_of_a_command_are_quoted():
    hook_file = parsed({"Stop": [{"hooks": [{"command": "node", "args": ["a b.js", "$HOME"]}]}]}, CLAUDE)
    assert hook_file.hooks[0].command == "node 'a b.js' '$HOME'"


def test_a_place_of_a_directory_in_an_argument_is_filled_in_whatever_stands_around_it():
    words = ["${CLAUDE_PLUGIN_ROOT}/dist/a b.mjs", "--in=${CLAUDE_PROJECT_DIR}", "$(reboot)", ""]
    hook_file = parsed({"Stop": [{"hooks": [{"command": "node", "args": words}]}]}, CLAUDE)
    expected_command = """node "${CLAUDE_PLUGIN_ROOT}"'/dist/a b.mjs' --in="${CLAUDE_PROJECT_DIR}" '$(reboot)' ''"""
    assert hook_file.hooks[0].command == expected_command


def test_keys_of_the_peers_are_no_problem_and_what_is_wrong_is_told_once():
    known = {"command": "x", "event": "stop", "rewakeMessage": "m", "rewakeSummary": "s"}
    assert parsed({"stop": [known]}).problems == ()
    assert len(parsed({"stop": [{"command": "x", "colour": 1}, {"command": "y", "colour": 1}]}).problems) == 1


def test_every_event_has_its_rules_and_can_be_named():
    assert set(RULES) == set(HookEvent) == set(EVENTS_BY_NAME.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["hooks", "command", "matcher", "timeout", "preToolUse", "Stop", "type", "if", "loop_limit"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from([CURSOR, CLAUDE, OWN]))
def test_any_json_is_read_without_a_fault(value, owner):
    for hook in parse_hook_file(json.dumps({"hooks": value}).encode(), owner).hooks:
        assert hook.command.strip()
        assert 0 < hook.timeout <= 600


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_a_fault(data):
    assert isinstance(parse_hook_file(data, CURSOR), HookFile)
