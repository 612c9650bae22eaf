"""Mount points as the kernel lists them, with the characters that it escapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.filesystem.mount_table import read_mounts, unescape_point

ESCAPED = (b"\\", b" ", b"\t", b"\n")


def escape_as_the_kernel_does(point: bytes) -> bytes:
    for byte in ESCAPED:  # the backslash first
        point = point.replace(byte, b"\\%03o" % byte[0])
    return point


@pytest.mark.parametrize(
    ("field", "point"),
    [
        (rb"/mnt/a\040b", b"/mnt/a b"),
        (rb"/mnt/a\011b\012", b"/mnt/a\tb\n"),
        (rb"/mnt/\134040", rb"/mnt/\040"),
        (rb"/mnt/\134\134", rb"/mnt/\\"),
        (b"/mnt/\xff#", b"/mnt/\xff#"),
    ],
)
def test_escapes_of_the_kernel_are_undone_once(field, point):
    assert unescape_point(field) == point


@given(st.lists(st.sampled_from([b"/", b"a", b"040", b"134", b"\xff", *ESCAPED]), max_size=12).map(b"".join))
def test_what_the_kernel_escapes_comes_back(point):
    assert unescape_point(escape_as_the_kernel_does(point)) == point


def test_the_root_and_proc_are_mounts():
    types = dict(read_mounts())
    assert types[b"/"]
    assert types[b"/proc"] == b"proc"
