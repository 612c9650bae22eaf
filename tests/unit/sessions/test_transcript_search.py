from __future__ import annotations

from pathlib import Path

import pytest

from core.protocol import documents as d
from core.protocol import events as ev
from core.sessions.log import SessionLog
from core.sessions.record_format import encode_record
from core.sessions.store import SessionStore
from core.sessions.transcript_search import FILE_NAME, TranscriptIndex, build_match, forget_transcript

AT = 1_700_000_000_000


class Sessions:
    """Sessions in a store, each written record by record."""

    def __init__(self, home: Path) -> None:
        self.store = SessionStore(home / "project", home / "state")
        self._seq: dict[str, int] = {}

    def say(self, name: str, *events: ev.AnyEvent) -> None:
        path = self.store.sessions_path / name
        path.mkdir(parents=True, exist_ok=True)
        with (path / "log.jsonl").open("ab") as file:
            for event in events:
                seq = self._seq[name] = self._seq.get(name, 0) + 1
                file.write(encode_record(ev.Envelope(seq=seq, session=name, at=AT + seq, event=event, turn="turn_1")))

    def find(self, words: str, **options: bool) -> list[tuple[str, str]]:
        with TranscriptIndex(self.store) as index:
            assert index.refresh() == 0
            return [(hit.session, hit.kind) for hit in index.search(words, **options)]


def asked(prompt: str) -> ev.TurnStarted:
    return ev.TurnStarted(prompt=prompt, mode="agent", model="m")


def answered(text: str) -> ev.DocumentFinished:
    return ev.DocumentFinished(document=d.TextDocument(id="doc_1", sequence=1, content=text))


def ran(command: str, output: str) -> ev.DocumentFinished:
    command_metadata = d.TerminalCommandMetadata(command=command, output=output, exit_code=0)
    return ev.DocumentFinished(document=d.TerminalCommandDocument(id="doc_2", sequence=2, metadata=command_metadata))


def start(**about: bool) -> ev.SessionStarted:
    return ev.SessionStarted(workspace="/p", mode="agent", model="m", **about)


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    (tmp_path / "project").mkdir()
    return Sessions(tmp_path)


def test_a_piece_has_to_have_all_words_and_says_where_it_stands(sessions):
    sessions.say("ses_a", start(), asked("Why is the upload flaky?"), answered("The upload retries.\n\nIt is flaky."))
    sessions.say("ses_b", start(), asked("Rename the upload"), ran("pytest -k flaky", "1 passed"))
    assert sessions.find("upload flaky") == [("ses_a", "prompt"), ("ses_a", "answer")]
    assert sessions.find("flaky passed") == [("ses_b", "command")]
    with TranscriptIndex(sessions.store) as index:
        hit = index.search("retries")[0]
    assert (hit.place, hit.seq, hit.title) == ("doc_1", 3, "Why is the upload flaky?")
    assert [hit.text[start:end] for start, end in hit.marks] == ["retries"]
    assert "\n" not in hit.text


def test_what_a_subagent_was_asked_and_has_said_and_done_is_found_in_the_session_it_worked_for(sessions):
    acts = (ev.SubagentAction(text="Searched for walrus"),)
    began = ev.SubagentStarted(id="sub_1", agent="explore", title="Find the penguin")
    ended = ev.SubagentFinished(id="sub_1", reason="done", said="It lives in zoo.py.", acts=acts)
    sessions.say("ses_a", start(), asked("Look around"), began, ended)
    for words in ("penguin", "walrus", "lives zoo"):
        assert sessions.find(words) == [("ses_a", "subagent")]


def test_words_in_quotes_stand_together_and_a_star_or_a_word_being_typed_begins_one(sessions):
    sessions.say("ses_a", start(), asked("the index is locked"))
    sessions.say("ses_b", start(), asked("is it locked, the index?"))
    assert sessions.find('"index is locked"') == [("ses_a", "prompt")]
    assert sessions.find("lock") == []
    assert len(sessions.find("lock*")) == len(sessions.find("the lock", is_partial=True)) == 2
    assert sessions.find('" * ( AND') == []
    assert build_match("NOT a-b") == '"NOT" "a-b"'


def test_only_what_is_new_is_read_and_a_torn_last_record_waits_until_it_is_whole(sessions):
    sessions.say("ses_a", start(), asked("one"))
    assert sessions.find("one") == [("ses_a", "prompt")]
    log = sessions.store.sessions_path / "ses_a" / "log.jsonl"
    before = log.read_bytes()
    sessions.say("ses_a", answered("two"))
    whole = log.read_bytes()
    log.write_bytes(whole[:-20])
    assert sessions.find("two") == []
    log.write_bytes(whole)
    assert sessions.find("two") == [("ses_a", "answer")]
    log.write_bytes(before)  # what was mended after a damage is shorter: it is read anew
    assert sessions.find("two") == []
    assert sessions.find("one") == [("ses_a", "prompt")]


def test_a_key_and_a_private_session_are_never_kept(sessions):
    key = "sk-" + "a1b2c3d4" * 4
    sessions.say("ses_a", start(), asked(f"use {key} here"))
    sessions.say("ses_p", start(private=True), asked("nobody knows"))
    assert sessions.find("here") == [("ses_a", "prompt")]
    assert sessions.find("nobody") == []
    index_bytes = (sessions.store.path / FILE_NAME).read_bytes()
    assert key.encode() not in index_bytes
    assert b"nobody" not in index_bytes
    assert (sessions.store.path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_what_was_said_in_a_deleted_session_is_in_no_byte_of_the_file(sessions):
    sessions.say("ses_a", start(), asked("xylophone"))
    sessions.say("ses_b", start(), asked("piano"))
    assert sessions.find("xylophone") == [("ses_a", "prompt")]
    forget_transcript(sessions.store, "ses_a")
    assert b"xylophone" not in (sessions.store.path / FILE_NAME).read_bytes()
    assert sessions.find("piano") == [("ses_b", "prompt")]


def test_a_damaged_file_is_made_anew_and_no_file_is_made_where_nothing_was_said(sessions):
    assert sessions.find("piano") == []
    assert not sessions.store.path.exists()
    sessions.say("ses_b", start(), asked("piano"))
    (sessions.store.path / FILE_NAME).write_bytes(b"no database at all" * 100)
    assert sessions.find("piano") == [("ses_b", "prompt")]


def test_a_short_time_reads_the_latest_first_and_says_how_many_are_left(sessions):
    for number in range(5):
        sessions.say(f"ses_{number}", start(), asked("piano"))
    with TranscriptIndex(sessions.store) as index:
        assert index.refresh(seconds=-1) == 5
        assert index.refresh() == 0
        assert len(index.search("piano")) == 5


def test_a_log_that_a_session_writes_is_searched_while_it_is_open(sessions):
    sessions.say("ses_a", start())
    log = SessionLog(sessions.store.sessions_path / "ses_a" / "log.jsonl")
    log.close()
    assert sessions.find("piano") == []
    sessions.say("ses_a", asked("piano"))
    assert sessions.find("piano") == [("ses_a", "prompt")]
