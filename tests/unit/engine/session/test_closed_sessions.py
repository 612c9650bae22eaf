from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.config.settings import SessionSettings
from core.engine.session.closed_sessions import delete_session, expire_sessions, record_change
from core.errors import StateError
from core.protocol import events as ev
from core.protocol.documents import Question
from core.sessions.listing import list_sessions
from core.sessions.log import read_envelopes
from core.sessions.record_format import encode_record
from core.sessions.store import SessionStore

DAY = 86_400_000
NOW = 1_800_000_000_000
ASKED = ev.QuestionAsked(id="q", call="c", questions=(Question(id="1", text="Which?"),), lasting=True)


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    (tmp_path / "project").mkdir()
    return SessionStore(tmp_path / "project", tmp_path / "state")


def write(store: SessionStore, name: str, *events: ev.AnyEvent, days: int = 0, unattended: bool = False) -> None:
    path = store.sessions_path / name
    path.mkdir(parents=True)
    at = NOW - days * DAY
    first = ev.SessionStarted(workspace="/p", mode="agent", model="m", title=name, unattended=unattended)
    with (path / "log.jsonl").open("wb") as file:
        for seq, event in enumerate((first, *events), 1):
            file.write(encode_record(ev.Envelope(seq=seq, session=name, at=at, event=event)))
    os.utime(path / "log.jsonl", ns=(at * 1_000_000, at * 1_000_000))


def names(store: SessionStore) -> set[str]:
    return {session.id for session in list_sessions(store, limit=99)}


def test_a_kept_session_is_renamed_and_tagged_and_keeps_its_place_in_the_list(store):
    write(store, "ses_old", days=3)
    write(store, "ses_new")
    record_change(store, "ses_old", ev.SessionRenamed(title="The old one"))
    record_change(store, "ses_old", ev.SessionTagged(tags=("keep", "api")))
    listed = list_sessions(store, limit=9)
    assert [session.id for session in listed] == ["ses_new", "ses_old"]
    assert (listed[1].title, listed[1].tags) == ("The old one", ("keep", "api"))
    assert listed[1].updated == NOW - 3 * DAY
    assert [envelope.seq for envelope in read_envelopes(store.sessions_path / "ses_old" / "log.jsonl")] == [1, 2, 3]


def test_a_session_that_is_open_or_damaged_is_left_as_it_is(store):
    write(store, "ses_a")
    held = store.open("ses_a")
    with pytest.raises(StateError, match="is open in another"):
        record_change(store, "ses_a", ev.SessionRenamed(title="x"))
    held.close()
    log = store.sessions_path / "ses_a" / "log.jsonl"
    log.write_bytes(log.read_bytes() + b"garbage\n")
    before = log.read_bytes()
    with pytest.raises(StateError, match="damaged"):
        record_change(store, "ses_a", ev.SessionRenamed(title="x"))
    assert log.read_bytes() == before


def test_a_session_in_which_a_question_waits_is_deleted_only_when_that_was_confirmed(store):
    write(store, "ses_a", ASKED)
    with pytest.raises(StateError, match="1 question waiting for an answer"):
        delete_session(store, "ses_a")
    delete_session(store, "ses_a", is_confirmed=True)
    assert names(store) == set()


def test_runs_go_after_their_time_and_sessions_only_if_the_user_wants_that(store):
    write(store, "ses_run", days=40, unattended=True)
    write(store, "ses_young_run", days=20, unattended=True)
    write(store, "ses_mine", days=400)
    assert expire_sessions(store, SessionSettings(), NOW) == ["ses_run"]
    assert names(store) == {"ses_young_run", "ses_mine"}
    assert expire_sessions(store, SessionSettings(keep_days=300), NOW + DAY + 1) == ["ses_mine"]
    assert expire_sessions(store, SessionSettings(keep_days=0, keep_runs_days=0), NOW + 900 * DAY) == []


def test_nothing_that_waits_and_nothing_with_a_tag_goes_by_its_age(store):
    write(store, "ses_question", ASKED, days=90, unattended=True)
    write(store, "ses_draft", ev.DraftKept(text="half a thought"), days=90, unattended=True)
    write(store, "ses_tagged", ev.SessionTagged(tags=("keep",)), days=90, unattended=True)
    write(store, "ses_open", days=90, unattended=True)
    held = store.open("ses_open")
    assert expire_sessions(store, SessionSettings(), NOW) == []
    held.close()
    assert len(names(store)) == 4


def test_the_list_of_all_sessions_is_read_once_a_day(store):
    assert expire_sessions(store, SessionSettings(), NOW) == []  # nothing was kept here, and nothing is made
    assert not store.path.exists()
    write(store, "ses_a", unattended=True)
    expire_sessions(store, SessionSettings(), NOW)
    write(store, "ses_run", days=40, unattended=True)
    assert expire_sessions(store, SessionSettings(), NOW + DAY - 1) == []
    assert expire_sessions(store, SessionSettings(), NOW + DAY) == ["ses_run"]
