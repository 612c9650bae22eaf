"""`agent-tui acp` as an editor meets it: a process of its own, and lines that are as the official schema says."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sys
from pathlib import Path

import acp
import pytest
from acp import schema as s

from tests.support.acp_editor import editor_of
from tests.support.pictures import picture
from tests.support.trust import trust

EDIT = """\
turns:
  - match: Build
    mode: agent
    steps:
      - tool_calls: [{name: write, arguments: {file_path: hello.txt, contents: "hello\\n"}}]
      - tool_calls:
          - name: todo_write
            arguments: {merge: true, todos: [{id: hello, content: Write it, status: completed}]}
      - Built.
  - match: edit
    steps:
      - text: Let me look.
        tool_calls: [{name: read_file, arguments: {target_file: a.txt}}]
      - tool_calls:
          - {name: search_replace, arguments: {file_path: a.txt, old_string: two, new_string: TWO}}
          - {name: write, arguments: {file_path: new.txt, contents: "fresh\\n"}}
      - "All done.\\n\\n```python\\nprint(1)\\n```\\nSee it."
  - match: ask me
    steps:
      - tool_calls:
          - name: ask_question
            arguments:
              questions: [{id: way, prompt: Which way?, options: [{id: l, label: Left}, {id: r, label: Right}]}]
      - Understood.
  - match: run
    steps:
      - tool_calls: [{name: run_terminal_cmd, arguments: {command: echo ran}}]
      - It was so.
  - match: slowly
    steps:
      - tool_calls: [{name: run_terminal_cmd, arguments: {command: sleep 60}}]
      - Never said.
  - match: hunks
    steps:
      - tool_calls:
          - {name: search_replace, arguments: {file_path: long.txt, old_string: "first\\n", new_string: "FIRST\\n"}}
          - {name: search_replace, arguments: {file_path: long.txt, old_string: "last\\n", new_string: "LAST\\n"}}
      - Both ends.
  - match: make a plan
    steps:
      - tool_calls:
          - name: create_plan
            arguments:
              name: Greet
              overview: Say hello
              plan: "# Greeting"
              todos: [{id: hello, content: Write it, dependencies: []}]
      - Planned.
otherwise: I heard you.
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    place = tmp_path / "script.yaml"
    place.write_text(EDIT)
    return place


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / "long.txt").write_text("first\n" + "x\n" * 20 + "last\n")
    trust(root)
    return root


async def test_a_turn_with_edits_reaches_the_disk_file_by_file_as_the_editor_says(script, project):
    async with editor_of(script) as agent:
        opened = await agent.open(project)
        assert opened.modes.current_mode_id == "agent"
        assert {option.id: option.current_value for option in opened.config_options}["mode"] == "agent"
        seen = []

        def choose(call, options):
            seen.append((call.title, (project / "a.txt").read_text(), (project / "new.txt").exists()))
            return "accept" if "a.txt" in call.title else "reject"

        agent.editor.choose = choose
        assert await agent.prompt("edit it") == "end_turn"
        assert seen == [
            ("Accept a.txt? (+1 -1)", "one\ntwo\nthree\n", False),  # the disk is untouched until then
            ("Accept new.txt? (+1 -0)", "one\nTWO\nthree\n", False),
        ]
        assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
        assert not (project / "new.txt").exists()
        [diff, *_] = [block for block in agent.editor.asked[0].content if block.type == "diff"]
        assert (diff.path, diff.old_text, diff.new_text) == (
            str(project / "a.txt"),
            "one\ntwo\nthree\n",
            "one\nTWO\nthree\n",
        )
        calls = {update.tool_call_id: update for update in agent.editor.of("tool_call")}
        kinds = [(update.kind, update.title) for update in calls.values()][:3]
        assert kinds == [("read", "read_file: a.txt"), ("edit", "search_replace: a.txt"), ("edit", "write: new.txt")]
        assert agent.editor.text().startswith("Let me look.")
        assert "All done.\n\n```python\nprint(1)\n```\n\nSee it." in agent.editor.text()
        assert agent.editor.text("user_message_chunk") == ""  # the editor knows what was typed


