"""Commands see of a repository outside of the workspace what belongs to it, and of the user's settings who that is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from core.git.command_view import RepositoryView, find_repository_view


def git(at: Path, *arguments: str) -> None:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *names, *arguments], cwd=at, check=True, capture_output=True)


@pytest.fixture
def top(tmp_path, monkeypatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return make_repository(tmp_path.resolve() / "repository")


def make_repository(root: Path, *options: str) -> Path:
    root.mkdir()
    git(root, "init", "-q", "-b", "trunk", *options)
    (root / "part").mkdir()
    (root / "part" / "a.txt").write_text("a\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    return root


def test_an_ordinary_repository_has_nothing_outside(top):
    assert find_repository_view(top) == RepositoryView()


def test_a_part_of_a_repository_has_the_tree_above(top):
    view = find_repository_view(top / "part")
    assert (view.directory, view.tree) == (top / ".git", top)


def test_a_worktree_has_the_directory_that_it_shares(top):
    git(top, "worktree", "add", "-q", str(top.parent / "linked"))
    assert find_repository_view(top.parent / "linked") == RepositoryView(directory=top / ".git")


def test_a_submodule_has_its_own_directory_and_not_all_of_the_project_around_it(top):
    other = make_repository(top.parent / "other")
    git(top, "submodule", "add", "-q", str(other), "sub")
    assert find_repository_view(top / "sub") == RepositoryView(directory=top / ".git" / "modules" / "sub")


def test_a_repository_that_was_put_elsewhere_is_known_by_its_index(top):
    git(top.parent, "clone", "-q", "--separate-git-dir", str(top.parent / "data"), str(top), "apart")
    assert find_repository_view(top.parent / "apart") == RepositoryView(directory=top.parent / "data")


@pytest.mark.parametrize("copies", [True, False])
def test_a_git_file_that_names_the_repository_of_another_project_is_not_believed(top, copies):
    evil = top.parent / "evil"
    if copies:
        shutil.copytree(top, evil)
        shutil.rmtree(evil / ".git")
    else:
        evil.mkdir()
    (evil / ".git").write_text(f"gitdir: {top / '.git'}\n")
    assert find_repository_view(evil) == RepositoryView()


def test_the_name_and_address_of_the_user_are_told_and_nothing_else(top, monkeypatch):
    fired = top.parent / "fired"
    git(top, "config", "pager.config", f"touch {fired}")
    git(top, "config", "user.name", "Of The Repository")
    (top.parent / "home" / ".gitconfig").write_text(
        '[user]\n\tname = "Q \\"x\\" \\\\ Ä"\n\temail = home@example.org\n\tsigningkey = ABC\n'
        "[alias]\n\tst = !touch fired\n[credential]\n\thelper = store\n[core]\n\thooksPath = /tmp/hooks\n"
        f'[includeIf "gitdir:{top.parent}/re*/"]\n\tpath = at-work\n[includeIf "onbranch:other"]\n\tpath = never\n'
    )
    (top.parent / "home" / "at-work").write_text("[user]\n\temail = work@example.org\n[alias]\n\tx = !y\n")
    (top.parent / "home" / "never").write_text("[user]\n\temail = never@example.org\n")
    settings = find_repository_view(top).settings
    file = top.parent / "made"
    file.write_text(settings)
    listed = subprocess.run(
        ["git", "config", "--file", str(file), "--list"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.splitlines() == ['user.name=Q "x" \\ Ä', "user.email=work@example.org"]
    assert not fired.exists()


def test_a_name_in_several_lines_is_not_passed_on(top):
    (top.parent / "home" / ".gitconfig").write_text('[user]\n\tname = "a\\n[alias]\\nx = !y"\n')
    assert find_repository_view(top).settings == ""


def test_a_configuration_that_the_environment_names_decides_who_commits(top, monkeypatch, tmp_path):
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tname = Private\n\temail = p@example.org\n")
    (tmp_path / "work").write_text("[user]\n\tname = Work\n\temail = w@example.org\n[author]\n\tname = Pen\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "work"))
    settings = find_repository_view(top).settings
    assert "Work" in settings
    assert '[author]\n\tname = "Pen"' in settings
    assert "Private" not in settings
    for name, value in (("COUNT", "1"), ("KEY_0", "user.name"), ("VALUE_0", "Once")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    assert "Once" in find_repository_view(top).settings


def test_nothing_is_signed_where_no_key_is_in_reach():
    environment = RepositoryView().get_environment()
    settings = {environment[f"GIT_CONFIG_KEY_{number}"]: environment[f"GIT_CONFIG_VALUE_{number}"] for number in (0, 1)}
    assert settings == {"commit.gpgSign": "false", "tag.gpgSign": "false"}
    assert environment["GIT_CONFIG_COUNT"] == "2"
