"""Commits of accepted hunks with hooks, and in repositories of every state: right, or refused with the reason."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.support.agent_case import calls, says
from tests.support.commits import (
    LINES,
    accept_all,
    add_hook,
    commit,
    edited,
    git,
    make_repository,
    preview,
    writes,
)
from tests.support.open_session import session_in, submit
from tests.support.story import access
from tests.support.trust import trust


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_repository(tmp_path, monkeypatch)


async def test_a_hook_that_fails_in_the_box_leaves_the_repository_as_it_was(project):
    add_hook(project, "pre-commit", "echo 'line too long' >&2; touch ran; exit 1")
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        assert answer.hooks == ("pre-commit",)
        (failed,) = await commit(engine, session, answer)
        assert isinstance(failed, ev.CommitFailed)
        assert (failed.stage, failed.output) == ("box", "line too long")
        assert git(project, "log", "--format=%s") == "first\n"
        assert git(project, "status", "--porcelain") == " M a.txt\n"
        (failed,) = await commit(engine, session, answer, hooks="machine")
        assert isinstance(failed, ev.CommitFailed)
        assert (failed.stage, failed.output) == ("git", "line too long")
        assert (project / "ran").exists()
        (event,) = await commit(engine, session, answer, hooks="none")
        assert isinstance(event, ev.CommitMade)
    assert git(project, "log", "--format=%s") == "Do it\nfirst\n"


async def test_hooks_that_pass_in_the_box_run_where_the_users_would(project):
    add_hook(project, "pre-commit", 'echo "$GIT_INDEX_FILE" >> "$HOME/ran"; git diff --cached --name-only')
    add_hook(project, "commit-msg", 'echo "Change-Id: 1" >> "$1"')
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(event, ev.CommitMade)
        assert event.output == "a.txt"
    assert len((Path.home() / "ran").read_text().splitlines()) == 1
    assert git(project, "log", "-1", "--format=%B") == "Do it\nChange-Id: 1\n\n"


async def test_who_is_named_by_the_environment_alone_commits_past_hooks(project, monkeypatch):
    (Path.home() / ".gitconfig").unlink()
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Grace")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "grace@example.org")
    add_hook(project, "pre-commit", 'echo "$GIT_AUTHOR_NAME"')
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(event, ev.CommitMade), event
    assert git(project, "log", "-1", "--format=%an") == "Grace\n"


async def test_what_a_hook_changes_in_the_box_waits_for_the_review(project):
    add_hook(project, "pre-commit", "sed -i 's/new/NEW/' a.txt; git add a.txt")
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        (failed,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(failed, ev.CommitFailed)
        assert (failed.stage, failed.changed) == ("box", ("a.txt",))
        assert (project / "a.txt").read_text() == edited(2)
        await submit(engine, cmd.HunkResolve(session=session, path="a.txt", verdict="accept"))
        (event,) = await commit(engine, session, await preview(engine, session))
        assert isinstance(event, ev.CommitMade)
    assert git(project, "show", "HEAD:a.txt") == edited(2).replace("new", "NEW")
    assert git(project, "status", "--porcelain") == ""


async def test_a_worktree_gets_the_commit_on_its_own_branch(project, tmp_path):
    add_hook(project, "pre-commit", "git rev-parse --abbrev-ref HEAD")
    tree = tmp_path / "tree"
    git(project, "worktree", "add", "-q", "-b", "side", str(tree))
    trust(tree)
    async with session_in(tree, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        assert answer.branch == "side"
        (event,) = await commit(engine, session, answer)
        assert isinstance(event, ev.CommitMade), event
        assert (event.branch, event.output) == ("side", "side")
    assert git(project, "log", "--format=%s", "side") == "Do it\nfirst\n"
    assert git(project, "log", "--format=%s", "main") == "first\n"
    assert git(tree, "status", "--porcelain") == ""


async def test_a_project_within_a_repository_commits_its_part(project):
    part = project / "app"
    part.mkdir()
    (part / "b.txt").write_text(LINES)
    git(project, "add", ".")
    git(project, "commit", "-qm", "app")
    add_hook(project, "pre-commit", "git diff --cached --name-only")
    trust(part)
    async with session_in(part, access([writes("b.txt", edited(2)), says("Done.")])) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(event, ev.CommitMade), event
        assert event.output == "app/b.txt"
    assert git(project, "show", "HEAD:app/b.txt") == edited(2)
    assert git(project, "status", "--porcelain") == ""


async def test_a_detached_head_moves_and_no_branch_does(project):
    git(project, "checkout", "-q", "--detach")
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        assert answer.branch == ""
        (event,) = await commit(engine, session, answer)
        assert isinstance(event, ev.CommitMade)
        assert event.branch == ""
    assert git(project, "log", "--format=%s", "HEAD") == "Do it\nfirst\n"
    assert git(project, "log", "--format=%s", "main") == "first\n"


async def test_the_first_commit_of_a_repository(tmp_path, project):
    root = tmp_path / "fresh"
    root.mkdir()
    git(root, "init", "-q", "-b", "trunk")
    (root / "own.txt").write_text("mine\n")
    trust(root)
    async with session_in(root, access([writes("a.txt", LINES), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        assert (answer.branch, answer.head) == ("trunk", "")
        (event,) = await commit(engine, session, answer)
        assert isinstance(event, ev.CommitMade)
    assert git(root, "ls-tree", "--name-only", "HEAD") == "a.txt\n"
    assert git(root, "status", "--porcelain") == "?? own.txt\n"


async def test_in_the_middle_of_a_rebase_or_merge_it_is_refused_with_the_reason(project):
    git(project, "checkout", "-q", "-b", "side")
    (project / "own.txt").write_text("side\n")
    git(project, "commit", "-qam", "side")
    git(project, "checkout", "-q", "main")
    (project / "own.txt").write_text("main\n")
    git(project, "commit", "-qam", "main")
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        git(project, "stash", "-q")
        for operation, words in (("rebase", "a rebase"), ("merge", "a merge"), ("cherry-pick", "a cherry-pick")):
            git(project, operation, "side", check=False)
            refused = await preview(engine, session)
            assert refused.refused == f"the repository is in the middle of {words}."
            (failed,) = await commit(engine, session, answer)
            assert isinstance(failed, ev.CommitFailed)
            git(project, operation, "--abort")
        git(project, "stash", "pop", "-q")
        assert (await preview(engine, session)).refused == ""
    assert git(project, "log", "-1", "--format=%s") == "main\n"


async def test_what_git_stores_by_a_filter_is_left_out_with_the_reason(project):
    (project / ".gitattributes").write_text("*.bin filter=lfs\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "attributes")
    models = access(
        [calls(*(("write", {"file_path": name, "contents": "x\n"}) for name in ("x.bin", "y.txt"))), says("Done.")]
    )
    async with session_in(project, models) as (engine, session):
        answer = await accept_all(engine, session)
        (left,) = answer.left_out
        assert left.path == "x.bin"
        assert left.problem.startswith("git stores it with a filter")
        assert [file.path for file in answer.groups[0].files] == ["y.txt"]


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen is installed here")
async def test_a_commit_is_signed_as_the_user_has_it(project, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)  # noqa: ASYNC221
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", f"{key}.pub"), ("commit.gpgsign", "true")):
        git(project, "config", name, value)
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(event, ev.CommitMade), event
    assert "-----BEGIN SSH SIGNATURE-----" in git(project, "cat-file", "commit", "HEAD")
