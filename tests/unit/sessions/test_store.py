from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.cli import sessions
from core.errors import StateError
from core.protocol.events import ChangeResolved, Envelope, SessionRenamed, SessionStarted, TurnStarted
from core.sessions.listing import list_sessions, load_prompts
from core.sessions.log import SessionLog
from core.sessions.store import SessionStore, is_locked
from tests.support.session_log import load


@pytest.fixture
def workspace(tmp_path) -> Path:
    path = tmp_path / "My Project!"
    path.mkdir()
    return path


def filled(store: SessionStore, title: str, *prompts: str) -> str:
    directory = store.create()
    log = SessionLog(directory.log_path)
    events = [SessionStarted(workspace="/w", mode="agent", model="scripted/x"), SessionRenamed(title=title)]
    events += [TurnStarted(prompt=prompt, mode="agent", model="scripted/x") for prompt in prompts]
    for seq, event in enumerate(events, 1):
        log.append(Envelope(seq=seq, session=directory.id, at=seq, event=event, turn="t"))
    log.close()
    directory.close()
    return directory.id


def test_k4_directories_are_private_and_named_after_the_workspace(workspace, monkeypatch, tmp_path):
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "state"))
    directory = SessionStore(workspace).create()
    assert directory.path.parent.parent.name.startswith("My-Project-")
    below = [directory.path, *directory.path.parents]
    private = [path for path in below if (tmp_path / "state") in (path, *path.parents)]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o700}
    assert (directory.path / "lock").stat().st_mode & 0o777 == 0o600


def test_d5_a_session_that_is_open_is_refused_and_a_new_one_is_not(workspace):
    store = SessionStore(workspace)
    session = filled(store, "one")
    held = store.open(session)
    with pytest.raises(StateError) as refused:
        store.open(session)
    assert refused.value.code == "session_locked"
    assert str(os.getpid()) in refused.value.message
    assert is_locked(held.path)
    assert store.create().id != session
    held.close()
    assert not is_locked(held.path)
    store.open(session).close()


@pytest.mark.parametrize("name", ["", "..", "a/b", "ses_none", "x\0y"])
def test_an_unknown_session_is_refused_by_name(workspace, name):
    with pytest.raises(StateError) as refused:
        SessionStore(workspace).open(name)
    assert refused.value.code == "session_unknown"


def test_a_state_directory_that_is_a_file_is_explained(workspace, monkeypatch, tmp_path):
    (tmp_path / "state").write_text("")
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(StateError, match="can't be created") as refused:
        SessionStore(workspace).create()
    assert "AGENT_TUI_STATE_DIR" in refused.value.hint


def test_the_list_shows_the_latest_first_and_damage_as_a_problem(workspace, capsys):
    store = SessionStore(workspace)
    first, second = filled(store, "first", "a", "b"), filled(store, "second\x1b[31m", "c")
    os.utime(store.sessions_path / first / "log.jsonl", (1, 1))
    with (store.sessions_path / second / "log.jsonl").open("ab") as log:
        log.write(b"torn")
    listed_sessions = list_sessions(store, limit=10)
    assert [(session.id, session.title, session.turns) for session in listed_sessions] == [
        (second, "second\x1b[31m", 1),
        (first, "first", 2),
    ]
    assert "damaged" in listed_sessions[0].problem
    assert store.find_latest() == second
    assert load_prompts(store, limit=10)[-1:] == ("b",)
    assert sessions.run(sessions.SessionsArguments(directory=workspace)) == 0
    printed = capsys.readouterr().out
    assert first in printed
    assert "\x1b" not in printed


def test_a_workspace_without_sessions_says_how_to_start(workspace, capsys):
    assert sessions.run(sessions.SessionsArguments(directory=workspace)) == 0
    assert "Start one" in capsys.readouterr().out
    assert SessionStore(workspace).find_latest() == ""


def test_pending_counts_paths_without_a_verdict(workspace):
    store = SessionStore(workspace)
    session = filled(store, "x")
    log, _, _ = load(store.sessions_path / session / "log.jsonl")
    log.append(Envelope(seq=3, session=session, at=9, event=ChangeResolved(path="a")))
    log.close()
    assert list_sessions(store, limit=1)[0].pending == 0
