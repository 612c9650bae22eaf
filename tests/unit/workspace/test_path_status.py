"""What a review compares of a path: its bytes, its kind and the bits of its mode that can be given back."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from core.errors import PathRefused
from core.filesystem.open_beneath import open_parent
from core.workspace.path_status import read_replaceable_mode, read_state_at, to_path_stat


@pytest.mark.parametrize("bits", [0, stat.S_ISUID, stat.S_ISGID, stat.S_ISVTX])
def test_p6_setuid_setgid_and_sticky_bits_are_no_part_of_a_mode(tmp_path: Path, bits):
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "a").chmod(0o750 | bits)
    with open_parent(os.fsencode(tmp_path / "a")) as (directory, name):
        assert read_state_at(directory, name, "a")[0].mode == 0o750
        assert read_replaceable_mode(directory, name, "a") == 0o750
    assert to_path_stat((tmp_path / "a").stat()).mode == 0o750


def test_a_file_with_a_second_name_or_no_file_at_all_is_not_replaced(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    with open_parent(os.fsencode(tmp_path / "a")) as (directory, name):
        with pytest.raises(PathRefused, match="second name"):
            read_replaceable_mode(directory, name, "a")
        assert read_replaceable_mode(directory, b"none", "none") is None
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(PathRefused, match="named pipe"):
            read_state_at(directory, b"pipe", "pipe")