async def test_each_hunk_is_asked_about_and_one_without_an_answer_waits(script, project):
    async with editor_of(script, "--review", "each") as agent:
        await agent.open(project)
        answers = iter(["accept", None])
        agent.editor.choose = lambda call, options: next(answers)
        assert await agent.prompt("hunks") == "end_turn"
        text = (project / "long.txt").read_text()
        assert text.startswith("FIRST\n")
        assert text.endswith("last\n")
        assert "Pending review: long.txt" in agent.editor.text()
        agent.editor.choose = lambda call, options: "accept"
        assert await agent.prompt("/review") == "end_turn"
        assert (project / "long.txt").read_text().endswith("LAST\n")


async def test_a_question_is_a_form_where_the_editor_has_them_and_a_permission_elsewhere(script, project):
    async with editor_of(script, forms=True) as agent:
        await agent.open(project)
        agent.editor.form_content = {"way": "r"}
        assert await agent.prompt("ask me") == "end_turn"
        assert agent.editor.forms == ["Which way?"]
        assert agent.editor.asked == []
        assert "→ Right" in text_of(agent.editor)
    async with editor_of(script) as agent:
        await agent.open(project)
        assert await agent.prompt("ask me") == "end_turn"
        assert agent.editor.asked[0].title == "Which way?"
        assert "→ Left" in text_of(agent.editor)


def text_of(editor) -> str:
    """All texts that calls show."""
    parts = [part for update in editor.of("tool_call_update") for part in update.content or ()]
    return "\n".join(block.content.text for block in parts if block.type == "content")


def told_of(editor) -> str:
    """All that results of calls say."""
    return json.dumps([update.model_dump(mode="json") for update in editor.of("tool_call_update")])


async def test_an_approval_carries_all_of_the_call_and_nobody_is_no_refusal_of_the_user(script, project, tmp_path):
    configured(tmp_path)
    async with editor_of(script, "--answer-timeout", "1") as agent:
        await agent.open(project)
        agent.editor.hangs = True
        assert await agent.prompt("run") == "end_turn"
        [asked] = agent.editor.asked
        assert (asked.title, asked.kind, asked.raw_input) == ("echo ran", "execute", {"command": "echo ran"})
        assert "$ echo ran" in asked.content[0].content.text
        assert "Nobody answered in the editor: that is not a refusal" in told_of(agent.editor)
        assert "The user refused" not in told_of(agent.editor)
    async with editor_of(script) as agent:
        await agent.open(project)
        agent.editor.choose = lambda call, options: "reject_once"
        assert await agent.prompt("run") == "end_turn"
        assert "The user refused" in told_of(agent.editor)


def configured(tmp_path: Path) -> None:
    from core.user_dirs import get_config_dir

    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text('[commands]\npolicy = "confirm"\n')


async def test_a_cancel_ends_the_turn_and_what_is_asked(script, project, tmp_path):
    async with editor_of(script) as agent:
        await agent.open(project)
        running = asyncio.create_task(agent.prompt("slowly"))
        await agent.editor.wait_for(lambda: bool(agent.editor.of("tool_call")))
        await agent.peer.cancel(session_id=agent.session)
        assert await running == "cancelled"
        agent.editor.hangs = True
        reviewing = asyncio.create_task(agent.prompt("edit it"))
        await asyncio.wait_for(agent.editor.requested.wait(), 60)
        await agent.peer.cancel(session_id=agent.session)
        assert await reviewing == "cancelled"
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert await agent.prompt("anything") == "end_turn"  # the session goes on


async def test_a_session_is_listed_loaded_with_its_review_and_deleted_by_another_process(script, project):
    async with editor_of(script) as agent:
        await agent.open(project)
        agent.editor.choose = lambda call, options: None
        await agent.prompt("edit it")
        session = agent.session
    async with editor_of(script) as agent:
        [listed] = (await agent.peer.list_sessions(cwd=str(project))).sessions
        assert (listed.session_id, listed.cwd) == (session, str(project))
        loaded = await agent.peer.load_session(cwd=str(project), session_id=session, mcp_servers=[])
        assert loaded.modes.current_mode_id == "agent"
        assert agent.editor.text("user_message_chunk") == "edit it"
        assert "All done." in agent.editor.text()
        statuses = {
            update.tool_call_id: update.status for update in agent.editor.of("tool_call_update") if update.status
        }
        assert set(statuses.values()) == {"completed"}
        diffs = [
            part.path
            for update in agent.editor.of("tool_call_update")
            for part in update.content or ()
            if part.type == "diff"
        ]
        assert set(diffs) == {str(project / "a.txt"), str(project / "new.txt")}
        agent.session = session
        assert await agent.prompt("/review") == "end_turn"
        assert (project / "new.txt").read_text() == "fresh\n"
        before = len(agent.editor.updates)
        await agent.peer.close_session(session_id=session)
        await agent.peer.resume_session(cwd=str(project), session_id=session, mcp_servers=[])
        assert "user_message_chunk" not in {update.session_update for update in agent.editor.updates[before:]}
        await agent.peer._conn.send_request("session/delete", {"sessionId": session})
        assert (await agent.peer.list_sessions(cwd=str(project))).sessions == []


