"""A status of ours says what git itself says of ordinary repositories."""

from __future__ import annotations

import os
import subprocess

import pytest

from core.agent.context.project_facts import describe_git_status
from tests.support.git_traps import Ground


@pytest.fixture
def ground(tmp_path, monkeypatch):
    new_ground = Ground(tmp_path)
    monkeypatch.setenv("HOME", str(new_ground.home))
    return new_ground


def gits_own(ground: Ground, root) -> str:
    asked = ("status", "--porcelain=v1", "--branch", "--ignore-submodules=all", "--no-renames")
    branch, *files = ground.git(*asked, at=root).splitlines()
    lines = [f"  {file}" for file in files] or ["no changes"]
    return "\n".join([f"branch: {branch.removeprefix('## ')}", *lines])


def detached(ground):
    ground.git("checkout", "-q", "--detach")
    return ground.root


def nothing_committed(ground):
    ground.git("init", "-q", "-b", "new", str(ground.place / "empty"))
    (ground.place / "empty" / "a").touch()
    return ground.place / "empty"


def linked_worktree(ground):
    ground.git("worktree", "add", "-q", "-b", "side", str(ground.place / "linked"))
    (ground.place / "linked" / "b.txt").write_text("changed\n")
    return ground.place / "linked"


def sparse(ground):
    (ground.root / "deep").mkdir()
    (ground.root / "deep" / "c.txt").write_text("c\n")
    ground.git("add", ".")
    ground.git("commit", "-qm", "deep")
    ground.git("sparse-checkout", "set", "--cone", "other")
    assert not (ground.root / "deep").exists()
    return ground.root


def sparse_in_a_linked_worktree(ground):
    sparse(ground)
    return linked_worktree(ground)


def module(ground):
    other = ground.repository(ground.place / "other", "main")
    ground.git("submodule", "add", "-q", str(other), "sub")
    (ground.root / "sub" / "a.txt").write_text("changed\n")
    return ground.root / "sub"


def above_a_module(ground):
    module(ground)
    return ground.root


def with_long_names_of_objects(ground):
    at = ground.place / "long"
    ground.git("init", "-q", "--object-format=sha256", "-b", "main", str(at))
    (at / "a").write_text("a")
    ground.git("add", ".", at=at)
    ground.git("commit", "-qm", "one", at=at)
    (at / "a").write_text("b")
    return at


def ahead_of_its_upstream(ground):
    ground.git("clone", "-q", str(ground.root), str(ground.place / "clone"))
    at = ground.place / "clone"
    ground.git("checkout", "-qb", "topic/with\"dots.and'more", "--track", "origin/trunk", at=at)
    (at / "a.txt").write_text("mine\n")
    ground.git("commit", "-qam", "mine", at=at)
    return at


def endings_of_another_system(ground):
    ground.config(("core.autocrlf", "true"))
    (ground.root / "a.txt").write_bytes(b"a\r\n")
    (ground.root / ".gitattributes").write_text("b.txt eol=crlf\n")
    (ground.root / "b.txt").write_bytes(b"b\r\n")
    return ground.root


def ignored_by_the_user(ground):
    (ground.home / "mine").write_text("*.mine\n")
    ground.git("config", "--global", "core.excludesFile", "~/mine")
    for name in ("x.mine", "x.other", "x.here"):
        (ground.root / name).touch()
    (ground.root / ".git" / "info" / "exclude").write_text("*.here\n")
    return ground.root


def ignored_where_git_looks_by_itself(ground):
    (ground.home / ".config" / "git").mkdir(parents=True)
    (ground.home / ".config" / "git" / "ignore").write_text("*.mine\n")
    (ground.root / "x.mine").touch()
    return ground.root


def split_index(ground):
    ground.git("update-index", "--split-index")
    (ground.root / "new").touch()
    ground.git("add", "new")
    return ground.root


def packed(ground):
    ground.git("tag", "v1")
    ground.git("gc", "-q")
    return ground.root


def modes_that_do_not_count(ground):
    ground.config(("core.fileMode", "false"))
    (ground.root / "b.txt").chmod(0o755)
    return ground.root


