"""On a file system that ignores case, no spelling of a name leads around what is withheld, and state is found again.

The kernel's own file systems that do so are rare, so a preloaded library makes names ignore case.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.exits import ExitCode
from core.modes import Access
from core.tools.builtin import BUILTIN
from core.tools.toolset import Toolset
from core.user_dirs import get_state_dir
from tests.support.configured import configured
from tests.support.darwin.machine import fold_names_below
from tests.support.program import Ended, ask, environment, run
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at

SECRET = "zorblax"
# Calls that would show or change the withheld files if one were spelled as it is on disk.
READING = {
    "read_file": {"target_file": "hidden/x.txt"},
    "read_file absolute": {"target_file": "{project}/HIDDEN/X.txt"},
    "read_file by a link": {"target_file": "LINK/X.txt"},
    "read_file secret": {"target_file": "Conf/Secrets.yaml"},
    "read_file ruled": {"target_file": "NOTES/plan.txt"},
    "read_many_files": {"files": ["hidden/x.txt", "HIDDEN/*.txt", "a.txt"]},
    "list_dir": {"relative_workspace_path": "hidden"},
    "grep": {"pattern": "zor.lax", "path": "hidden"},
    "grep file": {"pattern": "zor.lax", "path": "CONF/secrets.yaml"},
    "codebase_search": {"query": "zor lax", "target_directories": ["hidden"]},
    "find_definition": {"path": "hidden/X.txt", "symbol": "one"},
    "find_references": {"path": "hidden/X.txt", "symbol": "one"},
    "read_lints": {"paths": ["hidden/X.txt"]},
    "glob_file_search": {"glob_pattern": "*.txt", "target_directory": "HIDDEN"},
    "run_terminal_cmd": {"command": "cat hidden/x.txt Conf/Secrets.yaml", "is_background": False},
}
WRITING = {
    "write": {"file_path": "hidden/New.txt", "content": "new"},
    "search_replace": {"file_path": "HIDDEN/x.txt", "old_string": SECRET, "new_string": "known"},
    "edit_file": {"target_file": "HIDDEN/x.txt", "instructions": "change", "code_edit": "known"},
    "file_edit": {"path": "hidden/x.txt", "draft": "known"},
    "multi_edit": {"file_path": "HIDDEN/x.txt", "edits": [{"old_string": SECRET, "new_string": "known"}]},
    "edit_blocks": {
        "file_path": "hidden/x.txt",
        "diff": f"<<<<<<< SEARCH\n{SECRET} one\n=======\nknown\n>>>>>>> REPLACE\n",
    },
    "insert_lines": {"file_path": "hidden/x.txt", "line": 0, "text": "new"},
    "undo_edit": {"file_path": "hidden/x.txt"},
    "edit_notebook": {"target_notebook": "hidden/x.txt", "cell_idx": 0, "is_new_cell": True, "new_string": "known"},
    "rename_symbol": {"path": "hidden/X.txt", "symbol": "one", "new_name": "two"},
    "delete_file": {"target_file": "hidden/X.txt"},
    "apply_patch": {"patch": "*** Begin Patch\n*** Delete File: hidden/x.txt\n*** End Patch\n"},
    "write git": {"file_path": ".GIT/hooks/pre-commit", "content": "new"},
}

# Reading and writing tools that take no path of the project.
WITHOUT_PATHS = {"call_tool", "fetch_rules", "finish", "activate_skill", "think"}


def test_every_tool_that_reads_or_writes_files_is_called_here():
    toolset = Toolset()
    names = {tool.name for tool in BUILTIN if toolset[tool.name].access in {Access.READ, Access.PROPOSE}}
    assert names - WITHOUT_PATHS == {name.split()[0] for name in (*READING, *WRITING)} - {"run_terminal_cmd"}


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "Project")
    for directory in ("Hidden", "conf", "notes"):
        (root / directory).mkdir()
    (root / "Hidden" / "X.txt").write_text(f"{SECRET} one\n")
    (root / "conf" / "secrets.yaml").write_text(f"key: {SECRET}-1234567\n")
    (root / "notes" / "Plan.txt").write_text(f"{SECRET} two\n")
    (root / "link").symlink_to("Hidden")
    (root / ".cursorignore").write_text("Hidden/\n")
    (root / ".gitignore").write_text("conf/secrets.yaml\n")
    return root


async def play(
    project: Path, *steps: Step | str, arguments: tuple[str, ...] = (), typed: str = ""
) -> tuple[Ended, str]:
    """Return how the run ended in the project, which the user calls `typed`, and all that the model was sent."""
    env = fold_names_below(project.parent)
    directory = str(project.parent / typed) if typed else str(project)
    ended, requests = await ask(
        project, *steps, env=env, arguments=(*arguments, directory), before=_start_alone, seconds=100
    )
    return ended, "\n".join(request.raw.decode() for request in requests)


async def _run_alone(project: Path, *arguments: str, env: dict[str, str]) -> Ended:
    return await run(project, *arguments, env=env, before=_start_alone, seconds=100)


def _start_alone() -> None:
    """Ask for a process of its own, which loads the library."""


def call(name: str, arguments: dict, project: Path) -> Step:
    filled = json.loads(json.dumps(arguments).replace("{project}", str(project)))
    return Step(calls=[Call(name=name.split(maxsplit=1)[0], arguments=filled)])


@pytest.mark.slow
async def test_no_tool_shows_a_withheld_file_by_another_spelling(project):
    configured('[permissions]\ndeny = ["Read(notes/**)"]\n')
    steps = [call(name, arguments, project) for name, arguments in READING.items()]
    ended, sent = await play(project, *steps, "Done.")
    assert ended.code in {ExitCode.DONE, ExitCode.REFUSED}
    assert SECRET not in sent


@pytest.mark.slow
async def test_no_mention_shows_a_withheld_file_by_another_spelling(project):
    configured('[permissions]\ndeny = ["Read(notes/**)"]\n')
    withheld = "Look at @hidden/X.txt, @Conf/Secrets.yaml, @NOTES/plan.txt, @LINK/x.txt"
    async with provider_server(["Done."]) as server:
        env = environment(server, **fold_names_below(project.parent))
        refused = await _run_alone(project, "-p", withheld, "--model", "openai/tiny-1", env=env)
        assert (refused.code, refused.out, server.answered) == (ExitCode.USAGE, "", [])
        assert "'Hidden/X.txt' is excluded by .cursorignore" in refused.err
        shown = await _run_alone(project, "-p", "Look at @A.TXT", "--model", "openai/tiny-1", env=env)
        assert shown.out == "Done.\n"
        sent = server.answered[0].raw.decode()
    assert "two\\n" in sent  # of a.txt
    assert SECRET not in sent + refused.err


@pytest.mark.slow
async def test_no_tool_writes_a_withheld_file_by_another_spelling(project):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    steps = [call(name, arguments, project) for name, arguments in WRITING.items()]
    await play(project, *steps, "Done.", arguments=("--accept", "all"))
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


@pytest.mark.slow
async def test_an_edit_goes_to_the_file_as_it_is_spelled_on_disk(project):
    edit = Call(name="search_replace", arguments={"file_path": "A.TXT", "old_string": "two", "new_string": "TWO"})
    ended, _ = await play(project, Step(calls=[edit]), "Done.", arguments=("--accept", "all"))
    assert ended.code == ExitCode.DONE
    assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert "A.TXT" not in {path.name for path in project.iterdir()}


@pytest.mark.slow
async def test_two_pending_files_that_differ_by_case_are_refused_as_one(project):
    steps = [
        call("write", {"file_path": "src/New.txt", "content": "one"}, project),
        call("write", {"file_path": "src/new.txt", "content": "two"}, project),
        call("write", {"file_path": "Src/other.txt", "content": "three"}, project),
    ]
    ended, sent = await play(project, *steps, "Done.", arguments=("--accept", "all"))
    assert ended.code == ExitCode.DONE
    assert "is the same as 'src/New.txt', which is pending" in sent
    assert "is the same as 'src', which is pending" in sent
    assert {path.name: path.read_text() for path in (project / "src").iterdir()} == {"New.txt": "one"}


@pytest.mark.slow
async def test_a_rename_that_changes_the_case_alone_is_refused_and_loses_nothing(project):
    patch = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: A.txt\n@@\n-two\n+TWO\n*** End Patch\n"
    _, sent = await play(
        project, call("apply_patch", {"patch": patch}, project), "Done.", arguments=("--accept", "all")
    )
    assert "exists, so nothing can be moved there" in sent
    assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.slow
async def test_a_directory_typed_in_another_case_finds_its_own_sessions(project):
    write = call("write", {"file_path": "b.txt", "content": "b\n"}, project)
    await play(project, write, "I remember.")
    ended, sent = await play(project, "Again.", arguments=("-c",), typed="pROJECT")
    assert "1 file pending review" in ended.err
    assert "I remember." in sent
    assert len(list((get_state_dir() / "workspaces").iterdir())) == 1
    env = environment(None, **fold_names_below(project.parent))
    listed = await _run_alone(project, "sessions", str(project.parent / "PROJECT"), env=env)
    assert "Do it" in listed.out
