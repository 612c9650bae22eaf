"""A snapshot saves time and decides nothing: whatever is wrong with it, the log says what the session is."""

from __future__ import annotations

import os
import pickle
import zlib
from pathlib import Path

import msgspec
import pytest

from core.protocol import events as ev
from core.protocol.messages import UserMessage
from core.sessions import snapshot
from core.sessions.log import SessionLog
from core.state.fold import apply_event
from core.state.session import SessionState


def record(seq: int, text: str) -> ev.Envelope:
    return ev.Envelope(seq=seq, session="ses", at=seq, event=ev.MessageAppended(message=UserMessage(content=text)))


def session(directory: Path, count: int = 20) -> SessionLog:
    """A log of `count` messages, closed, with a snapshot of all of it."""
    log = SessionLog(directory / "log.jsonl")
    state = SessionState(recall=log.read_records)
    for seq in range(1, count + 1):
        log.append(record(seq, f"said {seq}"))
        apply_event(state, record(seq, f"said {seq}"))
    assert snapshot.save_snapshot(directory, log, state, min_growth=0)
    log.close()
    return log


def opened(directory: Path) -> tuple[list[str], str, bool]:
    """What was said, what was mended, and whether the snapshot was used."""
    states: list[SessionState] = []

    def make() -> SessionState:
        states.append(SessionState())
        return states[-1]

    log, state, mended = snapshot.open_session(directory, make)
    log.close()
    return [message.content for message in state.messages], mended, not states


SAID = [f"said {seq}" for seq in range(1, 21)]


def test_n16e_a_session_opens_from_its_snapshot(tmp_path):
    session(tmp_path)
    assert opened(tmp_path) == (SAID, "", True)


def test_n16e_what_was_written_since_is_read_from_the_log(tmp_path):
    log = session(tmp_path)
    later = SessionLog(tmp_path / "log.jsonl", log.extent)
    later.append(record(21, "said since"))
    later.close()
    assert opened(tmp_path) == ([*SAID, "said since"], "", True)


def test_n16e_a_torn_record_behind_the_snapshot_is_mended_and_told(tmp_path):
    session(tmp_path)
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b'{"crc":"0000')
    contents, mended, used = opened(tmp_path)
    assert (contents, used) == (SAID, False)
    assert "12 other bytes were saved in log.damaged-1" in mended


@pytest.mark.parametrize("place", [0, 40, 2000, -1])
def test_n16e_a_damaged_snapshot_is_as_good_as_none(tmp_path, place):
    session(tmp_path)
    path = tmp_path / snapshot.FILE_NAME
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 0xFF
    path.write_bytes(data)
    assert opened(tmp_path) == (SAID, "", False)


@pytest.mark.parametrize("left", [0, 10, 500])
def test_n16e_a_snapshot_that_was_cut_off_is_as_good_as_none(tmp_path, left):
    session(tmp_path)
    os.truncate(tmp_path / snapshot.FILE_NAME, left)
    assert opened(tmp_path) == (SAID, "", False)


def test_n16e_a_log_that_was_damaged_before_the_end_of_the_snapshot_is_mended(tmp_path):
    session(tmp_path)
    path = tmp_path / "log.jsonl"
    path.write_bytes(path.read_bytes().replace(b"said 7", b"SAID 7"))
    contents, mended, used = opened(tmp_path)
    assert contents == [content for content in SAID if content != "said 7"]
    assert "damaged" in mended
    assert not used


def test_n16e_a_snapshot_that_other_code_made_is_not_used(tmp_path, monkeypatch):
    session(tmp_path)
    monkeypatch.setattr(snapshot, "_hash_code", lambda: "another")
    assert opened(tmp_path) == (SAID, "", False)


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


class Opening:
    """One of our own classes whose making would do something."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return SessionLog, (self.path,)


@pytest.mark.parametrize("kind", [Evil, Opening])
def test_n16e_a_forged_snapshot_runs_nothing(tmp_path, kind):
    session(tmp_path)
    path = tmp_path / snapshot.FILE_NAME
    first, _, body = path.read_bytes().partition(b"\n")
    head = msgspec.json.decode(first, type=snapshot.SnapshotHead)
    forged = pickle.dumps(kind(tmp_path / "run"))
    body = forged + body[head.state :]
    changed = msgspec.structs.replace(head, state=len(forged), body=zlib.crc32(body))
    path.write_bytes(msgspec.json.encode(changed) + b"\n" + body)
    assert opened(tmp_path) == (SAID, "", False)
    assert not (tmp_path / "run").exists()


def test_n16e_a_snapshot_is_the_users_alone_and_leaves_nothing_half_written(tmp_path):
    session(tmp_path)
    assert (tmp_path / snapshot.FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [snapshot.FILE_NAME, "log.jsonl"]


def test_n16e_a_short_log_gets_no_snapshot(tmp_path):
    log = SessionLog(tmp_path / "log.jsonl")
    log.append(record(1, "said"))
    assert not snapshot.save_snapshot(tmp_path, log, SessionState())
    log.close()
    assert not (tmp_path / snapshot.FILE_NAME).exists()
