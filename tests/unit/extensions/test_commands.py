"""Command files as public repositories have them."""

from __future__ import annotations

import pytest

from core.extensions.commands import find_prompt_command, load_commands
from core.extensions.skills import load_skills

COMMIT = """---
allowed-tools: Bash(git add:*), Bash(git status:*)
argument-hint: [message]
description: Create a git commit
---

## Context

- Current status: !`git status`

Commit with $ARGUMENTS.
"""


def test_a_command_of_each_place_is_read_as_its_maker_does(places):
    places.write(
        {
            ".claude/commands/git/commit.md": COMMIT,
            ".cursor/commands/code-review.md": "# Code review\n\nLook for $1.\n",
            ".agent-tui/commands/own.md": "Do $1.",
        }
    )
    places.write({".codex/prompts/port.md": "Port $1."}, places.home)
    places.write({"commands/mine.md": "Mine."}, places.config)
    commands = {command.name: command for command in load_commands(places.folders()).commands}
    commit = commands["commit"]
    assert (commit.description, commit.argument_hint, commit.group) == ("Create a git commit", "[message]", "git")
    assert (commit.problems, commit.path) == ((), ".claude/commands/git/commit.md")
    assert commands["code-review"].description == "Code review"
    assert {name: (command.dialect, command.scope) for name, command in commands.items()} == {
        "commit": ("claude", "project"),
        "code-review": ("plain", "project"),
        "own": ("claude", "project"),
        "port": ("codex", "user"),
        "mine": ("claude", "user"),
    }


def test_of_one_name_the_first_counts_and_an_empty_file_is_none(places):
    places.write(
        {".cursor/commands/a.md": "One", ".claude/commands/a.md": "Two", ".claude/commands/b.md": "---\n---\n"}
    )
    command_set = load_commands(places.folders())
    assert [command.body for command in command_set.commands] == ["One"]
    assert {skipped_file.path: skipped_file.reason for skipped_file in command_set.skipped} == {
        ".claude/commands/a.md": ".cursor/commands/a.md is already 'a', and takes precedence",
        ".claude/commands/b.md": "it is empty",
    }


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("pdf", ".claude/skills/pdf/SKILL.md"),
        ("user:pdf", "~/.claude/commands/pdf.md"),
        ("project:commit", ".claude/commands/commit.md"),
        ("quiet", None),
        ("user:commit", None),
    ],
)
def test_a_skill_counts_before_a_command_and_a_scope_looks_in_one(places, name, path):
    skill = "---\ndescription: d\n{}---\nDo it."
    places.write(
        {
            ".claude/skills/pdf/SKILL.md": skill.format(""),
            ".claude/skills/quiet/SKILL.md": skill.format("user-invocable: false\n"),
            ".claude/commands/commit.md": "Commit.",
        }
    )
    places.write({".claude/commands/pdf.md": "PDF."}, places.home)
    folders = places.folders()
    command = find_prompt_command(name, load_skills(folders).skills, load_commands(folders).commands)
    assert (command.path if command else None) == path
