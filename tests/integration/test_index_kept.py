"""The index of a project that two sessions have open, each a process with a watcher of its own."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from core.arguments import ScreenArguments
from core.index.database import FILE_NAME
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.sessions.store import SessionStore
from core.transports.stdio_client import connect
from tests.support.trust import trust
from tests.unit.index.index_content import build, read_content

PROGRAM = (sys.executable, str(Path(__file__).parents[2] / "agent_tui.py"))
OPERATIONS = 1_000


def git(root, *words):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text("ignored/\n")
    for number in range(80):
        path = root / f"p{number % 7}" / f"m{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(write_source(random.Random(number), number))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "checkout", "-qb", "other")
    for number in range(0, 80, 3):
        (root / f"p{number % 7}" / f"m{number}.py").write_text(write_source(random.Random(-number - 1), number))
    git(root, "commit", "-qam", "second")
    git(root, "checkout", "-q", "main")
    trust(root)
    return root


def write_source(dice, number):
    methods = "".join(f"    def step_{dice.randrange(99)}(self):\n        return {dice.random()}\n\n" for _ in range(6))
    return f"class Work{number}:\n{methods}"


def change(root, dice):
    """Do one thing that happens to projects."""
    files = [file for file in root.rglob("*.py") if ".git" not in file.parts and not file.is_symlink()]
    path = dice.choice(files) if files else root / "only.py"
    target = (
        root / dice.choice(("p1", "p2", f"new{dice.randrange(9)}", "deep/er", "ignored")) / f"n{dice.randrange(60)}.py"
    )
    match dice.randrange(12):
        case 0 | 1 | 2 | 3:
            path.write_text(write_source(dice, dice.randrange(99)))
        case 4 | 5:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(write_source(dice, dice.randrange(99)))
        case 6:
            path.unlink(missing_ok=True)
        case 7:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        case 8:
            path.chmod(dice.choice((0, 0o600)))
        case 9:
            path.write_bytes(
                dice.choice((b"\xff\xfe no text", b"\0binary", b"x = 1\n" * 200_000, b"y='" + b"z" * 9_000))
            )
        case 10:
            shutil.rmtree(root / dice.choice(("deep", "new1", "new2")), ignore_errors=True)
        case _:
            git(root, "checkout", "-qf", dice.choice(("main", "other")))


class Watched:
    """An engine in a process of its own, with what it tells of the index."""

    def __init__(self, project, commit_event):
        self.arguments = ScreenArguments(directory=project, program=PROGRAM, model="scripted/none.yaml")
        self.told = commit_event
        self.status = None

    async def __aenter__(self):
        self.client = await connect(self.arguments)
        reply = await self.client.submit(cmd.SessionOpen())
        self.listening = asyncio.create_task(self.listen(reply.session))
        return self

    async def __aexit__(self, *_):
        self.listening.cancel()
        await self.client.close()

    async def listen(self, session):
        async for envelope in self.client.events(session):
            if isinstance(envelope.event, ev.IndexProgressed):
                self.status = envelope.event.status
            self.told.set()

    async def ready(self):
        while self.status is None or self.status.state != "ready":
            self.told.clear()
            await self.told.wait()


async def test_after_a_thousand_changes_the_index_equals_a_fresh_one(project, tmp_path):
    database = SessionStore(project).path / FILE_NAME
    dice = random.Random(7)
    commit_event = asyncio.Event()  # by either engine: only the one that builds tells of every commit
    async with asyncio.timeout(170), Watched(project, commit_event) as first, Watched(project, commit_event) as second:
        await first.ready()
        await second.ready()
        for done in range(OPERATIONS):
            with suppress(OSError):
                change(project, dice)
            if done % 40 == 0:  # the engines go on meanwhile
                await asyncio.sleep(0)
        number, known = 0, {"last0.py"}
        while True:
            commit_event.clear()
            if f"last{number}.py" in known:  # nothing is under way that will be told: one file more
                number += 1
                (project / f"last{number}.py").write_text("def done():\n    pass\n")
            fresh = await asyncio.to_thread(build, project, tmp_path / os.urandom(4).hex() / FILE_NAME)
            stored_content = await asyncio.to_thread(read_content, database)
            if stored_content == fresh:
                break
            known = {path for path, *_ in stored_content["files"]}
            await commit_event.wait()
    assert len(stored_content["files"]) > 50
    assert stored_content == fresh
