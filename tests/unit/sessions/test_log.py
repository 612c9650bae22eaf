from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from core.errors import StateError
from core.protocol.events import Envelope, MessageAppended, Notice, SessionRenamed, SessionStarted
from core.protocol.messages import UserMessage
from core.sessions import record_format as records
from core.sessions.log import SessionLog
from tests.support.session_log import load, scan
from tests.support.work import counted


def envelope(seq: int, text: str = "hello") -> Envelope:
    event = MessageAppended(message=UserMessage(content=text))
    return Envelope(seq=seq, session="ses_a", at=1_700_000_000_000 + seq, event=event, turn="turn_a")


def written(path: Path, count: int) -> list[Envelope]:
    log = SessionLog(path)
    envelopes = [envelope(seq) for seq in range(1, count + 1)]
    for record in envelopes:
        log.append(record)
    log.close()
    return envelopes


def side_files(path: Path) -> list[bytes]:
    return [side_path.read_bytes() for side_path in sorted(path.parent.glob("log.damaged-*"))]


def test_what_is_appended_is_read_back_in_order(tmp_path):
    path = tmp_path / "log.jsonl"
    envelopes = written(path, 20)
    log, loaded, mended = load(path)
    assert (loaded, mended) == (envelopes, "")
    assert log.read(after=5, limit=3) == envelopes[5:8]
    assert log.read(after=20) == []
    log.append(envelope(21))
    assert len(log.extent.starts) == 21
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_synced_is_on_the_disk_and_a_record_alone_is_not_waited_for(tmp_path, monkeypatch):
    synced, sync = list[Path](), os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    log = SessionLog(tmp_path / "log.jsonl")
    log.append(envelope(1))
    assert synced == []
    log.sync()
    assert synced == [tmp_path / "log.jsonl"]


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_d2_a_torn_last_line_is_set_aside_and_the_rest_loads(tmp_path, cut):
    path = tmp_path / "log.jsonl"
    envelopes = written(path, 5)
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    log, loaded, mended = load(path)
    assert loaded == envelopes[:4]
    assert "damaged" in mended
    assert "log.damaged-1" in mended
    assert side_files(path) == [data[:-cut].split(b"\n")[-1] or data[:-cut].split(b"\n")[-2]]
    log.append(envelope(5))
    log.close()
    assert scan(path).whole


def test_d2_a_tail_of_nul_bytes_is_set_aside(tmp_path):
    path = tmp_path / "log.jsonl"
    envelopes = written(path, 3)
    path.write_bytes(path.read_bytes() + b"\0" * 4096)
    _, loaded, mended = load(path)
    assert (loaded, side_files(path)) == (envelopes, [b"\0" * 4096])
    assert "4096" in mended


def test_d2_garbage_in_the_middle_costs_only_itself(tmp_path):
    path = tmp_path / "log.jsonl"
    written(path, 5)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"\xff\xfe not a record\n"
    path.write_bytes(b"".join(lines))
    log, loaded, _ = load(path)
    assert [envelope.at % 100 for envelope in loaded] == [1, 2, 4, 5]
    assert [envelope.seq for envelope in loaded] == [1, 2, 3, 4]
    assert side_files(path) == [b"\xff\xfe not a record\n"]
    assert len(log.extent.starts) == 4


def test_d2_a_record_whose_sum_is_wrong_is_no_record(tmp_path):
    path = tmp_path / "log.jsonl"
    written(path, 2)
    path.write_bytes(path.read_bytes().replace(b"hello", b"jello", 1))
    _, loaded, _ = load(path)
    assert len(loaded) == 1
    assert b"jello" in side_files(path)[0]


def test_d2_a_repeated_record_is_set_aside(tmp_path):
    path = tmp_path / "log.jsonl"
    envelopes = written(path, 3)
    path.write_bytes(path.read_bytes() + records.encode_record(envelopes[1]))
    _, loaded, _ = load(path)
    assert loaded == envelopes
    assert side_files(path) == [records.encode_record(envelopes[1])]


