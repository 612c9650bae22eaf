"""Without a screen too, a renamed file is one thing that waits: one row, one verdict, one in every count."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from core.exits import ExitCode
from tests.support.program import Ended, ask, environment, run
from tests.support.provider_streams import Call, Step
from tests.support.trust import trust

BODY = "".join(f"line {number}\n" for number in range(1, 21))


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "a.txt").write_text(BODY)
    (root / "b.txt").write_text("two\n" + BODY)
    for number in range(12):
        place = root / "pkg" / ("sub" if number % 2 else "") / f"m{number}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"# {number}\n{BODY}")
    subprocess.run(["git", "-C", str(root), "add", "."], check=True)
    named = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(root), *named, "commit", "-qm", "first"], check=True)
    trust(root)
    return root


async def asked(project: Path, command: str, *arguments: str) -> Ended:
    step = Step(calls=[Call(name="run_terminal_cmd", arguments={"command": command})])
    ended, _ = await ask(project, step, "Done.", arguments=arguments)
    return ended


async def said(project: Path, *words: str) -> Ended:
    return await run(project, *words, env=environment(None))


async def counted(project: Path) -> int:
    listed = await said(project, "sessions")
    return int(listed.out.splitlines()[1].split()[4])


def forget_summaries() -> None:
    for summary in Path(os.environ["XDG_STATE_HOME"]).rglob("summary.json"):
        summary.unlink()


async def test_n16a_a_git_mv_is_one_file_that_waits_in_every_count(project):
    ended = await asked(project, "git mv a.txt moved.txt && echo more >> b.txt")
    waits = [line for line in ended.err.splitlines() if "wait" in line or line.startswith("  ")]
    assert waits[:3] == [
        "2 files wait for your review (1 renamed): agent-tui -c",
        "  b.txt (+1 -0)",
        "  a.txt -> moved.txt (renamed)",
    ]
    bulks = ended.err.count("git state")
    assert await counted(project) == 2 + bulks
    forget_summaries()
    assert await counted(project) == 2  # worked out of the log alone, which knows files only
    printed = await said(project, "review", "--print")
    assert printed.out.count("diff --git ") == 2
    assert "rename from a.txt\nrename to moved.txt\n" in printed.out
    accepted = await said(project, "review", "--accept", "a.txt")
    assert (accepted.code, accepted.err) == (ExitCode.DONE, "accepted  a.txt -> moved.txt\n")
    assert not (project / "a.txt").exists()
    assert (project / "moved.txt").read_text() == BODY


async def test_n16a_in_json_a_rename_names_its_old_path_and_counts_once(project):
    ended = await asked(project, "mv a.txt moved.txt", "--output-format", "json")
    metadata = json.loads(ended.out)["metadata"]
    assert metadata["pendingChanges"] == [
        {
            "path": "moved.txt",
            "operation": "rename",
            "added": 0,
            "removed": 0,
            "renamedFrom": "a.txt",
            "protected": False,
            "conflict": "",
        }
    ]
    taken = await asked(project, "mv b.txt c.txt", "--output-format", "stream-json", "--accept", "all")
    response = json.loads(taken.out.splitlines()[-1])["response"]
    assert response["metadata"]["acceptedChanges"] == ["c.txt"]
    assert response["metadata"]["pendingChanges"] == []


async def test_n16a_a_directory_that_moved_is_told_as_one_group(project):
    ended = await asked(project, "mkdir new && mv pkg new/pkg && mv a.txt z.txt")
    assert "13 files wait for your review (13 renamed): agent-tui -c" in ended.err
    assert "  pkg/ -> new/pkg/ (12 files renamed)\n" in ended.err
    assert "  a.txt -> z.txt (renamed)\n" in ended.err
    assert "m1.py" not in ended.err.split("files wait")[1]
    printed = await said(project, "review", "--print")
    assert printed.out.startswith("# pkg/ -> new/pkg/ (12 files renamed)\n")
    assert printed.out.count("similarity index 100%") == 13


async def test_n16a_box_run_tells_a_rename_in_one_line(project):
    told = await said(project, "box", "run", ".", "git mv a.txt z.txt")
    lines = [line for line in told.err.splitlines() if ".txt" in line]
    assert lines == ["renamed    a.txt -> z.txt"]
