"""`agent-tui diff`, `commit` and `pr` as a user calls them, in real repositories."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.protocol import commands as cmd
from core.sessions.store import SessionStore
from tests.support.commits import LINES, add_hook, edited, git, make_repository
from tests.support.open_session import session_in
from tests.support.program import ROOT

SCRIPT = """
turns:
  - steps:
      - tool_calls:
          - name: read_file
            arguments: {{target_file: a.txt}}
          - name: write
            arguments: {{file_path: a.txt, contents: {contents}}}
          - name: run_terminal_cmd
            arguments:
              command: "printf '\\\\0\\\\1' > b.bin; printf 'x\\\\r\\\\n' > 'c d.txt'; ln -s a.txt l"
              is_background: false
      - Done.
"""
READING = (("diff",), ("review", "--print"), ("commit", "--dry-run"), ("pr", "--dry-run"))
WRITING = (("review", "--accept", "b.bin"), ("commit",), ("commit", "--dry-run", "--write-text"))


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    root = make_repository(tmp_path, monkeypatch)
    (root / ".git" / "info" / "exclude").write_text("s.yaml\n")
    (root / "s.yaml").write_text(SCRIPT.format(contents=json.dumps(edited(2, 20))))
    return root


def call(project: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-I", str(ROOT / "agent_tui.py"), *words]
    return subprocess.run(command, cwd=project, env=os.environ, capture_output=True, check=False, timeout=120)


def propose(project: Path) -> None:
    done = call(project, "-p", "Renew the lines.", "--model", "scripted/s.yaml")
    assert done.returncode == 0, done.stderr


def test_the_patch_of_what_is_pending_is_applied_elsewhere_to_the_byte(project, tmp_path):
    propose(project)
    git(tmp_path, "clone", "-q", str(project), "other")
    other = tmp_path / "other"
    patch = call(project, "diff").stdout
    subprocess.run(["git", "-C", str(other), "apply", "--whitespace=nowarn"], input=patch, check=True)
    assert (other / "a.txt").read_text() == edited(2, 20)
    assert (other / "b.bin").read_bytes() == b"\0\1"
    assert (other / "c d.txt").read_bytes() == b"x\r\n"
    assert (other / "l").readlink() == Path("a.txt")
    assert (project / "a.txt").read_text() == LINES
    assert call(project, "diff", "b.bin").stdout.count(b"diff --git") == 1


def test_what_was_accepted_is_shown_committed_and_then_nothing_is_left(project):
    propose(project)
    assert call(project, "commit").stderr.startswith(b"agent-tui: nothing that was accepted is waiting for a commit.")
    call(project, "review", "--accept", "a.txt")
    result = call(project, "commit", "--dry-run")
    assert result.stdout == b"on main\n\n    Renew the lines\n\n  edit    a.txt  +2 -2\n"
    assert call(project, "commit", "--dry-run", "--only", "./a.txt").stdout == result.stdout
    assert b"accepted below b.bin is waiting" in call(project, "commit", "--dry-run", "--only", "b.bin").stderr
    assert git(project, "log", "--format=%s") == "first\n"
    assert call(project, "diff", "--accepted").stdout.count(b"\n+line") == 2
    done = call(project, "commit", "-m", "text: renew the lines\n\nThey were old.")
    assert done.returncode == 0
    assert done.stderr.decode().partition(" on ")[2] == "main: text: renew the lines (1 file)\n"
    assert git(project, "log", "-1", "--format=%B") == "text: renew the lines\n\nThey were old.\n\n"
    again = call(project, "commit")
    assert (again.returncode, again.stdout) == (1, b"")


async def test_what_is_pending_is_read_while_a_program_that_cannot_be_reached_has_the_session_open(project):
    propose(project)
    call(project, "review", "--accept", "a.txt")
    alone = [call(project, *words) for words in READING]
    store = SessionStore(project)
    directory = store.get_path(store.find_latest())
    async with session_in(project, opening=cmd.SessionResume(session=directory.name)):
        before = list_entries(directory)
        beside = [await asyncio.to_thread(call, project, *words) for words in READING]
        refused = [await asyncio.to_thread(call, project, *words) for words in WRITING]
        assert list_entries(directory) == before
    assert [(result.returncode, result.stdout, result.stderr) for result in beside] == [
        (result.returncode, result.stdout, result.stderr) for result in alone
    ]
    assert b"b.bin" in beside[0].stdout
    assert b"Renew the lines" in beside[2].stdout
    for result in refused:
        assert result.returncode == 1
        assert b"is open in another agent-tui (process " in result.stderr
    assert not (project / "b.bin").exists()


def list_entries(directory: Path) -> dict[str, tuple[int, int]]:
    paths = (path for path in directory.rglob("*"))
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths}


def test_directories_and_patterns_are_accepted_and_rejected_as_in_a_run_without_a_screen(project):
    names = "src/shop/a.py src/shop/b.py src/api/x.py tests/test_a.py tests/test_b.py src/.vscode/tasks.json"
    make = f"for name in {names}; do mkdir -p $(dirname $name); echo 1 > $name; done"
    script = {"turns": [{"steps": [{"tool_calls": [{"name": "run_terminal_cmd", "arguments": {"command": make}}]}]}]}
    (project / "s.yaml").write_text(json.dumps(script))
    propose(project)
    accepted = call(project, "review", "--accept", "./src/shop/", "tests/*a.py", str(project / "tests"), "none.py")
    assert accepted.returncode == 4
    assert accepted.stderr.decode().splitlines() == [
        "left      none.py (not pending: agent-tui review --print lists what is)",
        *(f"accepted  {name}" for name in ("src/shop/a.py", "src/shop/b.py", "tests/test_a.py", "tests/test_b.py")),
    ]
    rejected = call(project, "review", "--reject", "src")
    assert rejected.returncode == 4
    assert rejected.stderr.decode().startswith("rejected  src/api/x.py\nleft      src/.vscode/tasks.json (protected: ")
    assert not (project / "src/api").exists()
    assert (project / "src/shop/b.py").read_text() == "1\n"
    assert call(project, "review", "--accept", "src/.vscode/tasks.json").returncode == 0
    assert call(project, "diff").stdout == b""


def test_a_hook_that_refuses_is_exit_code_four_with_what_it_printed(project):
    add_hook(project, "commit-msg", 'grep -q TICKET "$1" || { echo "no ticket"; exit 1; }')
    propose(project)
    call(project, "review", "--accept", "a.txt")
    refused = call(project, "commit")
    assert refused.returncode == 4
    assert refused.stderr.decode().splitlines()[0] == "no ticket"
    assert "hooks refused the commit" in refused.stderr.decode()
    done = call(project, "commit", "--json", "-m", "TICKET-1: renew")
    assert json.loads(done.stdout)["subject"] == "TICKET-1: renew"


def test_a_pull_request_is_shown_and_nothing_is_pushed(project, tmp_path):
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "there.git"))
    git(project, "remote", "add", "origin", str(tmp_path / "there.git"))
    git(project, "push", "-q", "-u", "origin", "main")
    git(project, "checkout", "-q", "-b", "renewed")
    propose(project)
    call(project, "review", "--accept", "a.txt")
    call(project, "commit")
    text = call(project, "pr", "--dry-run").stdout.decode()
    assert text.splitlines()[0].startswith("push HEAD as renewed to origin (")
    assert text.endswith("into main\n\nRenew the lines\n\n- Renew the lines\n")
    assert git(tmp_path / "there.git", "branch", "--list", "renewed") == ""
    done = call(project, "pr", "--title", "Lines")
    assert done.returncode == 0
    assert git(tmp_path / "there.git", "log", "-1", "--format=%s", "renewed") == "Renew the lines\n"


@pytest.mark.parametrize("is_draft", [True, False])
def test_a_pull_request_is_told_before_it_is_pushed_and_a_draft_is_opened_as_one(
    project, tmp_path, monkeypatch, is_draft
):
    there, programs = tmp_path / "there.git", tmp_path / "programs"
    git(tmp_path, "init", "-q", "--bare", str(there))
    git(project, "config", f"url.{there}.insteadOf", "https://github.com/me/project.git")
    git(project, "remote", "add", "origin", "https://github.com/me/project.git")
    git(project, "push", "-q", "-u", "origin", "main")
    git(project, "checkout", "-q", "-b", "renewed")
    programs.mkdir()
    (programs / "gh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/said\necho https://github.com/me/1\n')
    (programs / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    propose(project)
    call(project, "review", "--accept", "a.txt")
    call(project, "commit")
    add_hook(project, "pre-push", "exit 1")
    refused = call(project, "pr", *(["--draft"] if is_draft else []))
    assert refused.returncode == 4
    kind = "a draft pull request" if is_draft else "a pull request"
    head = f"push HEAD as renewed to origin (https://github.com/me/project.git), then gh opens {kind}; into main"
    assert refused.stderr.decode().splitlines()[:3] == [head, "", "Renew the lines"]
    assert git(there, "branch", "--list", "renewed") == ""
    (project / ".git" / "hooks" / "pre-push").unlink()
    done = call(project, "pr", *(["--draft"] if is_draft else []))
    assert done.returncode == 0, done.stderr
    assert done.stderr.decode().splitlines()[-1] == "pushed    renewed: https://github.com/me/1"
    assert ("--draft" in (tmp_path / "said").read_text().splitlines()) is is_draft


@pytest.mark.parametrize("place", ["box", "machine"])
def test_what_a_formatter_makes_of_a_commit_waits_for_the_review_wherever_it_runs(project, place):
    add_hook(project, "pre-commit", "grep -q 'line 2 new$' a.txt || exit 0\nsed -i 's/ new$/ NEW/' a.txt\nexit 1")
    propose(project)
    call(project, "review", "--accept", "a.txt")
    refused = call(project, "commit", "--hooks", place)
    assert refused.returncode == 4
    assert "hooks changed files of the commit. Their changes are pending review" in refused.stderr.decode()
    assert (project / "a.txt").read_text() == edited(2, 20)
    text = call(project, "review", "--print").stdout.decode()
    assert "+line 2 NEW" in text
    call(project, "review", "--accept", "a.txt")
    done = call(project, "commit", "--hooks", place)
    assert done.returncode == 0, done.stderr
    assert git(project, "show", "HEAD:a.txt") == edited(2, 20).replace(" new", " NEW")


def test_a_hook_on_the_machine_that_only_refuses_changes_nothing(project):
    add_hook(project, "pre-commit", "echo no; exit 1")
    propose(project)
    call(project, "review", "--accept", "a.txt")
    refused = call(project, "commit", "--hooks", "machine")
    assert (refused.returncode, b"git commit ended with 1" in refused.stderr) == (4, True)
    assert (project / "a.txt").read_text() == edited(2, 20)


def test_wrong_words_are_refused_before_anything_is_opened(project):
    for words in (("commit", "-m", "x", "--split", "todo"), ("commit", "--hooks", "no"), ("diff", "--session", "?")):
        assert call(project, *words).returncode == 2


def test_a_directory_that_is_a_project_of_its_own_is_named_with_the_command_that_reads_it(project):
    propose(project)
    (project.parent / "plain").mkdir()
    result = call(project.parent, "diff", project.name)
    hint = f"For the project {project.name}: agent-tui diff --dir {project.name}"
    assert (result.stdout, hint in result.stderr.decode()) == (b"", True)
    assert call(project.parent, "diff", "--dir", project.name).stdout.count(b"diff --git") > 1
    assert b"--dir" not in call(project.parent, "diff", "plain").stderr
