"""A lock is seen by whoever asks, without being taken from its holder."""

from __future__ import annotations

import fcntl
import os

import pytest

from core.filesystem.open_files import is_lock_held


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_lock_is_held_until_its_holder_closes_it(tmp_path, kind):
    place = tmp_path / "place"
    place.mkdir() if kind == "directory" else place.touch()
    assert not is_lock_held(place)
    holder = os.open(place, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    assert is_lock_held(place)
    assert is_lock_held(place)
    os.close(holder)
    assert not is_lock_held(place)


def test_whoever_asks_at_the_same_time_is_no_holder(tmp_path):
    place = tmp_path / "lock"
    place.touch()
    other = os.open(place, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_SH)  # as another process that asks has it for a moment
    assert not is_lock_held(place)
    os.close(other)


@pytest.mark.parametrize("absent", [True, False])
def test_what_can_not_be_opened_counts_as_the_caller_says(tmp_path, absent):
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_lock_held(tmp_path / "nowhere", absent=absent) is absent
    assert is_lock_held(tmp_path / "link", absent=absent) is absent
