"""What is attached to a file goes to the one that takes its place, as far as it is the user's."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

import pytest

from core.filesystem.file_attributes import copy_attributes
from core.filesystem.open_beneath import DIRECTORY

ACCESS_LIST = "system.posix_acl_access"


@pytest.fixture
def directory(tmp_path):
    if not hasattr(os, "setxattr"):
        pytest.skip("no extended attributes here")
    (tmp_path / "old").write_text("old")
    (tmp_path / "new").write_text("new")
    try:
        os.setxattr(tmp_path / "old", "user.tag", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    descriptor = os.open(tmp_path, DIRECTORY)
    yield tmp_path, descriptor
    os.close(descriptor)


def build_access_list(user: int) -> bytes:
    entries = ((1, 6, 0xFFFFFFFF), (2, 6, user), (4, 4, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def get_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o644, 0o400, 0o755])
def test_names_of_the_users_and_the_mode_arrive(directory, mode):
    place, descriptor = directory
    (place / "new").chmod(mode)
    copy_attributes(descriptor, b"old", b"new", mode)
    assert os.getxattr(place / "new", "user.tag") == b"kept"
    assert get_mode(place / "new") == mode


def test_an_access_list_arrives_and_the_mode_stays(directory):
    place, descriptor = directory
    try:
        os.setxattr(place / "old", ACCESS_LIST, build_access_list(65534))
    except OSError:
        pytest.skip("this file system has no access lists")
    copy_attributes(descriptor, b"old", b"new", 0o664)
    assert len(os.getxattr(place / "new", ACCESS_LIST)) == len(build_access_list(65534))
    assert get_mode(place / "new") == 0o664


def test_marks_of_an_overlay_do_not_arrive(directory):
    place, descriptor = directory
    os.setxattr(place / "old", "user.overlay.opaque", b"y")
    copy_attributes(descriptor, b"old", b"new", 0o644)
    assert os.listxattr(place / "new") == ["user.tag"]


@pytest.mark.parametrize("source", [b"missing", b"link"])
def test_where_no_file_was_nothing_is_copied(directory, source):
    place, descriptor = directory
    (place / "link").symlink_to("old")
    copy_attributes(descriptor, source, b"new", 0o644)
    assert os.listxattr(place / "new") == []
