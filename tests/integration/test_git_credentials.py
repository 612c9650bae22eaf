"""A token in the files of git reaches neither the model nor the log, whichever way it is asked for."""

from __future__ import annotations

import base64
import contextlib
import subprocess
from pathlib import Path

import pytest

from core import secrets
from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import ToolMessage
from tests.support.agent_case import calls, says
from tests.support.boxes import command
from tests.support.story import access

TOKEN = "ghp_Q9w8E7r6T5y4U3i2"
HEADER = base64.b64encode(b"x-access-token:hdr_Z1x2C3v4B5n6").decode()
SUBMODULE = "glpat-M1n2B3v4C5x6"
LOGGED = "log_K1j2H3g4F5d6"
USERS = "usr_P0o9I8u7Y6t5"
VALUES = (TOKEN, HEADER, "hdr_Z1x2C3v4B5n6", SUBMODULE, LOGGED, USERS)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """What is known of secrets is forgotten at the end of a test."""
    monkeypatch.setattr(secrets, "_known", set(secrets._known))
    monkeypatch.setattr(secrets, "_credentials", set())
    secrets.list_masked_values.cache_clear()
    yield
    secrets.list_masked_values.cache_clear()


@pytest.fixture
def project(tmp_path) -> Path:
    top = tmp_path / "project"
    top.mkdir()
    git = ("git", "-C", str(top), "-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run([*git, "init", "-q"], check=True)
    (top / "a.txt").write_text("a\n")
    (top / "notes.txt").write_text(f"pushed with {USERS}\n")
    for words in (
        ("add", "a.txt"),
        ("commit", "-qm", "x"),
        ("remote", "add", "origin", f"https://me:{TOKEN}@127.0.0.1:9/a.git"),
        ("config", "http.extraheader", f"AUTHORIZATION: basic {HEADER}"),
    ):
        subprocess.run([*git, *words], check=True)
    module = top / ".git" / "modules" / "libs" / "one"
    module.mkdir(parents=True)
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    (module / "config").write_text(f'[remote "origin"]\n\turl = https://oauth2:{SUBMODULE}@127.0.0.1:9/b.git\n')
    with (top / ".git" / "logs" / "HEAD").open("a") as log:
        log.write(f"{'0' * 40} {'1' * 40} a <a@b.c> 1 +0000\tclone: from https://me:{LOGGED}@127.0.0.1:9/c.git\n")
    Path("~/.git-credentials").expanduser().write_text(f"https://me:{USERS}@127.0.0.1:9\n")
    yield top
    Path("~/.git-credentials").expanduser().unlink()


LOOK = (
    "git remote -v; cat .git/config; git config --list; cat .git/modules/libs/one/config; cat .git/logs/HEAD;"
    " git ls-remote origin; cat notes.txt"
)


async def test_n38_no_way_to_look_at_git_shows_a_token_and_git_still_works(project):
    steps = [
        command(LOOK),
        calls(("read_file", {"target_file": ".git/config"}), ("grep", {"pattern": "pushed with"})),
        says("ok"),
    ]
    engine = Engine(project, options=EngineOptions(watch=False), models=access(steps))
    session = (await engine.submit(cmd.SessionOpen())).session
    await engine.submit(cmd.TurnSubmit(session=session, text="go"))
    async with contextlib.aclosing(engine.events(session)) as stream:
        async for envelope in stream:
            if isinstance(envelope.event, ev.ApprovalRequested):
                answer = cmd.ApprovalAnswer(session=session, id=envelope.event.id, decision="allow_once")
                await engine.submit(answer)
            assert hidden_in(str(envelope)), envelope
            if isinstance(envelope.event, ev.TurnFinished):
                break
    contents = [message.content for message in engine.state(session).messages if isinstance(message, ToolMessage)]
    answer = await engine.query(q.PullRequestQuery(session=session))
    directory = engine._find_session(session).directory.path
    await engine.close()
    assert "127.0.0.1:9/a.git (fetch)" in contents[0]
    assert "https://oauth2:[redacted]@127.0.0.1:9/b.git" in contents[0]
    assert all(hidden_in(content) for content in contents)
    assert hidden_in(str(answer))
    logs = b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())
    assert hidden_in(logs.decode("utf-8", "replace"))


def hidden_in(text: str) -> bool:
    return not any(value in text for value in VALUES)
