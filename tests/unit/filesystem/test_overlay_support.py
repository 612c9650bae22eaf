from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from core.filesystem import overlay_support
from core.filesystem.overlay_support import can_hold_upper, is_opaque, is_whiteout, make_whiteout, set_opaque


@pytest.fixture(params=["linux", "darwin"], autouse=True)
def encoding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The marks as overlayfs has them, and as they are on macOS."""
    monkeypatch.setattr(overlay_support, "_IS_DARWIN", request.param == "darwin")
    return str(request.param)


def test_a_whiteout_is_one_and_nothing_else_is(tmp_path: Path):
    make_whiteout(tmp_path / "gone")
    assert is_whiteout((tmp_path / "gone").lstat())
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o001)
    assert not any(is_whiteout((tmp_path / name).lstat()) for name in ("fifo", "file"))
    with pytest.raises(FileExistsError):
        make_whiteout(tmp_path / "gone")


def test_a_whiteout_does_not_depend_on_the_umask_and_is_made_beside_a_descriptor(tmp_path: Path, encoding: str):
    directory, before = os.open(tmp_path, os.O_RDONLY), os.umask(0o777)
    try:
        make_whiteout(b"gone", dir_fd=directory)
    finally:
        os.umask(before)
        os.close(directory)
    info = (tmp_path / "gone").lstat()
    assert is_whiteout(info)
    assert stat.S_ISFIFO(info.st_mode) == (encoding == "darwin")


def test_a_directory_is_opaque_by_path_and_by_descriptor(tmp_path: Path):
    assert not is_opaque(tmp_path)
    set_opaque(tmp_path, False)
    set_opaque(tmp_path, True)
    assert is_opaque(tmp_path)
    assert is_opaque(os.fsencode(tmp_path))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert is_opaque(descriptor)
        set_opaque(descriptor, False)
    finally:
        os.close(descriptor)
    assert not is_opaque(tmp_path)


def test_a_directory_of_an_ordinary_file_system_holds_layers(tmp_path: Path):
    assert can_hold_upper(tmp_path)
    assert list(tmp_path.iterdir()) == []
