"""Subagent definitions as public collections have them, and as people misspell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.extensions.agents import AgentDefinition, load_agents
from core.extensions.extension_files import parse_names

REVIEWER = """---
name: code-reviewer
description: "Use this agent when you need a review: of code, or of a plan."
tools: Read, Grep, Bash(git diff *, git log *), mcp__docs__*
model: sonnet
---

You are a reviewer.

Look for defects.
"""


def front(*lines, body="You help."):
    return "\n".join(("---", *lines, "---", "", body, ""))


def read_one(places, *lines, body="You help.") -> AgentDefinition:
    places.write({".claude/agents/a.md": front(*lines, body=body)})
    return load_agents(places.folders()).agents[0]


def test_a_definition_is_read_with_its_prompt_and_its_tools(places):
    places.write({".claude/agents/quality/reviewer.md": REVIEWER})
    (agent,) = load_agents(places.folders()).agents
    assert (agent.name, agent.model, agent.source, agent.scope) == ("code-reviewer", "sonnet", ".claude", "project")
    assert agent.description == "Use this agent when you need a review: of code, or of a plan."
    assert agent.tools == ("Read", "Grep", "Bash(git diff *, git log *)", "mcp__docs__*")
    assert agent.prompt == "You are a reviewer.\n\nLook for defects."
    assert agent.path == ".claude/agents/quality/reviewer.md"
    assert agent.can_start
    assert agent.problems == ()


def test_the_keys_of_both_makers_are_known(places):
    agent = read_one(
        places,
        *("name: a", "description: d", "model: claude-opus-4-8[effort=high,context=300k]", "readonly: true"),
        *("is_background: yes", "maxTurns: 7", "skills:", "  - pdf", "  - xlsx", "disallowedTools: [Write, Edit]"),
    )
    assert (agent.model, agent.effort, agent.readonly, agent.background) == ("claude-opus-4-8", "high", True, True)
    assert (agent.max_turns, agent.skills, agent.disallowed_tools) == (7, ("pdf", "xlsx"), ("Write", "Edit"))
    assert (agent.tools, agent.refusals) == (None, ())
    assert agent.problems == (
        "its `skills` are not preloaded: it opens skills of the session as needed",
        "it does not run in the background: the caller waits for its report",
    )


@pytest.mark.parametrize(
    ("line", "near"),
    [("allowed-tools: Read", "tools"), ("tool_access: [Read]", "tools"), ("Permissions: read", "permissionMode")],
)
def test_a_misspelt_restriction_keeps_a_subagent_from_starting(places, line, near):
    agent = read_one(places, "name: a", "description: d", line)
    assert not agent.can_start
    assert f"did you mean {near!r}?" in agent.refusals[0]


@pytest.mark.parametrize("line", ["tools:", "readonly: perhaps", "maxTurns: many", "maxTurns: 0", "disallowedTools:"])
def test_a_restriction_that_says_nothing_keeps_a_subagent_from_starting(places, line):
    assert not read_one(places, "name: a", "description: d", line).can_start


def test_no_tools_are_none_and_a_star_is_all(places):
    assert read_one(places, "name: a", "description: d", "tools: []").tools == ()
    assert read_one(places, "name: a", "description: d", 'tools: "*"').tools is None


def test_an_unknown_key_is_told_with_the_one_that_was_meant(places):
    agent = read_one(places, "name: a", "description: d", "modle: opus", "version: 1", "color: red")
    assert agent.problems == ("unknown key 'modle': did you mean 'model'?",)
    assert agent.can_start


def test_what_would_widen_rights_is_not_heard_and_told(places):
    agent = read_one(places, "name: a", "description: d", "permissionMode: bypassPermissions", "hooks:", "  Stop: x")
    assert [problem.partition(" ")[0] for problem in agent.problems] == ["its", "`permissionMode:"]
    assert not agent.readonly
    assert read_one(places, "name: a", "description: d", "permissionMode: plan").readonly


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# Our agents\n\nA list.", "its front matter has no name and description"),
        (front("name: a", "description: d", body=""), "it has no text below its front matter"),
        (front("name: -a", "description: d"), "'-a' is not a valid name"),
        (front("name: a:b", "description: d"), "'a:b' is not a valid name"),
        ("---\nname: a\ndescription: d\n\nYou help.", "its front matter does not end with ---"),
    ],
)
def test_a_file_that_makes_no_subagent_is_told_with_the_reason(places, text, reason):
    places.write({".claude/agents/x.md": text})
    definitions = load_agents(places.folders())
    assert definitions.agents == ()
    assert [(skipped_file.path, skipped_file.reason[: len(reason)]) for skipped_file in definitions.skipped] == [
        (".claude/agents/x.md", reason)
    ]


def test_bytes_that_are_no_text_are_told(places):
    places.write({".claude/agents/x.md": ""})
    (places.project / ".claude/agents/x.md").write_bytes(b"---\nname: \xff\n---\nx")
    assert load_agents(places.folders()).skipped[0].reason == "not UTF-8 (byte 10)"


def test_a_name_with_blanks_is_made_one_that_can_be_written(places):
    agent = read_one(places, "name: Code Reviewer!", "description: d")
    assert (agent.name, agent.can_start) == ("Code-Reviewer", True)
    assert "is called 'Code-Reviewer'" in agent.problems[0]


def test_without_a_name_the_file_gives_it_and_without_a_description_only_the_user_can_call(places):
    agent = read_one(places, "readonly: true")
    assert (agent.name, agent.description) == ("a", "")
    assert "only you can call it" in agent.problems[0]


def test_the_project_counts_before_the_user_and_folders_in_their_order(places):
    places.write({".claude/agents/a.md": front("name: one"), ".cursor/agents/b.md": front("name: one")})
    places.write({".claude/agents/u.md": front("name: one"), ".claude/agents/v.md": front("name: two")}, places.home)
    places.write({"agents/w.md": front("name: two")}, places.config)
    definitions = load_agents(places.folders())
    assert [(agent.name, agent.source, agent.scope) for agent in definitions.agents] == [
        ("one", ".cursor", "project"),
        ("two", "config", "user"),
    ]
    assert {skipped_file.path: skipped_file.reason for skipped_file in definitions.skipped} == {
        ".claude/agents/a.md": ".cursor/agents/b.md is already 'one', and takes precedence",
        "~/.claude/agents/u.md": ".cursor/agents/b.md is already 'one', and takes precedence",
        "~/.claude/agents/v.md": "~/.config/agent-tui/agents/w.md is already 'two', and takes precedence",
    }


def test_of_an_untrusted_project_nothing_is_read_and_changed_bytes_are_not(places):
    places.write({".claude/agents/a.md": front("name: one"), ".cursor/agents/b.md": front("name: two")})
    assert load_agents(places.folders(is_trusted=None)) == load_agents(())
    definitions = load_agents(places.folders(lambda path, data: b"two" in data))
    assert [agent.name for agent in definitions.agents] == ["two"]
    assert definitions.skipped[0].reason == "it has changed since you trusted this project"


NAME = st.from_regex(r"[A-Za-z_*]{1,12}(\([a-z ,*]{1,8}\))?", fullmatch=True).filter(lambda each: each != "*")


@given(st.lists(NAME, min_size=1, max_size=6, unique=True))
def test_names_are_the_same_in_every_way_to_write_them(names):
    for value in (", ".join(names), f"[{', '.join(names)}]", names):
        assert parse_names({"tools": value}, "tools") == tuple(names)