def test_d2_a_second_damage_gets_a_side_file_of_its_own(tmp_path):
    path = tmp_path / "log.jsonl"
    written(path, 3)
    for junk in (b"one", b"two"):
        path.write_bytes(path.read_bytes() + junk)
        load(path)[0].close()
    assert side_files(path) == [b"one", b"two"]


def test_d2_a_record_that_stands_there_twice_counts_once_and_is_set_aside(tmp_path):
    path = tmp_path / "log.jsonl"
    envelopes = written(path, 3)
    again = records.encode_record(envelopes[2])
    path.write_bytes(path.read_bytes() + again)
    _, loaded, mended = load(path)
    assert loaded == envelopes
    assert "damaged" in mended
    assert side_files(path) == [again]


@pytest.mark.parametrize("name", [b'"future"', b'"notice"'])
def test_d7_a_record_of_a_newer_format_is_refused_and_the_file_untouched(tmp_path, name):
    path = tmp_path / "log.jsonl"
    written(path, 2)
    newer = Envelope(v=2, seq=3, session="ses_a", at=1, event=Notice(level="info", message="x"))
    unknown = records.encode_record(newer).replace(b'"notice"', name)
    raw = unknown[22:-2]
    import zlib

    path.write_bytes(path.read_bytes() + b'{"crc":"%08x","e":%s}\n' % (zlib.crc32(raw), raw) + b"torn")
    before = path.read_bytes()
    with pytest.raises(StateError) as refused:
        load(path)
    assert refused.value.code == "state_newer"
    assert path.read_bytes() == before
    assert side_files(path) == []


def test_d4_a_full_disk_refuses_the_record_and_keeps_the_log_whole(tmp_path):
    path = tmp_path / "log.jsonl"
    envelopes = written(path, 10)
    log, _, _ = load(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, hard))
    try:
        with pytest.raises(StateError) as full:
            log.append(envelope(11, "x" * 500))
        log.defer(envelope(11, "the end"))
        with pytest.raises(StateError):
            log.flush()
        assert (len(log.extent.starts), log.deferred_count) == (10, 1)
        assert [record.seq for record in log.read(after=8)] == [9, 10, 11]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert full.value.code == "state_unwritable"
    assert "Free some space" in full.value.hint
    log.append(envelope(12))
    log.close()
    assert scan(path).envelopes == [*envelopes, envelope(11, "the end"), envelope(12)]
    assert scan(path).whole


def test_a_symbolic_link_is_not_followed_as_a_log(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "log.jsonl").symlink_to(outside)
    with pytest.raises(StateError):
        SessionLog(tmp_path / "log.jsonl")
    assert outside.read_text() == "mine"


def test_each_record_of_a_long_log_is_read_once(tmp_path):
    path = tmp_path / "log.jsonl"
    started = SessionStarted(workspace="/w", mode="agent", model="scripted/x")
    lines = [records.encode_record(Envelope(seq=1, session="ses_a", at=1, event=started))]
    lines += [records.encode_record(envelope(seq)) for seq in range(2, 20_001)]

    def work(count: int) -> int:
        path.write_bytes(b"".join(lines[:count]))
        with counted() as done:
            assert len(scan(path).envelopes) == count
        return done.lines

    assert work(20_000) < 10 * 1.2 * work(2_000)


def test_a_log_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StateError, match="no session log"):
        scan(tmp_path / "log.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_n16e_a_brief_reading_leaves_out_long_records_of_the_past_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("core.sessions.log.NEVER_SKIPPED", 4)
    log = SessionLog(tmp_path / "log.jsonl")
    for seq in range(1, 21):
        log.append(envelope(seq) if seq % 3 else renamed(seq))
    assert [record.seq for record in log.read(after=0, brief=True)] == [3, 6, 9, 12, 15, 17, 18, 19, 20]
    assert [record.seq for record in log.read(after=6, limit=2, brief=True)] == [9, 12]
    assert [record.seq for record in log.read(after=18, brief=True)] == [19, 20]
    assert log.read(after=20, brief=True) == []
    assert [record.seq for record in log.read(after=0)] == list(range(1, 21))
    log.close()


def renamed(seq: int) -> Envelope:
    return Envelope(seq=seq, session="ses", at=seq, event=SessionRenamed(title=f"title {seq}"))