def partial_clone(ground):
    ground.config(("uploadpack.allowFilter", "true"))
    url = f"file://{ground.root}"
    ground.git("clone", "-q", "--filter=blob:none", url, str(ground.place / "partial"))
    (ground.place / "partial" / "b.txt").write_text("changed\n")
    return ground.place / "partial"


def shallow_clone(ground):
    ground.git("commit", "-qam", "two")
    ground.git("clone", "-q", "--depth=1", f"file://{ground.root}", str(ground.place / "shallow"))
    return ground.place / "shallow"


def in_conflict(ground):
    ground.git("checkout", "-q", "--", "a.txt")
    for branch, text in (("one", "1\n"), ("two", "2\n")):
        ground.git("checkout", "-q", "-b", branch, "trunk")
        (ground.root / "a.txt").write_text(text)
        ground.git("commit", "-qam", branch)
    subprocess.run(["git", "merge", "-q", "one"], cwd=ground.root, capture_output=True, check=False)
    return ground.root


ORDINARY = (
    *(detached, nothing_committed, linked_worktree, sparse, sparse_in_a_linked_worktree, module, above_a_module),
    *(with_long_names_of_objects, ahead_of_its_upstream, endings_of_another_system, ignored_by_the_user),
    *(ignored_where_git_looks_by_itself, split_index, packed, modes_that_do_not_count, partial_clone, shallow_clone),
    in_conflict,
)


@pytest.mark.parametrize("ordinary", ORDINARY, ids=lambda made: made.__name__)
def test_n2_a_status_is_what_git_says(ground, ordinary):
    root = ordinary(ground)
    status = describe_git_status(root)
    assert status.startswith("branch: ")
    assert status == gits_own(ground, root)


def test_n2_a_file_that_a_filter_of_the_user_stores_otherwise_counts_as_changed_once_it_is_touched(ground):
    ground.git("config", "--global", "filter.up.clean", "tr a-z A-Z")
    (ground.root / ".gitattributes").write_text("b.txt filter=up\n")
    os.utime(ground.root / "b.txt", (1_000_000, 1_000_000))
    ground.git("add", "--renormalize", ".")
    ground.git("commit", "-qam", "filtered")
    assert " M b.txt" not in describe_git_status(ground.root)
    later = ground.root.stat().st_mtime + 100
    os.utime(ground.root / "b.txt", (later, later))
    assert " M b.txt" in describe_git_status(ground.root)


def test_n2_what_is_no_file_where_git_looks_does_not_hold_it_up(ground):
    (ground.root / ".git" / "index").unlink()
    for name in ("index", "packed-refs", "info/exclude", "shallow"):
        (ground.root / ".git" / name).unlink(missing_ok=True)
        os.mkfifo(ground.root / ".git" / name)
    assert describe_git_status(ground.root).startswith("branch: trunk")
    (ground.root / ".git" / "HEAD").unlink()
    os.mkfifo(ground.root / ".git" / "HEAD")
    assert describe_git_status(ground.root) == ""


def test_n2_nothing_of_a_look_stays_behind(ground, monkeypatch):
    directory = ground.place / "temporary"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    before = sorted((ground.root / ".git").rglob("*"))
    assert describe_git_status(ground.root)
    assert list(directory.iterdir()) == []
    assert sorted((ground.root / ".git").rglob("*")) == before


def test_a_part_of_a_repository_is_told_of_the_whole(ground):
    part = ground.root / "deep"
    part.mkdir()
    (part / "new").touch()
    lines = describe_git_status(part).splitlines()
    assert lines[0].startswith(
        f"repository: {ground.root}, of which deep/ is this workspace; commands can read the rest"
    )
    assert lines[1] == "branch: trunk"
    assert set(lines[2:]) == {"   M ../a.txt", "  ?? ./"}


def test_a_part_of_a_linked_worktree_is_told_of_it(ground):
    root = linked_worktree(ground)
    (root / "deep").mkdir()
    assert "branch: side\n   M ../b.txt" in describe_git_status(root / "deep")
