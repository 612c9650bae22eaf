"""The repository of a directory is the one that git would find above it, unless nobody should believe in that one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from core.git.layout import find_repository


def git(at: Path, *arguments: str) -> None:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *names, *arguments], cwd=at, check=True, capture_output=True)


@pytest.fixture
def top(tmp_path) -> Path:
    root = tmp_path.resolve() / "repository"
    (root / "deep" / "deeper").mkdir(parents=True)
    git(root, "init", "-q", "-b", "trunk")
    (root / "deep" / "a.txt").write_text("a\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    return root


def find_top(directory: Path) -> Path | None:
    repository = find_repository(directory)
    return repository.root if repository else None


def test_a_subdirectory_is_part_of_the_repository_above(top):
    assert find_top(top) == find_top(top / "deep") == find_top(top / "deep" / "deeper") == top


def test_a_subdirectory_of_a_worktree_is_part_of_that(top):
    git(top, "worktree", "add", "-q", "-b", "side", str(top.parent / "linked"))
    repository = find_repository(top.parent / "linked" / "deep")
    assert repository is not None
    assert (repository.root, repository.common) == (top.parent / "linked", top / ".git")


def test_the_nearest_repository_counts(top):
    git(top / "deep", "init", "-q")
    assert find_top(top / "deep" / "deeper") == top / "deep"


def test_what_names_itself_a_repository_and_is_none_hides_the_one_above(top):
    (top / "deep" / ".git").write_text("gitdir: /nowhere\n")
    assert find_top(top / "deep" / "deeper") is None


def test_a_repository_over_the_whole_home_is_none_of_a_project(top, monkeypatch):
    monkeypatch.setenv("HOME", str(top))
    assert find_top(top / "deep") is None
    monkeypatch.setenv("HOME", str(top / "deep"))
    assert find_top(top / "deep" / "deeper") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
@pytest.mark.parametrize("name", [".", ".git"])
def test_a_repository_of_somebody_else_is_not_believed(top, name):
    os.chown(top / name, 12345, 12345)
    assert find_top(top / "deep") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_root_believes_the_repository_of_the_user_whose_directory_it_is(top):
    for path in (top, top / ".git", top / "deep"):
        os.chown(path, 12345, 12345)
    assert find_top(top / "deep") == top
