"""The kernel's table of mounts. The isolated process of the sandbox reads it, too, so nothing is imported here."""

from __future__ import annotations


def read_mounts(process: int | str = "self") -> list[tuple[bytes, bytes]]:
    """Return mount point and file system's type of every mount that a process sees, earlier mounts first. Raises
    OSError."""
    with open(f"/proc/{process}/mountinfo", "rb") as table:
        halves = [line.partition(b" - ") for line in table]
    return [(unescape_point(head.split(b" ", 5)[4]), tail.split(b" ", 1)[0]) for head, _, tail in halves]


def read_mount_sources() -> list[tuple[bytes, bytes, bytes]]:
    """Return mount point, device and the directory of the device's file system that is mounted there, of every mount,
    earlier mounts first. Raises OSError."""
    with open("/proc/self/mountinfo", "rb") as table:
        fields = [line.split(b" ", 5) for line in table]
    return [(unescape_point(point), device, unescape_point(root)) for _, _, device, root, point, _ in fields]


def unescape_point(point: bytes) -> bytes:
    """Undo the kernel's escapes: blank, tab, newline and backslash are three octal digits in its tables."""
    head, *rest = point.split(b"\\")
    return head + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in rest)
