"""Commands that use git: its state is one bulk, what makes it run something is a protected change."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.everyday import tree
from tests.support.verdicts import accept_everything
from tests.unit.shadow.overlay_mount import needs_mounts, output, run
from tests.unit.shadow.review_case import ReviewCase

pytestmark = needs_mounts
GIT = "git -c user.name=t -c user.email=t@example.org -c safe.directory='*'"


def on_disk(review: ReviewCase, command: str) -> str:
    done = subprocess.run(["sh", "-c", command], cwd=review.root, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def project(review):
    review.put("a.py", b"x = 1\n")
    review.put("s/b.py", b"y = 1\n")
    review.put(".gitignore", b"*.log\n")
    on_disk(review, f"git init -q; git add .; {GIT} commit -qm one")
    return review


def test_looking_with_git_changes_nothing(project):
    project.put("a.py", b"x = 1\n")
    effects = run(project, f"{GIT} status")
    assert (effects.edited, effects.generated, project.state.bulks) == ((), 0, ())


def test_a_commit_in_the_box_is_accepted_and_undone_as_one(project):
    project.shadow.write("a.py", b"x = 2\n")
    run(project, f"{GIT} commit -qam two")
    assert [(bulk.root, bulk.kind) for bulk in project.state.bulks] == [(".git", "git")]
    assert on_disk(project, "git log --oneline | wc -l").strip() == "1"
    project.shadow.resolve("a.py")
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, "git log --oneline | wc -l; git status --short; git fsck").split() == ["2"]
    project.shadow.undo()
    project.shadow.undo()
    assert on_disk(project, "git log --oneline | wc -l; git status --short; git fsck").split() == ["1"]


def test_what_is_only_staged_is_shown_as_that(project):
    project.shadow.write("a.py", b"x = 2\n")
    run(project, "git add .")
    project.shadow.resolve("a.py")
    assert project.shadow.bulks.git.preview(".git").moves == (
        "No reference moves: only the staged content changes.",
        "Staged: a.py (changed).",
    )


def test_s4_what_makes_git_run_something_is_a_protected_change(project):
    run(project, f"{GIT} config core.pager evil; echo x > .git/hooks/pre-commit; mkdir sub; git init -q sub")
    assert {path for path, change in project.state.changes.items() if change.protected} == {
        ".git/config",
        ".git/hooks/pre-commit",
        "sub/.git/config",
    }
    accept_everything(project.shadow)
    assert set(project.state.changes) == {".git/config", ".git/hooks/pre-commit", "sub/.git/config"}


def test_s3_a_hard_reset_and_clean_are_in_the_review_and_the_project_is_intact(project):
    project.put("junk", b"untracked")
    project.put("s/b.py", b"y = 2\n")
    project.put("l.log", b"log")
    before = {path: data for path, data in project.files().items() if not path.startswith(".git/")}
    effects = run(project, f"{GIT} reset -q --hard && {GIT} clean -qfdx")
    assert (effects.edited, effects.deleted) == (("s/b.py",), ("junk",))
    assert {bulk.root: bulk.deleted for bulk in project.state.bulks}["**/*.log"] == 1
    effects = run(project, "rm -rf ./* ./.git ./.gitignore")
    assert effects.deleted == (".gitignore", "a.py", "s/b.py")
    assert project.shadow.list_dir() == ()
    assert {path: data for path, data in project.files().items() if not path.startswith(".git/")} == before


def test_s4_d10_a_repository_made_again_loses_its_hooks_one_by_one(project):
    on_disk(project, "echo x > .git/hooks/pre-commit")
    before = tree(project.root)
    run(project, "rm -rf .git; git init -q")
    assert [(change.path, change.operation, change.protected) for change in project.shadow.list_changes()] == [
        (".git/hooks/pre-commit", "delete", True)
    ]
    project.shadow.resolve(".git/hooks/pre-commit")
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, "git status --short").split() == ["??", ".gitignore", "??", "a.py", "??", "s/"]
    assert not (project.root / ".git" / "hooks" / "pre-commit").exists()
    project.shadow.undo()
    project.shadow.undo()
    assert tree(project.root) == before


def test_what_was_accepted_shows_in_a_directory_that_is_still_to_be_decided(project):
    project.put(".gitignore", b"build/\n")
    project.put("build/old", b"old\n")
    run(project, "rm -rf build .git; git init -q; git config core.pager cat")
    project.shadow.write("build/sub/new", b"new\n")
    project.shadow.resolve("build/sub/new")
    project.shadow.resolve(".git/config")
    assert output(project, "find build -type f; git config core.pager").split() == ["build/sub/new", "cat"]
    assert project.shadow.read("build/sub/new") == b"new\n"
    assert (project.disk("build/old"), project.disk("build/sub/new")) == (b"old\n", b"new\n")
