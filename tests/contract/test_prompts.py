"""Prose for models: every text renders strictly, and none is missing or without its counterpart in the program."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from msgspec.structs import fields

from core.config.settings import Settings
from core.dialects.tag_reader import CALL_TAGS, FRAME_TAGS
from core.modes import Mode, find_modes_granting
from core.prompts import ROOT, PromptMissing, list_prompts, load_tool_text, render
from core.protocol.documents import Plan, Todo, TodoStatus
from core.protocol.events import ModeName
from core.protocol.review import Change, FileState, Finding
from core.shell.probe_overlay import LOG_VARIABLE, URL_PLACEHOLDER
from core.tools.arguments import build_parameters
from core.tools.builtin import BUILTIN
from core.tools.toolset import Toolset

TOOLS = Toolset()

TODO = Todo(id="a", content="Do a", dependencies=("b",))
CHANGE = Change(path="a.py", operation="edit", base=FileState(), pending=FileState(), added=1, removed=2)
VERDICT = {"verdict": "reject", "path": "a.py", "lines": "lines 1-2", "reason": "No", "excerpt": "- x"}
FINDING = Finding(
    id="f", severity="high", title="T", text="X", path="a.py", start=1, quote="q", suggestion="s", doubt="d"
)
RULE = '<rule path="AGENTS.md">\nBe kind.\n</rule>'
VARIABLES = {
    "system": {"rules": [RULE]},
    "agents": {"agents": ["explore: Finds out."], "others": ["odd"], "in_text": False, "is_short": False, "most": 4},
    "task_subagent": {
        "prompt": "Find it.",
        "agent": {"name": "explore", "prompt": "You explore."},
        "is_readonly": True,
        "is_new": True,
    },
    "skills": {"skills": ["pdf: Fill forms."], "others": ["xlsx"], "in_text": False},
    "skill": {"called": "pdf", "path": "p/SKILL.md", "folder": "/p", "files": ["a.md"], "body": "Use the script."},
    "advisors": {"model": "openai/gpt-6.2-sol", "text": "Asks it."},
    "advisor_question": {"conversation": "C", "changes": "a.py", "question": "Q"},
    "goals": {"text": "Proposes a goal."},
    "programs": {"text": "Runs a program."},
    "web": {"in_text": False, "fetches": True, "searches": True},
    "web_search_by_model": {"blocked": ["x.example"]},
    "added_directories": {"roots": ["/srv/other", "/srv/more"]},
    "appended": {"text": "Answer like a pirate."},
    "compaction": {"words": 500},
    "json_answer": {"schema": '{"type": "object"}'},
    "json_answer_again": {"problem": "it is not a single JSON value."},
    "init": {
        "there_is": True,
        "wish": "mind the tests",
        "others": ["CLAUDE.md"],
        "parts": [{"name": "commands", "text": "Makefile: test"}],
    },
    "plan_build": {
        "plan": Plan(path="p.md", name="P", overview="O", body="B", todos=(TODO,)),
        "chosen": TODO,
        "now": "a",
        "by_file": False,
        "todos": (TODO,),
        "left_out": 3,
    },
    "plan_subagent": {
        "plan": Plan(path="p.md", name="P", overview="O", body="B", todos=(TODO,)),
        "todo": TODO,
        "others": ("b",),
        "why": "It was begun.",
        "whole": True,
    },
    "reminders/circumstances": {"mode": "agent", "tier": "T4", "tools": frozenset(), "attended": False},
    "reminders/time_limit": {"minutes": 3},
    "reminders/plan_changed": {"todos": "[ ] a: A"},
    "reminders/probes_left": {"probes": "p1"},
    "reminders/fix_unshown": {"files": "a.py"},
    "reminders/build_left": {"todos": "[ ] a: A", "now": "", "ready": ["a"], "by_file": ""},
    "reminders/plan_file": {"notes": ("a is not completed.",), "todos": "[ ] a: A"},
    "reminders/mode": {"mode": "plan", "previous": "agent", "text": "T"},
    "reminders/verdicts": {
        "verdicts": [VERDICT, VERDICT | {"verdict": "accept"}],
        "accepted": True,
        "rejected": True,
        "undone": [VERDICT],
        "edits": [{"path": "a.py", "start": 3, "excerpt": "+ x"}],
        "superseded": [VERDICT],
        "merged": [{"path": "a.py", "excerpt": "+ x"}],
        "conflicts": [{"path": "a.py", "lines": "lines 3-4", "reason": "the file was edited."}],
        "settled": ["b.py"],
    },
    "aside": {"question": "Q", "changes": "a.py", "is_running": True, "is_repeated": True},
    "goal_judgement": {"condition": "C", "changes": "a.py", "checks": ["pytest: exit code 0"]},
    "reminders/goal": {"condition": "C", "command": "make test", "most": 10},
    "reminders/goal_unmet": {
        "condition": "C",
        "command": "make test",
        "round": 1,
        "most": 10,
        "summary": "1 failed",
        "output": "E",
        "attended": True,
    },
    "reminders/interrupted": {"reason": "the program ended."},
    "reminders/evidence": {"command": "pytest", "unnoticed": ["a.py:1: never ran"], "weakened": ["t.py:1: skipped"]},
    "write_test": {"place": "a.py:1", "excerpt": "+x", "fence": "```", "gap": None, "unnoticed": True},
    "reminders/stale_layers": {"layers": [{"root": "out", "why": "made from an older a.toml"}]},
    "review_comments": {
        "note": "Look.",
        "heading": "My comments",
        "comments": [
            {"path": "a.py", "lines": "line 1", "language": "diff", "excerpt": "+x", "fence": "```", "text": "Why?"}
        ],
    },
    "reminders/answers": {"answers": "q: Which?\n  -> a (A)"},
    "code_review": {
        "subject": "main",
        "log": "abc first",
        "diff": "+1",
        "cut": "9",
        "left_out": 1,
        "is_on_disk": True,
    },
    "fix_findings": {"findings": (FINDING,), "subject": "main", "fence": "```"},
    "reminders/restored": {"files": ["a.py"], "more": 2},
    "reminders/terminal": {
        "ended": [
            {
                "id": "job_1",
                "line": "`make`: exit code 0",
                "output": "ok",
                "more": "read_terminal has all of it",
                "is_silent": "",
            }
        ],
        "ran": [
            {"command": "ls", "directory": "sub", "end": "exit code 0", "output": "a", "effects": "changed nothing"}
        ],
    },
    "reminders/loop": {"when": "every 10 minutes", "run": 2, "most": 100, "command": "make", "lines": "FAILED"},
    "reminders/effort": {"effort": "low"},
    "reminders/compacted": {"rules": "- Never.", "summary": "S", "todos": (TODO,), "changes": (CHANGE,)},
    "reminders/truncated": {"call": True},
    "reminders/rules": {"fresh": [RULE], "changed": [RULE], "removed": ["AGENTS.md"]},
    "reminders/diagnostics_late": {"lines": "  a.py:1:2: error: no [x]"},
    "reminders/diagnostics_left": {"lines": "  a.py:1:2: error: no [x]"},
    "reminders/mode_tools": {"in_text": False, "tools": [{"name": "grep", "text": "Search."}]},
    "system_short": {"rules": [RULE]},
    "dialects/tags_short": {"rules": [], "tools": [{"name": "grep", "text": "Search."}]},
    "dialects/tags": {
        "rules": [RULE],
        "tools": [{"name": "grep", "text": "Search."}],
    },
    "dialects/workspace_rules": {"rules": [RULE]},
}

# What puts a tag around something that a model is sent.
WRITTEN = r'_?tag(?:_if_changed)?\([^")]*"(\w+)"'


def variables(name: str) -> dict[str, object]:
    return VARIABLES.get(name, {"contained": False} if name.startswith("modes/") else {})


@pytest.mark.parametrize("name", list_prompts())
def test_every_template_renders_strictly(name):
    text = render(name, **variables(name))
    assert len(text) > 40
    assert not re.search(r"\{\{|\}\}|\{%|\n{4,}| $", text, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_a_missing_variable_is_an_error_and_no_gap(name):
    with pytest.raises(PromptMissing, match="can't be rendered"):
        render(name)


def test_each_tool_has_a_text_and_each_text_a_tool():
    assert {path.stem for path in (ROOT / "tools").glob("*.md")} == set(TOOLS)
    assert all(len(load_tool_text(name)) > 80 for name in TOOLS)


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_text_is_no_longer_than_hosts_take(name):
    assert len(load_tool_text(name)) <= 1024


def test_each_mode_has_a_text_and_each_text_a_mode():
    assert {path.name.removesuffix(".md.j2") for path in (ROOT / "modes").iterdir()} == {mode.value for mode in Mode}
    assert set(get_args(ModeName)) == {mode.value for mode in Mode}


def test_every_block_is_part_of_a_system_prompt():
    system = "\n".join(render(name, **variables(name)) for name in ("system", "system_short"))
    for path in (ROOT / "blocks").iterdir():
        assert path.read_text(encoding="utf-8").strip().splitlines()[-1] in system


# Every text that a model is sent, as it stands in its file: both sides of each condition.
SOURCES = sorted(path for path in ROOT.rglob("*") if path.suffix in {".md", ".j2", ".yaml"})
each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())


@each_source
def test_tools_and_arguments_that_a_prompt_names_exist(path):
    spoken = set(re.findall(r"`([a-z]+_[a-z_]+)`", path.read_text(encoding="utf-8")))
    arguments = {word for tool in TOOLS.values() for word in re.findall(r"'(\w+)': \{", str(build_parameters(tool)))}
    assert spoken <= {*TOOLS, *arguments, *get_args(TodoStatus)}


@each_source
def test_modes_that_a_prompt_names_exist(path):
    text = path.read_text(encoding="utf-8")
    spoken = re.findall(r"\b([A-Z][a-z]+)(?: and ([A-Z][a-z]+))? mode\b", text)
    assert {word.lower() for pair in spoken for word in pair if word} <= {mode.value for mode in Mode} | {"the", "this"}


@each_source
def test_tags_that_a_prompt_names_are_read_or_written_by_the_program(path):
    spoken = set(re.findall(r"`</?([a-z_-]+)[ >]", path.read_text(encoding="utf-8")))
    written = {word for file in (ROOT.parent / "agent").rglob("*.py") for word in re.findall(WRITTEN, file.read_text())}
    assert {"user_query", "system_reminder", "now"} <= written
    assert spoken <= {*CALL_TAGS, *FRAME_TAGS, *written}


@each_source
def test_settings_that_a_prompt_names_exist(path):
    sections = {field.name: field.type for field in fields(Settings)}
    for section, key in re.findall(r"`([a-z_]+)\.([a-z_]+)(?: = [^`]*)?`", path.read_text(encoding="utf-8")):
        if section in sections:
            assert key in {field.name for field in fields(sections[section])}, f"{section}.{key}"


def test_the_modes_prompt_names_each_mode():
    text = render("blocks/modes")
    mode_names = [word.lower() for word in re.findall(r"^- ([A-Z][a-z]+):", text, re.MULTILINE)]
    assert mode_names == [mode.value for mode in Mode]


def test_the_probe_text_names_the_variable_and_the_address_that_a_run_gives():
    assert LOG_VARIABLE in load_tool_text("probe_add")
    assert URL_PLACEHOLDER in load_tool_text("probe_add")


def test_the_tool_list_is_the_same_in_every_mode_and_every_time():
    assert TOOLS.build_specs(load_tool_text) == TOOLS.build_specs(load_tool_text)
    assert [spec.name for spec in TOOLS.build_specs(load_tool_text)] == list(TOOLS.listed)
    deferred = {name for names in TOOLS.deferred.values() for name in names}
    assert {*TOOLS.listed, *deferred} == {tool.name for tool in BUILTIN if tool.is_listed}
    assert not {*TOOLS.listed} & deferred


@pytest.mark.parametrize("mode", TOOLS.deferred)
def test_what_is_not_in_the_list_is_granted_in_its_mode_alone(mode):
    for name in TOOLS.deferred[mode]:
        assert find_modes_granting(TOOLS[name].access, is_contained=True) == (Mode(mode),), name


@pytest.mark.parametrize("name", ["", "../errors", "/etc/passwd", "blocks/../system", "nope", "System", "a/b/c"])
def test_only_names_of_prompts_are_rendered(name):
    with pytest.raises(PromptMissing):
        render(name)
    with pytest.raises(PromptMissing):
        load_tool_text(name)


def test_prompts_say_that_edits_wait_for_review():
    text = render("system", rules=[])
    assert "shadow" in text
    assert "review" in text
    assert "<workspace_rules>" not in text


@pytest.mark.parametrize(("tier", "is_named"), [("T1", False), ("T2b", False), ("T3", True), ("M1", True)])
def test_a_tier_in_which_no_temporary_file_lasts_says_so(tier, is_named):
    text = render("reminders/circumstances", mode="agent", tier=tier, tools=frozenset(), attended=True)
    assert ("$TMPDIR" in text) is is_named
