"""Which paths commands must not read; found once, and looked at again when something changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.filesystem.removal import remove_tree
from core.workspace import IgnoreRules, Workspace
from core.workspace.secret_files import is_secret, may_be_secret
from core.workspace.withheld_paths import WithheldFinder
from tests.support.deep import deepen


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


def put(project: Path, *paths: str) -> None:
    for path in paths:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("x\n")


def withheld(project: Path, **how) -> WithheldFinder:
    workspace = Workspace(project)
    return WithheldFinder(workspace, IgnoreRules(workspace), **how)


def every(finder: WithheldFinder) -> tuple[str, ...]:
    paths = finder.find_paths()
    return tuple(sorted((*paths.covered, *paths.masked)))


def test_p20_secrets_are_withheld_wherever_they_lie(project):
    put(project, ".env", "a/b/.env.local", "a/id_ed25519", "a/.env.example", "a/key.py", "id_rsa.pub", "a/server.pem")
    assert every(withheld(project)) == (".env", "a/b/.env.local", "a/id_ed25519")


def test_p20_in_a_repository_only_what_git_ignores_is_a_secret(project):
    put(project, ".env", "a/server.pem", "secrets/x", "tests/.env", "node_modules/p/.env", "node_modules/p/a.pem")
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("/.env\n*.pem\nsecrets/\nnode_modules/\n")
    assert every(withheld(project)) == (".env", "a/server.pem", "node_modules/p/.env", "secrets")


def test_what_cursorignore_names_is_withheld_as_a_whole(project):
    put(project, "a/private/x", "a/private/y", "a/z", "b/keep")
    (project / "a" / ".cursorignore").write_text("private/\n")
    (project / ".cursorignore").write_text("b/\n")
    assert every(withheld(project)) == ("a/private", "b")


def test_the_users_rules_come_first(project):
    put(project, ".env", "a/.env", "a/plain")

    def may_read(path: str) -> bool | None:
        return {".env": True, "a/plain": False}.get(path)

    assert every(withheld(project, may_read=may_read)) == ("a/.env", "a/plain")


def test_a_second_look_sees_what_changed(project):
    put(project, "a/x", "b/x")
    finder = withheld(project)
    assert every(finder) == ()
    put(project, "a/.env")
    assert every(finder) == ("a/.env",)
    put(project, "c/d/.netrc")
    assert every(finder) == ("a/.env", "c/d/.netrc")
    (project / "b" / ".cursorignore").write_text("x\n")
    assert every(finder) == ("a/.env", "b/x", "c/d/.netrc")
    (project / "b" / ".cursorignore").write_text("yy\n")
    assert every(finder) == ("a/.env", "c/d/.netrc")
    (project / "a" / ".env").unlink()
    (project / "c" / "d").rename(project / "c" / "e")
    assert every(finder) == ("c/e/.netrc",)


def test_a_second_look_opens_no_directory(project, monkeypatch):
    put(project, *(f"d{number}/x" for number in range(50)), "d3/.env")
    for place in (project, *project.iterdir()):
        os.utime(place, (1, 1))  # long settled
    finder = withheld(project)
    assert every(finder) == ("d3/.env",)
    monkeypatch.setattr(os, "scandir", None)
    assert every(finder) == ("d3/.env",)


def test_a_directory_that_can_not_be_read_and_odd_names_are_no_trouble(project):
    put(project, "ok/.env", "w\nx/.env")
    os.mkfifo(project / ".npmrc")
    Path(os.fsdecode(os.fsencode(project) + b"/\xff")).mkdir()
    (project / "loop").symlink_to(".")
    assert every(withheld(project)) == ("ok/.env", "w\nx/.env")


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
    ("name", "secret"),
    [
        *(
            (name, True)
            for name in (".env~", ".env.bak", ".env.swp", "..env.swp", "#.env#", "id_rsa.bak", ".id_rsa.swp")
        ),
        *((name, True) for name in ("a.pem.old", "terraform.tfstate.backup", ".npmrc~", "credentials.json.orig")),
        *((name, True) for name in ("credentials", ".s3cfg", ".boto", ".vault-token", "rclone.conf", ".databrickscfg")),
        *((name, True) for name in ("application_default_credentials.json", "app-firebase-adminsdk-1a.json")),
        *((name, False) for name in (".env.example~", "id_rsa.pub.bak", "a.py~", "environment.bak", "~", "##", ".bak")),
    ],
)
def test_n4_a_copy_of_a_secret_and_what_clouds_keep_are_known_by_their_names(name, secret):
    assert is_secret(f"local/{name}", lambda _path, _is_dir: True) is secret
    assert may_be_secret(name) is secret


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
    assert every(withheld(project)) == ()
    probes = [directory for directory in looked if isinstance(directory, int)]
    assert len(probes) <= 1  # of the root, which tells whether its file system ignores case
    looked = [directory for directory in looked if directory not in probes]
    assert len(looked) == len(set(looked)) == 4


def git(project: Path, ignored: str) -> None:
    (project / ".git").mkdir()
    (project / ".gitignore").write_text(ignored)


SECRETS = ("local/.env", ".vercel/.env.production.local", "local/deep/er/id_rsa", "dist/conf/server.key", "out/.npmrc")


def test_n4_secrets_in_ignored_directories_are_withheld(project):
    put(project, *SECRETS, "local/plain", "dist/index.js", "src/app.py")
    git(project, "local/\n.vercel\n/dist\nout/\n")
    paths = withheld(project).find_paths()
    assert paths.masked == tuple(sorted(SECRETS))
    assert (paths.covered, paths.notes) == ((), ())


def test_n38_a_virtual_environment_in_a_directory_of_a_secrets_name_is_readable(project):
    put(project, ".env/pyvenv.cfg", ".env/bin/python", ".env/a.key", "secrets/token.json")
    git(project, ".env/\nsecrets/\n")
    assert every(withheld(project)) == (".env/a.key", "secrets")


def test_n4_what_registries_publish_is_readable_and_what_is_nothing_but_a_secret_is_not(project):
    site = ".venv/lib/python3.11/site-packages"
    put(project, f"{site}/certifi/cacert.pem", f"{site}/pkg/tests/server.key", f"{site}/pkg/deep/.env", ".venv/a.key")
    put(project, "node_modules/p/test/key.pem", "node_modules/p/x/id_rsa", "node_modules/.cache/token.key")
    put(project, "node_modules/.pnpm/q@1/node_modules/q/ca.pem", "node_modules/.pnpm/q@1/node_modules/q/.env")
    git(project, ".venv\nnode_modules\n")
    assert every(withheld(project)) == (
        ".venv/a.key",
        f"{site}/pkg/deep/.env",
        "node_modules/.cache/token.key",
        "node_modules/.pnpm/q@1/node_modules/q/.env",
        "node_modules/p/x/id_rsa",
    )


def test_n4_a_secret_that_comes_later_is_seen_also_in_an_ignored_directory_and_deep_in_a_package(project, monkeypatch):
    put(project, "local/a/b/plain", "node_modules/p/lib/deep/index.js")
    git(project, "local/\nnode_modules/\n")
    finder = withheld(project)
    assert every(finder) == ()
    put(project, "local/a/b/.env", "local/new/.netrc", "node_modules/p/.env", "node_modules/q/r/.env")
    assert every(finder) == ("local/a/b/.env", "local/new/.netrc", "node_modules/p/.env", "node_modules/q/r/.env")
    put(project, "node_modules/p/lib/deep/.env")
    monkeypatch.setattr("core.workspace.withheld_paths._CACHE_SECONDS", 0.0)
    assert "node_modules/p/lib/deep/.env" in every(finder)
    (project / "node_modules/p/lib/deep/.env").unlink()
    assert "node_modules/p/lib/deep/.env" not in every(finder)


def test_n4_what_a_link_with_a_secrets_name_leads_to_is_withheld(project):
    put(project, "conf/plain", "local/other")
    away = project.parent / "shared" / "team"
    away.parent.mkdir()
    away.write_text("x\n")
    git(project, "local/\n.env*\n*.key\n")
    (project / ".env").symlink_to("conf/plain")
    (project / ".env.away").symlink_to(away)
    (project / "local" / "id_rsa").symlink_to("other")
    for name, target in (("a.key", "/dev/null"), ("b.key", ".."), ("c.key", "."), ("d.key", "gone"), ("e.key", "/usr")):
        (project / name).symlink_to(target)
    paths = withheld(project).find_paths()
    assert {"conf/plain", "local/other", ".env", ".env.away"} <= {*paths.covered, *paths.masked}
    assert paths.outside == (away,)


def test_n4_nested_repositories_and_rules_of_the_user_count_in_ignored_directories(project):
    put(project, "vendor/sub/.env", "vendor/sub/.git/HEAD", "vendor/sub/deep/id_ed25519", "local/plain", "local/x/.env")
    put(project, "local/y/private")
    (project / "local" / "y" / ".cursorignore").write_text("private\n")
    git(project, "vendor/\nlocal/\n")
    answers = {"local/plain": False, "local/x/.env": True}
    assert every(withheld(project, may_read=answers.get)) == (
        "local/plain",
        "local/y/private",
        "vendor/sub/.env",
        "vendor/sub/deep/id_ed25519",
    )


def test_n4_an_ignored_directory_that_is_too_large_to_be_searched_is_withheld_as_a_whole_and_said(project, monkeypatch):
    put(project, *(f"data/{number}/x" for number in range(30)), "local/.env", *(f"keys/{n}.pem" for n in range(30)))
    git(project, "data/\nlocal/\nkeys/\n")
    monkeypatch.setattr("core.workspace.withheld_paths._MOST_ENTRIES", 40)
    monkeypatch.setattr("core.workspace.withheld_paths._MOST_MASKED", 20)
    finder = withheld(project)
    for _ in range(2):
        paths = finder.find_paths()
        assert (paths.covered, paths.masked) == (("data", "keys"), ("local/.env",))
        assert [note.rpartition(": ")[2] for note in paths.notes] == ["data", "keys"]


def test_n15_a_tree_of_two_thousand_levels_is_searched(project):
    deepen(project, 2000)
    put(project, "e/.env")
    try:
        assert every(withheld(project)) == ("e/.env",)
    finally:
        remove_tree(project)
