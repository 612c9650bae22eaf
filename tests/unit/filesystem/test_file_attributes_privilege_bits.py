"""What gives rights to whoever runs it is taken from what commands keep, and nothing outside is touched."""

from __future__ import annotations

import os
import stat

import pytest

from core.filesystem.file_attributes import strip_privileges


def mode_of(path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6755, 0o4000, 0o4111])
def test_n40_setuid_and_setgid_bits_are_taken_at_any_depth(tmp_path, mode):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    for file in (tmp_path / "x", deep / "y"):
        file.write_text("#!/bin/sh\n")
        file.chmod(mode)
    assert strip_privileges(tmp_path) == 2
    assert {mode_of(file) for file in (tmp_path / "x", deep / "y") if file.exists()} <= {mode & 0o777}
    assert strip_privileges(tmp_path) == 0


def test_n40_a_directory_and_a_pipe_lose_them_too_and_plain_ones_stay(tmp_path):
    shared, plain = tmp_path / "shared", tmp_path / "plain"
    shared.mkdir()
    shared.chmod(0o2775)
    plain.write_text("x")
    plain.chmod(0o755)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").chmod(0o4644)
    strip_privileges(tmp_path)
    assert (mode_of(shared), mode_of(plain), mode_of(tmp_path / "pipe")) == (0o775, 0o755, 0o644)


def test_n40_what_a_link_leads_to_keeps_its_mode(tmp_path):
    cache, outside = tmp_path / "cache", tmp_path / "outside"
    cache.mkdir()
    outside.mkdir()
    (outside / "tool").write_text("x")
    (outside / "tool").chmod(0o4755)
    (cache / "link").symlink_to(outside / "tool")
    (cache / "way").symlink_to(outside)
    assert strip_privileges(cache) == 0
    assert mode_of(outside / "tool") == 0o4755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices and sets capabilities")
def test_n40_a_device_goes_and_capabilities_are_taken(tmp_path):
    try:
        os.mknod(tmp_path / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        (tmp_path / "tool").write_text("x")
        (tmp_path / "tool").chmod(0o755)
        os.setxattr(tmp_path / "tool", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
    except OSError as refused:
        pytest.skip(f"this machine refuses it: {refused}")
    strip_privileges(tmp_path)
    assert not (tmp_path / "device").exists()
    assert "security.capability" not in os.listxattr(tmp_path / "tool")
