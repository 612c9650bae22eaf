"""Pull requests: pushed to a real remote, by the user's command alone, with the evidence of the session."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from core.engine import Engine
from core.engine.commits.pull_request import find_program, hide_login
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from tests.support.agent_case import DirectedModel, says
from tests.support.commits import accept_all, commit, edited, git, make_repository, writes
from tests.support.default_model import access_to
from tests.support.open_session import read_until, session_in, submit
from tests.support.story import access

GH = """#!/bin/sh
printf '%s\\n' "$@" > "$HOME/gh-words"
while [ $# -gt 0 ]; do [ "$1" = --body-file ] && cat "$2" > "$HOME/gh-body"; shift; done
echo https://github.com/me/project/pull/7
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    root = make_repository(tmp_path, monkeypatch)
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(tmp_path / "github.git"))
    git(root, "remote", "add", "origin", str(tmp_path / "github.git"))
    git(root, "push", "-q", "-u", "origin", "main")
    git(root, "checkout", "-q", "-b", "renewed")
    return root


async def preview_request(engine: Engine, session: str) -> q.PullRequestAnswer:
    answer = await engine.query(q.PullRequestQuery(session=session))
    assert isinstance(answer, q.PullRequestAnswer)
    return answer


async def open_request(
    engine: Engine, session: str, answer: q.PullRequestAnswer
) -> ev.PullRequestOpened | ev.CommitFailed:
    before = engine.state(session).seq
    await submit(
        engine,
        cmd.PullRequestOpen(
            session=session,
            branch=answer.branch,
            base=answer.base,
            remote=answer.remote,
            title=answer.title,
            body=answer.body,
        ),
    )
    async with contextlib.aclosing(engine.events(session, after=before)) as stream:
        async for envelope in stream:
            if isinstance(envelope.event, ev.PullRequestOpened | ev.CommitFailed):
                return envelope.event
    raise AssertionError("the stream ended")


def offer_gh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str = GH) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gh").write_text(script)
    (programs / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


async def test_a_branch_is_pushed_and_nothing_is_before_the_command(project, tmp_path):
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        assert (await preview_request(engine, session)).refused == "main already has all commits of this branch."
        await commit(engine, session, await accept_all(engine, session, "Renew line two."))
        answer = await preview_request(engine, session)
        assert (answer.branch, answer.base, answer.remote, answer.program) == ("renewed", "main", "origin", "")
        assert (answer.title, answer.body) == ("Renew line two", "- Renew line two\n")
        assert git(tmp_path / "github.git", "branch", "--list", "renewed") == ""
        opened = await open_request(engine, session, answer)
        assert isinstance(opened, ev.PullRequestOpened), opened
    assert git(tmp_path / "github.git", "show", "renewed:a.txt") == edited(2)
    assert git(project, "rev-parse", "--abbrev-ref", "renewed@{upstream}") == "origin/renewed\n"


async def test_on_the_main_branch_another_name_is_pushed(project, tmp_path):
    git(project, "checkout", "-q", "main")
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        await commit(engine, session, await accept_all(engine, session, "Renew line two."))
        answer = await preview_request(engine, session)
        assert (answer.branch, answer.base) == ("renew-line-two", "main")
        await open_request(engine, session, answer)
    assert git(tmp_path / "github.git", "log", "-1", "--format=%s", "renew-line-two") == "Renew line two\n"
    assert git(tmp_path / "github.git", "log", "-1", "--format=%s", "main") == "first\n"
    assert git(project, "rev-parse", "--abbrev-ref", "main@{upstream}") == "origin/main\n"


async def test_gh_opens_the_request_with_title_text_and_base(project, tmp_path, monkeypatch):
    offer_gh(monkeypatch, tmp_path)
    git(project, "remote", "set-url", "origin", f"file://localhost{tmp_path}/github.git")
    monkeypatch.setattr("core.engine.commits.pull_request._PROGRAMS", {"localhost": "gh"})
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        await commit(engine, session, await accept_all(engine, session, "Renew line two."))
        answer = await preview_request(engine, session)
        assert answer.program == "gh"
        opened = await open_request(engine, session, answer)
        assert isinstance(opened, ev.PullRequestOpened), opened
        assert opened.url == "https://github.com/me/project/pull/7"
    words = (Path.home() / "gh-words").read_text().splitlines()
    assert words[:8] == ["pr", "create", "--head", "renewed", "--base", "main", "--title", "Renew line two"]
    assert (Path.home() / "gh-body").read_text() == "- Renew line two\n"


async def test_a_push_that_is_refused_says_what_git_said(project, tmp_path):
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        await commit(engine, session, await accept_all(engine, session))
        answer = await preview_request(engine, session)
        git(project, "remote", "set-url", "origin", str(tmp_path / "nowhere"))
        failed = await open_request(engine, session, answer)
        assert isinstance(failed, ev.CommitFailed)
        assert (failed.stage, failed.hint) == ("push", "Nothing was sent.")
        assert "nowhere" in failed.output


@pytest.mark.parametrize("branch", ["--force", "a b", "", "../x", "x\n"])
async def test_names_that_are_no_names_are_refused(project, branch):
    async with session_in(project, access([])) as (engine, session):
        command = cmd.PullRequestOpen(session=session, branch=branch, base="main", remote="origin", title="t", body="")
        reply = await engine.submit(command)
        assert isinstance(reply, cmd.Reject)
        assert reply.code == "name_invalid"


async def test_a_model_writes_title_and_text_from_the_evidence(project):
    (project / "Makefile").write_text("test:\n\tgrep -q new a.txt\n")
    reply = "# Renew the second line\n\nIt was old.\n\n## Evidence\n\n- passed: `make test`\n"
    model = DirectedModel([writes("a.txt", edited(2)), says("Done."), says(reply)])
    async with session_in(project, access_to(lambda _id, _settings: (model, "story"), "story/one")) as (
        engine,
        session,
    ):
        await commit(engine, session, await accept_all(engine, session, "Renew line two."))
        before = engine.state(session).seq
        await submit(engine, cmd.PullRequestDraft(session=session))
        *_, drafted = await read_until(engine, session, ev.PullRequestDrafted, after=before)
        assert isinstance(drafted, ev.PullRequestDrafted)
        assert drafted.title == "Renew the second line"
        assert drafted.body.startswith("It was old.\n\n## Evidence")
    sent = str(model.requests[-1].messages[0].content)
    assert "<asked>\nRenew line two.\n</asked>" in sent
    assert "+line 2 new" in sent


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@github.com/a/b.git", "https://github.com/a/b.git"),
        ("git@github.com:a/b.git", "git@github.com:a/b.git"),
        ("ssh://git@host:2222/a", "ssh://host:2222/a"),
        ("../b", "../b"),
    ],
)
def test_a_login_in_an_address_is_not_shown(url, shown):
    assert hide_login(url) == shown


@pytest.mark.parametrize(
    ("url", "program"),
    [
        ("git@github.com:a/b.git", "gh"),
        ("https://github.example.org/a/b", "gh"),
        ("https://notes.example.org/github.com/b", ""),
        ("/srv/github/b", ""),
    ],
)
def test_the_program_is_chosen_by_the_host(url, program, monkeypatch, tmp_path):
    offer_gh(monkeypatch, tmp_path)
    assert find_program(url) == program
