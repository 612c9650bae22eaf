"""Nothing that commands did in a repository is dropped without a word."""

from __future__ import annotations

import pytest

from tests.unit.shadow.gitstate.test_git_layer import GIT, on_disk
from tests.unit.shadow.overlay_mount import needs_mounts, run
from tests.unit.shadow.review_case import ReviewCase

pytestmark = needs_mounts
ALLOW = "-c protocol.file.allow=always"


@pytest.fixture
def project(review) -> ReviewCase:
    review.put("a.py", b"x = 1\n")
    on_disk(review, f"git init -q -b main; git add .; {GIT} commit -qm one")
    return review


def add_submodule(project: ReviewCase, path: str) -> None:
    on_disk(project, f"git init -q ../lib; cd ../lib; echo 1 > l.py; git add .; {GIT} commit -qm lib")
    on_disk(project, f"{GIT} {ALLOW} submodule add -q ../lib {path}; {GIT} commit -qam sub")


def list_notes(project: ReviewCase) -> str:
    return "\n".join(project.shadow.bulks.git.preview(".git").notes)


@pytest.mark.parametrize("path", ["sub", "libs/deep"])
def test_a_commit_in_a_submodule_is_named(project, path):
    add_submodule(project, path)
    before = on_disk(project, f"git -C {path} rev-parse HEAD")
    run(project, f"cd {path}; echo 2 > l.py; {GIT} commit -qam two; cd -; {GIT} commit -qam top")
    notes = list_notes(project)
    assert f"of the submodule {path} is left out: accept its files, then commit in {path}" in notes
    assert "modules/" not in notes
    project.shadow.resolve(f"{path}/l.py")
    project.shadow.resolve_bulk(".git")
    assert on_disk(project, f"git -C {path} rev-parse HEAD") == before
    assert on_disk(project, f"cat {path}/l.py; git ls-files --stage {path}").startswith("2\n160000 ")


def test_a_file_below_the_directory_of_a_submodule_is_named_as_ever(project):
    add_submodule(project, "sub")
    run(project, "echo x > .git/modules/sub/odd; echo y > .git/odd")
    assert "left out, not a reference, HEAD, index or object: modules/sub/odd, odd" in list_notes(project)


def test_a_commit_that_nothing_signed_is_said_to_be_unsigned(project):
    on_disk(project, "git config commit.gpgSign true")
    run(project, f"echo 'x = 2' > a.py; {GIT} -c commit.gpgSign=false commit -qam two")
    project.shadow.resolve("a.py")
    assert "not signed, though commit.gpgSign is set" in list_notes(project)


def test_a_commit_is_not_said_to_be_unsigned_where_nobody_signs(project):
    run(project, f"echo 'x = 2' > a.py; {GIT} commit -qam two")
    project.shadow.resolve("a.py")
    assert list_notes(project) == ""


def test_a_state_of_git_that_stayed_elsewhere_says_so(project):
    assert "stayed where the agent ran" in project.shadow.bulks.git.preview(".git").refused
