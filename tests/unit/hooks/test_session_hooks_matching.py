from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.hooks.dialect_names import HookEvent, build_tool_input, list_tool_names
from core.hooks.parsing import Hook
from core.hooks.session_hooks import select_hooks


def hook(matcher: str, dialect="claude", *, condition: str = "") -> Hook:
    return Hook(
        event=HookEvent.PRE_TOOL,
        command="x",
        dialect=dialect,
        scope="project",
        source="a",
        matcher=matcher,
        condition=condition,
    )


@pytest.mark.parametrize(
    ("matcher", "tool", "concerned"),
    [
        ("", "grep", True),
        ("Bash", "run_terminal_cmd", True),
        ("Edit|Write", "search_replace", True),
        ("Edit, Write", "write", True),
        ("Write", "delete_file", True),
        ("Edit", "grep", False),
        ("Bas", "run_terminal_cmd", False),
        ("Notebook.*", "edit_notebook", True),
        ("mcp__memory", "mcp__memory__read", False),
        ("mcp__memory__.*", "mcp__memory__read", True),
        ("Agent", "task", True),
        ("Task", "task", True),
        ("(?<name>Ba)sh.?", "run_terminal_cmd", True),
    ],
)
def test_claudes_matchers_are_exact_names_or_patterns(matcher, tool, concerned):
    assert bool(select_hooks([hook(matcher)], list_tool_names(tool))) is concerned


@pytest.mark.parametrize(
    ("matcher", "concerned"), [("git", True), ("^git push", True), ("push$", False), ("kubectl|git", True)]
)
def test_cursors_matchers_are_patterns_over_the_command(matcher, concerned):
    assert bool(select_hooks([hook(matcher, "cursor")], ("git push --force",))) is concerned


@pytest.mark.parametrize(
    ("condition", "command", "concerned"),
    [
        ("Bash(git *)", "git push", True),
        ("Bash(git:*)", "git push", True),
        ("Bash(git *)", "cd x && git push", True),
        ("Bash(git *)", "ls", False),
        ("Bash", "ls", True),
        ("Edit(*.py)", "ls", False),
        ("???", "ls", True),
    ],
)
def test_a_condition_is_a_rule_over_the_call(condition, command, concerned):
    hooks = select_hooks([hook("", condition=condition)], list_tool_names("run_terminal_cmd"), (command,))
    assert bool(hooks) is concerned


@pytest.mark.parametrize(
    ("condition", "path", "concerned"),
    [
        ("Edit(.env*)", "config/.env.local", True),
        ("Edit(*.py)", "src/a.py", True),
        ("Edit(./src/**)", "src/a/b.py", True),
        ("Edit(/src/*)", "src/a.py", True),
        ("Edit(docs/*)", "src/a.py", False),
    ],
)
def test_a_condition_on_files_means_a_name_anywhere_and_a_path_from_the_project(condition, path, concerned):
    hooks = select_hooks([hook("", condition=condition)], list_tool_names("search_replace"), (path,))
    assert bool(hooks) is concerned


@pytest.mark.parametrize(
    ("matcher", "path", "concerned"),
    [
        ("*.py", "src/a.py", True),
        ("*.py", "src/a.txt", False),
        ("**/*.{ts,tsx}", "web/src/a.tsx", True),
        ("**/*.{ts,tsx}", "web/src/a.css", False),
        ("*.md|*.py", "a.py", True),
        ("*earch_replace", "a.py", True),
        ("[", "a.py", False),
    ],
)
def test_a_matcher_that_is_a_glob_speaks_of_what_a_call_names(matcher, path, concerned):
    names = list_tool_names("search_replace")
    assert bool(select_hooks([replace(hook(matcher), is_glob=True)], names, (path,))) is concerned
    assert select_hooks([replace(hook("["), fails_closed=True)], names, (path,))


def test_a_skill_that_is_opened_is_a_skill_for_claudes_hooks(tmp_path):
    assert select_hooks([hook("Skill")], list_tool_names("activate_skill"))
    tool_input = build_tool_input("activate_skill", {"name": "pdf", "arguments": "a.pdf"}, "claude", tmp_path)
    assert tool_input == {"skill": "pdf", "args": "a.pdf"}


def test_one_command_runs_once_however_many_matchers_choose_it():
    assert len(select_hooks([hook("Bash"), hook(""), hook("B.*")], ("Bash",))) == 1
