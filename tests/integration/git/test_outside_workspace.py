"""What only git would have of pending changes is not lost where its repository lies outside of the workspace."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from core.protocol import events as ev
from tests.support.agent_case import Case, says
from tests.support.boxes import boxed, command


def git(at: Path, *arguments: str) -> None:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *names, *arguments], cwd=at, check=True, capture_output=True)


def become_worktree(case: Case, place: Path) -> None:
    main = place / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "trunk")
    (main / "a.py").write_text("one\n")
    git(main, "add", ".")
    git(main, "commit", "-qm", "one")
    git(main, "worktree", "add", "-q", "-b", "side", str(case.project))


WRITES = command("echo two > a.py; mkdir new; echo b > new/b.py")
COMMIT = "git -c user.name=t -c user.email=t@example.org commit -qam x"


@pytest.mark.parametrize(
    ("acts", "why"),
    [
        ("git stash -u; touch other", "a stash can't be kept"),
        (
            f"git checkout -qb fix; git add .; {COMMIT}; git checkout -q side; touch other",
            "which was pending review",
        ),
    ],
)
async def test_p19_a_command_that_leaves_pending_changes_to_git_alone_is_dropped_as_a_whole(tmp_path, acts, why):
    async with boxed(tmp_path, WRITES, command(acts), says(".")) as case:
        become_worktree(case, tmp_path)
        await case.turn()
        assert why in case.results()[-1]
        assert {path: case.shadow.read(path) for path in case.state.changes} == {"a.py": b"two\n", "new/b.py": b"b\n"}


@pytest.mark.parametrize("acts", [f"git add .; {COMMIT}; touch other", "git stash -u; git stash pop; touch other"])
async def test_p19_other_changes_of_a_command_that_commits_are_kept(tmp_path, acts):
    async with boxed(tmp_path, WRITES, command(acts), says(".")) as case:
        become_worktree(case, tmp_path)
        await case.turn()
        assert set(case.state.changes) == {"a.py", "new/b.py", "other"}
        messages = [event.message for event in case.events if isinstance(event, ev.Notice)]
        assert any("not kept" in message for message in messages) == ("commit" in acts)
