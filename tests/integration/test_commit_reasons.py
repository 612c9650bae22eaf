"""What a commit leaves out, it leaves out with the true reason, and the rest is committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.permissions.trust import TrustStore
from core.protocol import events as ev
from tests.support.agent_case import says
from tests.support.commits import LINES, accept_all, commit, edited, git, make_repository, writes
from tests.support.open_session import session_in
from tests.support.story import access

SKIPPED = "skipped by git: it is outside the sparse checkout, or marked skip-worktree"
CRLF = {
    "auto": ("* text=auto", ""),
    "text": ("*.txt text", ""),
    "input": ("", "input"),
    "autocrlf": ("", "true"),
    "eol": ("*.txt text eol=crlf", ""),
}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_repository(tmp_path, monkeypatch)


async def commit_all(project: Path, *paths: str) -> tuple[ev.AnyEvent, dict[str, str]]:
    """Have lines of these files changed and everything committed; return how that ended and what was left out."""
    calls = [step for path in paths for step in [writes(path, edited(2))]]
    async with session_in(project, access([*calls, says("Done.")])) as (engine, session):
        preview = await accept_all(engine, session)
        (end,) = await commit(engine, session, preview)
        return end, {file.path: file.problem for file in preview.left_out}


@pytest.mark.parametrize(("attributes", "setting"), CRLF.values(), ids=CRLF)
async def test_crlf_on_the_disk_and_lf_in_git_is_no_edit_of_the_users(project, attributes, setting):
    (project / ".gitattributes").write_text(attributes + "\n")
    if setting:
        git(project, "config", "core.autocrlf", setting)
    (project / "a.txt").write_bytes(LINES.replace("\n", "\r\n").encode())
    git(project, "add", ".")
    git(project, "commit", "-qm", "attributes")
    assert git(project, "status", "--porcelain") == ""
    end, left = await commit_all(project, "a.txt")
    assert isinstance(end, ev.CommitMade), end
    assert left == {}
    assert git(project, "show", "--numstat", "--format=").split() == ["1", "1", "a.txt"]
    assert git(project, "status", "--porcelain") == ""
    assert b"\r\n" in (project / "a.txt").read_bytes()


async def test_crlf_that_git_has_stays_under_text_auto(project):
    (project / "a.txt").write_bytes(LINES.replace("\n", "\r\n").encode())
    git(project, "add", ".")
    git(project, "commit", "-qm", "crlf")
    (project / ".gitattributes").write_text("* text=auto\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "attributes")
    assert git(project, "status", "--porcelain") == ""
    end, _ = await commit_all(project, "a.txt")
    assert isinstance(end, ev.CommitMade), end
    assert git(project, "show", "--numstat", "--format=").split() == ["1", "1", "a.txt"]


async def test_a_file_of_a_submodule_is_committed_there(project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "in.txt").write_text(LINES)
    git(other, "add", ".")
    git(other, "commit", "-qm", "other")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    git(project, "commit", "-qam", "sub")
    end, left = await commit_all(project, "sub/in.txt", "sub/new.txt", "a.txt")
    assert isinstance(end, ev.CommitMade), end
    reason = "it belongs to the submodule sub: commit it there"
    assert left == {"sub/in.txt": reason, "sub/new.txt": reason}
    assert git(project, "ls-files", "--stage", "sub").startswith("160000 ")
    assert git(project, "show", "--name-only", "--format=").split() == ["a.txt"]


async def test_a_file_of_another_repository_is_committed_there(project):
    (project / "lib").mkdir()
    git(project / "lib", "init", "-q")
    end, left = await commit_all(project, "lib/new.txt", "a.txt")
    assert isinstance(end, ev.CommitMade), end
    assert left == {"lib/new.txt": "it belongs to a separate repository, lib: commit it there"}


async def test_what_a_sparse_checkout_leaves_out_is_no_new_file(project):
    (project / "far").mkdir()
    (project / "far/b.txt").write_text(LINES)
    git(project, "add", ".")
    git(project, "commit", "-qm", "far")
    git(project, "sparse-checkout", "set", "near")
    end, left = await commit_all(project, "far/b.txt", "a.txt")
    assert isinstance(end, ev.CommitMade), end
    assert left == {"far/b.txt": SKIPPED}


async def test_what_git_is_told_to_skip_is_named_so(project):
    git(project, "update-index", "--skip-worktree", "a.txt")
    end, left = await commit_all(project, "a.txt", "new.txt")
    assert isinstance(end, ev.CommitMade), end
    assert left == {"a.txt": SKIPPED}


@pytest.mark.parametrize("first", [True, False], ids=["committed yet", "untracked"])
async def test_a_file_that_was_never_committed_is_named_so(project, first):
    (project / "draft.txt").write_text(LINES)
    if first:
        git(project, "update-ref", "-d", "HEAD")
        git(project, "rm", "-rq", "--cached", ".")
    end, left = await commit_all(project, "draft.txt", "new.txt")
    assert isinstance(end, ev.CommitMade), end
    assert left == {"draft.txt": "you have not committed it yet, and its hunks are mixed with your own text"}
    assert git(project, "show", "--name-only", "--format=").split() == ["new.txt"]


async def test_a_new_file_that_git_ignores_is_not_committed(project):
    (project / ".gitignore").write_text("out/\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "ignore")
    end, left = await commit_all(project, "out/b.txt", "a.txt")
    assert isinstance(end, ev.CommitMade), end
    assert left == {"out/b.txt": "ignored by git: git add --force adds it anyway"}


async def test_a_new_file_that_git_cannot_convert_is_named_and_the_rest_committed(project):
    (project / ".gitattributes").write_text("*.u16 working-tree-encoding=NOPE-9\n*.u8 working-tree-encoding=utf-8\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "attributes")
    end, left = await commit_all(project, "b.u16", "b.u8", "a.txt")
    assert isinstance(end, ev.CommitMade), end
    assert left == {"b.u16": "git can't convert it from NOPE-9, the encoding in .gitattributes"}
    assert git(project, "show", "--name-only", "--format=").split() == ["a.txt", "b.u8"]


@pytest.mark.parametrize("setting", ["core.autocrlf", "branch.main.remote", "user.email", "pull.rebase"])
async def test_a_repository_that_names_no_program_needs_no_trust_for_a_commit(project, setting):
    git(project, "config", setting, "input")
    TrustStore(project).revoke()
    end, _ = await commit_all(project, "a.txt")
    assert isinstance(end, ev.CommitMade), end


async def test_the_hooks_of_a_directory_in_the_project_need_trust(project, tmp_path):
    from core.git.executed_programs import list_programs

    assert not list_programs(project)
    (tmp_path / "home" / ".gitconfig").write_text("[core]\n\thooksPath = .husky\n")
    (project / ".husky").mkdir()
    assert not list_programs(project)
    (project / ".husky" / "pre-commit").write_text("#!/bin/sh\n")
    assert list_programs(project) == ("the hook pre-commit",)
    (tmp_path / "home" / ".gitconfig").write_text(f"[core]\n\thooksPath = {tmp_path}/mine\n")
    assert not list_programs(project)


@pytest.mark.parametrize(
    "setting", ["core.fsmonitor", "include.path", "filter.x.clean", "gpg.program", "core.sshCommand", "some.new"]
)
def test_any_setting_that_nobody_knows_to_be_data_needs_trust(project, setting):
    from core.git.executed_programs import list_programs

    git(project, "config", setting, "./x")
    assert list_programs(project) == (setting.lower(),)


@pytest.mark.parametrize("value", ["true", "false", "1"])
def test_the_file_watcher_of_git_itself_is_no_program_of_the_repository(project, value):
    from core.git.executed_programs import list_programs

    git(project, "config", "core.fsmonitor", value)
    assert list_programs(project) == ()
