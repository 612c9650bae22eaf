"""No git of ours runs anything of a repository, or tells of a place that is not the project."""

from __future__ import annotations

import os
import subprocess

import pytest

from core.agent.context.project_facts import describe_git_status
from core.git.command_view import find_repository_view
from tests.support.git_traps import ELSEWHERE, TRAPS, Ground


@pytest.fixture
def ground(tmp_path, monkeypatch):
    new_ground = Ground(tmp_path)
    monkeypatch.setenv("HOME", str(new_ground.home))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.delenv(name, raising=False)
    return new_ground


def look(ground: Ground) -> str:
    later = ground.root.stat().st_mtime + 100
    for name in ("a.txt", "b.txt"):
        os.utime(ground.root / name, (later, later))
    return describe_git_status(ground.root)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_n2_a_status_runs_nothing_of_the_repository_and_tells_of_no_other_place(ground, trap):
    trap(ground)
    text = look(ground)
    assert not ground.fired.exists()
    assert ELSEWHERE not in text


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_n2_nor_does_it_in_a_linked_worktree_or_below_the_repository(ground, trap):
    ground.git("worktree", "add", "-q", str(ground.place / "linked"))
    trap(ground)
    (ground.root / "below").mkdir()
    (ground.place / "linked" / "a.txt").write_text("changed\n")
    (ground.place / "linked" / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    places = (ground.place / "linked", ground.root / "below")
    text = "".join(map(describe_git_status, places))
    text += "".join(find_repository_view(path).settings for path in (*places, ground.root))
    assert not ground.fired.exists()
    assert ELSEWHERE not in text


@pytest.mark.parametrize("name", ["sub", "inner", "bare"])
def test_n2_nor_in_a_module_or_a_repository_inside(ground, name):
    for trap in TRAPS:
        if trap.__name__ in {"submodule", "repository_inside", "bare_repository"}:
            trap(ground)
    describe_git_status(ground.root / name)
    describe_git_status(ground.root)
    assert not ground.fired.exists()


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_n2_the_traps_bite_who_asks_without_care(ground, trap):
    quiet = {"alternates", "bare_repository", "linked_references"}
    trap(ground)
    result = subprocess.run(
        "touch -d '+1 min' a.txt b.txt; git status; git diff; git log -1 -p; cd inner || cd sub && git status",
        cwd=ground.root,
        env={"HOME": str(ground.home), "PATH": os.environ["PATH"], "GIT_EDITOR": "true"},
        shell=True,
        capture_output=True,
        check=False,
    )
    text = os.fsdecode(result.stdout + result.stderr)
    assert ground.fired.exists() or ELSEWHERE in text or trap.__name__ in quiet
