"""The journal tells what was begun, how far it came, and nothing of a record that was never whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import StateError
from core.protocol.review import FileState
from core.shadow.promotion.journal import AbortRecord, CommitRecord, DoneRecord, IntentRecord, Journal, PathWrite

WRITE = PathWrite(path="a", before=FileState(blob="0" * 64), after=FileState(blob="1" * 64), temporary=".t")


def intent(name: str) -> IntentRecord:
    return IntentRecord(id=name, writes=(WRITE,), events=())


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.jsonl")


def unfinished(journal: Journal) -> list[tuple[str, bool]]:
    return [(transaction.intent.id, transaction.is_committed) for transaction in journal.list_unfinished()]


def test_an_intent_is_unfinished_until_its_end_and_a_commit_is_no_end(journal):
    assert unfinished(journal) == []
    journal.append(intent("one"), durable=True)
    journal.append(intent("two"), durable=True)
    journal.append(CommitRecord(id="two"), durable=True)
    journal.append(CommitRecord(id="nobody"), durable=True)
    assert unfinished(journal) == [("one", False), ("two", True)]
    journal.append(AbortRecord(id="one"), durable=True)
    assert unfinished(journal) == [("two", True)]
    journal.append(DoneRecord(id="two"), durable=False)
    assert unfinished(journal) == []


def test_what_was_begun_is_read_back_as_it_was_written(journal):
    journal.append(intent("one"), durable=True)
    assert journal.list_unfinished()[0].intent == intent("one")


@pytest.mark.parametrize("torn", [b'{"type":"commit","id":"on', b"\xff\xfe\x00\n", b"[]\n", b'{"type":"other"}\n'])
def test_a_record_that_is_not_whole_was_never_written(tmp_path, journal, torn):
    journal.append(intent("one"), durable=True)
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(torn)
    assert unfinished(journal) == [("one", False)]


def test_an_emptied_journal_holds_nothing_and_one_that_can_not_be_read_is_an_error(tmp_path, journal):
    journal.clear()
    journal.append(intent("one"), durable=True)
    journal.clear()
    assert unfinished(journal) == []
    (tmp_path / "journal.jsonl").unlink()
    (tmp_path / "journal.jsonl").mkdir()
    with pytest.raises(StateError, match="can't be read"):
        journal.list_unfinished()
