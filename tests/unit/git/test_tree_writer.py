"""Trees that GitPython writes: the same as git's own, without a git being started."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from core.git.repository import GitFailed
from core.git.tree_writer import TreeWriter

FILES = {
    b"a": ("100644", b"plain"),
    b"a-b": ("100755", b"#!/bin/sh\n"),
    b"a.d/deep/er": ("100644", b"\x00\r\n"),
    b"a0": ("100644", b""),
    b"d/link": ("120000", b"../a"),
    b"d.e": ("100644", b"sorts between d and d/"),
    b"caf\xe9 \n": ("100644", b"a name that is not UTF-8"),
    b"n/" * 1_500 + b"nested": ("100644", b"deeper than calls of Python may be"),
    "grün/ß".encode(): ("100644", b"x" * 100_000),
}


def write_with_git(directory, files) -> str:
    def git(*words: str, stdin: bytes = b"") -> bytes:
        return subprocess.run(["git", *words], cwd=directory, input=stdin, capture_output=True, check=True).stdout

    git("init", "--quiet")
    for path, (mode, data) in files.items():
        oid = git("hash-object", "-w", "--stdin", stdin=data).strip()
        git("update-index", "-z", "--index-info", stdin=mode.encode() + b" " + oid + b"\t" + path + b"\0")
    return git("write-tree").decode().strip()


def test_a_tree_has_the_name_that_git_gives_it_and_git_reads_it(tmp_path):
    tree = write_with_git(tmp_path, FILES)
    ours = tmp_path / "ours"
    ours.mkdir()
    assert TreeWriter(ours).write(FILES) == tree
    environment = os.environ | {"GIT_DIR": str(tmp_path / ".git"), "GIT_OBJECT_DIRECTORY": str(ours)}
    listing = subprocess.run(["git", "ls-tree", "-rz", tree], env=environment, capture_output=True, check=True).stdout
    assert {row.partition(b"\t")[2] for row in listing.split(b"\0")[:-1]} == FILES.keys()
    show = ["git", "cat-file", "blob", f"{tree}:a.d/deep/er"]
    assert subprocess.run(show, env=environment, capture_output=True, check=True).stdout == b"\x00\r\n"


def test_no_files_are_the_empty_tree(tmp_path):
    assert TreeWriter(tmp_path).write({}) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.mark.parametrize("path", [b".git/config", b"below/.GIT/hooks/x", b"a/../b"])
def test_a_path_that_git_refuses_is_refused(tmp_path, path):
    with pytest.raises(GitFailed):
        TreeWriter(tmp_path).write({path: ("100644", b"")})


def test_gitpython_starts_no_git_and_leaves_the_environment_as_it_was(tmp_path):
    trap = tmp_path / "git"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    trap.chmod(0o755)
    code = f"""
import os, pathlib
os.environ["GIT_PYTHON_REFRESH"] = "raise"
before = dict(os.environ)
from core.git.tree_writer import TreeWriter, import_gitpython
TreeWriter(pathlib.Path({str(tmp_path)!r})).write({{b"a": ("100644", b"")}})
assert dict(os.environ) == before
git = import_gitpython()
try:
    git.Git().version()
except (git.GitCommandNotFound, PermissionError):
    print("no git")
"""
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("no git\n", "")
    assert not (tmp_path / "started").exists()
