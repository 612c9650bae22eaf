"""What is secret in a file that is kept from commands stays out of what they print, wherever they have it from."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import ToolMessage
from tests.support.agent_case import calls, says
from tests.support.boxes import command
from tests.support.open_session import run_turn, session_in
from tests.support.story import access


def committed(project: Path, path: str) -> None:
    git = ("git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "-f", path), ("commit", "-qm", "x")):
        subprocess.run([*git, *words], check=True)


async def test_n16_k5_a_committed_secret_that_is_withheld_is_taken_out_of_what_git_prints(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / ".env").write_text("TOKEN=hunter2hunter2\nDEBUG=true\n")
    committed(project, ".env")
    (project / ".gitignore").write_text(".env\n")
    look = command("git show HEAD:.env; cat .env; seq 20000; git show HEAD:.env")
    engine = Engine(project, options=EngineOptions(watch=False), models=access([look, says("ok")]))
    session = (await engine.submit(cmd.SessionOpen())).session
    await engine.submit(cmd.TurnSubmit(session=session, text="go"))
    async with contextlib.aclosing(engine.events(session)) as stream:
        async for envelope in stream:
            assert "hunter2hunter2" not in str(envelope)
            if isinstance(envelope.event, ev.TurnFinished):
                break
    (result,) = (message.content for message in engine.state(session).messages if isinstance(message, ToolMessage))
    session_path = engine._find_session(session).directory.path
    await engine.close()
    assert result.count("TOKEN=[redacted]") == 2
    assert "DEBUG=true" in result
    assert "removed from its output" in result
    assert not any(b"hunter2hunter2" in path.read_bytes() for path in session_path.rglob("*") if path.is_file())


CODE = """
print("TOKEN=" + "hunter2" + "hunter2")
print(run_terminal_cmd("git show HEAD:.env")["output"])
"""


async def test_n16_a_program_prints_no_secret_either(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / ".env").write_text("TOKEN=hunter2hunter2\n")
    committed(project, ".env")
    (project / ".gitignore").write_text(".env\n")
    steps = [calls(("call_tool", {"name": "run_code", "arguments": {"code": CODE}})), says("ok")]
    async with session_in(project, access(steps)) as (engine, session):
        events = await run_turn(engine, session)
        [result] = [message.content for message in engine.state(session).messages if isinstance(message, ToolMessage)]
    assert result.count("TOKEN=[redacted]") == 2
    assert "removed from its output" in result
    assert "hunter2hunter2" not in str(events)
