"""Dates of edits, for tools that compare seconds."""

from __future__ import annotations

import os

import pytest

from core.filesystem.file_dates import FileDates
from core.filesystem.open_beneath import DIRECTORY


@pytest.mark.parametrize(
    ("old_text", "old_time", "is_moved"),
    [
        pytest.param(b"a - b", 500, True, id="same size and second"),
        pytest.param(b"a - b", 1_600, True, id="the old file was moved to the next second already"),
        pytest.param(b"a - bc", 500, False, id="another size"),
        pytest.param(b"a - b", -600, False, id="the second before"),
        pytest.param(b"a - b", 3_600_000, False, id="a wrong clock"),
    ],
)
def test_a_replacement_of_the_same_size_and_second_gets_a_later_second(tmp_path, old_text, old_time, is_moved):
    now = 1_700_000_000_000  # ms since 1970
    (tmp_path / "old").write_bytes(old_text)
    (tmp_path / "new").write_bytes(b"a + b")
    os.utime(tmp_path / "old", ns=((now + old_time) * 10**6,) * 2)
    os.utime(tmp_path / "new", ns=((now + 700) * 10**6,) * 2)
    directory = os.open(tmp_path, DIRECTORY)
    dates = FileDates()
    dates.separate(directory, b"new", (tmp_path / "old").stat())
    dates.separate(directory, b"new", None)
    os.close(directory)
    expected = now + ((old_time // 1_000 + 1) * 1_000 if is_moved else 700)
    assert (tmp_path / "new").stat().st_mtime_ns == expected * 10**6


async def test_a_command_waits_until_no_date_lies_in_the_future(tmp_path):
    dates, directory = FileDates(), os.open(tmp_path, DIRECTORY)
    await dates.wait()
    for name in ("old", "new"):
        (tmp_path / name).write_bytes(b"a - b")
    os.utime(tmp_path / "old", ns=((tmp_path / "new").stat().st_mtime_ns,) * 2)
    dates.separate(directory, b"new", (tmp_path / "old").stat())
    os.close(directory)
    await dates.wait()
    (tmp_path / "later").write_bytes(b"")
    old, new, later = ((tmp_path / name).stat().st_mtime_ns for name in ("old", "new", "later"))
    assert old < new <= later
