"""Commits in repositories that large projects have: other forms of the index, and a git that is at work meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from core.protocol import events as ev
from tests.support.agent_case import says
from tests.support.commits import LINES, accept_all, add_hook, commit, edited, git, make_repository, writes
from tests.support.open_session import session_in
from tests.support.story import access
from tests.support.trust import trust

FORMS = {
    "split index": (("config", "core.splitIndex", "true"), ("update-index", "--split-index")),
    "untracked cache": (("config", "core.untrackedCache", "true"), ("update-index", "--untracked-cache")),
    "version 4": (("update-index", "--index-version", "4"),),
    "many files": (("config", "feature.manyFiles", "true"),),
    "sparse": (("sparse-checkout", "set", "--cone", "src"),),
    "sparse index": (("sparse-checkout", "set", "--cone", "--sparse-index", "src"),),
    "skipped file": (("update-index", "--skip-worktree", "docs/other.txt"),),
}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_repository(tmp_path, monkeypatch)


def add_tree(project: Path) -> None:
    for name in ("src/b.txt", "docs/other.txt", "lib/deep/c.txt"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(LINES)
    git(project, "add", ".")
    git(project, "commit", "-qm", "tree")


@pytest.mark.parametrize("commands", FORMS.values(), ids=FORMS)
async def test_an_index_of_any_form_follows_the_commit(project: Path, commands: Sequence[Sequence[str]]):
    add_tree(project)
    for command in commands:
        git(project, *command)
    (project / "src/own.txt").write_text("mine\n")
    git(project, "add", "src/own.txt")
    before = git(project, "ls-files", "-t")
    async with session_in(project, access([writes("src/b.txt", edited(2)), says("Done.")])) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(event, ev.CommitMade), event
    assert git(project, "show", "--name-status", "--format=", "HEAD") == "M\tsrc/b.txt\n"
    assert git(project, "status", "--porcelain") == "A  src/own.txt\n"
    assert git(project, "ls-files", "-t") == before
    assert git(project, "fsck", "--no-dangling") == ""


async def test_an_index_in_two_parts_follows_a_commit_of_most_files(project: Path):
    git(project, "config", "core.splitIndex", "true")
    git(project, "update-index", "--split-index")
    steps = [writes("notes.txt", "one\n"), writes("more.txt", "two\n"), says("Done.")]
    async with session_in(project, access(steps)) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(event, ev.CommitMade), event
    assert git(project, "show", "--name-status", "--format=", "HEAD") == "A\tmore.txt\nA\tnotes.txt\n"
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "fsck", "--no-dangling") == ""


async def test_a_repository_of_sha256_objects(tmp_path, project):
    root = tmp_path / "long"
    root.mkdir()
    git(root, "init", "-q", "--object-format=sha256")
    (root / "a.txt").write_text(LINES)
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    trust(root)
    async with session_in(root, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(event, ev.CommitMade), event
    assert git(root, "status", "--porcelain") == ""


async def test_the_work_tree_of_a_submodule(tmp_path, project):
    whole = tmp_path / "whole"
    whole.mkdir()
    git(whole, "init", "-q")
    git(whole, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(project), "part")
    git(whole, "commit", "-qm", "with a part")
    part = whole / "part"
    trust(part)
    async with session_in(part, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(event, ev.CommitMade), event
    assert git(part, "status", "--porcelain") == ""
    assert git(whole, "status", "--porcelain") == " M part\n"


async def test_while_another_git_holds_the_index_nothing_is_committed(project):
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        (project / ".git/index.lock").touch()
        (failed,) = await commit(engine, session, answer)
        assert isinstance(failed, ev.CommitFailed), failed
        assert "index.lock" in failed.message + failed.hint
        assert git(project, "log", "--format=%s") == "first\n"
        (project / ".git/index.lock").unlink()
        (event,) = await commit(engine, session, answer)
        assert isinstance(event, ev.CommitMade), event


async def test_an_index_that_is_held_when_the_commit_is_made_is_told_of(project):
    lock = '"$(git rev-parse --git-dir)/index.lock"'
    add_hook(project, "post-commit", f"rm {lock}; touch {lock}")
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session), hooks="machine")
        assert isinstance(event, ev.CommitMade), event
        assert "index.lock" in event.problem
        assert event.problem.endswith("git reset -q -- a.txt")
    (project / ".git/index.lock").unlink()
    git(project, *event.problem.partition("it: git ")[2].split())
    assert git(project, "status", "--porcelain") == ""
