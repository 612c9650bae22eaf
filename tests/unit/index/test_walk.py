from __future__ import annotations

import os

import pytest

from core.index.walk import ProjectWalk, is_indexed
from core.workspace import Workspace


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    return root


def put(root, path, text="x = 1\n"):
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def walk(root):
    return sorted(file.path for file in ProjectWalk(Workspace(root)).iterate_files())


def test_what_git_and_the_user_exclude_is_not_found(project):
    put(project, ".gitignore", "*.log\n/build/\n")
    put(project, ".cursorignore", "private/\n")
    put(project, ".cursorindexingignore", "generated/\n")
    put(project, "below/.gitignore", "local.py\n!kept.log\n")
    put(project, ".git/info/exclude", "mine.py\n")
    for path in ("a.py", "a.log", "build/b.py", "private/c.py", "generated/d.py", "below/local.py", "below/kept.log"):
        put(project, path)
    put(project, "mine.py")
    assert [walked_path for walked_path in walk(project) if "ignore" not in walked_path] == ["a.py", "below/kept.log"]


def test_secrets_and_installed_packages_are_not_found(project):
    for path in (".env", "id_rsa", "a.py", "node_modules/b.js", "env/pyvenv.cfg", "env/lib/c.py", "__pycache__/d.py"):
        put(project, path)
    assert walk(project) == ["a.py"]


def test_links_pipes_and_what_cannot_be_read_are_passed_over(project):
    put(project, "below/a.py")
    (project / "circle").symlink_to(project)
    (project / "below" / "up").symlink_to("..")
    (project / "link.py").symlink_to("below/a.py")
    os.mkfifo(project / "pipe.py")
    assert walk(project) == ["below/a.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_directory_without_permission_is_passed_over(project):
    put(project, "locked/a.py")
    put(project, "b.py")
    (project / "locked").chmod(0)
    paths = walk(project)
    (project / "locked").chmod(0o700)
    assert paths == ["b.py"]


def test_one_path_is_found_as_the_walk_finds_it(project):
    put(project, ".gitignore", "ignored/\n")
    for path in ("below/a.py", "below/deep/b.py", "ignored/c.py", "d.py", "below/.env"):
        put(project, path)
    for path in ("env/pyvenv.cfg", "env/lib/deep/e.py"):
        put(project, path)
    (project / "link").symlink_to("below")

    def find(path):
        return sorted(file.path for file in ProjectWalk(Workspace(project)).find(path))

    assert find("d.py") == ["d.py"]
    assert find("below") == ["below/a.py", "below/deep/b.py"]
    assert find("below/deep/b.py") == ["below/deep/b.py"]
    assert [
        find(path) for path in ("ignored/c.py", "ignored", "link/a.py", "link", "below/.env", "none", "d.py/x")
    ] == [[]] * 7
    assert find("env") == find("env/lib") == find("env/lib/deep/e.py") == []


def test_a_name_that_is_no_unicode_is_found(project):
    os.close(os.open(os.fsencode(project) + b"/caf\xe9.py", os.O_CREAT))
    (path,) = walk(project)
    assert path.encode("utf-8")


@pytest.mark.parametrize("path", ["a.png", "a.min.js", "package-lock.json", "locale/de.po", "a.csv"])
def test_what_nobody_reads_is_known_by_its_name_alone(path):
    assert not is_indexed(path, 10)
    assert is_indexed("a.py", 10)
    assert not is_indexed("a.py", 300_000_000)
