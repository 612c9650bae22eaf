from __future__ import annotations

import errno
import fcntl
import os
import stat
from functools import partial
from pathlib import Path

import pytest

from core.filesystem import atomic_write
from core.filesystem.atomic_write import move_to_free_name, replace_file, stream_replacement


@pytest.fixture
def steps(monkeypatch) -> list[str]:
    """The system calls that make a replacement durable, in their order."""
    seen: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        seen.append("sync directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    def renamed(*arguments: object, **places: int) -> None:
        seen.append("rename")
        rename(*arguments, **places)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    return seen


def test_d3_the_file_is_synced_before_the_rename_and_its_directory_after_it(tmp_path: Path, steps):
    replace_file(tmp_path / "state.json", b"new")
    assert steps == ["sync file", "rename", "sync directory"]
    assert (tmp_path / "state.json").read_bytes() == b"new"


def test_what_can_be_made_again_is_replaced_without_a_sync(tmp_path: Path, steps):
    replace_file(tmp_path / "cache", b"new", durable=False)
    assert steps == ["rename"]


def test_a_new_file_is_the_users_alone_and_nothing_else_stays(tmp_path: Path):
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(0o644)
    replace_file(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


def test_a_link_is_replaced_and_what_it_names_is_left(tmp_path: Path):
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / "name").symlink_to("other")
    replace_file(tmp_path / "name", b"new")
    assert not (tmp_path / "name").is_symlink()
    assert (tmp_path / "other").read_bytes() == b"other"


@pytest.mark.parametrize("call", ["fsync", "rename", "fchmod"])
def test_a_failure_leaves_the_old_bytes_and_no_other_file(tmp_path: Path, monkeypatch, call):
    def failing(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "state").write_bytes(b"old")
    monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match="No space"):
        replace_file(tmp_path / "state", b"new")
    assert (tmp_path / "state").read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_what_is_streamed_counts_only_when_all_of_it_came(tmp_path: Path):
    path = tmp_path / "log"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), stream_replacement(path) as file:
        file.writelines([b"half", None])
    assert path.read_bytes() == b"old"
    with stream_replacement(path) as file:
        file.write(b"one ")
        file.write(b"two")
    assert path.read_bytes() == b"one two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["log"]


def test_where_the_drive_has_a_cache_of_its_own_it_is_flushed(tmp_path: Path, monkeypatch, steps):
    asked: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, call: asked.append(call))
    replace_file(tmp_path / "state", b"new")
    assert (asked, steps) == ([51, 51], ["rename"])


def test_a_drive_that_can_not_flush_its_cache_is_synced_as_elsewhere(tmp_path: Path, monkeypatch, steps):
    def refuse(descriptor: int, call: int) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    replace_file(tmp_path / "state", b"new")
    assert len(steps) == 3
    monkeypatch.setattr(fcntl, "fcntl", partial(_fail, errno.EIO))
    with pytest.raises(OSError, match="failed"):
        replace_file(tmp_path / "state", b"newer")


def _fail(number: int, *_: object) -> None:
    raise OSError(number, "failed")


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EOPNOTSUPP])
def test_a_file_system_without_links_and_exchanges_still_takes_a_free_name(tmp_path: Path, monkeypatch, number):
    (tmp_path / "old").write_text("x")
    monkeypatch.setattr(atomic_write, "_load_rename_call", lambda: None)
    monkeypatch.setattr(os, "link", lambda *_, **__: _fail(number))
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        move_to_free_name((directory, b"old"), (directory, b"new"))
        assert [entry.name for entry in tmp_path.iterdir()] == ["new"]
        (tmp_path / "old").write_text("y")
        with pytest.raises(FileExistsError):
            move_to_free_name((directory, b"old"), (directory, b"new"))
    finally:
        os.close(directory)
