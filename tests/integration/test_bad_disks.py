"""Disks that do not do what is wanted: read-only, full, damaged. Nothing is lost, and it is said what to do."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from core.exits import ExitCode
from core.user_dirs import get_state_dir
from tests.support.program import ask, environment, run, without_powers
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at

EDIT = Call(name="search_replace", arguments={"file_path": "a.txt", "old_string": "two", "new_string": "TWO"})
PROPOSING = (Step(calls=[EDIT]), "I changed it.")
BEFORE, AFTER = "one\ntwo\nthree\n", "one\nTWO\nthree\n"
WAITING = "1 file pending review: agent-tui -c\n  a.txt (+1 -1)\n"


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


async def test_p7_a_project_that_can_not_be_written_keeps_the_edit_for_later(project):
    project.chmod(0o555)
    try:
        ended, _ = await ask(project, *PROPOSING, arguments=("--accept", "all"), before=without_powers)
    finally:
        project.chmod(0o755)
    assert ended.code == ExitCode.REFUSED
    assert "a.txt can't be written: Permission denied. Nothing was changed. Fix that, then accept again." in ended.err
    assert ended.err.endswith(WAITING)
    assert (project / "a.txt").read_text() == BEFORE
    ended, _ = await ask(project, "Done.", arguments=("-c", "--accept", "all"))
    assert (ended.code, (project / "a.txt").read_text()) == (ExitCode.DONE, AFTER)


async def test_a_state_directory_that_can_not_be_written_is_explained(project, tmp_path):
    place = tmp_path / "state"
    place.mkdir(mode=0o555)
    env = {"AGENT_TUI_STATE_DIR": str(place)}
    ended, requests = await ask(project, "Ok.", env=env, before=without_powers)
    assert (ended.code, ended.out, requests) == (ExitCode.FAILED, "", [])
    assert "can't be created: Permission denied" in ended.err
    assert "set AGENT_TUI_STATE_DIR to a directory of your own" in ended.err
    listed = await run(project, "sessions", env=environment(None, **env), before=without_powers)
    assert (listed.code, listed.err) == (ExitCode.DONE, "")
    checked = await run(project, "doctor", env=environment(None, **env), before=without_powers)
    assert checked.code == ExitCode.FAILED
    assert "Set AGENT_TUI_STATE_DIR to one that is" in checked.out


async def test_a_state_directory_that_can_not_be_read_is_no_empty_list(project, tmp_path):
    (tmp_path / "file").write_text("")
    result = await run(project, "sessions", env=environment(None, AGENT_TUI_STATE_DIR=str(tmp_path / "file")))
    assert (result.code, result.out) == (ExitCode.FAILED, "")
    assert "is not a directory. Set AGENT_TUI_STATE_DIR to one of your own." in result.err
    await ask(project, "Ok.")
    (sessions,) = get_state_dir().rglob("sessions")
    sessions.chmod(0)
    try:
        result = await run(project, "sessions", env=environment(None), before=without_powers)
    finally:
        sessions.chmod(0o700)
    assert (result.code, result.out) == (ExitCode.FAILED, "")
    assert "can't be read: Permission denied" in result.err


async def test_a_session_that_has_become_read_only_is_explained_and_stays_as_it_is(project):
    await ask(project, *PROPOSING)
    (log,) = get_state_dir().rglob("log.jsonl")
    before = log.read_bytes()
    for path in (*log.parent.iterdir(), log.parent):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        ended, requests = await ask(project, "Ok.", arguments=("-c",), before=without_powers)
    finally:
        log.parent.chmod(0o755)
    assert (ended.code, ended.out, requests) == (ExitCode.FAILED, "", [])
    assert "can't be opened" in ended.err
    assert "Check the permissions of the state directory" in ended.err
    assert log.read_bytes() == before


@pytest.mark.parametrize("damage", ["torn", "garbage"])
async def test_d2_a_damaged_log_is_mended_said_and_what_is_whole_of_it_goes_on(project, damage):
    ended, _ = await ask(project, *PROPOSING)
    assert (ended.code, ended.err) == (ExitCode.DONE, WAITING)
    (log,) = get_state_dir().rglob("log.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines) + lines[-1][:20] if damage == "torn" else b"".join((*lines, b"garbage\n")))
    ended, requests = await ask(project, "Going on.", arguments=("-c",))
    assert (ended.code, ended.out) == (ExitCode.DONE, "Going on.\n")
    assert f"The session log was damaged: {len(lines)} records were loaded" in ended.err
    assert ended.err.endswith(WAITING)
    roles = [message["role"] for message in requests[0].json["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


async def test_d4_a_full_disk_ends_the_turn_and_the_session_goes_on_when_there_is_room(project):
    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_500, 2_500))

    ended, _ = await ask(project, *PROPOSING, before=no_room, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert ended.code == ExitCode.FAILED
    assert "the session log can't be written: File too large." in ended.err
    assert "Free some space on the disk" in ended.err
    assert (project / "a.txt").read_text() == BEFORE
    ended, requests = await ask(project, *PROPOSING, arguments=("-c", "--accept", "all"))
    assert (ended.code, (project / "a.txt").read_text()) == (ExitCode.DONE, AFTER)
    assert requests[0].json["messages"][1]["role"] == "user"
