from __future__ import annotations

import time
from pathlib import Path

import pytest

from core.protocol.events import Envelope, SessionRenamed, SessionStarted, TurnFinished, TurnStarted
from core.sessions import listing
from core.sessions.listing import (
    FILE_NAME,
    MAX_PROMPT_CHARS,
    build_summary,
    list_sessions,
    load_prompts,
    load_summary,
    save_summary,
)
from core.sessions.log import SessionLog, read_log
from core.sessions.store import SessionStore
from tests.support.folded import fold_events
from tests.support.session_log import load, scan


@pytest.fixture
def store(tmp_path) -> SessionStore:
    (tmp_path / "project").mkdir()
    return SessionStore(tmp_path / "project")


def session(store: SessionStore, title: str, *prompts: str):
    """A closed session with its summary; its directory."""
    directory = store.create()
    log = SessionLog(directory.log_path)
    events = [SessionStarted(workspace="/w", mode="agent", model="m/x", title=title)]
    for prompt in prompts:
        events += [TurnStarted(prompt=prompt, mode="agent", model="m/x"), TurnFinished(reason="done")]
    for seq, event in enumerate(events, 1):
        log.append(Envelope(seq=seq, session=directory.id, at=time.time_ns() // 1_000_000, event=event, turn="t"))
    log.close()
    log_scan = scan(directory.log_path)
    save_summary(
        directory.path, build_summary(fold_events(log_scan.envelopes), name=directory.id, size=log_scan.extent.size)
    )
    directory.close()
    return directory


def test_a_log_with_a_fitting_summary_is_not_read(store):
    directory = session(store, "The title", "one", "two")
    directory.log_path.write_bytes(b"x" * directory.log_path.stat().st_size)
    (session_info,) = list_sessions(store, limit=10)
    assert (session_info.id, session_info.title, session_info.turns, session_info.problem) == (
        directory.id,
        "The title",
        2,
        "",
    )
    assert load_prompts(store, limit=10) == ("one", "two")


def test_a_summary_of_another_log_counts_as_none(store):
    directory = session(store, "Before")
    log, envelopes, _ = load(directory.log_path)
    log.append(Envelope(seq=2, session=directory.id, at=envelopes[0].at, event=SessionRenamed(title="After")))
    log.close()
    assert list_sessions(store, limit=1)[0].title == "After"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"size":1}'])
def test_a_damaged_summary_counts_as_none(store, data):
    directory = session(store, "Right")
    (directory.path / FILE_NAME).write_bytes(data)
    assert load_summary(directory.path) is None
    assert list_sessions(store, limit=1)[0].title == "Right"


def test_a_session_that_is_open_elsewhere_is_shown_as_of_its_last_turn(store):
    directory = session(store, "Open")
    again = store.open(directory.id)
    with directory.log_path.open("ab") as log:
        log.write(b"half a rec")
    (session_info,) = list_sessions(store, limit=1)
    again.close()
    assert (session_info.title, session_info.locked, session_info.problem) == ("Open", True, "")
    assert "damaged" in list_sessions(store, limit=1)[0].problem


def test_a_summary_holds_no_prompt_that_nobody_wants_to_see_again(store):
    session(store, "Long", "short", "x" * (MAX_PROMPT_CHARS + 1), "last")
    assert load_prompts(store, limit=10) == ("short", "last")


def test_a_search_finds_prompts_of_all_sessions_by_all_of_their_words(store):
    for number in range(listing.LATEST_SESSIONS + 2):
        session(store, f"Number {number}", f"Fix the parser {number}", "go on")
    assert "Fix the parser 0" not in load_prompts(store, limit=100)
    assert load_prompts(store, limit=100, pattern="0 PARS") == tuple(
        f"Fix the parser {number}" for number in (0, 10, 20, 30)
    )
    assert load_prompts(store, limit=1, pattern="parser 0") == ("Fix the parser 30",)


def test_fifty_sessions_are_listed_without_reading_one_log(store, monkeypatch):
    for number in range(50):
        session(store, f"Number {number}", "go")
    read: list[Path] = []
    monkeypatch.setattr(listing, "read_log", lambda path, take: read.append(path) or read_log(path, take))
    sessions = list_sessions(store, limit=50)
    load_prompts(store, limit=50)
    assert len({session_info.title for session_info in sessions}) == 50
    assert read == []
    (store.list_directories()[7] / FILE_NAME).unlink()
    list_sessions(store, limit=50)
    assert read == [store.list_directories()[7] / "log.jsonl"]
