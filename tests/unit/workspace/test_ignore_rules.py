"""What is ignored in a part of a repository is what git ignores there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from core.errors import PathRefused
from core.workspace import IgnoreRules, Workspace
from core.workspace.ignore_rules import NOT_INDEXED
from core.workspace.withheld_paths import WithheldFinder

FILES = ("a.log", "keep.log", "dist/x", "src/dist/x", "src/local/y", "b.tmp", "c.txt", "top-only/z", "mine")


def git(at: Path, *arguments: str) -> str:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *names, *arguments], cwd=at, capture_output=True, text=True, check=False)
    return done.stdout


def write(root: Path, rel: str, text: str = "") -> None:
    (root / rel).parent.mkdir(parents=True, exist_ok=True)
    (root / rel).write_text(text)


@pytest.fixture
def top(tmp_path) -> Path:
    root = tmp_path.resolve() / "repository"
    root.mkdir()
    git(root, "init", "-q")
    write(root, ".gitignore", "*.log\ndist/\n/top-only\n/packages/one/mine\n/vendored/\n")
    write(root, "packages/.gitignore", "!keep.log\nlocal\n")
    write(root, "packages/one/.gitignore", "*.tmp\n")
    (root / ".git" / "info" / "exclude").write_text("c.txt\n")
    for file_path in FILES:
        write(root, f"packages/one/{file_path}")
        write(root, f"vendored/{file_path}")
    return root


def list_ignored(root: Path) -> set[str]:
    rules = IgnoreRules(Workspace(root))
    in_tree = rules.open_snapshot()
    ignored_paths = set()
    for file_path in FILES:
        parts = file_path.split("/")
        names = ["/".join(parts[: at + 1]) for at in range(len(parts))]
        ignored = any(rules.is_ignored(name, name != file_path) for name in names)
        directory, _, name = file_path.rpartition("/")
        assert ignored == in_tree(directory or ".")(name, False), file_path
        ignored_paths |= {file_path} if ignored else set()
    return ignored_paths


def test_rules_above_the_workspace_count_as_for_git(top):
    place = top / "packages" / "one"
    ignored_paths = git(place, "check-ignore", *FILES).split()
    assert list_ignored(place) == set(ignored_paths)
    assert {"a.log", "dist/x", "src/local/y", "b.tmp", "c.txt", "mine"} == set(ignored_paths) - {"src/dist/x"}


def test_a_workspace_that_is_ignored_as_a_whole_is_seen_by_its_own_rules(top):
    write(top, "vendored/.gitignore", "b.tmp\n")
    assert list_ignored(top / "vendored") == {"b.tmp"}


def test_rules_beside_the_repository_of_a_worktree_count(top):
    git(top, "add", "packages")
    git(top, "commit", "-qm", "one")
    git(top, "worktree", "add", "-q", "-b", "side", str(top.parent / "linked"))
    rules = IgnoreRules(Workspace(top.parent / "linked"))
    assert rules.is_ignored("c.txt", False)
    assert not rules.is_ignored("d.txt", False)


def test_what_a_cursorignore_above_names_is_refused(top):
    write(top, ".cursorignore", "packages/one/mine\n*.tmp\n")
    rules = IgnoreRules(Workspace(top / "packages" / "one"))
    for name in ("mine", "b.tmp", "src/new.tmp"):
        with pytest.raises(PathRefused, match="cursorignore"):
            rules.refuse_withheld(name)
    rules.refuse_withheld("c.txt")


def test_a_changed_file_above_counts_at_once(top):
    workspace = Workspace(top / "packages" / "one")
    rules = IgnoreRules(workspace)
    finder = WithheldFinder(workspace, rules)
    assert "c.txt" not in finder.find_paths().covered
    write(top, ".cursorignore", "c.txt\n")
    assert rules.is_ignored("c.txt", False)
    assert "c.txt" in finder.find_paths().covered


def test_a_tracked_secret_in_a_part_of_a_repository_is_not_withheld(top):
    write(top, "packages/one/.env", "A=b\n")
    write(top, "packages/one/local/.env", "A=b\n")
    workspace = Workspace(top / "packages" / "one")
    paths = WithheldFinder(workspace, IgnoreRules(workspace)).find_paths()
    assert ".env" not in paths.covered  # git would take it for deleted
    assert "local/.env" in (*paths.covered, *paths.masked)


def test_what_is_not_to_be_indexed_is_named_by_a_file_of_its_own(top):
    write(top, ".cursorindexingignore", "packages/one/c*\n")
    write(top, "packages/one/src/.cursorindexingignore", "local\n")
    rules = IgnoreRules(Workspace(top / "packages" / "one"))
    indexed = rules.open_snapshot(NOT_INDEXED)
    (top / ".git" / "info" / "exclude").write_text("")
    assert indexed(".")("c.py", False)
    assert indexed("src")("local", True)
    assert not indexed(".")("other.py", False)
    assert not rules.open_snapshot()(".")("c.py", False)
