"""Which paths commands must not read; found once, and looked at again when something changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.workspace import IgnoreRules, Workspace
from core.workspace.secret_names import is_secret, may_be_secret
from core.workspace.withheld import Withheld, withheld_paths


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


def put(project: Path, *paths: str) -> None:
    for path in paths:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("x\n")


def withheld(project: Path, **how) -> Withheld:
    workspace = Workspace(project)
    return Withheld(workspace, IgnoreRules(workspace), **how)


def test_p20_secrets_are_withheld_wherever_they_lie(project):
    put(project, ".env", "a/b/.env.local", "a/id_ed25519", "a/.env.example", "a/key.py", "id_rsa.pub", "a/server.pem")
    assert withheld_paths(Workspace(project)) == (".env", "a/b/.env.local", "a/id_ed25519")


def test_p20_in_a_repository_only_what_git_ignores_is_a_secret(project):
    put(project, ".env", "a/server.pem", "secrets/x", "tests/.env", "node_modules/p/.env")
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("/.env\n*.pem\nsecrets/\nnode_modules/\n")
    assert withheld_paths(Workspace(project)) == (".env", "a/server.pem", "secrets")


def test_what_cursorignore_names_is_withheld_as_a_whole(project):
    put(project, "a/private/x", "a/private/y", "a/z", "b/keep")
    (project / "a" / ".cursorignore").write_text("private/\n")
    (project / ".cursorignore").write_text("b/\n")
    assert withheld_paths(Workspace(project)) == ("a/private", "b")


def test_the_users_rules_come_first(project):
    put(project, ".env", "a/.env", "a/plain")

    def may_read(path: str) -> bool | None:
        return {".env": True, "a/plain": False}.get(path)

    assert withheld(project, may_read=may_read).paths() == ("a/.env", "a/plain")


def test_a_second_look_sees_what_changed(project):
    put(project, "a/x", "b/x")
    found = withheld(project)
    assert found.paths() == ()
    put(project, "a/.env")
    assert found.paths() == ("a/.env",)
    put(project, "c/d/.netrc")
    assert found.paths() == ("a/.env", "c/d/.netrc")
    (project / "b" / ".cursorignore").write_text("x\n")
    assert found.paths() == ("a/.env", "b/x", "c/d/.netrc")
    (project / "b" / ".cursorignore").write_text("yy\n")
    assert found.paths() == ("a/.env", "c/d/.netrc")
    (project / "a" / ".env").unlink()
    (project / "c" / "d").rename(project / "c" / "e")
    assert found.paths() == ("c/e/.netrc",)


def test_a_second_look_opens_no_directory(project, monkeypatch):
    put(project, *(f"d{number}/x" for number in range(50)), "d3/.env")
    found = withheld(project)
    assert found.paths() == ("d3/.env",)
    monkeypatch.setattr(os, "scandir", None)
    assert found.paths() == ("d3/.env",)


def test_a_directory_that_can_not_be_read_and_odd_names_are_no_trouble(project):
    put(project, "ok/.env", "w\nx/.env")
    os.mkfifo(project / ".npmrc")
    Path(os.fsdecode(os.fsencode(project) + b"/\xff")).mkdir()
    (project / "loop").symlink_to(".")
    assert withheld_paths(Workspace(project)) == ("ok/.env", "w\nx/.env")


@pytest.mark.parametrize(
    ("name", "ignored", "secret"),
    [
        (".env", False, True),
        (".ENV", False, True),
        (".env.production", False, True),
        (".env.example", True, False),
        ("prod.env", False, False),
        ("prod.env", True, True),
        ("id_rsa", False, True),
        ("id_rsa.pub", True, False),
        ("cert.pem", False, False),
        ("cert.pem", True, True),
        ("secrets.yaml", True, True),
        ("environment.py", True, False),
        ("terraform.tfstate", True, True),
    ],
)
def test_p20_secrets_are_told_by_their_names(name, ignored, secret):
    assert is_secret(f"a/{name}", lambda _path, _is_dir: ignored) is secret


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", ".envrc.private", "id_rsa", "id_ed25519_sk", ".netrc", "_netrc", ".pypirc"),
        *(".git-credentials", ".htpasswd", ".pgpass", ".my.cnf", "a.keystore", "a.jks", "a.kdbx", "a.ppk"),
        *(".vault_pass", "a.pem", "a.key", "a.p12", "a.pfx", "a.tfvars", "a.tfstate", ".npmrc", "Secrets.yml"),
        *("credentials.json", "service-account.json", "kubeconfig", "db-secret", "client_secret_1.json", ".dev.vars"),
    ],
)
def test_the_fast_look_at_a_name_misses_none(name):
    assert may_be_secret(name)


def test_the_first_look_looks_once_at_each_directory(project, monkeypatch):
    put(project, ".gitignore", "a/b/c.txt", "a/.cursorignore", "d/e.txt")
    looked: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looked.append(path), scandir(path))[1])
    assert withheld_paths(Workspace(project)) == ()
    assert len(looked) == len(set(looked)) == 4
