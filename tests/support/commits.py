"""Repositories, accepted hunks and the commits that are made of them."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.review import CommitTopic
from tests.support.agent_case import calls
from tests.support.open_session import run_turn, submit
from tests.support.trust import trust

LINES = "".join(f"line {number}\n" for number in range(30))
NAMED = ("-c", "user.email=me@example.org", "-c", "user.name=Me")


def git(root: Path, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(["git", "-C", str(root), *NAMED, *arguments], check=check, capture_output=True, text=True)
    return done.stdout


def make_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, trusted, and the user's own name and address."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    monkeypatch.setenv("HOME", str(home))
    for name in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"):
        monkeypatch.delenv(f"GIT_{name}", raising=False)
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text(LINES)
    (root / "own.txt").write_text("mine\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    trust(root)
    return root


def edited(*numbers: int) -> str:
    return "".join(f"line {number}{' new' if number in numbers else ''}\n" for number in range(30))


def writes(path: str, text: str) -> list[object]:
    return calls(("read_file", {"target_file": path}), ("write", {"file_path": path, "contents": text}))


async def accept_hunks(engine: Engine, session: str, path: str, *numbers: int) -> None:
    hunks = engine.state(session).changes[path].hunks
    chosen = tuple(hunks[number].id for number in numbers)
    await submit(engine, cmd.HunkResolve(session=session, path=path, hunks=chosen, verdict="accept"))


async def preview(
    engine: Engine, session: str, split: q.CommitSplit = "none", topics: tuple[CommitTopic, ...] = ()
) -> q.CommitAnswer:
    answer = await engine.query(q.CommitQuery(session=session, split=split, topics=topics))
    assert isinstance(answer, q.CommitAnswer)
    return answer


async def commit(
    engine: Engine, session: str, answer: q.CommitAnswer, *, hooks: cmd.HookPlace = "box", message: str = ""
) -> list[ev.AnyEvent]:
    planned = tuple(cmd.PlannedCommit(message=message or group.message, edits=group.edits) for group in answer.groups)
    before, ends = engine.state(session).seq, list[ev.AnyEvent]()
    await submit(engine, cmd.CommitMake(session=session, head=answer.head, commits=planned, hooks=hooks))
    async with contextlib.aclosing(engine.events(session, after=before)) as stream:
        async for envelope in stream:
            if isinstance(envelope.event, ev.CommitMade | ev.CommitFailed):
                ends.append(envelope.event)
                if len(ends) == len(planned) or isinstance(envelope.event, ev.CommitFailed):
                    return ends
    raise AssertionError("the stream ended without a commit")


def add_hook(project: Path, name: str, script: str) -> None:
    place = project / ".git" / "hooks" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)


async def accept_all(engine: Engine, session: str, prompt: str = "Do it.") -> q.CommitAnswer:
    await run_turn(engine, session, prompt)
    await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
    return await preview(engine, session)
