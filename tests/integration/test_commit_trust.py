"""Commits and pull requests of a project that nobody trusts yet: nothing of it runs before a yes, by any door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.exits import ExitCode
from core.permissions.trust import TrustStore
from core.protocol import commands as cmd
from tests.integration.test_changes_cli import SCRIPT, call
from tests.integration.test_pull_request import offer_gh
from tests.support.commits import accept_all, edited, git, make_repository, writes
from tests.support.open_session import session_in
from tests.support.program import ROOT
from tests.support.story import access
from tests.support.terminals import all_of

HOOKS = ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "reference-transaction", "pre-push")
SETTINGS = {
    "core.fsmonitor": "{}; false",
    "core.sshCommand": "{}; false",
    "gpg.program": "{}",
    "core.editor": "{}",
    "filter.all.clean": "{}; cat",
    "credential.helper": "!{}",
}


@pytest.fixture
def planted(tmp_path, monkeypatch) -> tuple[Path, Path]:
    """A repository with accepted changes that is not trusted, and the directory in which whatever it runs leaves its
    name."""
    root, ran = make_repository(tmp_path, monkeypatch), tmp_path / "ran"
    ran.mkdir()
    (root / ".git" / "info" / "exclude").write_text("s.yaml\n")
    (root / "s.yaml").write_text(SCRIPT.format(contents=json.dumps(edited(2))))
    assert call(root, "-p", "Renew the lines.", "--model", "scripted/s.yaml").returncode == 0
    assert call(root, "review", "--accept", "a.txt").returncode == 0
    git(root, "remote", "add", "origin", "ssh://git@example.test/there.git")
    for name in HOOKS:
        (root / ".git" / "hooks" / name).write_text(f"#!/bin/sh\ntouch {ran}/{name}; true\n")
        (root / ".git" / "hooks" / name).chmod(0o755)
    for number, (key, value) in enumerate(SETTINGS.items()):
        program = tmp_path / f"program{number}"
        program.write_text(f"#!/bin/sh\ntouch {ran}/{key}\n")
        program.chmod(0o755)
        git(root, "config", key, value.format(program))
    git(root, "config", "commit.gpgSign", "true")
    (root / ".git" / "info" / "attributes").write_text("* filter=all\n")
    for left in ran.iterdir():
        left.unlink()
    TrustStore(root).revoke()
    return root, ran


def allow_commits(root: Path, ran: Path) -> None:
    """Take away what would fail a commit, and the traces of it."""
    (root / ".git" / "info" / "attributes").unlink()
    git(root, "config", "commit.gpgSign", "false")
    for left in ran.iterdir():
        left.unlink()


def test_n33_without_a_terminal_an_untrusted_project_is_refused_with_how_to_say_yes(planted):
    root, ran = planted
    for words in ("commit", "commit --hooks none", "commit --hooks machine", "commit --json", "commit -m x", "pr"):
        refused = call(root, *words.split())
        assert refused.returncode == ExitCode.REFUSED
        assert b"not trusted" in refused.stderr
        assert b"--trust" in refused.stderr
    for words in ("commit --dry-run", "pr --dry-run", "diff --accepted"):
        assert b"trust" not in call(root, *words.split()).stderr
    assert list(ran.iterdir()) == []
    assert not TrustStore(root).has_trust()


def test_n33_trust_for_one_run_is_trust_for_one_run(planted):
    root, ran = planted
    allow_commits(root, ran)
    git(root, "checkout", "-q", "-b", "renewed")
    assert call(root, "commit", "--trust").returncode == ExitCode.DONE
    assert (ran / "pre-commit").exists()
    call(root, "pr", "--trust")
    assert (ran / "core.sshCommand").exists()
    assert not TrustStore(root).has_trust()
    assert call(root, "pr").returncode == ExitCode.REFUSED


@pytest.mark.parametrize(("answer", "has_trust"), [(b"y\n", True), (b"\n", False), (b"\x04", False)])
def test_n33_at_a_terminal_the_user_is_asked_first(planted, answer, has_trust):
    root, ran = planted
    allow_commits(root, ran)
    ours, theirs = os.openpty()
    command = [sys.executable, "-I", str(ROOT / "agent_tui.py"), "commit"]
    process = subprocess.Popen(command, cwd=root, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, answer)
    output = all_of(ours)
    assert process.wait(60) == (ExitCode.DONE if has_trust else ExitCode.REFUSED), output
    assert b"is not trusted yet" in output
    assert b"Trust this project? [y/N]" in output
    assert TrustStore(root).has_trust() is has_trust
    assert (ran / "post-commit").exists() is has_trust


async def test_n33_every_other_door_comes_by_the_same_refusal(tmp_path, monkeypatch):
    root = make_repository(tmp_path, monkeypatch)
    git(root, "config", "core.fsmonitor", "./watch")
    TrustStore(root).revoke()
    offer_gh(monkeypatch, tmp_path)
    git(root, "remote", "add", "origin", "git@github.com:me/project.git")
    async with session_in(root, access([*writes("a.txt", edited(2))])) as (engine, session):
        answer = await accept_all(engine, session)
        planned = tuple(cmd.PlannedCommit(message="m", edits=group.edits) for group in answer.groups)
        push = cmd.PullRequestOpen(session=session, branch="b", base="main", remote="origin", title="t", body="")
        review = cmd.TurnSubmit(session=session, text="/review #12")  # `gh` asks git about the repository
        for command in (cmd.CommitMake(session=session, head=answer.head, commits=planned), push, review):
            reply = await engine.submit(command)
            assert isinstance(reply, cmd.Reject)
            assert reply.code == "project_untrusted"
            assert "--trust" in reply.hint
    assert git(root, "log", "--format=%s") == "first\n"
    assert not (tmp_path / "home" / "gh-words").exists()
