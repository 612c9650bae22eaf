"""The difference of a branch, by real git: where it begins, what is told, and what is kept."""

from __future__ import annotations

import os
import subprocess

import pytest

from core.git.branch_diff import describe_branch, find_base, read_reviewed_diff, render_branch_diff
from core.git.repository import GitFailed
from core.text.patch_hunks import list_right_hunks

ANYBODY = ("-c", "user.name=A", "-c", "user.email=a@example.invalid")


def git(root, *words):
    subprocess.run(["git", *ANYBODY, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text("one\n")
    (root / "sub" / "b.txt").write_text("two\n")
    (root / "secret.txt").write_text("old\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "checkout", "-qb", "topic")
    (root / "a.txt").write_text("one\nmore\n")
    (root / "secret.txt").write_text("hush\n")
    git(root, "commit", "-qam", "add more")
    (root / "sub" / "b.txt").write_text("two and a half\n")
    return root


def test_a_branch_begins_where_it_left_the_main_one(repository):
    base = find_base(repository)
    assert describe_branch(base) == "1 commit since main"
    git(repository, "checkout", "-qf", "main")
    git(repository, "branch", "-qD", "topic")
    assert find_base(repository) is None


def test_commits_and_what_is_not_committed_are_told_but_no_file_that_is_kept(repository):
    text = render_branch_diff(repository, lambda path: path != "secret.txt")
    assert text.startswith("1 commit since main (")
    assert "add more" in text
    assert "+more" in text
    assert "+two and a half" in text
    assert "hush" not in text
    assert "1 more files, or files hidden from you" in text


def test_in_a_subdirectory_only_what_lies_there_is_told(repository):
    asked = []
    text = render_branch_diff(repository / "sub", lambda path: not asked.append(path))
    assert asked == ["b.txt"]
    assert "+two and a half" in text
    assert "+more" not in text


def test_without_a_repository_that_is_said(tmp_path):
    with pytest.raises(GitFailed, match="in a git repository"):
        find_base(tmp_path)


def test_what_is_reviewed_in_a_subdirectory_lies_there_with_new_files_but_none_that_is_kept(repository):
    for name in ("sub/fresh.txt", "sub/hushed.txt", "outside.txt"):
        (repository / name).write_text(f"in {name}")
    reviewed_diff = read_reviewed_diff(repository / "sub", "", lambda path: path != "hushed.txt")
    assert reviewed_diff.subject == "topic: 1 commit since main, and uncommitted changes"
    assert [(hunk.path, hunk.start, hunk.lines) for hunk in list_right_hunks(reviewed_diff.patch)] == [
        ("b.txt", 1, ("two and a half",)),
        ("fresh.txt", 1, ("in sub/fresh.txt",)),
    ]
    assert reviewed_diff.patch.endswith("+in sub/fresh.txt\n\\ No newline at end of file\n")
    assert (reviewed_diff.revision, reviewed_diff.left_out) == ("", 1)


def test_a_commit_that_the_main_branch_has_is_reviewed_alone_also_the_first(repository):
    first = read_reviewed_diff(repository, "main~0", lambda _: True)
    assert first.subject.startswith("the commit ")
    assert [hunk.path for hunk in list_right_hunks(first.patch)] == ["a.txt", "secret.txt", "sub/b.txt"]
    with pytest.raises(GitFailed, match="no branch or commit 'x y'"):
        read_reviewed_diff(repository, "x y", lambda _: True)


def test_the_users_index_stays_as_it_is_though_a_file_was_touched(repository):
    git(repository, "checkout", "-q", "main")
    (repository / "same.txt").write_text("same\n")
    git(repository, "add", "same.txt")
    git(repository, "commit", "-qm", "same")
    os.utime(repository / "same.txt", ns=(0, 0))
    before = (repository / ".git/index").read_bytes()
    for revision in ("", "HEAD", "main"):
        read_reviewed_diff(repository, revision, lambda _: True)
    render_branch_diff(repository, lambda _: True)
    assert (repository / ".git/index").read_bytes() == before
