"""`agent-tui review --accept` and `--reject`: each path that still waits is named with its reason."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.cli.review import parse, run
from core.exits import ExitCode
from tests.support.agent_case import calls, says
from tests.support.open_session import run_turn, session_in
from tests.support.story import access, project_at

PATHS = ("a.txt", "AGENTS.md", "fine.txt", "made/new.txt", "below/b.txt")


@pytest.fixture
def project(tmp_path) -> Path:
    """A project in which a turn proposed a file of each kind, and in which the user went on meanwhile."""
    root = project_at(tmp_path / "project")
    (root / "below").mkdir()

    async def propose() -> None:
        turn = calls(*(("write", {"file_path": path, "contents": f"{path}, new\n"}) for path in PATHS))
        read = calls(("read_file", {"target_file": "a.txt"}))
        async with session_in(root, access([read, turn, says("Done.")])) as (engine, session):
            await run_turn(engine, session)
            assert set(engine.state(session).changes) == set(PATHS)

    asyncio.run(propose())
    (root / "a.txt").write_text("mine\n")
    (root / "made").write_text("a file where a directory has to be\n")
    return root


def review(project: Path, *words: str) -> int:
    return run(parse([str(project), *words]))


def lines_of(capsys) -> dict[str, str]:
    """The reason that is told of each path that was left."""
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().err.splitlines() if line.startswith("left ")]
    return {path: why for _, path, why in lines}


def test_n43_each_path_that_is_not_written_is_named_with_its_reason(project, capsys):
    assert review(project, "--accept", "all") == ExitCode.REFUSED
    left = lines_of(capsys)
    assert set(left) == {"a.txt", "AGENTS.md", "made/new.txt"}
    assert "only by name" in left["AGENTS.md"]
    assert "at the same place" in left["a.txt"]
    assert len(left["made/new.txt"]) > 20
    assert (project / "a.txt").read_text() == "mine\n"
    assert (project / "fine.txt").read_text() == "fine.txt, new\n"
    assert (project / "below" / "b.txt").exists()


@pytest.mark.parametrize("path", ["a.txt", "made/new.txt"])
def test_n43_a_path_that_is_named_and_not_written_has_its_reason(project, capsys, path):
    assert review(project, "--accept", path) == ExitCode.REFUSED
    left = lines_of(capsys)
    assert set(left) == {path}
    assert "nothing was done" not in left[path]


@pytest.mark.parametrize("verdict", ["--accept", "--reject"])
def test_n43_a_name_for_which_nothing_waits_is_told_so(project, capsys, verdict):
    assert review(project, verdict, "fin.txt", "fine.txt") == ExitCode.REFUSED
    assert lines_of(capsys) == {"fin.txt": "(not pending: agent-tui review --print lists what is)"}
    assert review(project, "--reject", "all", "AGENTS.md") == ExitCode.DONE
    assert review(project, verdict, "fine.txt") == ExitCode.REFUSED
    assert set(lines_of(capsys)) == {"fine.txt"}
    assert review(project, verdict, "all") == ExitCode.DONE


def test_n43_what_all_leaves_when_it_rejects_is_named_with_its_reason(project, capsys):
    assert review(project, "--reject", "all") == ExitCode.REFUSED
    left = lines_of(capsys)
    assert set(left) == {"AGENTS.md"}
    assert "rejected only by name" in left["AGENTS.md"]