async def test_modes_and_options_stay_in_step_and_leaving_plan_is_asked(script, project):
    async with editor_of(script) as agent:
        await agent.open(project)
        await agent.peer.set_session_mode(session_id=agent.session, mode_id="plan")
        assert agent.editor.of("current_mode_update")[-1].current_mode_id == "plan"
        assert options_of(agent.editor.of("config_option_update")[-1])["mode"] == "plan"
        agent.editor.choose = lambda call, options: options[0].option_id
        assert await agent.prompt("make a plan to say hello") == "end_turn"
        [asked, *_] = agent.editor.asked
        assert (asked.kind, asked.title) == ("switch_mode", "Build the plan “Greet”?")
        assert agent.editor.of("current_mode_update")[-1].current_mode_id == "agent"
        assert [entry.status for entry in agent.editor.of("plan")[-1].entries] == ["completed"]
        assert (project / "hello.txt").read_text() == "hello\n"
        answer = await agent.peer.set_config_option(session_id=agent.session, config_id="mode", value="ask")
        assert options_of(answer)["mode"] == "ask"
        assert agent.editor.of("current_mode_update")[-1].current_mode_id == "ask"
        with pytest.raises(acp.RequestError, match="auto-accept"):
            await agent.peer.set_config_option(session_id=agent.session, config_id="review", value="auto-accept")


def options_of(response) -> dict[str, object]:
    return {option.id: option.current_value for option in response.config_options}


async def test_pictures_links_and_buffers_go_with_a_prompt(script, project):
    blocks = [
        acp.image_block(base64.b64encode(picture(8, 8)).decode(), "image/png"),
        acp.resource_link_block("a.txt", f"file://{project}/a.txt"),
        acp.embedded_text_resource("file:///else/b.py", "unsaved @nothing.py"),
    ]
    async with editor_of(script) as agent:
        await agent.open(project)
        resources = [s.EmbeddedResourceContentBlock(type="resource", resource=blocks[2])]
        assert await agent.prompt("see ", *blocks[:2], *resources) == "end_turn"
        loaded = len(agent.editor.updates)
        await agent.peer.load_session(cwd=str(project), session_id=agent.session, mcp_servers=[])
        prompt = "".join(
            update.content.text
            for update in agent.editor.updates[loaded:]
            if update.session_update == "user_message_chunk"
        )
        assert "@a.txt" in prompt
        assert "```/else/b.py\nunsaved @nothing.py\n```" in prompt


async def test_a_server_of_the_editor_works_in_the_box_and_what_it_writes_is_reviewed(project, tmp_path):
    script = tmp_path / "server.yaml"
    call = "{name: mcp__editor__write, arguments: {path: made.txt, text: by the server}}"
    script.write_text(f"turns:\n  - steps:\n      - tool_calls: [{call}]\n      - Made.\n")
    server = shutil.copy(Path(__file__).parents[1] / "support" / "mcp_server.py", tmp_path / "server.py")
    editor_server = s.McpServerStdio(name="editor", command=sys.executable, args=[str(server)], env=[])
    async with editor_of(script) as agent:
        await agent.open(project, [editor_server])
        written = []

        def choose(call, options):
            written.append((call.title, (project / "made.txt").exists()))
            return options[0].option_id

        agent.editor.choose = choose
        assert await agent.prompt("make it") == "end_turn"
        assert written[-1] == ("Accept made.txt? (+1 -0)", False)
        assert (project / "made.txt").read_text().startswith("by the server")
