"""Git works for commands where the repository lies outside of the workspace, and nothing outside is ever changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from core.git.command_view import find_repository_view
from core.sandbox.box import Tier
from tests.support.box_cases import Boxed, Ran

SECRET = f"sk-planted-{uuid4().hex}"
LAID_OVER = {Tier.NAMESPACES, Tier.BWRAP_OVERLAY, Tier.BWRAP_MOUNTED}
SETTINGS = "[user]\n\tname = Some Body\n\temail = some@example.org\n"


def git(boxed: Boxed, at: Path, *arguments: str) -> None:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    user = {"user": boxed.uid, "group": boxed.uid, "extra_groups": []} if os.geteuid() == 0 else {}
    subprocess.run(["git", *names, *arguments], cwd=at, env=boxed.env(), check=True, capture_output=True, **user)


def make_repository(boxed: Boxed, name: str = "work/repository") -> Path:
    for path, text in (("a.txt", "one\n"), ("part/b.txt", "two\n"), ("other/c.txt", "three\n")):
        boxed.write(f"{name}/{path}", text)
    root = boxed.root / name
    git(boxed, root, "init", "-q", "-b", "trunk")
    git(boxed, root, "add", ".")
    git(boxed, root, "commit", "-qm", "first of all")
    return root


def make_worktree(boxed: Boxed) -> Path:
    git(boxed, make_repository(boxed), "worktree", "add", "-q", "-b", "side", str(boxed.root / "work" / "linked"))
    return boxed.root / "work" / "linked"


def make_submodule(boxed: Boxed) -> Path:
    root, other = make_repository(boxed), make_repository(boxed, "work/module")
    git(boxed, root, "submodule", "add", "-q", str(other), "sub")
    return root / "sub"


def make_apart(boxed: Boxed) -> Path:
    place = boxed.root / "work"
    git(boxed, place, "clone", "-q", "--separate-git-dir", str(place / "data"), str(make_repository(boxed)), "apart")
    return place / "apart"


def make_part(boxed: Boxed) -> Path:
    return make_repository(boxed) / "part"


def read_all(boxed: Boxed) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted((boxed.root / "work").rglob("*")) if path.is_file()}


async def run_in(boxed: Boxed, workspace: Path, command: str, **more: Any) -> Ran:
    view = find_repository_view(workspace)
    return await boxed.run(
        command,
        workspace=workspace,
        repository=view.directory,
        readable=view.list_readable(),
        git_settings=SETTINGS,
        env={**boxed.env(), **view.get_environment()},
        **more,
    )


def finds_nothing(boxed: Boxed, make: object) -> bool:
    return boxed.tier is Tier.LANDLOCK and make in (make_submodule, make_part)


@pytest.mark.parametrize("make", [make_worktree, make_submodule, make_apart, make_part])
async def test_p19_git_answers_wherever_the_repository_lies(boxed: Boxed, make):
    workspace = make(boxed)
    before = read_all(boxed)
    name = "b.txt" if make is make_part else "a.txt"
    asked = f"echo more >> {name}; git status --short; git log --format=%s; git blame -s {name}; git diff --stat"
    ran = await run_in(boxed, workspace, asked)
    if finds_nothing(boxed, make):
        assert "git does not find the repository" in " ".join(ran.exit.notes)
    else:
        assert f" M {name}" in ran.output, ran.output
        assert "first of all" in ran.output
        assert "1 file changed, 1 insertion(+)" in ran.output
        assert not any("not kept" in note for note in ran.exit.notes)
    assert read_all(boxed) == before


@pytest.mark.parametrize(
    ("make", "keeps"), [(make_worktree, True), (make_worktree, False), (make_submodule, True), (make_part, True)]
)
async def test_p19_a_commit_in_a_repository_outside_is_made_dropped_and_said(boxed: Boxed, make, keeps: bool):
    workspace = make(boxed)
    before = read_all(boxed)
    acts = "echo more > new; git add new; git commit -qm more; git log -1 --format='%an <%ae> %s'; git branch spare;"
    acts += 'git config core.fsmonitor evil; echo evil > "$(git rev-parse --git-common-dir)/hooks/pre-commit"'
    ran = await run_in(boxed, workspace, acts, **({} if keeps else {"upper": None}))
    notes = " ".join(ran.exit.notes)
    if boxed.tier in LAID_OVER:
        assert "Some Body <some@example.org> more" in ran.output
        assert not keeps or ("Commits and branches are not kept" in notes and "refs/heads/spare" in notes)
    else:
        assert "Some Body" not in ran.output
        assert "read-only in this tier" in notes or finds_nothing(boxed, make)
    assert read_all(boxed) == before
    if ran.upper is not None:
        assert (ran.upper / "new").read_text() == "more\n"
        assert not [path for path in ran.upper.parent.iterdir() if path.name.endswith(".repository")]


async def test_s1_what_lies_above_a_part_of_a_repository_is_read_and_never_changed(boxed: Boxed):
    workspace = make_part(boxed)
    top = workspace.parent
    boxed.write("work/repository/.env", SECRET)
    boxed.write("work/repository/keys/deep", SECRET)
    before = read_all(boxed)
    acts = "cat other/c.txt .env keys/deep; ls keys; echo x > a.txt; rm -rf other; touch new; cd - > /dev/null;"
    acts = f"cd {top} && {acts} echo x > new"
    ran = await run_in(boxed, workspace, acts, hidden=(boxed.state, top / ".env", top / "keys"))
    assert "three" in ran.output
    assert SECRET not in ran.output
    assert read_all(boxed) == before
    if ran.upper is not None:
        assert [path.name for path in ran.upper.iterdir()] == ["new"]


async def test_a_commit_has_the_name_that_the_user_gave_to_git(boxed: Boxed):
    boxed.write("work/project/a")
    acts = "git init -q; git add a; git commit -qm one; git log --format='%an <%ae>'; git config --list --global"
    ran = await boxed.run(acts, git_settings=SETTINGS)
    assert "Some Body <some@example.org>\nuser.name=Some Body\nuser.email=some@example.org\n" in ran.output
    own = "git init -q; git config user.name Own; git commit -qm x --allow-empty; git log --format=%an"
    assert "Own\n" in (await boxed.run(own, git_settings=SETTINGS)).output
    assert not (boxed.home / ".gitconfig").exists()
