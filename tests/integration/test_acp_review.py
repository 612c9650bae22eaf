"""What an editor holds can be decided on from elsewhere, late, by a command, and after the session was loaded again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.acp_editor import Opened, editor_of
from tests.support.program import PROGRAM

SCRIPT = """\
turns:
  - match: edit
    steps:
      - tool_calls:
          - {name: search_replace, arguments: {file_path: a.txt, old_string: two, new_string: TWO}}
          - {name: write, arguments: {file_path: new.txt, contents: "fresh\\n"}}
      - All done.
  - match: again
    steps:
      - tool_calls: [{name: search_replace, arguments: {file_path: a.txt, old_string: three, new_string: THREE}}]
      - Once more.
  - match: run
    steps:
      - tool_calls: [{name: run_terminal_cmd, arguments: {command: echo ran, required_permissions: [all]}}]
      - It was so.
otherwise: I heard you.
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    place = tmp_path / "script.yaml"
    place.write_text(SCRIPT)
    return place


@pytest.fixture
def project(project: Path) -> Path:
    (project / "a.txt").write_text("one\ntwo\nthree\n")
    return project


async def call(project: Path, *words: str) -> tuple[int | None, str]:
    """The exit code of a program beside the editor's, and all that it printed."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *words, cwd=project, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


def options_of(response: Any) -> dict[str, object]:
    return {option.id: option.current_value for option in response.config_options}


async def test_what_an_editor_holds_is_shown_and_decided_on_by_other_programs(script, project):
    async with editor_of(script, "--review", "later") as agent:
        await agent.open(project)
        await agent.prompt("edit it")
        assert agent.editor.asked == []
        code, printed = await call(project, "review", "--print")
        assert code == 0, printed
        assert "+TWO" in printed
        assert "+++ b/new.txt" in printed
        code, printed = await call(project, "diff")
        assert (code, "+TWO" in printed) == (0, True)
        code, printed = await call(project, "attach", "--list")
        assert agent.session in printed
        assert (await call(project, "review", "--accept", "a.txt"))[0] == 0
        assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
        assert (await call(project, "review", "--reject", "new.txt"))[0] == 0
        assert await agent.prompt("/review") == "end_turn"  # the editor goes on, and knows of it
        assert "Nothing pending review." in agent.editor.text()


async def ask_without_an_answer(agent: Opened, project: Path, prompt: str) -> asyncio.Event:
    """Run a prompt whose requests all take too long; returns what has their answers sent."""
    await agent.open(project)
    agent.editor.released = asyncio.Event()
    assert await agent.prompt(prompt) == "end_turn"
    assert agent.editor.asked
    return agent.editor.released


async def test_an_accept_that_comes_late_is_done(script, project):
    async with editor_of(script, "--answer-timeout", "1") as agent:
        released = await ask_without_an_answer(agent, project, "edit it")
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
        released.set()
        await agent.editor.wait_for(lambda: agent.editor.text().count("your answer came late. Accepted.") == 2)
        assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
        assert (project / "new.txt").read_text() == "fresh\n"


async def test_an_accept_that_comes_too_late_is_refused_with_the_reason(script, project):
    async with editor_of(script, "--answer-timeout", "1") as agent:
        released = await ask_without_an_answer(agent, project, "edit it")
        await agent.prompt("/reject new.txt")
        agent.editor.released = None
        agent.editor.choose = lambda call, options: None
        await agent.prompt("again")
        agent.editor.choose = lambda call, options: options[0].option_id
        released.set()
        await agent.editor.wait_for(lambda: agent.editor.text().count("your answer came late.") == 2)
        assert "a.txt: your answer came late. It has changed since it was shown" in agent.editor.text()
        assert "new.txt: your answer came late. No longer pending" in agent.editor.text()
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert not (project / "new.txt").exists()


async def test_leave_that_comes_too_late_lets_nothing_run_and_is_told(script, project):
    async with editor_of(script, "--answer-timeout", "1", "--trust") as agent:
        released = await ask_without_an_answer(agent, project, "run it")
        released.set()
        await agent.editor.wait_for(lambda: "came too late" in agent.editor.text())
        assert "it had no effect." in agent.editor.text()


async def test_accept_and_reject_are_offered_and_answer(script, project):
    async with editor_of(script, "--review", "later") as agent:
        await agent.open(project)
        await agent.editor.wait_for(lambda: bool(agent.editor.of("available_commands_update")))
        offered = agent.editor.of("available_commands_update")[-1].available_commands
        assert {"review", "accept", "reject"} <= {command.name for command in offered}
        await agent.prompt("/accept")
        assert agent.editor.text().endswith("Nothing pending review.")
        await agent.prompt("edit it")
        assert await agent.prompt("/accept nothing.txt") == "end_turn"
        assert "nothing is pending for nothing.txt" in agent.editor.text()
        assert await agent.prompt("/reject @new.txt") == "end_turn"
        assert "Rejected: new.txt." in agent.editor.text()
        assert await agent.prompt("/accept") == "end_turn"
        assert "Accepted: a.txt." in agent.editor.text()
        assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"


@pytest.mark.parametrize("speaks", [False, True])
async def test_mode_and_review_survive_a_session_that_is_loaded_again(script, project, speaks):
    async with editor_of(script) as agent:
        await agent.open(project)
        await agent.peer.set_session_mode(session_id=agent.session, mode_id="plan")
        await agent.peer.set_config_option(session_id=agent.session, config_id="review", value="later")
        if speaks:
            await agent.prompt("hello")
        session = agent.session
    async with editor_of(script) as agent:
        loaded = await agent.peer.load_session(cwd=str(project), session_id=session, mcp_servers=[])
        assert loaded.modes.current_mode_id == "plan"
        options = options_of(loaded)
        assert (options["mode"], options["review"]) == ("plan", "later")


async def test_a_session_with_nothing_but_a_mode_is_kept_and_one_with_nothing_is_not(script, project):
    async with editor_of(script) as agent:
        await agent.open(project)
        empty = agent.session
        await agent.open(project)
        await agent.peer.set_config_option(session_id=agent.session, config_id="mode", value="ask")
    async with editor_of(script) as other:
        listed = (await other.peer.list_sessions(cwd=str(project))).sessions
        assert [session.session_id for session in listed] == [agent.session]
        loaded = await other.peer.resume_session(cwd=str(project), session_id=agent.session, mcp_servers=[])
        assert (loaded.modes.current_mode_id, options_of(loaded)["review"]) == ("ask", "end")
        assert empty != agent.session


async def test_accepting_everything_unasked_is_the_users_word_each_time(script, project):
    async with editor_of(script, "--auto-accept") as agent:
        await agent.open(project)
        await agent.peer.set_config_option(session_id=agent.session, config_id="review", value="auto-accept")
    async with editor_of(script) as other:
        loaded = await other.peer.load_session(cwd=str(project), session_id=agent.session, mcp_servers=[])
        assert options_of(loaded)["review"] == "end"
