"""Without a screen too, a renamed file is one thing that waits: one row, one verdict, one in every count."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from core.exits import ExitCode
from tests.integration.test_bulk_left import counted, said
from tests.support.committed import committed
from tests.support.program import Ended, ask
from tests.support.provider_streams import Call, Step

BODY = "".join(f"line {number}\n" for number in range(1, 21))


@pytest.fixture
def project(tmp_path) -> Path:
    places = {number: f"pkg/sub/m{number}.py" if number % 2 else f"pkg/m{number}.py" for number in range(12)}
    files = {path: f"# {number}\n{BODY}" for number, path in places.items()}
    return committed(tmp_path / "project", {"a.txt": BODY, "b.txt": f"two\n{BODY}", **files})


async def asked(project: Path, command: str, *arguments: str) -> Ended:
    step = Step(calls=[Call(name="run_terminal_cmd", arguments={"command": command})])
    ended, _ = await ask(project, step, "Done.", arguments=arguments)
    return ended


def forget_summaries() -> None:
    for summary in Path(os.environ["XDG_STATE_HOME"]).rglob("summary.json"):
        summary.unlink()


async def test_n16a_a_git_mv_is_one_file_that_waits_in_every_count(project):
    ended = await asked(project, "git mv a.txt moved.txt && echo more >> b.txt")
    waits = [line for line in ended.err.splitlines() if "pending" in line or line.startswith("  ")]
    assert waits[:3] == [
        "2 files pending review (1 renamed): agent-tui -c",
        "  b.txt (+1 -0)",
        "  a.txt -> moved.txt (renamed)",
    ]
    bulks = ended.err.count("git state")
    assert await counted(project) == str(2 + bulks)
    forget_summaries()
    assert await counted(project) == str(2 + bulks)  # worked out of the log alone
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
            "evidence": [],
        }
    ]
    taken = await asked(project, "mv b.txt c.txt", "--output-format", "stream-json", "--accept", "all")
    response = json.loads(taken.out.splitlines()[-1])["response"]
    assert response["metadata"]["acceptedChanges"] == ["c.txt"]
    assert response["metadata"]["pendingChanges"] == []


async def test_n16a_a_directory_that_moved_is_told_as_one_group(project):
    ended = await asked(project, "mkdir new && mv pkg new/pkg && mv a.txt z.txt")
    assert "13 files pending review (13 renamed): agent-tui -c" in ended.err
    assert "  pkg/ -> new/pkg/ (12 files renamed)\n" in ended.err
    assert "  a.txt -> z.txt (renamed)\n" in ended.err
    assert "m1.py" not in ended.err.split("files pending")[1]
    printed = await said(project, "review", "--print")
    assert printed.out.startswith("# pkg/ -> new/pkg/ (12 files renamed)\n")
    assert printed.out.count("similarity index 100%") == 13


async def test_n16a_box_run_tells_a_rename_in_one_line(project):
    result = await said(project, "box", "run", ".", "git mv a.txt z.txt")
    lines = [line for line in result.err.splitlines() if ".txt" in line]
    assert lines == ["renamed    a.txt -> z.txt"]


EDIT = "sed -i 's/^line 3$/LINE 3/; s/^line 18$/LINE 18/' dir/moved.txt; chmod +x dir/moved.txt"


def applied(patch: str, project: Path, copy: Path) -> str:
    """What git says of the patch, applied to a copy of the project."""
    subprocess.run(["cp", "-a", project, copy], check=True)
    taken = subprocess.run(["git", "apply", "-"], cwd=copy, input=patch, text=True, capture_output=True, check=False)
    return taken.stderr


async def test_n16a_a_git_mv_with_edits_is_one_change_with_the_changed_lines(project, tmp_path):
    ended = await asked(project, f"mkdir dir; git mv a.txt dir/moved.txt; {EDIT}")
    assert "1 file pending review (1 renamed): agent-tui -c" in ended.err
    assert "  a.txt -> dir/moved.txt (renamed, +2 -2)\n" in ended.err
    printed = await said(project, "review", "--print")
    patch = printed.out.partition("# git")[0]
    assert patch.count("diff --git ") == 1
    assert [line for line in patch.splitlines() if line[:1] in "+-"] == [
        "--- a/a.txt",
        "+++ b/dir/moved.txt",
        "-line 3",
        "+LINE 3",
        "-line 18",
        "+LINE 18",
    ]
    copy = tmp_path / "copy"
    assert applied(patch, project, copy) == ""
    accepted = await said(project, "review", "--accept", "dir/moved.txt")
    assert (accepted.code, accepted.err) == (ExitCode.DONE, "accepted  a.txt -> dir/moved.txt\n")
    for place in (project, copy):
        assert not (place / "a.txt").exists()
        assert (place / "dir/moved.txt").read_text() == BODY.replace("line 3\n", "LINE 3\n").replace(
            "line 18\n", "LINE 18\n"
        )
        assert (place / "dir/moved.txt").stat().st_mode & 0o111


async def test_n16a_deleted_and_written_anew_by_tools_it_is_one_change_too(project):
    steps = (
        Step(calls=[Call(name="delete_file", arguments={"target_file": "a.txt"})]),
        Step(calls=[Call(name="write", arguments={"file_path": "new.txt", "contents": BODY + "more\n"})]),
    )
    ended, _ = await ask(project, *steps, "Done.", arguments=("--output-format", "json"))
    (change,) = json.loads(ended.out)["metadata"]["pendingChanges"]
    assert (change["renamedFrom"], change["path"], change["added"], change["removed"]) == ("a.txt", "new.txt", 1, 0)
    accepted = await said(project, "review", "--accept", "all")
    assert (accepted.code, accepted.err) == (ExitCode.DONE, "accepted  a.txt -> new.txt\n")
    assert not (project / "a.txt").exists()
