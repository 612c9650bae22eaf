from __future__ import annotations

import sqlite3

import pytest

from core.index.database import (
    IndexFailed,
    connect_for_reading,
    connect_for_writing,
    read_meta,
    read_status,
    remove_index,
    report_damage,
    write_meta,
    write_status,
)
from core.protocol.events import IndexStatus


def make(path):
    connection, problem = connect_for_writing(path)
    return connection, problem


def test_a_new_index_is_no_problem_and_can_be_read_beside_its_writer(tmp_path):
    connection, problem = make(tmp_path / "below" / "index.sqlite")
    assert problem == ""
    write_status(connection, IndexStatus(state="ready", files=3, indexed=2))
    reader = connect_for_reading(tmp_path / "below" / "index.sqlite")
    assert read_status(reader) == IndexStatus(state="ready", files=3, indexed=2)


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path):
    connection, _ = make(tmp_path / "index.sqlite")
    write_meta(connection, "a", 7)
    connection.close()
    again, problem = make(tmp_path / "index.sqlite")
    assert (problem, again.execute("select value from meta where key = 'a'").fetchone()) == ("", (7,))


def test_a_reader_writes_nothing(tmp_path):
    make(tmp_path / "index.sqlite")
    with pytest.raises(sqlite3.OperationalError):
        write_meta(connect_for_reading(tmp_path / "index.sqlite"), "a", 7)


def test_only_the_user_may_read_it(tmp_path):
    make(tmp_path / "above" / "below" / "index.sqlite")
    for name in ("above", "above/below", "above/below/index.sqlite"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 1000, b"SQLite format 3\0" + bytes(5000)])
def test_a_damaged_index_is_made_anew_and_that_is_said(tmp_path, damage):
    path = tmp_path / "index.sqlite"
    path.write_bytes(damage)
    with pytest.raises(IndexFailed):
        connect_for_reading(path)
    connection, problem = make(path)
    assert "being rebuilt" in problem
    assert connection.execute("select count(*) from files").fetchone() == (0,)
    assert connect_for_reading(path)


def test_an_index_whose_builder_was_killed_before_it_made_the_tables_is_made_in_silence(tmp_path):
    path = tmp_path / "index.sqlite"
    begun = sqlite3.connect(path)
    begun.execute("pragma journal_mode = wal")
    begun.close()
    assert path.stat().st_size
    connection, problem = make(path)
    assert problem == ""
    assert connection.execute("select count(*) from files").fetchone() == (0,)


def test_an_index_of_another_version_is_made_anew_and_that_is_said(tmp_path):
    path = tmp_path / "index.sqlite"
    connection, _ = make(path)
    write_meta(connection, "version", "99.1")
    connection.close()
    with pytest.raises(IndexFailed, match="version"):
        connect_for_reading(path)
    _, problem = make(path)
    assert "99.1" in problem


def test_a_disk_that_cannot_be_written_is_no_damaged_index(tmp_path):
    place = tmp_path / "place"
    place.write_bytes(b"")
    with pytest.raises(OSError):  # noqa: PT011 - the system's own words are what is shown
        make(place / "index.sqlite")


def test_an_index_that_is_absent_can_be_removed(tmp_path):
    remove_index(tmp_path / "index.sqlite")
    with pytest.raises(IndexFailed):
        connect_for_reading(tmp_path / "index.sqlite")


def test_what_a_reader_reports_as_damaged_is_made_anew_and_that_is_said(tmp_path):
    path = tmp_path / "index.sqlite"
    connection, _ = make(path)
    write_meta(connection, "a", 7)
    connection.close()
    report_damage(path)
    connection, problem = make(path)
    assert "damaged" in problem
    assert "being rebuilt" in problem
    assert read_meta(connection, "a") is None
    connection.close()
    assert make(path)[1] == "", "once"


def test_a_directory_in_the_place_of_an_index_is_set_aside_and_that_is_said(tmp_path):
    path = tmp_path / "index.sqlite"
    path.mkdir()
    (path / "kept").write_text("by whom?")
    connection, problem = make(path)
    assert connection.execute("select count(*) from files").fetchone() == (0,)
    aside = tmp_path / problem.split()[-1].rstrip(".")
    assert (aside / "kept").read_text() == "by whom?"
