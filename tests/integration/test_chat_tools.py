"""The tools of a prompt by HTTP: what a client names means everything that does the same, by whatever name it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.agent.base.permissions import FAMILIES
from core.providers.base import ModelRequest
from core.tools.toolset import Toolset
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.default_model import access_to
from tests.support.http_server import CHAT, PLAN, SESSIONS, prompt, serving
from tests.support.story import MODEL, access, project_at

EDITS = {
    "search_replace": {"file_path": "a.txt", "old_string": "one", "new_string": "ONE"},
    "edit_file": {"target_file": "b.txt", "instructions": "create", "code_edit": "new\n"},
    "apply_patch": {"input": "*** Begin Patch\n*** Update File: a.txt\n@@\n-three\n+THREE\n*** End Patch"},
    "write": {"file_path": "c.txt", "contents": "new\n"},
    "insert_lines": {"path": "a.txt", "line": 1, "text": "between\n"},
    "delete_file": {"target_file": "gone.txt"},
}
PROGRAMS = {"run_terminal_cmd": {"command": "true"}, "run_python": {"code": "print(1)"}}
OTHERS = {"read_many_files": {"paths": ["a.txt"]}, "grep": {"pattern": "one"}}
EVERY = {**EDITS, **PROGRAMS, **OTHERS}


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "project")
    (root / "gone.txt").write_text("x\n")
    return root


async def find_refused(project: Path, **limits: Any) -> set[str]:
    """Let the model call every tool; return the names of those that the request turned off."""
    play = [calls(*EVERY.items()), says("So.")]
    async with serving(project, access(play)) as served, served.client() as client:
        answer = (await client.post(CHAT, json=prompt(**limits))).json()
    assert answer.get("status") == "completed", answer
    texts = [document["content"] or "" for document in answer["documents"] if document["type"] == "error"]
    return {name for name in EVERY if any(f"Not run: {name} is turned off by the request." in text for text in texts)}


async def test_edit_file_among_the_only_tools_lets_the_agent_edit_and_create_but_not_delete(project):
    refused = await find_refused(project, tools=["codebase_search", "read_file", "edit_file", "grep"])
    assert refused == {"delete_file", *PROGRAMS}


@pytest.mark.parametrize("name", ["edit_file", "file_edit", "StrReplace", "apply_patch"])
async def test_editing_is_turned_off_as_such_by_any_of_its_names(project, name):
    assert await find_refused(project, availableTools={name: {"enabled": False}}) == set(EDITS)


async def test_a_tool_of_a_family_that_is_named_itself_has_its_own_limits(project):
    limits = {"edit_file": {"enabled": False}, "Write": {"enabled": True}, "Delete": {}}
    assert await find_refused(project, availableTools=limits) == set(EDITS) - {"write", "delete_file"}


@pytest.mark.parametrize("name", ["run_terminal_cmd", "Shell", "terminal_command"])
async def test_commands_are_turned_off_with_everything_that_runs_programs(project, name):
    assert await find_refused(project, availableTools={name: {"enabled": False}}) == set(PROGRAMS)


async def test_paths_of_edits_hold_for_every_edit(project):
    play = [calls(*EDITS.items()), says("So.")]
    limits = {"edit_file": {"allowedPaths": ["src/"]}}
    async with serving(project, access(play)) as served, served.client() as client:
        answer = (await client.post(CHAT, json=prompt(availableTools=limits))).json()
    errors = [document["content"] for document in answer["documents"] if document["type"] == "error"]
    assert (len(errors), answer["metadata"]["pendingChanges"]) == (len(EDITS), [])
    assert all("limited to other paths" in error for error in errors)


async def test_edits_wait_for_a_yes_under_whatever_name_they_are_made(project):
    play = [calls(("search_replace", EDITS["search_replace"])), says("So.")]
    limits = {"edit_file": {"enabled": True, "requireApproval": True}}
    async with serving(project, access(play)) as served, served.client() as client:
        waiting = (await client.post(CHAT, json=prompt(availableTools=limits))).json()
        session = (await client.get(f"{SESSIONS}/{waiting['metadata']['sessionId']}")).json()
    assert waiting["status"] == "streaming"
    assert [approval["id"] for approval in session["approvals"]] == waiting["metadata"]["waitsFor"]


async def test_the_model_is_told_what_a_name_means(project):
    model = DirectedModel([says("Yes.")])
    async with serving(project, access_to(lambda *_: (model, "story"), MODEL)) as served, served.client() as client:
        await client.post(CHAT, json=prompt(tools=["codebase_search", "read_file", "edit_file", "grep"]))
    request: ModelRequest = model.requests[0]
    told = str(request.messages[-1].content)
    assert "Only the tools named here are on; all others are off." in told
    assert "`edit_file`, and with it every tool that edits or writes files: on, as usual" in told
    assert "`search_replace`: off" not in told
    assert {"search_replace", "read_file", "grep"} <= {tool.name for tool in request.tools}


async def test_where_a_plan_is_asked_for_it_can_be_handed_in_whatever_the_only_tools_are(project):
    plan = ("create_plan", {"name": "P", "overview": "O", "plan": "# Do", "todos": []})
    play = [calls(plan), says("Planned.")]
    async with serving(project, access(play)) as served, served.client() as client:
        answer = (await client.post(PLAN, json=prompt(tools=["read_file"]))).json()
    assert [document["type"] for document in answer["documents"]] == ["plan", "text"]


def test_families_name_tools_that_exist_and_no_tool_is_in_two():
    named = [name for family in FAMILIES for name in sorted(family.heads | family.members | family.limited)]
    assert sorted(set(named) - set(Toolset())) == []
    assert len(named) == len(set(named))
