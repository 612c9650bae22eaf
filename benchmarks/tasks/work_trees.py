"""Work trees of the tasks: the files of a commit without its history, patches on them, and test runs over them.

A tree is a repository of its own with one commit, so that nobody finds the correction in the history.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, str(ROOT / "agent_tui.py"))
AUTHOR = ("-c", "user.name=tasks", "-c", "user.email=tasks@localhost", "-c", "commit.gpgsign=false")
TEST_SECONDS = 300
# Runs test files in a tree, with a directory for packages, and returns the tests that pass.
TestRun = Callable[[Path, str, Sequence[str]], set[str]]
_PASSED = re.compile(r"^PASSED (.+?)(?: - .*)?$", re.MULTILINE)


def run_git(directory: Path, *arguments: str, stdin: str | None = None) -> str:
    """Run git and return its output. Raises RuntimeError with what it said."""
    command = ["git", "-C", str(directory), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, errors="surrogateescape", check=False)
    if done.returncode:
        raise RuntimeError(f"git {arguments[0]} in {directory}: {done.stderr.strip()}")
    return done.stdout


def export_tree(clone: Path, commit: str, target: Path) -> None:
    """Write the files of a commit to a new directory, and make that a repository with one commit."""
    target.mkdir(parents=True)
    with tempfile.TemporaryFile() as file:
        subprocess.run(["git", "-C", str(clone), "archive", commit], stdout=file, check=True)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            archive.extractall(target, filter="data")
    run_git(target, "init", "--quiet")
    run_git(target, "add", "--all", "--force")
    run_git(target, *AUTHOR, "commit", "--quiet", "--no-verify", "--message", "The project as it is")


def apply_patch(tree: Path, patch: str) -> None:
    """Apply a patch. Raises RuntimeError: it doesn't fit."""
    if patch.strip():
        run_git(tree, "apply", "--whitespace=nowarn", "-", stdin=patch)


def restore_files(tree: Path, paths: Sequence[str]) -> None:
    """Restore files as they are in the commit, and remove those that it doesn't have."""
    known = set(run_git(tree, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    for path in paths:
        if path in known:
            run_git(tree, "checkout", "--quiet", "HEAD", "--", path)
        else:
            (tree / path).unlink(missing_ok=True)


def build_test_run(python: str, *, boxed: bool) -> TestRun:
    """Return the function that runs tests with a Python that has pytest: in the sandbox of agent-tui, since a model
    wrote what they import, or without one."""
    return partial(_run_tests, python, boxed)


def _run_tests(python: str, boxed: bool, tree: Path, path: str, files: Sequence[str]) -> set[str]:
    options = ("-q", "-rA", "-p", "no:cacheprovider", "--no-header", "--color=no")
    words = [python, "-m", "pytest", *options, *files]
    # A correction may have the length of the fault and come in the same second: then what was compiled would be taken.
    variables = f"PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTHONPATH={shlex.quote(path)}"
    command = f"{variables} {shlex.join(words)}"
    argv: list[str] = ["sh", "-c", command]
    if boxed:
        argv = [*PROGRAM, "box", "run", "--report", "/dev/null", "--timeout", str(TEST_SECONDS), str(tree), command]
    try:
        done = subprocess.run(
            argv, cwd=tree, capture_output=True, text=True, errors="replace", timeout=TEST_SECONDS + 60, check=False
        )
    except subprocess.TimeoutExpired:
        return set()
    if "passed" not in done.stdout and "failed" not in done.stdout and "error" not in done.stdout:
        raise RuntimeError(f"no test ran in {tree}: {(done.stderr or done.stdout).strip()[-500:]}")
    return set(_PASSED.findall(done.stdout))
